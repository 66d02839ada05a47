//! Verdict of a drive's DMA addresses and P2P decisions on the route of its payload.

use std::fmt::Write as _;

use peerlane_reach::MapType;
use peerlane_results::RouteVerdict;
use peerlane_units::Bytes;

use super::DriveTransfer;
use super::observed::{Addresses, Decision, ObservedDma};

impl ObservedDma {
    fn decided(&self) -> Option<u64> {
        let all = self.decisions.as_ref()?;
        Some(all.values().fold(0, |sum: u64, count| sum.saturating_add(*count)))
    }

    /// Describes the counts for the evidence.
    pub(super) fn summary(&self, transfer: &DriveTransfer) -> String {
        let mut text = String::new();
        match &self.decisions {
            None => text.push_str("P2P decisions not visible"),
            Some(all) if all.is_empty() => text.push_str("no P2P decision"),
            Some(all) => {
                for (decision, count) in all {
                    let words = match decision {
                        Decision::BusAddress => "by bus address".to_owned(),
                        Decision::ThroughHostBridge => "through the host bridge".to_owned(),
                        Decision::Other(value) => format!("of kind {value}"),
                    };
                    let comma = if text.is_empty() { "" } else { ", " };
                    let _ = write!(text, "{comma}{count} P2P decisions {words}");
                }
            }
        }
        match &self.addresses {
            None => text.push_str("; DMA addresses not visible"),
            Some(Addresses { ram, functions, other, is_complete }) => {
                let least = if *is_complete { "" } else { "at least " };
                let _ = write!(text, "; {least}{ram} bytes mapped in system memory");
                for (function, bytes) in functions {
                    let _ = write!(text, ", {bytes} in the memory of {function}");
                }
                if *other > 0 {
                    let _ = write!(text, ", {other} elsewhere");
                }
            }
        }
        let Bytes(p2p) = transfer.p2p;
        let _ = write!(text, "; payload {p2p} bytes peer to peer, {} by host", transfer.host.0);
        if self.bounced > 0 {
            let _ = write!(text, "; {} bytes bounced", self.bounced);
        }
        if self.is_incomplete {
            text.push_str("; events were lost");
        }
        text
    }

    /// Judges the route of a drive's payload by the counts.
    pub(super) fn verdict(&self, transfer: &DriveTransfer) -> RouteVerdict {
        let Bytes(p2p) = transfer.p2p;
        match (p2p, transfer.host) {
            _ if self.is_incomplete => RouteVerdict::NotKnown,
            (0, Bytes(0)) => RouteVerdict::NotKnown,
            (0, Bytes(host)) => self.host_verdict(host),
            (_, Bytes(host)) => self.p2p_verdict(transfer, host),
        }
    }

    /// Verdict on host payload alone, which rests in system memory and takes no P2P decision.
    fn host_verdict(&self, host: u64) -> RouteVerdict {
        let is_in_ram = self.addresses.as_ref().is_some_and(|all| all.ram >= host);
        match self.decided() {
            Some(0) if is_in_ram => RouteVerdict::Shown,
            // The page cache may have answered.
            Some(0) => RouteVerdict::Consistent,
            Some(_) => RouteVerdict::Contradicted,
            None if is_in_ram => RouteVerdict::Consistent,
            None => RouteVerdict::NotKnown,
        }
    }

    /// Verdict on P2P payload, with `host` bytes through host memory.
    fn p2p_verdict(&self, transfer: &DriveTransfer, host: u64) -> RouteVerdict {
        let Bytes(p2p) = transfer.p2p;
        let is_expected = |decision: &Decision| match transfer.expected {
            Some(MapType::BusAddress) => *decision == Decision::BusAddress,
            Some(MapType::ThroughHostBridge) => *decision == Decision::ThroughHostBridge,
            _ => !matches!(decision, Decision::Other(_)),
        };
        let all = self.decisions.as_ref();
        if self.bounced > 0 || all.is_some_and(|all| all.keys().any(|one| !is_expected(one))) {
            return RouteVerdict::Contradicted;
        }
        let decided = self.decided();
        let is_decided = decided.is_some_and(|decided| decided >= transfer.requests);
        if !is_decided && decided.is_some_and(|decided| decided > 0) && !transfer.is_at_most {
            // Fewer than the payload takes: some of it was not mapped peer to peer.
            return RouteVerdict::Contradicted;
        }
        // Drivers that map for themselves, such as nvidia-fs, ask the kernel for no decision.
        let Some(Addresses { ram, functions, is_complete, .. }) = &self.addresses else {
            return if is_decided { RouteVerdict::Shown } else { RouteVerdict::NotKnown };
        };
        let in_memory: u64 = transfer.memories.iter().filter_map(|one| functions.get(one)).sum();
        let is_seen = is_decided || in_memory >= p2p;
        let (none, all) = (*ram <= host, *ram >= p2p.saturating_add(host));
        match is_seen {
            true if none => RouteVerdict::Shown,
            // As much by host memory as by P2P: another user of the drive.
            true if all => RouteVerdict::NotKnown,
            true => RouteVerdict::Consistent,
            false if all => RouteVerdict::Contradicted,
            false if *is_complete => RouteVerdict::Consistent,
            false => RouteVerdict::NotKnown,
        }
    }
}

#[cfg(test)]
mod tests {
    use RouteVerdict::{Consistent, Contradicted, NotKnown, Shown};

    use std::collections::BTreeMap;

    use super::*;

    const PAYLOAD: u64 = 64 << 20;

    fn p2p() -> DriveTransfer {
        DriveTransfer {
            address: "0000:03:00.0".parse().unwrap(),
            p2p: Bytes(PAYLOAD),
            host: Bytes(0),
            requests: 128,
            memories: vec!["0000:05:00.0".parse().unwrap()],
            expected: Some(MapType::BusAddress),
            is_at_most: false,
        }
    }

    fn host() -> DriveTransfer {
        DriveTransfer { p2p: Bytes(0), host: Bytes(PAYLOAD), requests: 0, ..p2p() }
    }

    fn seen(decisions: &[(Decision, u64)], ram: u64, in_memory: u64) -> ObservedDma {
        let functions = BTreeMap::from([(p2p().memories[0], in_memory)]);
        let addresses = Addresses { ram, functions, other: 0, is_complete: true };
        ObservedDma {
            decisions: Some(decisions.iter().copied().collect()),
            addresses: Some(addresses),
            ..ObservedDma::default()
        }
    }

    fn without_probe(ram: u64, in_memory: u64) -> ObservedDma {
        ObservedDma { decisions: None, ..seen(&[], ram, in_memory) }
    }

    #[test]
    fn complete_decisions_show_p2p() {
        let all = [(Decision::BusAddress, 130)];
        assert_eq!(seen(&all, 0, 0).verdict(&p2p()), Shown);
        assert_eq!(seen(&all, 4096, 0).verdict(&p2p()), Consistent, "a few bytes by host memory");
        assert_eq!(seen(&all, PAYLOAD, 0).verdict(&p2p()), NotKnown, "another user of the drive");
        let some = [(Decision::BusAddress, 100)];
        assert_eq!(seen(&some, 4096, 0).verdict(&p2p()), Contradicted, "too few");
    }

    #[test]
    fn fewer_decisions_fit_payload_with_unknown_holes() {
        let file = DriveTransfer { is_at_most: true, ..p2p() };
        let some = [(Decision::BusAddress, 100)];
        assert_eq!(seen(&some, 0, 0).verdict(&file), Consistent);
        assert_eq!(seen(&some, PAYLOAD, 0).verdict(&file), Contradicted, "all by host memory");
        assert_eq!(seen(&[(Decision::BusAddress, 128)], 0, 0).verdict(&file), Shown);
    }

    #[test]
    fn addresses_in_the_memory_show_p2p() {
        assert_eq!(without_probe(0, PAYLOAD).verdict(&p2p()), Shown);
        assert_eq!(without_probe(0, 0).verdict(&p2p()), Consistent, "by absence");
        assert_eq!(without_probe(4096, 0).verdict(&p2p()), Consistent);
    }

    #[test]
    fn payload_in_system_memory_contradicts_p2p() {
        assert_eq!(without_probe(PAYLOAD, 0).verdict(&p2p()), Contradicted);
        assert_eq!(seen(&[], PAYLOAD, 0).verdict(&p2p()), Contradicted);
        let bounced = ObservedDma { bounced: 4096, ..seen(&[(Decision::BusAddress, 130)], 0, 0) };
        assert_eq!(bounced.verdict(&p2p()), Contradicted);
        let other = [(Decision::ThroughHostBridge, 130)];
        assert_eq!(seen(&other, 0, PAYLOAD).verdict(&p2p()), Contradicted, "another decision");
    }

    #[test]
    fn host_payload_needs_system_memory() {
        assert_eq!(seen(&[], PAYLOAD, 0).verdict(&host()), Shown);
        assert_eq!(seen(&[], 4096, 0).verdict(&host()), Consistent, "a page cache answered");
        let some = [(Decision::BusAddress, 1)];
        assert_eq!(seen(&some, PAYLOAD, 0).verdict(&host()), Contradicted);
        assert_eq!(without_probe(PAYLOAD, 0).verdict(&host()), Consistent);
        assert_eq!(without_probe(0, 0).verdict(&host()), NotKnown);
    }

    #[test]
    fn incomplete_or_missing_sources_say_nothing() {
        let lost = ObservedDma { is_incomplete: true, ..seen(&[], PAYLOAD, 0) };
        assert_eq!(lost.verdict(&p2p()), NotKnown);
        assert_eq!(ObservedDma::default().verdict(&p2p()), NotKnown);
    }

    #[test]
    fn decisions_show_p2p_without_addresses() {
        let mut seen = seen(&[(Decision::BusAddress, 128)], 0, 0);
        seen.addresses = None;
        assert_eq!(seen.verdict(&p2p()), Shown);
        assert_eq!(seen.verdict(&host()), Contradicted);
    }

    #[test]
    fn mixed_payload_expects_system_memory() {
        let both = DriveTransfer { host: Bytes(PAYLOAD), ..p2p() };
        let all = [(Decision::BusAddress, 128)];
        assert_eq!(seen(&all, PAYLOAD, 0).verdict(&both), Shown);
        assert_eq!(seen(&[], 2 * PAYLOAD, 0).verdict(&both), Contradicted);
    }

    #[test]
    fn partial_addresses_prove_no_absence() {
        let mut partial = without_probe(0, 0);
        partial.addresses.as_mut().unwrap().is_complete = false;
        assert_eq!(partial.verdict(&p2p()), NotKnown);
    }
}
