//! Counters of memory controllers and of I/O stacks, through perf.
//!
//! Only memory controllers are read: they count bytes of host memory by anybody. I/O stacks are
//! only named: without traffic nothing shows which stack has the port of a device. Little memory
//! traffic fits a peer route and does not show one, since caches can hold data that devices write
//! (DDIO on Intel, SDCIAE on AMD).

mod event;

use std::io;

use peerlane_memory::perf::Counter;
use peerlane_results::{BytesByRoute, HostMemoryTraffic, RouteEvidence, RouteVerdict};
use peerlane_units::Bytes;

use super::{Root, Unread, says, unseen};
use event::CpuEvent;

pub(super) const UNITS: &str = "sys/bus/event_source/devices";

/// Units to read: the start of their names, and the events to try. An event is a name of the unit's
/// list in sysfs or, without such a list, text in its syntax with the bytes that each count stands
/// for.
///
/// Sources: `arch/x86/events/intel/uncore_snbep.c`, `uncore_discovery.c` and
/// `arch/x86/events/amd/uncore.c`, Linux 7.2; codes of AMD:
/// `tools/perf/pmu-events/arch/x86/amdzen4/memory-controller.json`.
const MEMORY: [(&str, &[WantedEvent]); 3] = [
    ("uncore_imc_free_running", &[WantedEvent::Named("read"), WantedEvent::Named("write")]),
    (
        "uncore_imc",
        &[
            WantedEvent::Named("cas_count_read"),
            WantedEvent::Named("cas_count_write"),
            WantedEvent::Named("cas_count_read_sch0"),
            WantedEvent::Named("cas_count_read_sch1"),
            WantedEvent::Named("cas_count_write_sch0"),
            WantedEvent::Named("cas_count_write_sch1"),
        ],
    ),
    ("amd_umc", &[WantedEvent::Coded("event=0x0a", 64)]),
];

/// Units that count traffic of root ports or requests to caches.
const INPUT_OUTPUT: [(&str, &str); 4] = [
    ("uncore_iio_free_running", "Intel I/O stacks, free running"),
    ("uncore_iio", "Intel I/O stacks"),
    ("uncore_cha", "Intel caching agents"),
    ("amd_df", "AMD data fabric"),
];

/// More than a machine of eight sockets has.
const MOST_COUNTERS: usize = 2048;

/// An event that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum WantedEvent {
    /// By its name in the unit's list, which says how many bytes it counts.
    Named(&'static str),
    /// By its code, with the bytes that it counts.
    Coded(&'static str, u64),
}

/// Open counters, or the reason why there are none.
#[derive(Debug)]
pub(super) struct Counters {
    memory: Result<Vec<OpenCounter>, String>,
    others: Vec<&'static str>,
}

#[derive(Debug)]
struct OpenCounter {
    counter: Counter,
    before: f64,
    bytes_each: f64,
}

impl Counters {
    pub(super) fn begin(root: &Root) -> Self {
        let names = match root.names(UNITS) {
            Ok(names) => names,
            Err(unread) => return Self { memory: Err(unread.to_string()), others: Vec::new() },
        };
        let is_here = |(unit, _): &(&str, &str)| names.iter().any(|name| is_of(name, unit));
        let others = INPUT_OUTPUT.into_iter().filter(is_here).map(|(_, what)| what).collect();
        let memory = match root.is_this_machine() {
            true => open_all(root, &names),
            false => Err("the tree is not that of this machine".to_owned()),
        };
        Self { memory, others }
    }

    pub(super) fn end(self, asked: BytesByRoute) -> (Vec<RouteEvidence>, HostMemoryTraffic) {
        let (item, traffic) = of_memory(self.memory, asked);
        let looked_at = "counters of I/O stacks (perf)";
        let why = match &self.others[..] {
            [] => "this machine offers none".to_owned(),
            found => format!(
                "{} are here, and nothing says which of their ports a device is behind",
                found.join(", ")
            ),
        };
        (vec![item, unseen(looked_at, why)], traffic)
    }
}

fn of_memory(
    counters: Result<Vec<OpenCounter>, String>,
    asked: BytesByRoute,
) -> (RouteEvidence, HostMemoryTraffic) {
    let looked_at = "counters of memory controllers (perf)";
    let read = counters.and_then(|counters| {
        let number = counters.len();
        sum(counters).map(|bytes| (number, bytes)).map_err(|error| error.to_string())
    });
    let (number, bytes) = match read {
        Ok(read) => read,
        Err(why) => {
            let reason = format!("no counter of memory controllers: {why}");
            return (unseen(looked_at, why), HostMemoryTraffic { bytes: None, reason });
        }
    };
    let is_little = asked.host == Bytes::ZERO && bytes < asked.p2p.0;
    let verdict = if is_little { RouteVerdict::Consistent } else { RouteVerdict::NotKnown };
    let showed = format!("{bytes} bytes by everything on the machine, {number} counters");
    let reason = format!("{number} counters of memory controllers, by everything on the machine");
    let traffic = HostMemoryTraffic { bytes: Some(Bytes(bytes)), reason };
    (says(verdict, looked_at, showed), traffic)
}

/// Opens the wanted events of every unit of the first kind that is here; free running ones first,
/// since they do not take turns.
fn open_all(root: &Root, names: &[String]) -> Result<Vec<OpenCounter>, String> {
    for (kind, wanted) in MEMORY {
        let units = names.iter().filter(|name| is_of(name, kind));
        let found: Result<Vec<Vec<CpuEvent>>, Unread> =
            units.map(|unit| CpuEvent::find(root, unit, wanted)).collect();
        let events = found.map_err(|unread| unread.to_string())?.concat();
        if events.len() > MOST_COUNTERS {
            return Err(format!("{} counters are more than can be read", events.len()));
        }
        if !events.is_empty() {
            return events
                .iter()
                .map(open)
                .collect::<io::Result<_>>()
                .map_err(|error| refused(&error));
        }
    }
    Err("this machine offers none".to_owned())
}

fn open(event: &CpuEvent) -> io::Result<OpenCounter> {
    let mut counter = Counter::open(&event.counter)?;
    let before = scaled(&mut counter)?;
    Ok(OpenCounter { counter, before, bytes_each: event.bytes_each })
}

fn refused(error: &io::Error) -> String {
    let needs = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (needs CAP_PERFMON, or kernel.perf_event_paranoid at 0)"
        }
        _ => "",
    };
    format!("cannot open a counter: {error}{needs}")
}

/// Count of a counter, scaled up for the time that other counters had its place.
fn scaled(counter: &mut Counter) -> io::Result<f64> {
    let found = counter.read()?;
    let share = if found.running == 0 { 0.0 } else { found.enabled as f64 / found.running as f64 };
    Ok(found.count as f64 * share)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats end at the bounds of the integer"
)]
fn sum(counters: Vec<OpenCounter>) -> io::Result<u64> {
    let mut bytes = 0.0;
    for mut open in counters {
        bytes += (scaled(&mut open.counter)? - open.before).max(0.0) * open.bytes_each;
    }
    Ok(bytes as u64)
}

/// Returns whether a name is a unit's, alone or with numbers: `uncore_imc_3`, `amd_umc_0`.
fn is_of(name: &str, unit: &str) -> bool {
    let rest = name.strip_prefix(unit);
    rest.is_some_and(|rest| rest.bytes().all(|one| one.is_ascii_digit() || one == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::p2p;
    use peerlane_testing::Scratch;

    /// A unit of this name that is really the kernel's software counter of page faults (type 1,
    /// number 2). Each fault counts as 64 bytes.
    fn plant(tree: &Scratch, unit: &str) {
        for (file, text) in [
            ("type", "1\n"),
            ("cpumask", &every_cpu()),
            ("format/event", "config:0-7\n"),
            ("events/cas_count_read", "event=0x02\n"),
            ("events/cas_count_read.scale", "6.103515625e-5\n"),
            ("events/cas_count_read.unit", "MiB\n"),
        ] {
            tree.write(format!("{UNITS}/{unit}/{file}"), text);
        }
    }

    /// Counters as if the tree were this machine's.
    fn opened(tree: &Scratch) -> Counters {
        let names = Root::at(tree.path()).names(UNITS).unwrap();
        Counters { memory: open_all(&Root::at(tree.path()), &names), others: Vec::new() }
    }

    #[test]
    fn foreign_tree_opens_no_counter() {
        let tree = Scratch::new();
        plant(&tree, "uncore_imc_0");
        let (_, traffic) = Counters::begin(&Root::at(tree.path())).end(p2p(1));
        assert!(traffic.reason.ends_with("the tree is not that of this machine"), "{traffic:?}");
    }

    fn every_cpu() -> String {
        format!("0-{}", std::thread::available_parallelism().unwrap().get() - 1)
    }

    #[test]
    fn a_machine_without_units_says_so() {
        let tree = Scratch::new();
        tree.write(format!("{UNITS}/software/type"), "1");
        let (evidence, traffic) = opened(&tree).end(p2p(1));
        assert_eq!(traffic.bytes, None);
        assert_eq!(traffic.reason, "no counter of memory controllers: this machine offers none");
        assert!(evidence.iter().all(|item| item.says == RouteVerdict::NotKnown));
        let (_, traffic) = Counters::begin(&Root::at(Scratch::new().path())).end(p2p(1));
        assert!(traffic.reason.contains("cannot read /sys/bus/event_source"), "{traffic:?}");
    }

    #[test]
    fn planted_unit_counts_or_gives_reason() {
        let tree = Scratch::new();
        plant(&tree, "uncore_imc_0");
        plant(&tree, "uncore_imc_1");
        let counters = opened(&tree);
        // Memory that nobody used yet makes page faults.
        std::hint::black_box(vec![1u8; 16 << 20]);
        let (evidence, traffic) = counters.end(p2p(1 << 60));
        match traffic.bytes {
            Some(bytes) => {
                assert!(bytes >= Bytes(2 * 64), "{traffic:?}");
                assert!(traffic.reason.contains("counters of memory controllers"), "{traffic:?}");
                assert_eq!(evidence[0].says, RouteVerdict::Consistent);
            }
            None => {
                assert!(traffic.reason.contains("cannot open a counter: "), "{traffic:?}");
                assert_eq!(evidence[0].says, RouteVerdict::NotKnown);
            }
        }
    }

    #[test]
    fn malformed_unit_is_a_reason() {
        let tree = Scratch::new();
        plant(&tree, "uncore_imc_0");
        tree.write(format!("{UNITS}/uncore_imc_0/format/event"), "config9:5-2\n");
        let (_, traffic) = opened(&tree).end(p2p(1));
        assert!(traffic.reason.contains("format/event"), "{traffic:?}");
    }

    #[test]
    fn stacks_are_named_and_not_read() {
        let tree = Scratch::new();
        tree.write(format!("{UNITS}/uncore_iio_0/type"), "9");
        let (evidence, _) = Counters::begin(&Root::at(tree.path())).end(p2p(1));
        assert!(evidence[1].evidence.showed.contains("Intel I/O stacks are here"), "{evidence:?}");
    }

    #[test]
    fn unit_name_allows_only_numbers() {
        assert!(is_of("uncore_imc_3", "uncore_imc") && is_of("amd_df", "amd_df"));
        assert!(!is_of("uncore_imc_free_running_0", "uncore_imc"));
    }
}
