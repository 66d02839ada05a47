//! Files and ranges that a benchmark overwrites, creates, or must not touch.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use crate::program::Exited;
use peerlane_results::BenchRecord;
use peerlane_testing::Scratch;

use super::{KIB, LENGTH, bench, folder, interrupt, is_kept, record, said};

const HOLE: u64 = 256 * KIB as u64;

/// A folder on a file system whose word on holes is taken, which that in memory is.
fn in_memory() -> Scratch {
    Scratch::below("/dev/shm")
}

/// A file with only the first and the last part written.
fn with_a_hole(folder: &Path) {
    let file = File::create(folder.join("holey")).expect("a file");
    for offset in [0, 3 * HOLE] {
        file.write_all_at(&vec![7; 256 * KIB], offset).expect("room");
    }
    file.sync_all().expect("a disk");
}

#[test]
fn source_with_hole_is_refused_first() {
    let folder = in_memory();
    with_a_hole(folder.path());
    for words in
        ["stream --source holey --target host", "sweep holey new --routes host --scratch new"]
    {
        let output = bench(folder.path(), &format!("{words} --block 64K"));
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        output.says("it has a hole at byte 262144");
        output.says("cp --sparse=never");
    }
    assert!(!folder.at("new").exists());
    let words = "stream --source holey --target host --block 64K --length 256K --repeats 1";
    let output = bench(folder.path(), words);
    assert_eq!(output.status.code(), Some(0), "the hole is behind the range: {}", said(&output));
}

#[test]
fn writable_source_is_filled() {
    let folder = folder();
    with_a_hole(folder.path());
    let words = "stream --source holey --target host --block 64K --repeats 1 --scratch holey";
    let output = bench(folder.path(), words).exited(2);
    assert!(said(&output).contains("holey exists"), "not without --force: {}", said(&output));
    let text = bench(folder.path(), &format!("{words} --force")).exited(0).text();
    assert!(text.contains("overwritten: holey from byte 0 to 1048576"), "{text}");
    let content = folder.read("holey");
    assert!(content[256 * KIB..512 * KIB].iter().any(|&byte| byte != 0), "a pattern is there");
}

#[test]
fn source_is_guarded_like_a_target() {
    let folder = folder();
    let before = folder.read("source");
    let words =
        "sweep source new --routes host --block 64K --repeats 1 --scratch source --scratch new";
    bench(folder.path(), words).exited(2).says("source exists");
    assert!(folder.read("source") == before, "nothing was changed");
}

#[test]
fn interrupted_run_reports_and_cleans_up() {
    let folder = folder();
    folder.write("old", vec![1; LENGTH]);
    let words = "stream --source host --target old --block 64K --length 512K --offset 256K --repeats 100000 \
                 --scratch old --force -o old.json";
    let (status, said) = interrupt(folder.path(), words, is_kept(folder.path(), "old.json"));
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("warning: overwritten: old from byte 262144 to 786432"), "{said}");

    let words = "stream --source host --target new --block 64K --length 512K --repeats 100000 --scratch new \
                 --seed 7 -o new.json";
    let (status, said) = interrupt(folder.path(), words, is_kept(folder.path(), "new.json"));
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("removed new, which this command had made"), "{said}");
    assert!(!said.contains("overwritten"), "{said}");
    assert!(!folder.at("new").exists());

    // So that the same options go on.
    let file = folder.at("new.json");
    let text = fs::read_to_string(&file).expect("the record");
    let mut kept: BenchRecord = serde_json::from_str(&text).expect("a record");
    kept.asked.repeats.least = 2;
    kept.asked.repeats.most = 2;
    kept.cases.truncate(1);
    fs::write(&file, serde_json::to_vec(&kept).expect("JSON")).expect("room");
    let words = "stream --source host --target new --block 64K --length 512K --repeats 2 --scratch new \
                 --seed 7 --resume new.json --json";
    let output = bench(folder.path(), words).exited(0);
    assert_eq!(record(&output).cases.len(), 2);
    assert!(folder.at("new").exists(), "what came to its end stays");
}

#[test]
fn interrupt_stops_filling_of_source() {
    const WHOLE: u64 = 2 << 30;
    let folder = folder();
    File::create(folder.at("large")).expect("a file").set_len(WHOLE).expect("a size");
    let words =
        "stream --source large --target host --block 64K --length 2G --scratch large --force";
    let fills = |line: &str, _: &mut std::process::Child| line.contains("large gets a pattern");
    let (status, said) = interrupt(folder.path(), words, fills);
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("interrupted after 0 runs"), "{said}");
    assert!(said.contains("overwritten: large from byte 0"), "{said}");
    let found = fs::metadata(folder.at("large")).expect("it");
    assert!(found.blocks() * 512 < WHOLE, "{} bytes were written", found.blocks() * 512);
}

#[test]
fn target_without_room_is_removed() {
    // A file system in memory says at once how much it has.
    let folder = in_memory();
    let words = "stream --source host --target new --length 1T --scratch new";
    let output = bench(folder.path(), words).exited(2);
    output.says("cannot reserve space for");
    output.says("`--length`");
    assert!(!folder.at("new").exists(), "what was made is removed");

    let old = folder.at("old");
    fs::write(&old, "short").expect("room");

    bench(folder.path(), &format!("{} --force", words.replace("new", "old"))).exited(2);
    assert_eq!(fs::read_to_string(&old).expect("it"), "short", "as long as it was");
}

#[test]
fn short_workload_takes_length_of_ends() {
    let folder = folder();
    let text = "kind = 'stream'\nsource = 'source'\ntarget = 'host'\nblocks = '64K'\nrepeats = 1\n";
    folder.write("read.toml", text);
    let output = bench(folder.path(), "run read.toml --json").exited(0);
    assert_eq!(record(&output).cases[0].bytes.0, LENGTH as u64);
}

/// fio takes the text after a colon as another file, and more characters as words of its own.
#[test]
fn fio_job_names_only_measured_files() {
    let folder = folder();
    let of = |name: &str| folder.at(name);
    fs::write(of("X"), "dear diary").expect("room");
    let words = "stream --source host --length 64K --block 4K --repeats 1 --warm-up 0 --fio job";
    bench(folder.path(), &format!("{words} --target X:Y --scratch X:Y")).exited(0);
    let job = fs::read_to_string(of("job")).expect("a job");
    assert!(job.lines().any(|line| line.ends_with("X\\:Y")), "{job}");
    assert_eq!(fs::read_to_string(of("X")).expect("it"), "dear diary");
    assert_eq!(fs::metadata(of("X:Y")).expect("it").len(), 64 * KIB as u64);

    for name in ["Z$pid", "Z;rm", "Z#"] {
        let output = bench(folder.path(), &format!("{words}2 --target {name} --scratch {name}"));
        assert_eq!(output.status.code(), Some(2), "{name}: {}", said(&output));
        output.says("a job cannot hold");
        assert!(!of(name).exists() && !of("job2").exists(), "{name}");
    }
}
