//! Output of `--json` follows the schemas, and so do the samples of each record.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::schema;
use peerlane_results as results;
use peerlane_testing::Scratch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program, holds what it prints against its schema and returns it.
fn printed(folder: &Path, words: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(words.split_whitespace())
        .arg("--json")
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the program starts");
    let record = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{words}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    });
    schema::check(&record);
    record
}

fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    folder.write("source", vec![0x5a; (3 << 20) + 77]);
    folder
}

#[test]
fn file_copies_follow_schemas() {
    let folder = folder();
    let at = folder.path();
    for (words, id) in [
        ("plan source planned", "peerlane.plan/1"),
        ("plan source planned --explain", "peerlane.plan/1"),
        ("plan source planned other", "peerlane.plan/1"),
        ("copy source one --route host", "peerlane.copy/1"),
        ("copy source two three --route host --verify full", "peerlane.copy/1"),
        ("verify source one --verify sample", "peerlane.verify/1"),
        ("verify source one", "peerlane.verify/1"),
        ("copy source five --stage digest --manifest digests", "peerlane.copy/1"),
        ("verify five --manifest digests", "peerlane.verify/1"),
    ] {
        assert_eq!(printed(at, words)["schema"], id, "{words}");
    }
    fs::write(at.join("jobs.toml"), "[[copy]]\nsource = \"source\"\ntarget = \"four\"\n")
        .expect("room");
    let planned = printed(at, "copy --batch jobs.toml --dry-run");
    assert_eq!(planned["schema"], "peerlane.plan/1");
    assert_eq!(printed(at, "copy --batch jobs.toml")["schema"], "peerlane.copy/1");
    fs::write(at.join("one"), "another end").expect("room");
    let differs = printed(at, "verify source one");
    assert!(
        differs["against"]["source"]["first"].is_object() || differs["missing"] != 0,
        "{differs}"
    );
}

#[test]
fn predictions_follow_schemas() {
    let folder = folder();
    let at = folder.path();
    let workload =
        "kind = 'sweep'\nsource = 'a'\ntarget = 'b'\nroutes = ['p2p', 'host']\nblocks = ['64K']\n";
    fs::write(at.join("workload.toml"), workload).expect("room");
    for (words, id) in [
        ("sim pair workload.toml", "peerlane.bench/1"),
        ("sim pair workload.toml --engine closed", "peerlane.bench/1"),
        ("sim pair workload.toml --vary depth=1,2 --vary a.lanes=1,2", "peerlane.sim-variants/1"),
        ("reproduce", "peerlane.reproduce/1"),
        ("reproduce --predictions", "peerlane.predictions/1"),
    ] {
        assert_eq!(printed(at, words)["schema"], id, "{words}");
    }
}

#[test]
fn machines_follow_schemas() {
    let folder = folder();
    let at = folder.path();
    for machine in ["pair", "split", "acs", "translating"] {
        printed(at, &format!("topo --machine {machine}"));
        printed(at, &format!("doctor --machine {machine}"));
        printed(at, &format!("plan a b --machine {machine} --explain"));
        printed(at, &format!("plan a b --machine {machine} --route p2p"));
    }
    printed(at, "topo diff pair acs");
    printed(at, "topo");
    printed(at, "doctor");
    printed(at, "capture -o tree.tar.zst");
    printed(at, "lab machines");
    printed(at, "export --list");
}

/// Text of a record as its type writes it.
fn written<T: DeserializeOwned + Serialize>(text: &str) -> serde_json::Result<String> {
    let record: T = serde_json::from_str(text)?;
    serde_json::to_string_pretty(&record).map(|text| text + "\n")
}

/// The type of a record, by its schema.
fn writer(schema: &str) -> fn(&str) -> serde_json::Result<String> {
    match schema {
        results::COPY_SCHEMA => written::<results::CopyRecord>,
        results::PLAN_SCHEMA => written::<results::PlanRecord>,
        results::VERIFY_SCHEMA => written::<results::VerifyRecord>,
        results::EXPORT_SCHEMA => written::<results::ExportRecord>,
        results::DOCTOR_SCHEMA => written::<results::DoctorRecord>,
        results::TOPO_DIFF_SCHEMA => written::<results::TopoDiffRecord>,
        results::WORKLOAD_SCHEMA => written::<results::Workload>,
        results::BENCH_SCHEMA => written::<results::BenchRecord>,
        results::COMPARE_SCHEMA => written::<results::CompareRecord>,
        results::NODES_SCHEMA => written::<results::NodesRecord>,
        results::ERROR_SCHEMA => written::<results::ErrorRecord>,
        other => panic!("no type is known for {other}"),
    }
}

/// `UPDATE=1` writes each sample as its type writes it.
#[test]
fn each_record_has_sample_as_written() {
    let folder = repository().join("fixtures/results");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("the folder of samples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let name = path.display();
        let kept = fs::read_to_string(&path).expect("a sample");
        let record: Value = serde_json::from_str(&kept).expect("JSON");
        let id = record["schema"].as_str().expect("a schema").to_owned();
        let text = writer(&id)(&kept).unwrap_or_else(|error| panic!("{name}: {error}"));
        peerlane_testing::check_file(&path, &text);
        schema::check(&serde_json::from_str(&text).expect("JSON"));
        found.insert(id);
    }
    for wanted in results::schemas() {
        assert!(found.contains(wanted.id), "no sample of {} in fixtures/results", wanted.id);
    }
}
