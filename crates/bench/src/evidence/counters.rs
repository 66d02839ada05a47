//! Counters of memory controllers and of I/O stacks, through perf.

use peerlane_results::{HostMemoryTraffic, RouteEvidence};

use super::{Root, unseen};

/// What the kernel calls the units that count bytes of memory or of I/O, and what each counts
/// (`arch/x86/events/intel/uncore_snbep.c`, `arch/x86/events/amd/uncore.c`, Linux 7.2).
const UNITS: [(&str, &str); 7] = [
    ("uncore_imc_free_running", "Intel memory controllers, free running"),
    ("uncore_imc", "Intel memory controllers"),
    ("uncore_iio_free_running", "Intel I/O stacks, free running"),
    ("uncore_iio", "Intel I/O stacks"),
    ("uncore_cha", "Intel caching agents"),
    ("amd_umc", "AMD memory controllers"),
    ("amd_df", "AMD data fabric"),
];

pub(super) fn end(root: &Root) -> (Vec<RouteEvidence>, HostMemoryTraffic) {
    let looked_at = "counters of memory controllers (perf)";
    let found = match root.names("sys/bus/event_source/devices") {
        Err(unread) => unread.to_string(),
        Ok(names) => {
            let kinds: Vec<&str> = UNITS
                .into_iter()
                .filter(|(unit, _)| names.iter().any(|name| is_of(name, unit)))
                .map(|(_, what)| what)
                .collect();
            if kinds.is_empty() {
                "this machine offers none".to_owned()
            } else {
                format!("{} are here, and are not read", kinds.join(", "))
            }
        }
    };
    let evidence = vec![unseen(looked_at, &found)];
    (evidence, HostMemoryTraffic { bytes: None, reason: found })
}

/// Whether a name is a unit's, or a unit's with a number: `uncore_imc_3`.
fn is_of(name: &str, unit: &str) -> bool {
    let rest = name.strip_prefix(unit).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    rest.is_some_and(|rest| rest.bytes().all(|one| one.is_ascii_digit()))
}
