//! Bytes that requests asked for, by the memory that they named.

use peerlane_results::BytesByRoute;
use peerlane_units::Bytes;

use crate::io::ring::{Action, Operation, RegionId};

/// Bytes of one action.
#[derive(Debug, Clone, Copy, Default)]
struct ActionBytes {
    device: u64,
    host: u64,
}

/// Requests of a ring since the count began. A request that is repeated, after a part of it came,
/// counts again.
#[derive(Debug, Default)]
pub(super) struct RequestTally {
    /// The region in device memory; every other is host memory.
    device: Option<RegionId>,
    read: ActionBytes,
    write: ActionBytes,
}

impl RequestTally {
    pub(super) fn begin(&mut self, device: Option<RegionId>) {
        *self = Self { device, ..Self::default() };
    }

    pub(super) fn add(&mut self, operation: &Operation) {
        let asked = match operation.action {
            Action::Read => &mut self.read,
            Action::Write => &mut self.write,
            _ => return,
        };
        let is_device = self.device == Some(operation.region);
        let bytes = if is_device { &mut asked.device } else { &mut asked.host };
        *bytes = bytes.saturating_add(u64::from(operation.length));
    }

    /// Splits payload by route. Device memory: bytes that can have gone by it; host memory: bytes
    /// that did at one end at least. Both together may exceed the payload.
    pub(super) fn by_route(&self, payload: Bytes) -> BytesByRoute {
        let used = [self.read, self.write].into_iter().filter(|one| one.device + one.host > 0);
        let (device, host) = used.fold((u64::MAX, 0), |(device, host), one| {
            (device.min(one.device), host.max(one.host))
        });
        let device = if self.read.device + self.write.device == 0 { 0 } else { device };
        BytesByRoute { p2p: payload.min(Bytes(device)), host: payload.min(Bytes(host)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ring::FileId;

    fn told(requests: &[(Action, u32, u32)]) -> (u64, u64) {
        let mut tally = RequestTally::default();
        tally.begin(Some(RegionId(7)));
        for &(action, region, length) in requests {
            tally.add(&Operation {
                action,
                file: FileId(0),
                file_offset: 0,
                region: RegionId(region),
                region_offset: 0,
                length,
                tag: 0,
            });
        }
        let found = tally.by_route(Bytes(100));
        (found.p2p.0, found.host.0)
    }

    #[test]
    fn requests_that_named_one_memory_took_its_route() {
        let (read, write) = (Action::Read, Action::Write);
        assert_eq!(told(&[(read, 7, 100), (write, 7, 100)]), (100, 0));
        assert_eq!(
            told(&[(read, 7, 100), (write, 7, 60), (write, 7, 60)]),
            (100, 0),
            "asked again"
        );
        assert_eq!(told(&[(read, 1, 100), (write, 1, 100)]), (0, 100));
        assert_eq!(told(&[(write, 7, 100)]), (100, 0), "one drive");
        assert_eq!(told(&[]), (0, 0));
    }

    #[test]
    fn a_request_that_named_the_other_memory_shows() {
        let (read, write) = (Action::Read, Action::Write);
        assert_eq!(told(&[(read, 7, 100), (write, 7, 90), (write, 1, 10)]), (90, 10));
        assert_eq!(told(&[(read, 1, 100), (write, 7, 100)]), (0, 100), "half of the way");
    }
}
