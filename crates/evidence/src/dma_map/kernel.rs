//! The parts of a kernel that show DMA, by version.

use super::observed::Decision;

/// The kernel's function that decides for a request or a segment, and the numbers of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecisionProbe {
    pub(super) function: &'static str,
    bus_address: u64,
}

impl DecisionProbe {
    /// The decision behind a number of `enum pci_p2pdma_map_type`.
    pub(super) fn decision(self, number: u64) -> Decision {
        if number == self.bus_address {
            Decision::BusAddress
        } else if number == self.bus_address + 1 {
            Decision::ThroughHostBridge
        } else {
            Decision::Other(number)
        }
    }
}

/// Both functions, the newer first: it came with Linux 6.17, and the numbers moved with it
/// (`drivers/pci/p2pdma.c`, `include/linux/pci-p2pdma.h`).
pub(super) const PROBES: [DecisionProbe; 2] = [
    DecisionProbe { function: "__pci_p2pdma_update_state", bus_address: 3 },
    DecisionProbe { function: "pci_p2pdma_map_segment", bus_address: 2 },
];

/// Arguments of the probe: `struct device *` is the second of both functions, and its first word is its name. A
/// `struct pci_p2pdma_map_state` is the first, and holds the decision behind one pointer.
pub(super) const PROBE_ARGUMENTS: &str = "%return client=+0(+0($arg2)):string map=+8($arg1):s32";

/// Events of a mapping, the newer first: `dma_map_phys` came with Linux 6.18 (`include/trace/events/dma.h`).
pub(super) const MAP_EVENTS: [&str; 2] = ["dma/dma_map_phys", "dma/dma_map_page"];

/// Versions that were tried, and whether each mapping of a drive in them has an event that shows its address. Up to 6.16
/// requests of several segments have `dma_map_sg`, whose addresses no histogram counts.
const TRIED: [(u32, u32, bool); 4] = [(6, 8, false), (6, 14, false), (6, 17, true), (7, 3, true)];

/// Returns whether the address events of a kernel are complete; `None` for one that was not tried.
pub(super) fn has_complete_events(version: (u32, u32)) -> Option<bool> {
    TRIED.into_iter().find(|&(major, minor, _)| (major, minor) == version).map(|one| one.2)
}

/// The versions that were tried, in words.
pub(super) fn tried() -> String {
    TRIED.map(|(major, minor, _)| format!("{major}.{minor}")).join(", ")
}

/// Major and minor version of a release, `6.8.0-151-generic`.
pub(super) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|one: char| !one.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_function() {
        let [newer, older] = PROBES;
        assert_eq!(newer.decision(3), Decision::BusAddress);
        assert_eq!(newer.decision(4), Decision::ThroughHostBridge);
        assert_eq!(older.decision(2), Decision::BusAddress);
        assert_eq!(older.decision(3), Decision::ThroughHostBridge);
        assert_eq!(older.decision(1), Decision::Other(1));
    }

    #[test]
    fn untried_kernels_are_not_judged() {
        let of = |release| version(release).and_then(has_complete_events);
        assert_eq!(of("7.3.4+deb13-cloud-amd64"), Some(true));
        assert_eq!(of("6.8.0-151-generic"), Some(false));
        assert_eq!(of("5.15.0-100-generic"), None);
        assert_eq!(of("next"), None);
    }
}
