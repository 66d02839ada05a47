//! The verdict of cuFile's counters on a copy, by libraries of each layout and one that is newer than known.

use std::fs;

use crate::program::Exited;
use peerlane_results::{BytesByRoute, PlanRecord, Route, RouteVerdict, Warning};
use peerlane_units::Bytes;

use super::{COMMON, GpuMachine, LENGTH, record, said};

const COUNTERS: &str = "cuFile's counters of this process";

/// The verdict of the counters.
fn counted(found: &peerlane_results::CompletedCopy) -> RouteVerdict {
    let one = found.evidence.iter().find(|one| one.evidence.looked_at == COUNTERS);
    one.unwrap_or_else(|| panic!("no counters: {:?}", found.evidence)).says
}

#[test]
fn each_counter_layout_gives_verdict() {
    for version in [1150, 1180, 1190, 1200] {
        let conf = format!("mode=p2pdma\nversion={version}");
        let Some(machine) = GpuMachine::new(&conf) else { return };
        machine.source(LENGTH);
        let words = format!("copy source target --route p2p {COMMON}");
        let found = record(&machine.peerlane(&words));
        assert_eq!(counted(&found), RouteVerdict::Consistent, "{version}");
        assert_eq!(found.verdict, RouteVerdict::Consistent, "{version}");
        assert_eq!(found.bytes_by_route.p2p, found.bytes, "{version}");
        let flags = found.evidence.iter().find(|one| one.evidence.looked_at.contains("P2P flags"));
        assert_eq!(flags.is_some(), version >= 1160, "{version}");
    }
}

#[test]
fn route_without_counters_is_not_known() {
    for (conf, says) in [
        ("version=1210", "libcufile 1.21 is unknown"),
        ("version=1140", "libcufile 1.14 is unknown"),
        ("no_version=1", "does not tell its version"),
        ("no_counts=1", "show 0 of 1 requests"),
        ("no_counts=1\nversion=1180", "show 0 of 1 requests"),
    ] {
        let Some(machine) = GpuMachine::new(&format!("mode=p2pdma\n{conf}")) else { return };
        let content = machine.source(LENGTH);
        let output = machine.peerlane(&format!("copy source target --route p2p {COMMON}"));
        let refused = said(&output);
        assert_eq!(output.status.code(), Some(77), "{conf}: {refused}");
        assert!(refused.contains(says) && refused.contains("gpu:0 by cuFile"), "{conf}: {refused}");
        assert!(refused.contains("hint:") && refused.contains("--route host"), "{conf}: {refused}");
        assert_eq!(machine.names(), ["source"], "{conf}");
        assert_eq!(machine.mock.calls("cuFileWrite"), 0, "{conf}");

        let found = record(&machine.peerlane(&format!("copy source target {COMMON}")));
        assert!(fs::read(machine.path("target")).expect("it") == content);
        assert_eq!((found.route, counted(&found)), (Route::P2p, RouteVerdict::NotKnown), "{conf}");
        assert_eq!(found.verdict, RouteVerdict::NotKnown, "{conf}");
        let none = BytesByRoute { p2p: Bytes::ZERO, host: Bytes::ZERO };
        assert_eq!(found.bytes_by_route, none, "{conf}");
        let is_said = |one: &Warning| matches!(one, Warning::RouteNotKnown { .. });
        assert!(found.warnings.iter().any(is_said), "{conf}: {:?}", found.warnings);
        machine.mock.expect_no_violation();
    }
}

#[test]
fn fallbacks_that_stay_on_refuse_p2p() {
    for (conf, key) in [
        ("posix_mode=1", "vanilla_posix_io_mode"),
        ("posix_mode=1\nversion=1170", "posix_io_mode"),
        ("fallback_io=1", "gds_fallback_io"),
        ("sticky=1", "allow_compat_mode"),
    ] {
        let Some(machine) = GpuMachine::new(&format!("mode=p2pdma\n{conf}")) else { return };
        machine.source(LENGTH);
        let output = machine.peerlane(&format!("copy source target --route p2p {COMMON}"));
        assert_eq!(output.status.code(), Some(77), "{conf}: {}", said(&output));
        assert!(said(&output).contains(key), "{conf}: {}", said(&output));
        assert_eq!(machine.mock.calls("cuFileRead"), 0, "{conf}");
        assert_eq!(machine.names(), ["source"], "{conf}");
    }
}

#[test]
fn holes_that_are_read_are_named() {
    for (version, code) in [(1180, 0), (1200, 77)] {
        let conf = format!("mode=p2pdma\nversion={version}");
        let Some(machine) = GpuMachine::new(&conf) else { return };
        machine.source(LENGTH);
        let file = fs::OpenOptions::new().write(true).open(machine.path("source")).expect("it");
        file.set_len(2 * LENGTH as u64).expect("room");
        // Holes are left out unless that is forbidden.
        let words = format!("copy source target --route p2p --sparse never {COMMON}");
        let output = machine.peerlane(&words);
        assert_eq!(output.status.code(), Some(code), "{version}: {}", said(&output));
        let is_named = said(&output).contains("has holes, which cuFile reads through host memory");
        assert_eq!(is_named, code != 0, "{}", said(&output));
    }
}

#[test]
fn a_probe_shows_the_flags() {
    for (conf, says) in [
        ("", "its P2P flags: NVMe: P2PDMA, nvidia-fs; NVMe-oF: none"),
        ("p2p_flags=8", "NVMe: C2C"),
        ("fallback_io=1", "keeps its second try through host memory"),
    ] {
        let Some(machine) = GpuMachine::new(&format!("mode=p2pdma\n{conf}")) else { return };
        machine.source(LENGTH);
        let output = machine.peerlane("plan source target --via gpu:0 --probe --json");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(text.contains(says), "{conf}: {text}");
        assert_eq!(machine.mock.calls("cuFileRead"), 0, "it only asks");
        machine.mock.expect_no_violation();
        assert!(serde_json::from_slice::<PlanRecord>(&output.stdout).is_ok());
    }
}

#[test]
fn probe_opens_no_refused_way() {
    let changes = [
        ("'7.2.13'", "'6.1.0'"),
        ("{ name = 'nvidia_fs', version = '2.30' }", "{ name = 'nvme' }"),
    ];
    let Some(machine) = GpuMachine::with("mode=p2pdma", &changes) else { return };
    machine.source(LENGTH);
    let text = machine.peerlane("plan source target --via gpu:0 --probe --json").text();
    assert!(text.contains("older than 6.2") && text.contains("nvidia_fs is not loaded"), "{text}");
    assert_eq!(machine.mock.calls("cuFileDriverOpen"), 0, "{text}");
}
