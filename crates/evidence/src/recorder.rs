//! Every DMA, as a recorder outside the machine saw it.

use peerlane_results::{BytesByRoute, HostMemoryTraffic, RouteEvidence, RouteVerdict};
use peerlane_units::Bytes;

use super::{says, unseen};

const LOOKED_AT: &str = "every DMA of the drives, recorded outside the guest";

/// Payload by where the drives' DMA took it from and put it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DmaTally {
    /// Between a drive and host memory.
    pub guest_memory_bytes: Bytes,
    /// Between a drive and the memory of a device.
    pub peer_bytes: Bytes,
    /// Without a known place.
    pub unknown_bytes: Bytes,
}

impl DmaTally {
    /// The payload that went through host memory.
    pub fn host_memory(&self) -> HostMemoryTraffic {
        let bytes = (self.unknown_bytes == Bytes::ZERO).then_some(self.guest_memory_bytes);
        let reason = match bytes {
            Some(_) => "payload of the drives' DMA in host memory, as the lab's recorder saw it",
            None => "the lab's recorder could not tell of all DMA where it went",
        };
        HostMemoryTraffic { bytes, reason: reason.to_owned() }
    }

    /// Judges the routes that were asked for by the tally.
    ///
    /// Payload crosses the memory between two drives twice, or once where one end is that memory
    /// itself. More bytes than that through host memory contradict the route. So do unrequested
    /// bytes between devices, or fewer than were asked for. Fewer bytes through host memory than
    /// the payload are no contradiction, since a page cache may have answered.
    pub fn evidence(&self, asked: BytesByRoute) -> RouteEvidence {
        let Self { guest_memory_bytes: host, peer_bytes: peer, unknown_bytes: unknown } = *self;
        let showed = format!(
            "{} bytes through host memory, {} between devices, {} not to be told",
            host.0, peer.0, unknown.0
        );
        let most = |asked: Bytes| asked.0.saturating_mul(2);
        let is_elsewhere = host.0 > most(asked.host) || (asked.p2p == Bytes(0) && peer.0 > 0);
        let verdict = if is_elsewhere || peer.0.saturating_add(unknown.0) < asked.p2p.0 {
            RouteVerdict::Contradicted
        } else if unknown.0 > 0 || host < asked.host || asked == BytesByRoute::default() {
            RouteVerdict::NotKnown
        } else {
            RouteVerdict::Shown
        };
        says(verdict, LOOKED_AT, showed)
    }
}

pub(super) fn look(tally: Option<&DmaTally>, asked: BytesByRoute) -> RouteEvidence {
    match tally {
        Some(tally) => tally.evidence(asked),
        None => unseen(LOOKED_AT, "only the lab has such a recorder"),
    }
}

#[cfg(test)]
mod tests {
    use RouteVerdict::{Contradicted, NotKnown, Shown};

    use super::*;

    fn tell(host: u64, peer: u64, unknown: u64, asked: (u64, u64)) -> RouteVerdict {
        let tally = DmaTally {
            guest_memory_bytes: Bytes(host),
            peer_bytes: Bytes(peer),
            unknown_bytes: Bytes(unknown),
        };
        let (p2p, host) = asked;
        tally.evidence(BytesByRoute { p2p: Bytes(p2p), host: Bytes(host) }).says
    }

    #[test]
    fn recorder_shows_or_contradicts_route() {
        assert_eq!(tell(0, 2000, 0, (1000, 0)), Shown);
        assert_eq!(tell(0, 1000, 0, (1000, 0)), Shown, "the source's own memory");
        assert_eq!(tell(4, 2000, 0, (1000, 0)), Contradicted, "payload in host memory");
        assert_eq!(tell(0, 900, 0, (1000, 0)), Contradicted, "payload that nobody moved");
        assert_eq!(tell(2000, 0, 0, (0, 1000)), Shown);
        assert_eq!(tell(2000, 2000, 0, (1000, 1000)), Shown, "flows of both routes");
        assert_eq!(tell(2000, 4, 0, (0, 1000)), Contradicted, "payload between devices");
    }

    #[test]
    fn unknown_bytes_show_nothing() {
        assert_eq!(tell(0, 0, 2000, (1000, 0)), NotKnown);
        assert_eq!(tell(0, 0, 0, (0, 0)), NotKnown);
        assert_eq!(tell(900, 0, 0, (0, 1000)), NotKnown, "a page cache answered");
        assert_eq!(look(None, BytesByRoute::default()).says, NotKnown);
    }
}
