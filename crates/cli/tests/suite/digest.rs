//! Copies that keep digests of their chunks, and ends that are compared with them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{Exited, peerlane};
use crate::schema;
use peerlane_results::{CompletedCopy, CopyRecord, Reference, VerifyMode, VerifyRecord, Warning};
use peerlane_testing::Scratch;
use serde_json::Value;

const MIB: usize = 1 << 20;
const LENGTH: usize = 18 * MIB + 123;

/// Chunks of [`content`] and their digests by `xxh128sum` 0.8.1.
const KNOWN: [(u64, &str); 3] = [
    (0, "dce5a004b00e5b14bdf6c3f4e083f2f5"),
    (17 * MIB as u64, "9e44fa5b89cc3b26bf1dc6d473ce1d83"),
    (18 * MIB as u64, "970443ab4160ecc1ca74db62d1023b21"),
];
/// The same of 1 MiB of zeroes.
const ZEROES: &str = "b6ef17a3448492b6918780b90550bf34";

fn content() -> Vec<u8> {
    let byte = |index: usize| u8::try_from((index / 7 + index / 4096) % 251).expect("a byte");
    (0..LENGTH).map(byte).collect()
}

/// A folder with a source, on the file system of the build.
fn folder() -> (Scratch, PathBuf) {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    folder.write("source", content());
    let at = folder.path().to_owned();
    (folder, at)
}

#[track_caller]
fn copied(at: &Path, more: &[&str]) -> CompletedCopy {
    let words = ["copy", "source", "target", "--route", "host", "--stage", "digest", "--json"];
    let output = peerlane(at, &[&words, more].concat()).exited(0);
    only(&output.stdout)
}

fn only(printed: &[u8]) -> CompletedCopy {
    let record: CopyRecord = schema::read(printed);
    record.only().expect("a completed copy").clone()
}

fn compared(at: &Path, end: &str) -> (VerifyRecord, Option<i32>) {
    let output = peerlane(at, &["verify", end, "--manifest", "digests", "--json"]);
    (schema::read(&output.stdout), output.status.code())
}

/// Lines of the manifest, by the offset of their chunks.
fn digests(at: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(at.join("digests")).expect("a manifest");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let chunks = lines.filter(|line| line["xxh128"].is_string());
    let mut all: Vec<(u64, String)> = chunks
        .map(|one| {
            (
                one["offset"].as_u64().expect("a number"),
                one["xxh128"].as_str().expect("text").to_owned(),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn digests_are_those_of_xxh128sum() {
    let (_folder, at) = folder();
    let record = copied(&at, &["--manifest", "digests", "--verify", "full"]);
    let [stage] = record.stages.as_slice() else { panic!("{:?}", record.stages) };
    assert_eq!((stage.chunks, stage.bytes.0), (19, LENGTH as u64));
    assert!(stage.busy_ns.0 > 0 && stage.latency.count == 19, "{stage:?}");
    assert_eq!(record.verification.mode, VerifyMode::Full);
    let found = digests(&at);
    assert_eq!(found.len(), 19);
    for (offset, digest) in KNOWN {
        assert!(found.contains(&(offset, digest.to_owned())), "{offset}: {found:?}");
    }
    let (compared, status) = compared(&at, "target");
    assert_eq!((status, compared.bytes.0), (Some(0), LENGTH as u64));
    let Reference::Manifest(manifest) = compared.against else { panic!("not by a manifest") };
    assert_eq!(Some(manifest.root), stage.root.clone());
    assert!(fs::read(at.join("target")).expect("it is there") == content());
    assert!(!at.join("digests.part").exists());
}

#[test]
fn flipped_bit_names_its_chunk() {
    let (_folder, at) = folder();
    copied(&at, &["--manifest", "digests"]);
    let file =
        fs::File::options().read(true).write(true).open(at.join("target")).expect("it is there");
    let place = 7 * MIB as u64 + 4321;
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).expect("it is there");
    file.write_all_at(&[byte[0] ^ 0x10], place).expect("it is there");
    let (record, status) = compared(&at, "target");
    assert_eq!((status, record.mismatches), (Some(1), 1));
    let Reference::Manifest(manifest) = &record.against else { panic!("{:?}", record.against) };
    let [chunk] = manifest.differing.as_slice() else { panic!("{:?}", manifest.differing) };
    assert_eq!((chunk.offset.0, chunk.length.0), (7 * MIB as u64, MIB as u64));
    assert_eq!(compared(&at, "source").1, Some(0), "either end can be compared by itself");
    file.set_len(9 * MIB as u64).expect("it is there");
    let (record, status) = compared(&at, "target");
    assert_eq!((status, record.missing.0), (Some(1), (LENGTH - 9 * MIB) as u64));
}

#[test]
fn holes_have_digests_and_stay_holes() {
    let (_folder, at) = folder();
    let source = fs::File::create(at.join("source")).expect("it is there");
    source.set_len(32 * MIB as u64 + 77).expect("it is there");
    source.write_all_at(&content()[..MIB], 5 * MIB as u64 + 4096).expect("it is there");
    let record = copied(&at, &["--manifest", "digests", "--verify", "full"]);
    let found = digests(&at);
    assert_eq!(found.len(), 33);
    assert_eq!(found.iter().filter(|(_, digest)| digest == ZEROES).count(), 30);
    assert_eq!(compared(&at, "target").1, Some(0));
    if record.content.holes.0 > 0 {
        let blocks = fs::metadata(at.join("target")).expect("it is there").blocks() * 512;
        assert!(blocks < 8 * MIB as u64, "{blocks} bytes are allocated");
    }
}

#[test]
fn killed_copy_resumes_with_manifest() {
    let (_folder, at) = folder();
    let whole = copied(&at, &["--manifest", "whole", "--block", "256K"]).stages[0].root.clone();
    fs::remove_file(at.join("target")).expect("it is there");
    let words = ["copy", "source", "target", "--route", "host", "--block", "256K"];
    let digest = ["--stage", "digest", "--manifest", "digests"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(words)
        .args(digest)
        .args(["--limit", "8M", "--json-progress"])
        .current_dir(&at)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let journal = at.join(".target.peerlane-journal");
    for _ in lines.map_while(Result::ok) {
        if journal.exists() || journals(&at) > 0 {
            break;
        }
    }
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert!(at.join("digests.part").exists() && !at.join("digests").exists());
    let other = peerlane(&at, &[&words[..], &["--resume"]].concat());
    other.says("the stages were digest");
    let again = peerlane(&at, &[&words[..], &digest, &["--force"]].concat());
    again.says("digests.part already");
    let resumed = peerlane(&at, &[&words[..], &digest, &["--resume", "--json"]].concat()).exited(0);
    let record = only(&resumed.stdout);
    assert!(record.content.before.0 > 0, "{:?}", record.content);
    assert_eq!(record.stages[0].root, whole);
    assert_eq!(compared(&at, "target").1, Some(0));
    assert!(fs::read(at.join("target")).expect("it is there") == content());
}

#[test]
fn stale_digests_are_not_trusted() {
    let (_folder, at) = folder();
    copied(&at, &["--manifest", "digests"]);
    let mut other = content();
    other[5 * MIB] ^= 1;
    fs::write(at.join("source"), &other).expect("room");
    let again = ["copy", "source", "again", "--route", "host", "--stage", "digest"];
    let output =
        peerlane(&at, &[&again[..], &["--manifest", "digests", "--resume"]].concat()).exited(2);
    output.says("digests already exists");
    // An unfinished manifest of a copy that left no journal.
    let text = fs::read_to_string(at.join("digests")).expect("a manifest");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(at.join("digests.part"), lines[..8].join("\n") + "\n").expect("room");
    fs::remove_file(at.join("digests")).expect("it is there");

    peerlane(&at, &[&again[..], &["--manifest", "digests", "--resume"]].concat()).exited(0);
    assert_eq!(compared(&at, "again").1, Some(0), "digests are of what was copied");
    for (target, manifest) in [("new", "new"), ("new", "./source"), ("new.part", "new")] {
        let words = ["copy", "source", target, "--stage", "digest", "--manifest", manifest];
        peerlane(&at, &words).exited(2).says("would take the place of");
    }
    assert!(fs::read(at.join("source")).expect("the source") == other);
}

/// Journals that are on the disk.
fn journals(at: &Path) -> usize {
    let names = fs::read_dir(at).expect("the folder").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().ends_with("journal")).count()
}

#[test]
fn refused_copy_leaves_no_manifest() {
    let (_folder, at) = folder();
    fs::write(at.join("target"), "precious").expect("it is there");
    let words = ["copy", "source", "target", "--stage", "digest", "--manifest", "digests"];
    peerlane(&at, &words).exited(2);
    assert!(!at.join("digests").exists() && !at.join("digests.part").exists());
    fs::write(at.join("digests"), "mine").expect("it is there");
    fs::remove_file(at.join("target")).expect("it is there");
    let output = peerlane(&at, &words);
    output.says("digests already exists");
    assert_eq!(fs::read(at.join("digests")).expect("it is there"), b"mine");
    assert!(!at.join("target").exists());
}

#[test]
fn two_targets_share_one_manifest() {
    let (_folder, at) = folder();
    let words =
        ["copy", "source", "one", "two", "--stage", "digest", "--manifest", "digests", "--json"];
    let output = peerlane(&at, &words).exited(0);
    for end in ["one", "two"] {
        assert_eq!(compared(&at, end).1, Some(0), "{end}");
    }
    let record: CopyRecord = output.json();
    let not_comparable = |one: &Warning| matches!(one, Warning::NotComparable { .. });
    for target in &record.jobs[0].targets {
        let copied = target.copied.as_ref().expect("a completed copy");
        assert!(!copied.warnings.iter().any(not_comparable));
    }
}
