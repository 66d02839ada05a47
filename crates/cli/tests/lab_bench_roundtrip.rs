//! A drive against the memory of another in a booted machine, out and back, beside the drive alone.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod bench_records;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod lab;

use bench_records::record;
use lab::Lab;

const MIB: usize = 1 << 20;

#[test]
fn a_roundtrip_crosses_device_memory_once_each_way() {
    let Some(mut lab) = Lab::open("pair") else { return };
    let before = lab.fill("a", 24 * MIB);
    lab.run(
        "leave roundtrip peerlane bench roundtrip /dev/lab/a --via cmb:c --block 256K --length 4M \
         --offset 8M --depth 4 --warm-up 0 --repeats 2 --scratch /dev/lab/a --json",
    );
    let found = record(&lab, "roundtrip");
    assert_eq!((found.asked.cases.len(), found.cases.len()), (4, 8));
    let of = |device: bool, written: bool| -> u64 {
        let runs = found.cases.iter().filter(|run| {
            (run.bytes_by_route.p2p == run.bytes) == device
                && (run.asked.flows[0].target == "/dev/lab/a") == written
        });
        runs.map(|run| run.bytes.0).sum()
    };
    for (device, written) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(of(device, written), 8 * MIB as u64, "{device} {written}");
    }
    assert_eq!(lab.dma("payload_bytes_p2p"), of(true, true) + of(true, false), "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_guest_memory"), of(false, true) + of(false, false));
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    let after = lab.content("a");
    lab::assert_same("before the range", &after[..8 * MIB], &before[..8 * MIB]);
    lab::assert_same("behind the range", &after[12 * MIB..], &before[12 * MIB..]);
}
