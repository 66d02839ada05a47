//! `plan --probe` between a file and a GPU: the answers of the libraries on each path.

use std::fs;

use peerlane_results::{PlanRecord, Probe, ProbeAnswer, Route, RouteState, TargetPlan};

use super::{GpuMachine, LENGTH, said};

/// Drivers are bound; without them the answer is no.
const BOUND: [(&str, &str); 2] = [
    ("address = '0000:c1:00.0'", "driver = 'nvidia'\naddress = '0000:c1:00.0'"),
    ("kind = 'nvme'\n", "kind = 'nvme'\ndriver = 'nvme'\n"),
];

/// The plan and its answers, with the exit status.
#[track_caller]
fn probed(machine: &GpuMachine, ends: &str) -> (TargetPlan, Option<i32>) {
    let output = machine.peerlane(&format!("plan {ends} --probe --json"));
    let record: PlanRecord =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    (record.only().expect("a target").clone(), output.status.code())
}

/// The answer about a path.
#[track_caller]
fn answer_of<'a>(answer: &'a TargetPlan, path: &str) -> &'a ProbeAnswer {
    let probes = answer.probes.as_deref().expect("probes");
    let own = |one: &&Probe| one.memory.contains(path);
    &probes.iter().find(own).unwrap_or_else(|| panic!("{path}: {probes:?}")).answer
}

#[track_caller]
fn registered<'a>(answer: &'a TargetPlan, path: &str) -> &'a str {
    match answer_of(answer, path) {
        ProbeAnswer::Registered { showed } => showed,
        other => panic!("{path}: {other:?}"),
    }
}

#[track_caller]
fn refused<'a>(answer: &'a TargetPlan, path: &str) -> &'a str {
    match answer_of(answer, path) {
        ProbeAnswer::Refused { reason } => reason,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn probe_registers_file_and_memory() {
    for ends in ["source gpu:0", "gpu:0 source"] {
        let Some(machine) = GpuMachine::with("mode=p2pdma", &BOUND) else { return };
        let content = machine.source(LENGTH);
        let (answer, _) = probed(&machine, ends);
        let showed = registered(&answer, "P2PDMA");
        assert!(showed.contains("cuFile 1.20 registered the file and 64 KiB"), "{showed}");
        assert!(showed.contains("NVMe: P2PDMA, nvidia-fs"), "{showed}");
        assert!(registered(&answer, "pinned").contains("pinned 64 KiB"), "{answer:?}");
        registered(&answer, "compatibility mode");
        assert!(refused(&answer, "nvidia-fs").contains("compatibility mode, which is off"));
        assert_eq!(answer.plan.as_ref().and_then(|plan| plan.route), Some(Route::P2p));
        assert!(fs::read(machine.path("source")).expect("it") == content);
        for call in ["cuFileRead", "cuFileWrite", "cuMemcpyHtoDAsync"] {
            assert_eq!(machine.mock.calls(call), 0, "{call}");
        }
        machine.mock.expect_all_undone();
    }
}

#[test]
fn refused_registration_names_cufile_log() {
    let Some(machine) = GpuMachine::with("mode=p2pdma\nno_udev=1", &BOUND) else { return };
    machine.source(LENGTH);
    let (answer, status) = probed(&machine, "source gpu:0");
    for path in ["P2PDMA", "nvidia-fs", "compatibility mode"] {
        let reason = refused(&answer, path);
        assert!(reason.contains("file not registered (5027)"), "{reason}");
        let logged = "cufile.log: no devices found by udev enumeration for pci class: nvme; \
                      cuFileHandleRegister error";
        assert!(reason.contains(logged), "{reason}");
    }
    registered(&answer, "pinned");
    // The answers count: what is left is what works.
    assert_eq!((status, answer.state), (Some(0), RouteState::Host), "{}", answer.verdict);
    assert!(
        answer.verdict.ends_with("what is left is gpu:0 by pinned host memory"),
        "{}",
        answer.verdict
    );
    assert_eq!(machine.names(), ["source"], "no log is left");

    let text = machine.peerlane("plan source gpu:0 --probe").stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("cuFile and CUDA, asked for each path; nothing was written:"), "{text}");
    assert!(text.contains("gpu:0 by pinned host memory: CUDA pinned 64 KiB"), "{text}");
    let text = machine.peerlane("doctor source gpu:0 --probe").stdout;
    assert!(String::from_utf8_lossy(&text).contains("no devices found by udev"), "{text:?}");
}

#[test]
fn crash_of_library_is_an_answer() {
    let Some(machine) = GpuMachine::with("mode=p2pdma\ncrash=1", &BOUND) else { return };
    machine.source(LENGTH);
    let (answer, status) = probed(&machine, "source gpu:0");
    assert_eq!(refused(&answer, "P2PDMA"), "the library ended its process (signal 6)");
    registered(&answer, "pinned");
    assert_eq!(status, Some(0));
}

#[test]
fn new_file_leaves_cufile_unasked() {
    let Some(machine) = GpuMachine::with("mode=p2pdma", &BOUND) else { return };
    machine.source(LENGTH);
    let (answer, _) = probed(&machine, "gpu:0 new");
    let unasked = answer_of(&answer, "P2PDMA");
    assert!(matches!(unasked, ProbeAnswer::NotAsked { reason } if reason.contains("nothing yet")));
    registered(&answer, "pinned");
    assert_eq!(machine.names(), ["source"]);
    assert_eq!(machine.mock.calls("cuFileDriverOpen"), 0);
}

#[test]
fn plan_says_that_nobody_was_asked() {
    let Some(machine) = GpuMachine::with("mode=p2pdma", &BOUND) else { return };
    machine.source(LENGTH);
    let text = machine.peerlane("plan source gpu:0").stdout;
    let text = String::from_utf8_lossy(&text);
    assert_eq!(text.matches("the library was not asked: `--probe` asks it").count(), 4, "{text}");
    assert!(!text.contains("    available"), "{text}");
    assert!(text.contains("taken only where it is named"), "{text}");
    assert_eq!(machine.mock.log().len(), 0);
}
