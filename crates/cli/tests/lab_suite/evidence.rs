//! Evidence of routes from the guest kernel's own tracing, against the counts of the recorder
//! outside the guest.

use peerlane_results::{CaseRecord, CompletedCopy, RouteVerdict};

use crate::bench_records::record;
use crate::lab::LabRun;

const MIB: usize = 1 << 20;
const COPY: &str = "/dev/lab/a /dev/lab/b --force --evidence dma --route";

/// Verdicts of the kernel's tracing, and what it saw.
fn dma_verdicts(record: &CompletedCopy) -> Vec<(RouteVerdict, String)> {
    let of_tracing =
        record.evidence.iter().filter(|one| one.evidence.looked_at.contains("tracing"));
    of_tracing.map(|one| (one.says, one.evidence.showed.clone())).collect()
}

fn assert_dma(record: &CompletedCopy, verdict: RouteVerdict, word: &str) {
    let verdicts = dma_verdicts(record);
    assert_eq!(verdicts.len(), 2, "{verdicts:?}");
    for (one, saw) in &verdicts {
        assert!(*one == verdict && saw.contains(word), "{one}: {saw}");
    }
    assert_eq!(record.verdict, verdict);
}

/// A guest with drives `a` and `b` filled.
fn lab(machine: &'static str) -> Option<LabRun> {
    let mut lab = LabRun::open(machine)?;
    lab.fill("a", 8 * MIB);
    lab.fill("b", 8 * MIB);
    Some(lab)
}

#[test]
fn switch_route_is_shown() {
    let Some(lab) = lab("pair") else { return };
    lab.run(&format!("copy done {COPY} p2p; ls /sys/kernel/tracing/instances >$OUT/instances"));
    assert_dma(&lab.record("done"), RouteVerdict::Shown, "by bus address; 0 bytes mapped in");
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0);
    assert_eq!(lab.text("instances"), "", "the tracing instance was left");
}

#[test]
fn host_bridge_route_is_shown() {
    let Some(lab) = lab("epyc") else { return };
    lab.run(&format!("copy done {COPY} p2p"));
    assert_dma(&lab.record("done"), RouteVerdict::Shown, "through the host bridge; 0 bytes");
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0);
}

#[test]
fn host_route_is_shown() {
    let Some(lab) = lab("pair") else { return };
    lab.run(&format!("copy done {COPY} host"));
    assert_dma(&lab.record("done"), RouteVerdict::Shown, "bytes mapped in system memory");
    assert_eq!(lab.dma("payload_bytes_p2p"), 0);
}

/// While the copy runs, the target's file system is told to journal content: it then copies direct
/// writes into the page cache without a word (`ext4_should_use_dio`, `fs/ext4/file.c`).
#[test]
fn silent_bounce_is_contradicted() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    lab.fill("a", 32 * MIB);
    lab.load(&["ext4"]);
    if lab.format_ext4("b", 160 * MIB as u64).is_none() || !lab.bring("chattr") {
        return;
    }
    lab.run(
        "mkdir /b; mount -t ext4 -o nodelalloc /dev/lab/b /b; mkfifo /progress
         peerlane copy /dev/lab/a /b/file --route p2p --evidence dma --limit 8M --json-progress \
             >$OUT/bounced.json 2>/progress & copy=$!
         while read -r line; do
             echo \"$line\" >>$OUT/bounced.err
             case $line in *'\"phase\":\"move\"'*) [ $changed ] || chattr +j /b/.file.* && changed=1 ;; esac
         done </progress
         wait $copy; echo $? >$OUT/bounced.status; ls /b >$OUT/files",
    );
    let said = lab.stderr("bounced");
    assert_eq!(lab.status("bounced"), 2, "{said}");
    assert!(said.contains("the route p2p is contradicted by DMA of"), "{said}");
    assert!(said.contains("bytes mapped in system memory"), "{said}");
    assert!(!lab.text("files").lines().any(|name| name == "file"), "it is called done");
    assert!(lab.dma("payload_bytes_guest_memory") > 0, "nothing was bounced");
}

#[test]
fn translated_addresses_are_only_consistent() {
    let Some(lab) = lab("translating") else { return };
    lab.run(&format!("copy done {COPY} auto"));
    let record = lab.record("done");
    assert_ne!(record.verdict, RouteVerdict::Contradicted, "{:?}", record.evidence);
}

#[test]
fn killed_copies_instance_is_swept() {
    let Some(lab) = lab("pair") else { return };
    lab.run(&format!(
        "mkfifo /progress; peerlane copy {COPY} p2p --limit 1M --json-progress 2>/progress >/dev/null & copy=$!
         read -r line </progress; kill -9 $copy; wait $copy
         ls /sys/kernel/tracing/instances >$OUT/left; cat /sys/kernel/tracing/dynamic_events >$OUT/probes_left
         copy done {COPY} host
         ls /sys/kernel/tracing/instances >$OUT/swept; cat /sys/kernel/tracing/dynamic_events >$OUT/probes"
    ));
    lab.record("done");
    assert!(lab.text("left").starts_with("peerlane_"), "{}", lab.text("left"));
    assert!(lab.text("probes_left").contains("peerlane_"), "{}", lab.text("probes_left"));
    assert_eq!((lab.text("swept"), lab.text("probes")), (String::new(), String::new()));
}

#[test]
fn benchmarks_watch_without_being_asked() {
    let Some(lab) = lab("pair") else { return };
    lab.run(
        "leave done peerlane bench roundtrip /dev/lab/a --via cmb:c --routes p2p,host --block 256K \
            --length 4M --warm-up 0 --repeats 1 --scratch /dev/lab/a --force --json",
    );
    let found = record(&lab, "done");
    let is_p2p = |case: &&CaseRecord| case.bytes_by_route.p2p.0 > 0;
    let p2p = found.cases.iter().filter(is_p2p).count();
    assert!(0 < p2p && p2p < found.cases.len(), "{:?}", found.cases);
    for case in &found.cases {
        let dma = case.evidence.iter().find(|one| one.evidence.looked_at.contains("tracing"));
        let dma = dma.unwrap_or_else(|| panic!("{:?}", case.evidence));
        assert_eq!(dma.says, RouteVerdict::Shown, "{}", dma.evidence.showed);
        assert_eq!(case.verdict, RouteVerdict::Shown, "{}", case.asked.name);
    }
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn older_kernel_shows_switch_route() {
        let Some(mut lab) = LabRun::open_older("pair") else { return };
        lab.fill("a", 8 * MIB);
        lab.fill("b", 8 * MIB);
        lab.run(&format!("copy done {COPY} p2p"));
        assert_dma(&lab.record("done"), RouteVerdict::Shown, "P2P decisions by bus address");
    }
}
