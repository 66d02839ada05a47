//! Copies through memory of a GPU: the program as it is typed, on a machine that is made up, with a mock of CUDA
//! and cuFile. No GPU has run these.

#[path = "../../../memory/mock-cuda/mod.rs"]
mod mock;
#[path = "../../../engine/tests/common/skip.rs"]
mod skip;

mod machine;

use std::fs;
use std::process::Output;

use machine::{Machine, said};
use peerlane_results::{CopyRecord, Plan, Route, VerifyMode};

const LENGTH: usize = 8 << 20;
const COMMON: &str = "--via gpu:0 --block 64K --depth 4 --json";

#[track_caller]
fn record(output: &Output) -> CopyRecord {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn showed(record: &CopyRecord, what: &str) -> bool {
    record.evidence.iter().any(|one| one.showed.contains(what))
}

#[test]
fn a_copy_goes_by_either_direct_way_and_is_proved_compared_and_cleared() {
    let test = "a_copy_goes_by_either_direct_way_and_is_proved_compared_and_cleared";
    for (conf, way, counted) in [
        ("mode=p2pdma", "direct by P2PDMA", "0 by nvidia-fs, 0 through host memory"),
        ("mode=nvfs", "direct by nvidia-fs", "0 requests by P2PDMA, "),
    ] {
        let Some(machine) = Machine::new(test, conf) else { return };
        let content = machine.source(LENGTH);
        let plan = machine.peerlane("plan source target --via gpu:0 --route p2p");
        eprintln!("{}{}", String::from_utf8_lossy(&plan.stdout), said(&plan));
        let words = format!("copy source target --route p2p --verify full {COMMON}");
        let found = record(&machine.peerlane(&words));
        assert!(fs::read(machine.path("target")).expect("it") == content);
        assert_eq!((found.route, found.bytes_by_route.p2p), (Route::P2p, found.bytes));
        assert_eq!(found.bytes_by_route.host.0, 0);
        assert!(found.memory.name.ends_with(way), "{}", found.memory.name);
        assert!(showed(&found, "it arrived unchanged in both directions"), "{:?}", found.evidence);
        assert!(showed(&found, counted), "{:?}", found.evidence);
        let checked = (found.verification.mode, found.verification.bytes);
        assert_eq!(checked, (VerifyMode::Full, found.bytes));
        assert!(found.scrubbed.bytes.0 >= 4 * (64 << 10), "{:?}", found.scrubbed);
        assert_eq!(machine.names(), ["source", "target"]);
        machine.mock.expect_all_undone();
        assert_eq!(machine.mock.calls("left content"), 0);
    }
}
