//! Copies with a stage in a booted machine: a process outside of it inverts chunks in the memory of a card.

use crate::card::{MEMORY, MIB, open};
use crate::lab::{LabRun, assert_same};
use crate::perfetto;
use peerlane_results::{CompletedCopy, Route, VerifyMode, Warning};

const STAGE: &str = "--stage outside:/dev/virtio-ports/peerlane.worker.card";
const WAY: &str = "--route p2p --via p2pmem:/dev/lab/card --block 256K --depth 32";

/// Writes `/tmp/twin`, a filter that inverts every byte.
fn twin() -> String {
    let inverted: String = (0..=255_u8).rev().map(|byte| format!("\\{byte:03o}")).collect();
    format!(
        "printf '#!/bin/sh\\nexec tr \"\\\\000-\\\\377\" \"%s\"\\n' '{inverted}' >/tmp/twin; chmod +x /tmp/twin"
    )
}

fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Drives, the card and its inverter.
fn open_with(environment: &[(&'static str, &'static str)]) -> Option<(LabRun, Vec<u8>)> {
    let mut lab = open()?;
    let source = lab.fill("a", 64 * MIB);
    lab.fill("card", MEMORY);
    lab.invert("card", environment);
    Some((lab, source))
}

fn assert_chunks(record: &CompletedCopy, bytes: usize) {
    let [stage] = record.stages.as_slice() else { panic!("{:?}", record.stages) };
    assert_eq!(stage.bytes.0, bytes as u64);
    assert_eq!(stage.chunks, (bytes as u64).div_ceil(record.shape.request.0));
    assert_eq!(stage.latency.count, stage.chunks);
}

#[test]
fn card_stage_avoids_guest_memory() {
    let Some((mut lab, source)) = open_with(&[]) else { return };
    lab.fill("b", 64 * MIB);
    lab.run(&format!(
        "{}
         copy moved --force /dev/lab/a /dev/lab/b {WAY} {STAGE} --stage-twin /tmp/twin --verify full \\
              --trace $OUT/moved.pftrace",
        twin()
    ));
    let moved = lab.record("moved");
    assert_eq!((moved.route, moved.bytes.0), (Route::P2p, 64 * MIB as u64));
    assert_chunks(&moved, 64 * MIB);
    let checked = (moved.verification.mode, moved.verification.bytes);
    assert_eq!(checked, (VerifyMode::Full, moved.bytes));
    assert_same("target", &lab.content("b"), &inverted(&source));
    assert_same("source", &lab.content("a"), &source);
    assert_eq!(lab.dma("payload_bytes_p2p"), 128 * MIB as u64, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);

    // While the process works on one chunk, a second is read and a third written.
    let trace = perfetto::decode(&lab.bytes("moved.pftrace"));
    let [reads, work, writes] = ["reads", "work", "writes"].map(|name| trace.spans_of(name));
    assert_eq!(work.len() as u64, moved.stages[0].chunks);
    let meets = |span: &(u64, u64), others: &[(u64, u64)]| {
        others.iter().any(|other| span.0 < other.1 && other.0 < span.1)
    };
    let all_three = work.iter().filter(|one| meets(one, &reads) && meets(one, &writes)).count();
    assert!(2 * all_three > work.len(), "{all_three} of {} overlap with both", work.len());
}

#[test]
fn odd_lengths_and_dead_workers_end() {
    const LENGTH: usize = 16 * MIB + 12_345;
    let Some((mut lab, source)) = open_with(&[("INVERTER_EXIT", "40")]) else { return };
    let Some(()) = lab.format_ext4("b", 64 * MIB as u64) else { return };
    let copy = |name: &str, more: &str| {
        format!(
            "mkdir -p /e && mount -t ext4 /dev/lab/b /e || exit 9
             {}
             copy {name} /dev/lab/a /e/set {WAY} {STAGE} --stage-twin /tmp/twin --length {LENGTH} {more}",
            twin()
        )
    };
    lab.run(&format!(
        "{}
         ls -a /e >$OUT/names
         umount /e
         copy odd --force /dev/lab/a /dev/lab/b --length 100001 {WAY} {STAGE}",
        copy("died", "--verify full")
    ));
    assert_eq!((lab.status("died"), lab.status("odd")), (2, 77), "{}", lab.stderr("died"));
    let said = lab.stderr("died");
    assert!(said.contains("the process outside is gone"), "{said}");
    assert!(said.contains("--resume"), "{said}");
    let names = lab.text("names");
    assert!(names.lines().all(|name| name != "set"), "nothing half done has the name: {names}");
    let said = lab.stderr("odd");
    assert!(said.contains("no whole block"), "{said}");

    lab.invert("card", &[("INVERTER_EXIT", "")]);
    lab.run(&format!(
        "{}
         cp /e/set $OUT/set
         umount /e",
        copy("ended", "--resume --verify full")
    ));
    let ended = lab.record("ended");
    assert!(ended.content.before.0 > 0, "it went on: {:?}", ended.content);
    let journaled = |one: &Warning| matches!(one, Warning::NothingToResume { .. });
    assert!(!ended.warnings.iter().any(journaled), "{:?}", ended.warnings);
    assert_same("target", &lab.bytes("set"), &inverted(&source[..LENGTH]));
    // The file system's own blocks go by guest memory; nothing that drive a was read for does.
    let report = lab.report();
    let transfers = report["transfers"].as_array().expect("transfers");
    let strays = transfers.iter().any(|one| {
        one["drive"] == "a" && one["phase"] == "move" && one["memory"] == "guest_memory"
    });
    assert!(!strays, "{report}");
}

#[test]
fn silent_process_is_given_up() {
    let Some((mut lab, _)) = open_with(&[("INVERTER_SILENT", "20")]) else { return };
    lab.fill("b", 64 * MIB);
    lab.run(&format!("copy silent --force /dev/lab/a /dev/lab/b {WAY} {STAGE} --timeout 2"));
    assert_eq!(lab.status("silent"), 2, "{}", lab.stderr("silent"));
    let said = lab.stderr("silent");
    assert!(said.contains("stage outside:") && said.contains("no answer in"), "{said}");
}
