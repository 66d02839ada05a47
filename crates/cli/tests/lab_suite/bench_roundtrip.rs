//! A drive against the memory of another in a booted machine, out and back, and the drive alone;
//! each in a boot of its own, so the recorder's total is of one route.

use crate::bench_records::{payload, shown};
use crate::lab;
use crate::lab::LabRun;

const MIB: usize = 1 << 20;

/// Writes and reads 4 MiB of a drive twice by this route, and returns the payload moved between
/// devices and with guest memory.
fn roundtrip(lab: &mut LabRun, name: &str, route: &str) -> (u64, u64) {
    let before = lab.fill("a", 24 * MIB);
    lab.run(&format!(
        "leave {name} peerlane bench roundtrip /dev/lab/a --via cmb:c --routes {route} --block 256K \
         --length 4M --offset 8M --depth 4 --warm-up 0 --repeats 2 --scratch /dev/lab/a --force --json"
    ));
    let [found] = shown(lab, [name]);
    assert_eq!((found.asked.cases.len(), found.cases.len()), (2, 4));
    let is_written = |one: &&_| -> bool {
        let one: &peerlane_results::CaseRecord = one;
        one.asked.flows[0].target == "/dev/lab/a"
    };
    let written: u64 = found.cases.iter().filter(is_written).map(|run| run.bytes.0).sum();
    assert_eq!((written, payload(&found)), (8 * MIB as u64, 16 * MIB as u64));
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0, "{}", lab.report());
    let after = lab.content("a");
    lab::assert_same("before the range", &after[..8 * MIB], &before[..8 * MIB]);
    lab::assert_same("behind the range", &after[12 * MIB..], &before[12 * MIB..]);
    (lab.dma("payload_bytes_p2p"), lab.dma("payload_bytes_guest_memory"))
}

#[test]
fn roundtrip_crosses_device_memory_twice() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let moved = roundtrip(&mut lab, "roundtrip", "p2p");
    assert_eq!(moved, (16 * MIB as u64, 0), "{}", lab.report());
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn drive_alone_crosses_guest_memory_twice() {
        let Some(mut lab) = LabRun::open("pair") else { return };
        let moved = roundtrip(&mut lab, "alone", "host");
        assert_eq!(moved, (0, 16 * MIB as u64), "{}", lab.report());
    }
}
