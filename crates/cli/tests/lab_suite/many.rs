//! One source copied to several drives in a booted machine: read once, by one memory, past guest memory.

use crate::lab::{LabRun, assert_same};
use peerlane_results::{CopyRecord, Route};

const MIB: usize = 1 << 20;
const SIZE: usize = 24 * MIB;
/// No whole number of requests, but of blocks.
const LENGTH: usize = 9 * MIB + 512;

#[test]
fn fan_out_avoids_guest_memory() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", SIZE);
    let before = [lab.fill("b", SIZE), lab.fill("c", SIZE)];
    lab.run(&format!(
        "copy both --force /dev/lab/a /dev/lab/b /dev/lab/c --route p2p --offset 1M --target-offset 2M \
         --length {LENGTH} --verify full
         leave same peerlane copy /dev/lab/a /dev/lab/b /dev/lab/b --force
         leave itself peerlane copy /dev/lab/a /dev/lab/b /dev/lab/a --force"
    ));
    assert_eq!(lab.status("both"), 0, "{}", lab.stderr("both"));
    let record: CopyRecord =
        serde_json::from_str(&lab.text("both.json")).expect("a record of several");
    assert_eq!(record.jobs[0].read.0, LENGTH as u64);
    for (_, target) in record.outcomes() {
        let record = target.copied.as_ref().expect("a complete target");
        assert_eq!((record.route, record.bytes.0), (Route::P2p, LENGTH as u64));
        assert_eq!(record.bytes_by_route.p2p.0, LENGTH as u64);
        assert_eq!(
            (record.verification.bytes.0, record.verification.mismatches),
            (LENGTH as u64, 0)
        );
        assert!(
            record.evidence.iter().any(|one| one.evidence.showed.contains("arrived unchanged"))
        );
    }
    for (drive, mut expected) in ["b", "c"].into_iter().zip(before) {
        expected[2 * MIB..2 * MIB + LENGTH].copy_from_slice(&source[MIB..MIB + LENGTH]);
        assert_same(drive, &lab.content(drive), &expected);
    }
    assert_same("source", &lab.content("a"), &source);

    // Read once and written twice, none of it by guest memory.
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0);
    assert_eq!(lab.dma("payload_bytes_p2p"), 3 * LENGTH as u64);
    let report = lab.report();
    let moved = |drive: &str, operation: &str| -> u64 {
        let transfers = report["transfers"].as_array().expect("transfers").iter();
        let own = transfers.filter(|one| {
            one["drive"] == drive && one["operation"] == operation && one["phase"] == "move"
        });
        own.map(|one| one["bytes"].as_u64().expect("bytes")).sum()
    };
    for (drive, operation, bytes) in
        [("a", "read", LENGTH), ("a", "write", 0), ("b", "write", LENGTH), ("c", "write", LENGTH)]
    {
        assert_eq!(moved(drive, operation), bytes as u64, "{drive} {operation}: {report}");
    }

    assert_eq!(lab.status("same"), 2);
    assert!(lab.stderr("same").contains("two targets overlap on"), "{}", lab.stderr("same"));
    assert_eq!(lab.status("itself"), 2);
    assert!(lab.stderr("itself").contains("source and target overlap on"));
}
