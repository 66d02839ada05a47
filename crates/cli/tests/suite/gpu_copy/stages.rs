//! Stages on chunks in memory of a GPU: kernels of users and digests, compiled by the mock of NVRTC.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use peerlane_engine::stages::manifest::{Manifest, hex};
use peerlane_results::{CompletedCopy, Route, VerifyMode, Warning};
use rustix::process::{Pid, Signal, kill_process};
use twox_hash::XxHash3_128;

use super::machine::GpuMachine;
use super::{COMMON, LENGTH, record, resumed};
use crate::mock::CHUNK_KERNELS;
use crate::program::{Exited, said};
use peerlane_testing::Loop;

const CHUNK: usize = 64 << 10;
/// Whole chunks, and one that is not a whole block.
const ODD: usize = LENGTH + 5001;
const INVERT: &str = "cuda:tools/kernels.cu:invert";
/// Inverts its standard input, which is a chunk of the copy.
const TWIN: &str = "
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    if (count != 2 || strtoull(words[1], 0, 10) % 65536) return 1;
    for (int byte; (byte = getchar()) != EOF;) putchar(byte ^ MASK);
    return 0;
}
";

/// A machine with kernels, a twin of `invert` and another program, below `tools`.
fn machine(conf: &str) -> Option<GpuMachine> {
    let machine = GpuMachine::new(conf)?;
    let tools = machine.path("tools");
    fs::create_dir(&tools).expect("room");
    fs::write(tools.join("kernels.cu"), CHUNK_KERNELS).expect("room");
    fs::write(tools.join("twin.c"), TWIN).expect("room");
    for (name, mask) in [("twin", 255), ("other", 254)] {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o", name, "twin.c"]).arg(format!("-DMASK={mask}")).current_dir(&tools);
        cc.output().expect("cc").exited(0);
    }
    Some(machine)
}

fn copy(machine: &GpuMachine, words: &str) -> Output {
    machine.peerlane(&format!("copy source target {words} {COMMON}"))
}

fn target(machine: &GpuMachine) -> Vec<u8> {
    fs::read(machine.path("target")).expect("a target")
}

fn inverted(content: &[u8]) -> Vec<u8> {
    content.iter().map(|byte| !byte).collect()
}

fn is_not_comparable(record: &CompletedCopy) -> bool {
    record.warnings.iter().any(|one| matches!(one, Warning::NotComparable { .. }))
}

/// Offset and length of each chunk.
fn grid(length: usize) -> Vec<(u64, u64)> {
    (0..length).step_by(CHUNK).map(|at| (at as u64, CHUNK.min(length - at) as u64)).collect()
}

/// A line of the mock's log on device memory.
#[derive(Debug, Clone, Copy)]
struct MockStep<'a> {
    verb: &'a str,
    begins: bool,
    address: &'a str,
    bytes: u64,
    /// The offset in the file of a read or write, else the stream.
    number: u64,
}

impl<'a> MockStep<'a> {
    fn from_line(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (verb, edge) = (words.next()?, words.next()?);
        let begins = edge == "begins";
        if !["read", "write", "load", "store", "kernel"].contains(&verb) {
            return None;
        }
        let address = words.nth(1)?;
        let mut number =
            |skip| words.nth(skip).and_then(|word| word.trim_end_matches(',').parse().ok());
        let (bytes, number) = (number(1).unwrap_or(0), number(0).unwrap_or(0));
        Some(Self { verb, begins, address, bytes, number })
    }
}

/// Asserts that each chunk was brought into its slot, worked on by `kernels` one after the other, and then taken out.
#[track_caller]
fn expect_order(machine: &GpuMachine, length: usize, kernels: usize, [fill, drain]: [&str; 2]) {
    let log = machine.mock.log();
    let steps: Vec<MockStep<'_>> =
        log.iter().filter_map(|line| MockStep::from_line(line)).collect();
    // What happened to each slot, in turns that begin with a fill; proofs and zeroes have no kernel.
    let mut slots: BTreeMap<&str, Vec<Vec<MockStep<'_>>>> = BTreeMap::new();
    for step in &steps {
        let turns = slots.entry(step.address).or_default();
        if step.begins && ["read", "load"].contains(&step.verb) {
            turns.push(Vec::new());
        }
        if let Some(turn) = turns.last_mut() {
            turn.push(*step);
        }
    }
    let has_kernel = |turn: &&Vec<MockStep<'_>>| turn.iter().any(|step| step.verb == "kernel");
    let turns: Vec<&Vec<MockStep<'_>>> = slots.values().flatten().filter(has_kernel).collect();
    let verbs = [&[fill][..], &vec!["kernel"; kernels], &[drain]].concat();
    let expected: Vec<(&str, bool)> =
        verbs.into_iter().flat_map(|verb| [(verb, true), (verb, false)]).collect();
    let mut lengths = Vec::new();
    for turn in &turns {
        let found: Vec<(&str, bool)> = turn.iter().map(|step| (step.verb, step.begins)).collect();
        assert_eq!(found, expected, "{turn:?}");
        lengths.push(turn[2].bytes);
        if fill == "read" {
            assert_eq!(turn[0].number, turn[turn.len() - 2].number, "the offset is kept");
        }
    }
    let mut offsets: Vec<u64> = turns.iter().map(|turn| turn[0].number).collect();
    offsets.sort_unstable();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let (starts, chunks): (Vec<u64>, Vec<u64>) = grid(length).into_iter().unzip();
    assert_eq!(lengths, chunks);
    assert!(fill != "read" || offsets == starts, "{offsets:?}");
    slots.retain(|_, turns| !turns.is_empty());
    expect_own_streams(&log, &slots.keys().copied().collect(), kernels);
}

/// Asserts that kernels share streams neither with each other nor with copies of payload, that an event follows each
/// kernel, and that no stage has more streams than there are slots: how many it has at once is chance.
#[track_caller]
fn expect_own_streams(log: &[String], slots: &BTreeSet<&str>, stages: usize) {
    let (mut open, mut copies, mut kernels) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for (at, line) in log.iter().enumerate() {
        let Some(step) = MockStep::from_line(line) else { continue };
        match (step.verb, step.begins) {
            ("load" | "store", true) if slots.contains(step.address) => {
                copies.insert(step.number);
            }
            ("kernel", true) => {
                kernels.insert(step.number);
                assert!(!open.values().any(|stream| *stream == step.number), "{line}");
                open.insert(step.address, step.number);
                let event = log[at..].iter().find(|line| line.starts_with("cuEventRecord in"));
                assert_eq!(event, Some(&format!("cuEventRecord in {}", step.number)));
            }
            ("kernel", false) => drop(open.remove(step.address)),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let most = stages * slots.len();
    assert!(kernels.len() <= most && kernels.is_disjoint(&copies), "{kernels:?} {copies:?}");
}

#[test]
fn kernel_works_between_read_and_write() {
    for (conf, route, steps) in [
        ("mode=p2pdma", Route::P2p, ["read", "write"]),
        ("delay=3", Route::Host, ["load", "store"]),
    ] {
        let Some(machine) = machine(conf) else { return };
        let content = machine.source(ODD);
        let words = format!("--route {route} --stage {INVERT}");
        let checks = "--stage-twin tools/twin --verify full";
        let found = record(&copy(&machine, &format!("{words} {checks}")));
        assert!(target(&machine) == inverted(&content), "{conf}");
        assert_eq!(found.route, route);
        let [stage] = found.stages.as_slice() else { panic!("{:?}", found.stages) };
        let account = (stage.stage.as_str(), stage.chunks, stage.bytes);
        assert_eq!(account, (INVERT, grid(ODD).len() as u64, found.bytes));
        assert_eq!(found.bytes.0, ODD as u64);
        assert!(stage.busy_ns.0 > 0 && stage.root.is_none());
        let checked = (found.verification.mode, found.verification.bytes);
        assert_eq!(checked, (VerifyMode::Full, found.bytes));
        assert!(!is_not_comparable(&found), "{:?}", found.warnings);
        assert_eq!(machine.names(), ["source", "target", "tools"]);
        expect_order(&machine, ODD, 1, steps);
        machine.mock.expect_all_undone();
    }
}

#[test]
fn twin_alone_makes_content_comparable() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    machine.source(ODD);
    let found = record(&copy(&machine, &format!("--stage {INVERT} --verify full")));
    assert!(is_not_comparable(&found), "{:?}", found.warnings);
    assert_eq!((found.verification.mode, found.verification.bytes.0), (VerifyMode::None, 0));
    fs::remove_file(machine.path("target")).expect("a target");
    // A twin that does something else finds the difference.
    copy(&machine, &format!("--stage {INVERT} --stage-twin tools/other")).exited(1).says("differs");
    assert_eq!(machine.names(), ["source", "tools"]);
    machine.mock.expect_all_undone();
}

/// Asserts that a manifest has the digest of each chunk of `content`, and that the record has its root.
#[track_caller]
fn expect_digests(machine: &GpuMachine, found: &CompletedCopy, manifest: &str, content: &[u8]) {
    let read = Manifest::read(&machine.path(manifest)).expect("a manifest");
    let of_chunk = |(number, chunk): (usize, &[u8])| {
        ((number * CHUNK) as u64, chunk.len() as u64, XxHash3_128::oneshot(chunk))
    };
    let expected: Vec<_> = content.chunks(CHUNK).enumerate().map(of_chunk).collect();
    let chunks: Vec<_> =
        read.chunks.iter().map(|one| (one.offset, one.length, one.digest)).collect();
    assert!(chunks == expected, "{manifest}");
    let stage = found.stages.iter().find(|one| one.stage == "digest").expect("its account");
    assert_eq!((&stage.root, &stage.no_root), (&Some(hex(read.root)), &None));
}

#[test]
fn digests_follow_their_stage_position() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    let content = machine.source(ODD);
    let other = inverted(&content);
    for (manifest, stages, digested, expected) in [
        ("plain", "--stage digest".to_owned(), &content, &content),
        ("before", format!("--stage digest --stage {INVERT}"), &content, &other),
        ("after", format!("--stage {INVERT} --stage digest"), &other, &other),
        ("twice", format!("--stage {INVERT} --stage digest --stage {INVERT}"), &other, &content),
    ] {
        fs::write(machine.mock.library().with_extension("1.log"), "").expect("an empty log");
        let found = record(&copy(&machine, &format!("{stages} --manifest {manifest}")));
        assert!(target(&machine) == *expected, "{manifest}");
        expect_digests(&machine, &found, manifest, digested);
        let kernels = found.stages.len();
        let typed: Vec<&str> = found.stages.iter().map(|one| one.stage.as_str()).collect();
        assert_eq!(
            typed,
            stages
                .split(" --stage ")
                .map(|one| one.trim_start_matches("--stage "))
                .collect::<Vec<_>>()
        );
        expect_order(&machine, ODD, kernels, ["read", "write"]);
        machine.mock.expect_all_undone();
        fs::remove_file(machine.path("target")).expect("a target");
    }
    assert_eq!(machine.names(), ["after", "before", "plain", "source", "tools", "twice"]);
}

#[test]
fn stages_see_holes_as_zeroes() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    let source = fs::File::create(machine.path("source")).expect("a source");
    source.set_len(ODD as u64).expect("room");
    for at in [0, 3 << 20] {
        source.write_all_at(&[7; 100_000], at).expect("room");
    }
    drop(source);
    let content = fs::read(machine.path("source")).expect("a source");
    let digest = "--verify full --stage digest --manifest digests";
    for stages in [digest, &format!("--stage {INVERT}")] {
        // cuFile reads the holes of a chunk through host memory.
        copy(&machine, &format!("--route p2p {stages}"))
            .exited(77)
            .says("hint: stages work on whole chunks");
        assert_eq!(machine.names(), ["source", "tools"]);
    }
    let found = record(&copy(&machine, &format!("--route host {digest}")));
    assert!(found.content.holes.0 > 6 << 20 && target(&machine) == content);
    expect_digests(&machine, &found, "digests", &content);
    fs::remove_file(machine.path("target")).expect("a target");
    // Falls back to host memory behind which the GPU is.
    let found = record(&copy(&machine, &format!("--stage {INVERT}")));
    assert!(found.warnings.iter().any(|one| matches!(one, Warning::FellBack { .. })));
    assert_eq!((found.route, found.content.holes.0), (Route::Host, 0));
    assert_eq!(found.stages[0].bytes, found.bytes);
    assert!(target(&machine) == inverted(&content));
    machine.mock.expect_all_undone();

    machine.mock.configure("mode=p2pdma\nversion=1180");
    fs::remove_file(machine.path("target")).expect("a target");
    fs::remove_file(machine.path("digests")).expect("a manifest");
    let found = record(&copy(&machine, &format!("--route p2p {digest}")));
    assert!(found.content.holes.0 > 6 << 20 && target(&machine) == content);
    expect_digests(&machine, &found, "digests", &content);
}

#[test]
fn kernel_keeps_bytes_behind_copy() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    let image = machine.path("image");
    fs::File::create(&image).and_then(|file| file.set_len(1 << 30)).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    machine.set_number("nvme1n1", fs::metadata(&device.0).expect("a node").rdev());
    let disk = fs::File::options().read(true).write(true).open(&device.0).expect("the device");
    disk.write_all_at(&[9; 16 << 10], LENGTH as u64).expect("room");
    disk.sync_all().expect("room");
    let content = machine.source(ODD);
    let words = format!("copy source {} --force --stage {INVERT} {COMMON}", device.typed());
    // The last bytes would be merged in host memory, where the kernel is not.
    let output = machine.peerlane(&words).exited(2);
    let length = ODD / 512 * 512;
    output.says(&format!("`--length {length}`"));
    record(&machine.peerlane(&format!("{words} --length {length}")));
    let mut there = vec![0; length + 4096];
    disk.read_exact_at(&mut there, 0).expect("all of it");
    assert!(there[..length] == inverted(&content[..length]));
    assert!(there[length..].iter().all(|&byte| byte == 9));
    machine.mock.expect_all_undone();
}

#[test]
fn failed_kernel_leaves_nothing() {
    for (kernel, words) in
        [("fails", "cuEventQuery"), ("never", "to the request to work on the chunk at ")]
    {
        for route in ["p2p", "host"] {
            let Some(machine) = machine("mode=p2pdma") else { return };
            machine.source(LENGTH);
            let stage = format!("cuda:tools/kernels.cu:{kernel}");
            let stages = format!("--stage {stage} --stage digest --manifest digests");
            let output = copy(&machine, &format!("--route {route} --timeout 1 {stages}"));
            let says = said(&output);
            assert_eq!(output.status.code(), Some(2), "{route}: {says}");
            assert!(says.contains(&format!("stage {stage} failed")), "{route}: {says}");
            assert!(says.contains(words), "{route}: {says}");
            assert_eq!(machine.names(), ["source", "tools"], "{route} {kernel}");
            assert_eq!(machine.mock.calls("cuMemFree"), 0, "a kernel may still work there");
            machine.mock.expect_no_violation();
        }
    }
}

#[test]
fn kernels_want_memory_of_a_gpu() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    machine.source(LENGTH);
    machine
        .peerlane(&format!("copy source target --stage {INVERT}"))
        .exited(2)
        .says("hint: `--via gpu:0`");
    assert_eq!(
        (machine.names(), machine.mock.log().len()),
        (vec!["source".into(), "tools".into()], 0)
    );
}

/// Starts a slow copy, and stops it by a signal once some chunks were written.
fn interrupted(machine: &GpuMachine, words: &str) -> Output {
    let mut command =
        machine.command(&format!("copy source target {words} {COMMON} --limit 1MB/s"));
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.expect("it starts");
    while machine.mock.calls("cuFileWrite") < 20 {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "it ended before it had moved something: {ended:?}");
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    child.wait_with_output().expect("an end")
}

#[test]
fn interrupted_copy_needs_same_stages() {
    let Some(machine) = machine("mode=p2pdma") else { return };
    let content = machine.source(ODD);
    let stages = format!("--stage digest --manifest digests --stage {INVERT}");
    let stopped = interrupted(&machine, &format!("{stages} --stage-twin tools/twin")).exited(130);
    assert!(machine.path("digests.part").exists() && !machine.path("digests").exists());
    machine.mock.expect_all_undone();
    let left = machine.names();

    for others in ["--stage digest --manifest digests", ""] {
        let output = copy(&machine, &format!("{others} --resume"));
        assert_eq!(output.status.code(), Some(2), "{others}: {}", said(&output));
        output.says("the stages were digest, cuda:");
        assert_eq!(machine.names(), left, "{others}");
    }
    // The same words with another source of the kernel are other stages.
    let kernels = machine.path("tools/kernels.cu");
    fs::write(&kernels, CHUNK_KERNELS.replace('~', "1 + ~")).expect("room");
    copy(&machine, &format!("{stages} --resume")).exited(2).says("the stages were");
    fs::write(&kernels, CHUNK_KERNELS).expect("room");

    let found = resumed(&machine, &said(&stopped).replace(" --limit 1000000", ""));
    assert!(found.content.before.0 > 0, "{:?}", found.content);
    assert_eq!(found.stages[1].bytes.0 + found.content.before.0, ODD as u64);
    assert!(target(&machine) == inverted(&content));
    assert_eq!(found.verification.mode, VerifyMode::Full);
    expect_digests(&machine, &found, "digests", &content);
    assert_eq!(machine.names(), ["digests", "source", "target", "tools"]);
    machine.mock.expect_all_undone();
}

#[test]
fn failed_launch_is_resumable() {
    let Some(machine) = machine("mode=p2pdma\nfail_launch=60") else { return };
    let content = machine.source(ODD);
    let stages = format!("--stage {INVERT} --stage digest --manifest digests");
    let output = copy(&machine, &stages).exited(2);
    output.says("failed: cuLaunchKernel");
    assert!(!machine.path("target").exists() && machine.path("digests.part").exists());
    machine.mock.expect_all_undone();
    machine.mock.configure("mode=p2pdma");
    let found = resumed(&machine, &said(&output));
    assert!(found.content.before.0 > 0, "{:?}", found.content);
    assert!(target(&machine) == inverted(&content));
    expect_digests(&machine, &found, "digests", &inverted(&content));
}
