//! Ten drives in a booted machine: every ordered pair, crowds, and four drives against one memory.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod bench_records;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod lab;

use bench_records::{payload, record};
use lab::Lab;

const KIB: u64 = 1 << 10;
const DRIVES: [&str; 10] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"];

#[test]
fn every_pair_a_crowd_and_a_stream_of_ten_drives_pass_guest_memory_by() {
    let Some(lab) = Lab::open("ten") else { return };
    let named = |prefix: &str, drives: &[&str]| -> String {
        drives.iter().map(|drive| format!(" {prefix}/dev/lab/{drive}")).collect()
    };
    let (all, scratch) = (named("", &DRIVES), named("--scratch ", &DRIVES));
    let four = named("--source ", &DRIVES[1..5]);
    let common = "--warm-up 0 --json";
    lab.run(&format!(
        "leave matrix peerlane bench matrix{all} --block 128K --depth 2 --length 512K --repeats 1 \
           {scratch} {common}
         leave crowd peerlane bench crowd{all} --pattern permutation --routes p2p --block 128K \
           --depth 2 --length 512K --repeats 1 {scratch} {common}
         leave incast peerlane bench crowd{} --pattern incast --routes p2p --block 128K --depth 2 \
           --length 512K --repeats 1 {scratch} {common}
         leave stream peerlane bench stream{four} --target cmb:d0 --block 128K --depth 4 \
           --length 2M --repeats 2 --random {common}
         leave back peerlane bench stream --source cmb:d0{} --block 128K --depth 4 --length 2M \
           --offset 8M --repeats 2 {scratch} {common}",
        named("", &DRIVES[..4]),
        named("--target ", &DRIVES[1..5]),
    ));
    let matrix = record(&lab, "matrix");
    assert_eq!((matrix.cases.len(), payload(&matrix)), (90, 90 * 512 * KIB));
    let crowd = record(&lab, "crowd");
    assert_eq!(crowd.cases.iter().map(|run| run.flows.len()).max(), Some(10));
    let incast = record(&lab, "incast");
    assert_eq!((incast.cases.len(), payload(&incast)), (3, (1 + 2 + 3) * 512 * KIB));
    let (stream, back) = (record(&lab, "stream"), record(&lab, "back"));
    for one in [&stream, &back] {
        assert_eq!((one.cases.len(), payload(one)), (2, 2 * 4 * 2048 * KIB));
        assert!(one.cases.iter().all(|run| run.flows.len() == 4));
        assert!(one.cases.iter().all(|run| run.bytes_by_route.p2p == run.bytes));
    }
    assert!(
        back.cases.iter().all(|run| run.verification.is_some_and(|one| one.bytes == run.bytes))
    );

    // A copy is two DMAs, a stream one; none of them with guest memory.
    let expected = 2 * (payload(&matrix) + payload(&crowd) + payload(&incast))
        + payload(&stream)
        + payload(&back);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(lab.dma("payload_bytes_p2p"), expected);
}
