//! Traces of copies of real files, against the records of the same copies.

use std::fs;
use std::path::Path;

use crate::perfetto::{DecodedTrace, decode};
use crate::program::{Exited, peerlane};
use crate::schema;
use peerlane_results::CopyRecord;
use peerlane_testing::Scratch;

const LENGTH: usize = (6 << 20) + 77;
const BLOCK: u64 = 128 << 10;

fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    folder.write("source", vec![0x5a; LENGTH]);
    folder
}

fn trace(folder: &Path) -> DecodedTrace {
    decode(&fs::read(folder.join("trace")).expect("a trace"))
}

/// Slices on tracks of this name below the drive of any file whose path ends so.
fn on_drive(trace: &DecodedTrace, file: &str, name: &str) -> usize {
    let roots = trace.tracks.values().filter(|(root, parent)| {
        *parent == 0 && root.trim_end_matches(')').ends_with(&format!("/{file}"))
    });
    roots.map(|(root, _)| trace.below(root, name)).sum()
}

#[test]
fn trace_matches_record_counts() {
    let folder = folder();
    let words = ["copy", "source", "target", "--route", "host", "--block", "128K", "--depth", "5"];
    let more = ["--json", "--verify", "none", "--trace", "trace"];
    let output = peerlane(folder.path(), &[&words[..], &more].concat()).exited(0);
    let record: CopyRecord = schema::read(&output.stdout);
    let record = record.only().expect("a completed copy");
    let trace = trace(folder.path());
    assert_eq!(record.shape.request.0, BLOCK);
    let blocks = usize::try_from(record.bytes.0.div_ceil(BLOCK)).expect("a count");
    assert_eq!(on_drive(&trace, "source", "reads"), blocks);
    assert_eq!(on_drive(&trace, "target", "writes"), blocks);
    assert!(on_drive(&trace, "target", "flushes") >= 1);
    assert_eq!(trace.below("host memory", "payload"), blocks);
    assert!(record.latency.read.count <= blocks as u64);
    let slots = trace.counts_of("host memory", "slots in use");
    let most = slots.iter().max().copied().expect("a counter");
    assert!((1..=u64::from(record.shape.slots)).contains(&most), "{most} slots in use");
    assert_eq!(slots.last(), Some(&0), "no slot stays in use");
    assert!(trace.instants.is_empty(), "nothing was left out");
}

#[test]
fn fan_out_trace_has_one_read() {
    let folder = folder();
    let words = ["copy", "source", "a", "b", "--route", "host", "--block", "128K", "--json"];
    let more = ["--verify", "none", "--trace", "trace"];
    let output = peerlane(folder.path(), &[&words[..], &more].concat()).exited(0);
    let record: CopyRecord = schema::read(&output.stdout);
    let trace = trace(folder.path());
    let blocks = usize::try_from(record.jobs[0].read.0.div_ceil(BLOCK)).expect("a count");
    assert_eq!(on_drive(&trace, "source", "reads"), blocks);
    assert_eq!(on_drive(&trace, "a", "writes"), blocks);
    assert_eq!(on_drive(&trace, "b", "writes"), blocks);
}

#[test]
fn batch_copies_share_one_trace() {
    let folder = folder();
    let jobs = "[[copy]]\nsource = \"source\"\ntarget = \"a\"\n\n\
                [[copy]]\nsource = \"source\"\ntarget = \"b\"\n";
    folder.write("jobs.toml", jobs);
    let words = ["copy", "--batch", "jobs.toml", "--jobs", "2", "--route", "host", "--json"];
    let output = peerlane(folder.path(), &[&words[..], &["--trace", "trace"]].concat()).exited(0);
    let record: CopyRecord = schema::read(&output.stdout);
    assert_eq!(record.jobs.len(), 2);
    let trace = trace(folder.path());
    let processors = trace.tracks.values().filter(|(name, _)| name.starts_with("processor: "));
    assert_eq!(processors.count(), 2);
    assert!(on_drive(&trace, "a", "writes") > 0 && on_drive(&trace, "b", "writes") > 0);
}

#[test]
fn trace_path_must_be_free() {
    let folder = folder();
    for name in ["source", "missing/trace", "target", "../NAME/target", "journal"] {
        let own = folder.path().file_name().expect("a name").to_string_lossy();
        let name = &name.replace("NAME", &own);
        let words = ["copy", "source", "target", "--route", "host", "--journal", "journal"];
        let words = [&words[..], &["--trace", name]].concat();
        peerlane(folder.path(), &words).exited(2).says(&format!("cannot write {name}"));
        assert!(!folder.at("target").exists(), "nothing was moved");
    }
    assert_eq!(fs::metadata(folder.at("source")).expect("it").len(), LENGTH as u64);
}
