//! Benchmarks with a stage, on files: the amount of its work, and cases without a place for it.

use std::fs;
use std::path::Path;

use crate::program::Exited;
use crate::schema;
use peerlane_results::{BenchRecord, StageRecord, Warning};

use super::{LENGTH, bench, folder, record, said};

const BLOCK: usize = 64 << 10;

/// The stage of the only flow of a benchmark's only run.
fn stage(folder: &Path, words: &str) -> StageRecord {
    let output = bench(folder, &format!("{words} --json"));
    assert_eq!(output.status.code(), Some(0), "{words}: {}", said(&output));
    let found: BenchRecord = schema::read(&output.stdout);
    let stage = found.cases[0].flows[0].stage.clone();
    stage.unwrap_or_else(|| panic!("{words}: no stage"))
}

fn is_whole(stage: &StageRecord) -> bool {
    let chunks = (LENGTH / BLOCK) as u64;
    stage.stage == "digest"
        && (stage.chunks, stage.latency.count, stage.bytes.0) == (chunks, chunks, LENGTH as u64)
        && stage.busy_ns.0 > 0
}

#[test]
fn digest_works_on_each_block_once() {
    let folder = folder();
    for words in ["--source source --target host", "--source host --target new --scratch new"] {
        let words = format!("stream {words} --length 1M --block 64K --repeats 1 --stage digest");
        let found = stage(folder.path(), &words);
        assert!(is_whole(&found), "{words}: {found:?}");
        fs::remove_file(folder.path().join("new")).ok();
    }
    let text = "kind = 'sweep'\nsource = 'source'\ntarget = 'copy'\nblocks = '64K'\nroutes = 'host'\n\
                repeats = 1\nstage = { name = 'digest' }\n";
    fs::write(folder.path().join("copy.toml"), text).expect("room");
    let found = stage(folder.path(), "run copy.toml --scratch copy");
    assert!(is_whole(&found), "{found:?}");
}

#[test]
fn digest_leaves_the_content_check() {
    let folder = folder();
    let words = "stream --source host --target new --length 1M --block 64K --repeats 1 --scratch new \
                 --stage digest --json";
    let output = bench(folder.path(), words);
    let run = &record(&output).cases[0];
    assert_eq!(run.verification.map(|one| (one.bytes.0, one.mismatches)), Some((LENGTH as u64, 0)));
    let is_not_comparable = |one: &Warning| matches!(one, Warning::NotComparable { .. });
    assert!(!run.warnings.iter().any(is_not_comparable), "{:?}", run.warnings);
}

#[test]
fn text_shows_share_of_stage() {
    let folder = folder();
    let words = "stream --source source --target host --block 64K --repeats 2 --stage digest";
    let text = bench(folder.path(), words).text();
    let mut lines = text.lines().filter(|line| line.contains(": stage digest busy "));
    let line = lines.next().expect("a line");
    assert!(line.contains(" % of the time, 32 chunks, longest "), "{line}");
    assert_eq!(lines.next(), None);
}

#[test]
fn stage_out_of_place_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("a.cu"), "").expect("room");
    fs::write(folder.path().join("a.xclbin"), "").expect("room");
    let stream = "stream --source source --target host --stage";
    let file = |stage: &str, route: &str| {
        let text = format!(
            "kind = 'sweep'\nsource = 'source'\ntarget = 'copy'\nblocks = '64K'\nroutes = '{route}'\n\
             stage = {{ name = '{stage}', rate = '1GB/s' }}\n"
        );
        fs::write(folder.path().join(format!("{route}-{stage}.toml")), text).expect("room");
        format!("run {route}-{stage}.toml --scratch copy")
    };
    for (words, reasons) in [
        (
            format!("{stream} cuda:a.cu:invert"),
            ["it works on memory of a GPU", "hint: take `gpu:0`"],
        ),
        (format!("{stream} xrt:a.xclbin:k"), ["memory of an FPGA card", "hint: take `fpga:"]),
        (format!("{stream} cuda:none.cu:invert"), ["cannot read none.cu", ""]),
        ("stream --source host --target host --stage digest".to_owned(), ["one core copies", ""]),
        (file("digest", "host-serial"), ["has no place there", "one buffer"]),
        (file("digest", "host-mapped"), ["has no place there", "in a map"]),
        (file("invert", "host"), ["invert is not a stage: digest, cuda:FILE.cu:KERNEL", "xrt:"]),
    ] {
        let output = bench(folder.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        for reason in reasons {
            assert!(said(&output).contains(reason), "{words}: {}", said(&output));
        }
    }
    assert!(!folder.path().join("copy").exists(), "nothing was written");
}

#[test]
fn model_needs_rate_of_stage() {
    let folder = folder();
    let text = "kind = 'sweep'\nsource = 'a'\ntarget = 'b'\nblocks = '1M'\nroutes = 'p2p'\n\
                stage = { name = 'digest' }\n";
    fs::write(folder.path().join("w.toml"), text).expect("room");
    bench(folder.path(), "run w.toml --on model --machine pair")
        .exited(2)
        .says("stage digest has no `rate`");
    fs::write(folder.path().join("w.toml"), text.replace("'digest'", "'digest', rate = '9GB/s'"))
        .expect("room");
    bench(folder.path(), "run w.toml --on model --machine pair").exited(0);
}

#[test]
fn stage_makes_a_different_case() {
    let folder = folder();
    let words = "stream --source source --target host --block 64K --repeats 3";
    for more in ["-o before.json", "-o after.json --stage digest"] {
        bench(folder.path(), &format!("{words} {more}")).exited(0);
    }
    let output = bench(folder.path(), "compare before.json after.json");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("stage") && text.contains("digest"), "{text}");
}
