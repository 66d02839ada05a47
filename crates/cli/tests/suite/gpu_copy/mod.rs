//! Copies through memory of a GPU: the program as it is typed, on a machine that is made up, with a mock of CUDA
//! and cuFile. What ran on a GPU is in docs/gpu.md.

mod counters;
pub(crate) mod machine;
mod probe;
mod routes;
mod stages;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{Exited, said};
use machine::GpuMachine;
use peerlane_results::{CompletedCopy, CopyRecord, PlanRecord, Route, VerifyMode, Warning};
use peerlane_testing::Loop;
use rustix::process::{Pid, Signal, kill_process};

const LENGTH: usize = 8 << 20;
const COMMON: &str = "--via gpu:0 --block 64K --depth 4 --json";

#[track_caller]
fn record(output: &Output) -> CompletedCopy {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    let record: CopyRecord = output.json();
    record.only().expect("a completed copy").clone()
}

fn showed(record: &CompletedCopy, what: &str) -> bool {
    record.evidence.iter().any(|one| one.evidence.showed.contains(what))
}

#[test]
fn direct_copies_are_proved_and_cleared() {
    for (conf, way, counted) in [
        ("mode=p2pdma", "direct by P2PDMA", "0 by nvidia-fs, 0 through host memory"),
        ("mode=nvfs", "direct by nvidia-fs", "0 requests by P2PDMA, "),
    ] {
        let Some(machine) = GpuMachine::new(conf) else { return };
        let content = machine.source(LENGTH);
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
        assert_eq!(machine.names(), ["source", "target"]);
        machine.mock.expect_all_undone();
    }
}

#[test]
fn any_length_and_holes_arrive_whole() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    for length in [0, 1, 4095, 4096, 4097, 65_537, (1 << 20) + 512] {
        let content = machine.source(length);
        let words = format!("copy source target --route p2p --verify full {COMMON}");
        let found = record(&machine.peerlane(&words));
        assert!(fs::read(machine.path("target")).expect("it") == content, "{length}");
        assert_eq!(found.bytes_by_route.p2p.0, length as u64);
        fs::remove_file(machine.path("target")).expect("it");
    }
    let file = fs::File::create(machine.path("source")).expect("a source");
    file.set_len(LENGTH as u64).expect("room");
    for at in [0, 3 << 20, 7 << 20] {
        file.write_all_at(&[7; 100_000], at).expect("room");
    }
    let words = format!("copy source target --route p2p --verify full {COMMON}");
    let found = record(&machine.peerlane(&words));
    assert!(found.content.holes.0 > 6 << 20, "{:?}", found.content);
    assert_eq!(found.bytes_by_route.p2p, found.content.data);
    let [source, target] = ["source", "target"].map(|name| fs::read(machine.path(name)).ok());
    assert!(source == target);
    let blocks = fs::metadata(machine.path("target")).expect("it").blocks();
    assert!(blocks * 512 < 2 << 20, "holes stay holes: {blocks}");
    machine.mock.expect_all_undone();
}

#[test]
fn only_the_range_is_copied() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    let content = machine.source(LENGTH);
    let part = "--offset 1M --length 2000001";
    let words = format!("copy source target --route p2p --verify full {part} {COMMON}");
    record(&machine.peerlane(&words));
    assert!(
        fs::read(machine.path("target")).expect("it") == content[1 << 20..(1 << 20) + 2_000_001]
    );
}

#[test]
fn fallback_is_refused_and_leaves_nothing() {
    for (conf, says) in [
        ("mode=compat", "only possible in compatibility mode, which is off"),
        ("mode=compat\nsticky=1", "keeps its compatibility mode (properties.allow_compat_mode) on"),
        ("mode=p2pdma\nno_set=1", "cuFileSetParameterBool failed"),
        ("mode=p2pdma\nlie=1", "through host memory, though its compatibility mode was off"),
        ("devices=0", "no device (100)"),
        ("mode=p2pdma\nfail_io=1", "cannot read 512 bytes at 0 of the source"),
    ] {
        let Some(machine) = GpuMachine::new(conf) else { return };
        let content = machine.source(LENGTH);
        let output = machine.peerlane(&format!("copy source target --route p2p {COMMON}"));
        assert_eq!(output.status.code(), Some(77), "{conf}: {}", said(&output));
        assert!(said(&output).contains(says), "{conf}: {}", said(&output));
        assert_eq!(machine.names(), ["source"], "{conf}");
        assert_eq!(machine.mock.calls("cuFileWrite"), 0, "{conf}");
        machine.mock.expect_no_violation();

        let found = record(&machine.peerlane(&format!("copy source target {COMMON}")));
        assert_eq!((found.route, found.bytes_by_route.host), (Route::Host, found.bytes));
        assert_eq!(found.memory.name, "host", "without a detour by the GPU");
        let fell_back =
            |one: &Warning| matches!(one, Warning::FellBack { reason } if reason.contains(says));
        assert!(found.warnings.iter().any(fell_back), "{conf}: {:?}", found.warnings);
        assert!(fs::read(machine.path("target")).expect("it") == content);
        assert_eq!(machine.mock.calls("cuFileWrite"), 0, "{conf}");
    }
}

/// Continues the copy by the command that the program printed.
fn resumed(machine: &GpuMachine, said: &str) -> CompletedCopy {
    let command = said.split('`').find(|part| part.contains("--resume"));
    let command = command.unwrap_or_else(|| panic!("no command in {said}"));
    let (_, words) = command.split_once(" copy ").expect("the program's path before it");
    record(&machine.peerlane(&format!("copy {words} --verify full --json")))
}

#[test]
fn library_failure_midway_is_resumable() {
    let Some(machine) = GpuMachine::new("mode=p2pdma\nfail_io=100") else { return };
    let content = machine.source(LENGTH);
    let output = machine.peerlane(&format!("copy source target --route p2p {COMMON}"));
    let first = said(&output);
    assert_eq!(output.status.code(), Some(2), "{first}");
    assert!(first.contains("Input/output error"), "{first}");
    assert!(!machine.path("target").exists(), "not under its name before it is complete");
    machine.mock.expect_all_undone();

    machine.mock.configure("mode=p2pdma");
    let found = resumed(&machine, &first);
    assert!(found.content.before.0 > 0, "{:?}", found.content);
    assert_eq!((found.route, found.bytes_by_route.host.0), (Route::P2p, 0));
    assert!(fs::read(machine.path("target")).expect("it") == content);
    machine.mock.expect_all_undone();
}

#[test]
fn stopped_copy_resumes_by_gpu() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    let content = machine.source(LENGTH);
    let words = format!("copy source target --route p2p --limit 1MB/s {COMMON}");
    let mut command = machine.command(&words);
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.expect("it starts");
    // Ten writes are more than the proof makes.
    while machine.mock.calls("cuFileWrite") < 10 {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "it ended before it had moved something: {ended:?}");
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("an end").exited(130);
    machine.mock.expect_all_undone();
    let found = resumed(&machine, &said(&output).replace(" --limit 1000000", ""));
    assert!(found.content.before.0 > 0, "{:?}", found.content);
    assert!(fs::read(machine.path("target")).expect("it") == content);
}

#[test]
fn fallback_midway_is_an_error() {
    for route in ["--route p2p", ""] {
        let Some(machine) = GpuMachine::new("mode=p2pdma\nlie_from=60") else { return };
        let content = machine.source(LENGTH);
        let output = machine.peerlane(&format!("copy source target {route} {COMMON}"));
        let first = said(&output);
        assert_eq!(output.status.code(), Some(2), "{first}");
        assert!(first.contains("though its compatibility mode was off"), "{first}");
        assert!(!machine.path("target").exists(), "{route}");
        let words = "copy source target --route host --resume --verify full --json";
        let found = record(&machine.peerlane(words));
        assert_eq!(found.route, Route::Host);
        assert!(fs::read(machine.path("target")).expect("it") == content);
    }
}

#[test]
fn proof_and_comparison_find_losses() {
    // The third request brings the proof's pattern into the memory, the hundredth is payload.
    for (lost, code, says) in [(3, 77, "the pattern"), (100, 1, "content of target differs")] {
        let Some(machine) = GpuMachine::new(&format!("mode=p2pdma\nlose={lost}")) else {
            return;
        };
        machine.source(LENGTH);
        let words = format!("copy source target --route p2p --verify full {COMMON}");
        let output = machine.peerlane(&words);
        assert_eq!(output.status.code(), Some(code), "{lost}: {}", said(&output));
        assert!(
            said(&output)
                .replace(&machine.folder().display().to_string(), "")
                .replace("of /target", "of target")
                .contains(says),
            "{lost}: {}",
            said(&output)
        );
        assert_eq!(machine.names(), ["source"], "{lost}");
    }
}

#[test]
fn host_memory_passes_gpu_on_request() {
    let Some(machine) = GpuMachine::new("delay=3") else { return };
    let content = machine.source(LENGTH);
    let words = format!("copy source target --route host --verify full {COMMON}");
    let found = record(&machine.peerlane(&words));
    assert!(fs::read(machine.path("target")).expect("it") == content);
    assert_eq!((found.route, found.bytes_by_route.host), (Route::Host, found.bytes));
    assert!(found.memory.name.ends_with("pinned host memory"), "{}", found.memory.name);
    assert!(showed(&found, "copied by the GPU's copy engine"), "{:?}", found.evidence);
    let pieces = LENGTH / (64 << 10);
    assert_eq!(machine.mock.calls("cuMemcpyDtoHAsync"), pieces);
    assert_eq!(machine.mock.calls("cuMemcpyHtoDAsync"), pieces);
    machine.mock.expect_all_undone();

    machine.mock.configure("delay=3\nfail_copy=40");
    machine
        .peerlane(&format!("copy source other --route host {COMMON}"))
        .exited(2)
        .says("launch failed (719)");
    assert!(!machine.path("other").exists());
}

#[test]
fn small_window_means_fewer_slots() {
    let Some(machine) = GpuMachine::new("mode=p2pdma\nno_window=200000") else { return };
    let content = machine.source(LENGTH);
    let words = format!("copy source target --route p2p {COMMON}");
    let found = record(&machine.peerlane(&words));
    assert_eq!(found.shape.slots, 2);
    let reduced = |one: &Warning| matches!(one, Warning::DepthReduced { asked: 4, slots: 2 });
    assert!(found.warnings.iter().any(reduced), "{:?}", found.warnings);
    assert!(fs::read(machine.path("target")).expect("it") == content);
    machine.mock.expect_all_undone();
}

#[test]
fn plan_shows_ways_and_opens_none() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    machine.source(LENGTH);
    for words in ["plan source target --via gpu:0", "copy source target --via gpu:0 --dry-run"] {
        let record: PlanRecord = machine.peerlane(&format!("{words} --json")).exited(0).json();
        let plan = record.only().and_then(|target| target.plan.as_ref()).expect("a plan");
        let names: Vec<&str> = plan.candidates.iter().map(|one| one.memory.name.as_str()).collect();
        let ways =
            ["cuFile, direct by P2PDMA", "cuFile, direct by nvidia-fs", "pinned host memory"];
        assert_eq!(names, ways.map(|way| format!("gpu:0 by {way}")));
        assert_eq!(plan.route, Some(Route::P2p));
    }
    let output = machine.peerlane("plan source target --via gpu:0 --explain");
    assert!(String::from_utf8_lossy(&output.stdout).contains("write into gpu:0 by cuFile"));
    assert_eq!(machine.mock.log().len(), 0, "looking loads nothing");
    assert_eq!(machine.names(), ["source"]);
}

#[test]
fn unbuilt_ways_are_refused_before_writes() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    machine.source(LENGTH);
    for (words, code, says) in [
        ("copy source one two --via gpu:0", 2, "cannot copy to 2 targets through gpu:0"),
        ("copy source gpu:0", 2, "its memory is gone when this program ends"),
        ("copy source target --via gpu:7", 2, "its GPUs are 0000:c1:00.0"),
        (
            "bench sweep source target --via gpu:0 --scratch target --routes p2p --block 64K",
            2,
            "measures both halves",
        ),
    ] {
        let output = machine.peerlane(words);
        assert_eq!(output.status.code(), Some(code), "{words}: {}", said(&output));
        assert!(said(&output).contains(says), "{words}: {}", said(&output));
        assert_eq!(machine.names(), ["source"], "{words}");
    }
    assert_eq!(machine.mock.log().len(), 0, "nothing was opened for that");
}

#[test]
fn device_keeps_bytes_behind_the_copy() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    let image = machine.path("image");
    fs::File::create(&image).and_then(|file| file.set_len(1 << 30)).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    machine.set_number("nvme1n1", fs::metadata(&device.0).expect("a node").rdev());
    let disk = fs::File::options().read(true).write(true).open(&device.0).expect("the device");
    disk.write_all_at(&[9; 4096], LENGTH as u64).expect("room");
    disk.sync_all().expect("room");
    drop(disk);
    // Its last bytes are no whole block, of which the rest is to stay.
    let content = machine.source(LENGTH + 100);
    let words = format!("copy source {} --force --verify full {COMMON}", device.typed());
    let found = record(&machine.peerlane(&words));
    assert_eq!((found.route, found.bytes_by_route.p2p.0), (Route::P2p, LENGTH as u64));
    assert_eq!(found.bytes_by_route.host.0, 100, "the tail");
    let mut there = vec![0; LENGTH + 4096];
    let disk = fs::File::open(&device.0).expect("the device");
    disk.read_exact_at(&mut there, 0).expect("all of it");
    assert!(
        there[..content.len()] == content && there[content.len()..].iter().all(|&one| one == 9)
    );
    machine.mock.expect_all_undone();

    // A failure of the route leaves the first block as it was.
    machine.mock.configure("mode=p2pdma\nlose=4");
    let other = format!(
        "copy source {} --offset 1M --length 4M --force --route p2p {COMMON}",
        device.typed()
    );
    machine.peerlane(&other).exited(77);
    disk.read_exact_at(&mut there, 0).expect("all of it");
    assert!(there[..content.len()] == content, "restored");
}

#[test]
fn hung_gpu_ends_copy_at_deadline() {
    let Some(machine) = GpuMachine::new("delay=1000000000") else { return };
    machine.source(LENGTH);
    let words = format!("copy source target --route host --timeout 1 {COMMON}");
    let output = machine.peerlane(&words).exited(2);
    output.says("the copy engine of gpu:0 by pinned host memory does not answer");
    assert_eq!(machine.mock.calls("cuMemFree"), 0, "the GPU may still write there");
    machine.mock.expect_no_violation();
}

#[test]
fn parallel_copies_each_report_their_way() {
    for conf in ["mode=p2pdma", "mode=nvfs"] {
        let Some(machine) = GpuMachine::new(conf) else { return };
        let content = machine.source(LENGTH);
        let one = |target: &str| {
            format!("[[copy]]\nsource='source'\ntarget='{target}'\nvia='gpu:0'\nroute='p2p'\n")
        };
        fs::write(machine.path("jobs.toml"), one("a") + &one("b")).expect("room");
        let output = machine.peerlane("copy --batch jobs.toml --jobs 2");
        assert_eq!(output.status.code(), Some(0), "{conf}: {}", said(&output));
        for target in ["a", "b"] {
            assert!(fs::read(machine.path(target)).expect("it") == content);
        }
        machine.mock.expect_all_undone();
    }
}

#[test]
fn trace_names_gpu_memory() {
    let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
    machine.source(LENGTH);
    record(&machine.peerlane(&format!("copy source target --trace t.json {COMMON}")));
    let trace = fs::read(machine.path("t.json")).expect("a trace");
    let name = b"gpu:0 by cuFile, direct by P2PDMA";
    assert!(trace.windows(name.len()).any(|bytes| bytes == name), "its memory is named");
}
