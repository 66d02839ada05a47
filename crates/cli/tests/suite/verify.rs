//! Comparing two files, and progress for programs.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::program::{self, Exited, peerlane};
use crate::schema;
use peerlane_results::{ComparedSource, Reference, VerifyRecord};
use peerlane_testing::Scratch;

const LENGTH: usize = (18 << 20) + 123;

/// A folder with a source and an equal target, on the file system of the build.
fn folder() -> (Scratch, PathBuf) {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let content: Vec<u8> =
        (0..LENGTH).map(|index| (index / 7 + index / 4096) % 251).map(byte).collect();
    for name in ["source", "target"] {
        folder.write(name, &content);
    }
    let target = folder.at("target");
    (folder, target)
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("a byte")
}

/// The record of a comparison and its exit status.
fn verify(folder: &Path, more: &[&str]) -> (VerifyRecord, Option<i32>) {
    let output = peerlane(folder, &[&["verify", "source", "target", "--json"], more].concat());
    let record = schema::read(&output.stdout);
    (record, output.status.code())
}

fn source(record: &VerifyRecord) -> &ComparedSource {
    match &record.against {
        Reference::Source(source) => source,
        Reference::Manifest(_) => panic!("{:?}", record.against),
    }
}

fn write(path: &Path, offset: usize, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).expect("a file");
    file.write_all_at(bytes, offset as u64).expect("room");
}

#[test]
fn equal_files_match_whole_and_sampled() {
    let (folder, _) = folder();
    let (record, status) = verify(folder.path(), &[]);
    assert_eq!((status, record.bytes.0, record.mismatches), (Some(0), LENGTH as u64, 0));
    let content = folder.read("source");
    let digest = format!("{:016x}", twox_hash::XxHash3_64::oneshot(&content));
    assert_eq!(
        (&source(&record).digest.source, &source(&record).digest.target),
        (&digest, &digest)
    );
    let (record, status) = verify(folder.path(), &["--verify", "sample"]);
    assert_eq!(status, Some(0));
    assert!(record.bytes.0 < LENGTH as u64 / 10, "{}", record.bytes.0);
}

#[test]
fn difference_is_named_by_offset() {
    let (folder, target) = folder();
    let place = (17 << 20) + 1000;
    let before = fs::read(&target).expect("the target")[place..place + 16].to_vec();
    write(&target, place, &[!before[0], before[1], !before[2]]);
    let (record, status) = verify(folder.path(), &[]);
    assert_eq!((status, record.mismatches), (Some(1), 1));
    let first = source(&record).first.clone().expect("a difference");
    assert_eq!((first.source_offset.0, first.length.0), (place as u64, 3));
    assert_eq!(first.source_bytes[..8], hex(&before[..3]));
    assert_eq!(first.target_bytes[..8], hex(&[!before[0], before[1], !before[2]]));
    assert_ne!(source(&record).digest.source, source(&record).digest.target);
    let output = peerlane(folder.path(), &["verify", "source", "target"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains(&format!("Differing: 1 block; first at offset {place} of the source")),
        "{said}"
    );
    assert!(said.contains("different, "), "{said}");
    let (record, status) = verify(folder.path(), &["--length", "17M"]);
    assert_eq!((status, record.bytes.0), (Some(0), 17 << 20), "not in the part before");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn length_or_holes_differ_without_failure() {
    let (folder, target) = folder();
    let file = fs::File::options().write(true).open(&target).expect("the target");
    for (length, missing, surplus) in
        [(LENGTH - 1, 1, 0), (5000, LENGTH - 5000, 0), (0, LENGTH, 0), (LENGTH + 9, 0, 9_u64)]
    {
        fs::copy(folder.at("source"), &target).expect("room");
        file.set_len(length as u64).expect("another length");
        let (record, status) = verify(folder.path(), &[]);
        let found = (status, record.missing.0, record.surplus.0, record.mismatches);
        assert_eq!(found, (Some(1), missing as u64, surplus, 0), "{length}");
        assert_eq!(record.bytes.0, length.min(LENGTH) as u64);
    }
    file.set_len(0).expect("no length");
    file.set_len(LENGTH as u64).expect("a hole");
    let (record, status) = verify(folder.path(), &[]);
    assert_eq!(status, Some(1));
    assert!(record.mismatches > 4_000, "{}", record.mismatches);
}

#[test]
fn incomparable_ends_fail_with_reason() {
    let (folder, _) = folder();
    let cases: [(&[&str], &str); 5] = [
        (&["source", "nowhere"], "does not exist"),
        (&["nowhere", "target"], "does not exist"),
        (&[".", "target"], "is a directory"),
        (&["source", "target", "--length", "1G"], "use `--length 18874491`"),
        (&["source", "target", "--offset", "1G"], "from offset 1073741824"),
    ];
    for (words, said) in cases {
        let output = peerlane(folder.path(), &[&["verify"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
    }
}

#[test]
fn same_file_needs_other_offsets() {
    let (folder, target) = folder();
    fs::hard_link(&target, folder.at("hard")).expect("a link");
    std::os::unix::fs::symlink("target", folder.at("soft")).expect("a link");
    for name in ["target", "hard", "soft"] {
        let output = peerlane(folder.path(), &["verify", "target", name]);
        let error = program::said(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains("both are the same bytes") && error.contains("hint: "), "{error}");
    }
    let parts = ["verify", "target", "hard", "--target-offset", "1M", "--length", "1M"];
    assert_eq!(peerlane(folder.path(), &parts).status.code(), Some(1), "two parts of one file");
}

#[test]
fn json_progress_ends_with_last_line() {
    let (folder, target) = folder();
    fs::remove_file(&target).expect("the target");
    let copy = ["copy", "source", "target", "--route", "host", "--verify", "full", "-q"];
    for (words, route) in [(&copy[..], Some("host")), (&["verify", "source", "target"], None)] {
        let output = peerlane(folder.path(), &[words, &["--json-progress"]].concat()).exited(0);
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<serde_json::Value> =
            said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let last = lines.last().expect("a last line");
        assert_eq!((&last["done"], &last["total"]), (&LENGTH.into(), &LENGTH.into()), "{said}");
        assert_eq!((&last["phase"], &last["remaining_s"]), (&"verify".into(), &0.into()));
        assert_eq!(last["route"], serde_json::json!(route));
        assert!(last["rate"].is_u64() && last["mean_rate"].is_u64(), "{said}");
    }
}
