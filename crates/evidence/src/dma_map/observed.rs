//! Counts of one drive's DMA, out of the kernel's histograms.

use std::collections::BTreeMap;

use peerlane_fabric::Bdf;

use super::hist::Histogram;
use super::kernel::DecisionProbe;
use super::windows::{AddressMap, AddressOwner};

/// The kernel's decision for one request, or for one segment of it up to Linux 6.14
/// (`enum pci_p2pdma_map_type` in `include/linux/pci-p2pdma.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision {
    /// Addressed on the bus, below one switch.
    BusAddress,
    /// Through the host bridge.
    ThroughHostBridge,
    /// Any other value.
    Other(u64),
}

/// DMA of one drive while payload moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedDma {
    /// P2P decisions; `None` without the probe.
    pub(super) decisions: Option<BTreeMap<Decision, u64>>,
    /// Addresses; `None` without the events.
    pub(super) addresses: Option<Addresses>,
    /// Bytes that the kernel copied through its bounce buffers.
    pub(super) bounced: u64,
    /// Set when events were lost.
    pub(super) is_incomplete: bool,
}

/// Bytes mapped, by the owner of their address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    /// System memory.
    pub(super) ram: u64,
    /// Windows of functions.
    pub(super) functions: BTreeMap<Bdf, u64>,
    /// Neither.
    pub(super) other: u64,
    /// True when every mapping of system memory has an event: then no event means no mapping.
    pub(super) is_complete: bool,
}

impl ObservedDma {
    pub(super) fn add_decisions(
        &mut self,
        probe: DecisionProbe,
        histograms: &[Histogram],
        drive: Bdf,
    ) {
        let filter = format!("\"{drive}\"");
        let own = || histograms.iter().filter(|one| one.trigger.contains(&filter));
        let mut decisions: BTreeMap<Decision, u64> = BTreeMap::new();
        for row in own().flat_map(|one| &one.rows) {
            let number = row.key("map").parse().unwrap_or(u64::MAX);
            *decisions.entry(probe.decision(number)).or_default() += row.value("hitcount");
        }
        self.is_incomplete |= own().any(|one| one.dropped > 0);
        self.decisions = (own().count() > 0).then_some(decisions);
    }

    pub(super) fn add_addresses(
        &mut self,
        histograms: &[Histogram],
        drive: Bdf,
        map: &AddressMap,
        is_complete: bool,
    ) {
        let mut found = Addresses { is_complete, ..Addresses::default() };
        let device = drive.to_string();
        for row in histograms.iter().flat_map(|one| &one.rows) {
            if row.key("device") != device {
                continue;
            }
            let bytes = row.value("size");
            match row.bucket("phys_addr").map(|(first, last)| map.owner(first, last)) {
                Some(AddressOwner::SystemRam) => found.ram += bytes,
                Some(AddressOwner::Function(function)) => {
                    *found.functions.entry(function).or_default() += bytes;
                }
                Some(AddressOwner::Other) | None => found.other += bytes,
            }
        }
        self.is_incomplete |= histograms.iter().any(|one| one.dropped > 0);
        self.addresses = Some(found);
    }

    pub(super) fn add_bounces(&mut self, histograms: &[Histogram], drive: Bdf) {
        let device = drive.to_string();
        let rows = histograms.iter().flat_map(|one| &one.rows);
        let own = rows.filter(|row| row.key("dev_name") == device);
        self.bounced = own.map(|row| row.value("size")).fold(0, u64::saturating_add);
    }

    /// Counts after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let nothing = Addresses::default();
        let earlier = before.addresses.as_ref().unwrap_or(&nothing);
        let addresses = self.addresses.as_ref().map(|all| Addresses {
            ram: all.ram.saturating_sub(earlier.ram),
            functions: less(&all.functions, &earlier.functions),
            other: all.other.saturating_sub(earlier.other),
            is_complete: all.is_complete,
        });
        let none = BTreeMap::new();
        let decided = before.decisions.as_ref().unwrap_or(&none);
        Self {
            decisions: self.decisions.as_ref().map(|all| less(all, decided)),
            addresses,
            bounced: self.bounced.saturating_sub(before.bounced),
            is_incomplete: self.is_incomplete,
        }
    }
}

/// Counts less earlier ones, without those that did not rise.
fn less<K: Ord + Copy>(all: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let rise = |(key, &count): (&K, &u64)| {
        let before = earlier.get(key).copied().unwrap_or(0);
        (count > before).then(|| (*key, count - before))
    };
    all.iter().filter_map(rise).collect()
}
