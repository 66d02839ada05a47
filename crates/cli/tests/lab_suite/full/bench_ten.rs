//! Ten drives in a booted machine: every ordered pair, crowds, and four drives against one memory.

use crate::bench_records::{payload, shown};
use crate::lab::LabRun;
use peerlane_results::{CaseRecord, Warning};

const KIB: u64 = 1 << 10;
const DRIVES: [&str; 10] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"];

/// Words for each drive.
fn named(prefix: &str, drives: &[&str]) -> String {
    drives.iter().map(|drive| format!(" {prefix}/dev/lab/{drive}")).collect()
}

/// Drives of two switches; all ten in long runs, whose 90 pairs take minutes.
fn matrix_drives() -> &'static [&'static str] {
    let is_long = |name| std::env::var_os(name).is_some();
    if is_long("PEERLANE_FULL") || is_long("PEERLANE_BENCH_RECORDS") {
        &DRIVES
    } else {
        &DRIVES[3..7]
    }
}

#[test]
fn ten_drive_matrix_avoids_guest_memory() {
    let Some(lab) = LabRun::open("ten") else { return };
    let drives = matrix_drives();
    let pairs = drives.len() * (drives.len() - 1);
    let (all, scratch) = (named("", drives), named("--scratch ", drives));
    lab.run(&format!(
        "leave matrix peerlane bench matrix{all} --block 128K --depth 2 --length 256K --repeats 1 \
           --warm-up 0 --json{scratch}"
    ));
    let [matrix] = shown(&lab, ["matrix"]);
    assert_eq!((matrix.cases.len(), payload(&matrix)), (pairs, pairs as u64 * 256 * KIB));
    let tested: Vec<&str> = matrix.effects.iter().map(|one| one.place.as_str()).collect();
    assert_eq!(tested, ["source", "target", "switch"]);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(lab.dma("payload_bytes_p2p"), 2 * payload(&matrix));
}

#[test]
fn crowd_and_stream_avoid_guest_memory() {
    // Older ones join reads into memories of two drives to one command, which the emulated drive refuses.
    let Some(lab) = LabRun::open("ten").and_then(LabRun::on_newer_kernel) else { return };
    let scratch = named("--scratch ", &DRIVES[..5]);
    let common = "--block 128K --depth 4 --warm-up 0 --json";
    lab.run(&format!(
        "leave crowd peerlane bench crowd{} --pattern permutation --routes p2p --length 512K \
           --repeats 2{scratch} {common}
         leave incast peerlane bench crowd{} --pattern incast --routes p2p --length 512K \
           --repeats 1{scratch} {common}
         leave stream peerlane bench stream{} --target cmb:d0 --length 2M --repeats 2 --random {common}
         leave back peerlane bench stream --source cmb:d0{} --length 2M --offset 8M \
           --repeats 2{scratch} {common}",
        named("", &DRIVES[..4]),
        named("", &DRIVES[..4]),
        named("--source ", &DRIVES[1..5]),
        named("--target ", &DRIVES[1..5]),
    ));
    let [crowd, incast, stream, back] = shown(&lab, ["crowd", "incast", "stream", "back"]);
    assert_eq!((crowd.cases.len(), payload(&crowd)), (8, 2 * (1 + 2 + 3 + 4) * 512 * KIB));
    assert_eq!(crowd.cases.iter().map(|run| run.flows.len()).max(), Some(4));
    assert_eq!((incast.cases.len(), payload(&incast)), (3, (1 + 2 + 3) * 512 * KIB));
    let is_warned = |one: &Warning| matches!(one, Warning::MemoryNotChecked { .. });
    assert!(stream.cases.iter().all(|run| run.warnings.iter().any(is_warned)));
    for one in [&stream, &back] {
        assert_eq!((one.cases.len(), payload(one)), (2, 2 * 4 * 2048 * KIB));
        assert!(one.cases.iter().all(|run| run.flows.len() == 4));
        assert!(one.cases.iter().all(|run| run.bytes_by_route.p2p == run.bytes));
    }
    let is_checked = |run: &CaseRecord| run.verification.is_some_and(|one| one.bytes == run.bytes);
    assert!(back.cases.iter().all(is_checked));

    // A copy is two DMAs, a stream one; none of them with guest memory.
    let expected = 2 * (payload(&crowd) + payload(&incast)) + payload(&stream) + payload(&back);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(lab.dma("payload_bytes_p2p"), expected);
}
