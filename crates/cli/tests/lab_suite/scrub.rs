//! Content of a drive's memory for its next user after a copy, in booted machines.
//!
//! The whole pool is written to a drive as its next user would find it, and searched on the host
//! for runs of the copied data. Without the scrub they are there, which shows that the search
//! works.

use std::collections::HashSet;

use crate::lab::{LabRun, assert_same};
use peerlane_results::{Route, Warning};

const MIB: usize = 1 << 20;
const SIZE: usize = 24 * MIB;
/// The memory that drive c lends, and the drive itself.
const POOL: usize = 64 * MIB;

/// Bytes of a run that chance does not make; copied data lies at multiples of it.
const RUN: usize = 16;

/// Writes the whole pool to drive c.
const LEFTOVERS: &str = "
free() { cat /sys/bus/pci/devices/*/p2pmem/available; }
leftovers() {
    free >$OUT/free
    address=$(basename $(dirname $(ls -d /sys/bus/pci/devices/*/p2pmem)))
    leave leftovers peerlane lab leftovers $address /dev/lab/c
}
";

/// Runs of any of the data in the content found.
fn runs(data: &[&[u8]], found: &[u8]) -> usize {
    let runs: HashSet<&[u8]> = data.iter().flat_map(|data| data.chunks_exact(RUN)).collect();
    found.chunks_exact(RUN).filter(|run| runs.contains(run)).count()
}

/// A machine after one copy: its drives a and b as they were, and the runs left in the memory.
struct After {
    lab: LabRun,
    source: Vec<u8>,
    target: Vec<u8>,
    /// Runs of either in the memory.
    left: usize,
}

/// Runs a script that copies from a to b, and looks at the memory of c.
fn after(machine: &'static str, script: &str) -> Option<After> {
    let mut lab = LabRun::open(machine)?;
    let [source, target, filler] =
        [("a", SIZE), ("b", SIZE), ("c", POOL)].map(|(drive, size)| lab.fill(drive, size));
    lab.run(&format!("{LEFTOVERS}\n{script}\nleftovers"));
    assert_eq!(lab.status("leftovers"), 0, "{}", lab.stderr("leftovers"));
    let free: usize = lab.text("free").trim().parse().expect("a number of bytes");
    let found = lab.content("c");
    assert!(free > POOL / 2, "only {free} bytes of memory were free");
    let rest = found[..free].chunks_exact(RUN).zip(filler.chunks_exact(RUN));
    assert!(rest.into_iter().all(|(found, before)| found != before), "nothing was written");
    let left = runs(&[&source, &target], &found[..free]);
    Some(After { lab, source, target, left })
}

#[test]
fn uncleared_memory_holds_the_copy() {
    let script = "copy left --force /dev/lab/a /dev/lab/b --route p2p --length 8M --scrub never";
    let Some(after) = after("pair", script) else { return };
    let record = after.lab.record("left");
    assert_eq!((record.route, record.scrubbed.bytes.0), (Route::P2p, 0));
    assert_eq!(record.scrubbed.reason, "`--scrub never`");
    // Slots are used again, so that not all of the copy is left: one whole request at least.
    assert!(after.left >= MIB / RUN, "{} runs were found", after.left);
}

#[test]
fn next_user_reads_nothing() {
    let script = "copy cleared --force /dev/lab/a /dev/lab/b --route p2p --length 8M --verify full";
    let Some(after) = after("pair", script) else { return };
    let record = after.lab.record("cleared");
    assert_eq!((record.route, record.scrubbed.bytes), (Route::P2p, record.shape.memory));
    assert!(!record.warnings.iter().any(|one| matches!(one, Warning::NotScrubbed { .. })));
    assert_eq!(after.left, 0, "runs of the copy in the memory");
    let mut expected = after.target;
    expected[..8 * MIB].copy_from_slice(&after.source[..8 * MIB]);
    assert_same("target", &after.lab.content("b"), &expected);
    assert_eq!(after.lab.dma("payload_bytes_guest_memory"), 0);
}

#[test]
fn stopped_copy_clears_memory_and_resumes() {
    let script = "
         stat=/sys/class/block/$(basename $(readlink -f /dev/lab/b))/stat
         written() { set -- $(cat $stat); echo $7; }
         start=$(written)
         copy stopped --force /dev/lab/a /dev/lab/b --route p2p --limit 4M &
         until [ $(($(written) - start)) -gt 8192 ]; do :; done
         killall -TERM peerlane
         wait";
    let Some(after) = after("throttled", script) else { return };
    assert_eq!(after.lab.status("stopped"), 130, "{}", after.lab.stderr("stopped"));
    assert!(!after.lab.stderr("stopped").contains("not cleared"));
    assert_eq!(after.left, 0, "runs of the copy in the memory");
    let found = after.lab.content("b");
    assert!(found[..3 * MIB] == after.source[..3 * MIB], "what was borrowed was not put back");
    assert!(found[SIZE - MIB..] == after.target[SIZE - MIB..], "the copy came to its end");
}

#[test]
fn file_is_whole_after_borrowed_blocks() {
    let script = "
         mke2fs /dev/lab/b >/dev/null && mkdir /b && mount -t ext4 /dev/lab/b /b
         copy file /dev/lab/a /b/file --route p2p --length 5000000
         leave equal sh -c 'head -c 5000000 /dev/lab/a | cmp - /b/file'
         umount /b";
    let Some(after) = after("pair", script) else { return };
    let record = after.lab.record("file");
    assert_eq!((record.route, record.scrubbed.bytes), (Route::P2p, record.shape.memory));
    assert_eq!(after.lab.status("equal"), 0, "{}", after.lab.text("equal.json"));
    assert_eq!(after.left, 0, "runs of the copy in the memory");
}
