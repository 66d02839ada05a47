//! Output of `--json` follows the schemas, and output of older versions is still read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::schema;
use peerlane_results as results;
use peerlane_testing::Scratch;
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
        ("plan source planned", "peerlane.plan/2"),
        ("plan source planned --explain", "peerlane.plan/2"),
        ("plan source planned other", "peerlane.fan-out-plan/1"),
        ("copy source one --route host", "peerlane.copy/1"),
        ("copy source two three --route host --verify full", "peerlane.fan-out/1"),
        ("verify source one --verify sample", "peerlane.verify/1"),
        ("verify source one", "peerlane.verify/1"),
        ("copy source five --stage digest --manifest digests", "peerlane.copy/1"),
        ("verify five --manifest digests", "peerlane.verify-manifest/1"),
    ] {
        assert_eq!(printed(at, words)["schema"], id, "{words}");
    }
    fs::write(at.join("jobs.toml"), "[[copy]]\nsource = \"source\"\ntarget = \"four\"\n")
        .expect("room");
    let planned = printed(at, "copy --batch jobs.toml --dry-run");
    assert_eq!(planned["schema"], "peerlane.batch-plan/1");
    assert_eq!(printed(at, "copy --batch jobs.toml")["schema"], "peerlane.batch/1");
    fs::write(at.join("one"), "another end").expect("room");
    let differs = printed(at, "verify source one");
    assert!(differs["first"].is_object() || differs["missing"] != 0, "{differs}");
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
        ("reproduce", "peerlane.reproduce/3"),
        ("reproduce --predictions", "peerlane.predictions/2"),
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

/// Examples of version 1, by file name.
fn examples() -> Vec<(String, Value)> {
    let folder = repository().join("fixtures/results/v1");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).expect("the folder of examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.ends_with(".json") && name != "required.json" {
            let text = fs::read_to_string(&path).expect("an example");
            all.push((name, serde_json::from_str(&text).expect("JSON")));
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn each_record_example_follows_schema() {
    let examples = examples();
    examples.iter().for_each(|(_, record)| schema::check(record));
    for wanted in results::schemas() {
        let has = examples.iter().any(|(_, record)| record["schema"] == wanted.id);
        assert!(has, "no example of {} in fixtures/results/v1", wanted.id);
    }
}

fn is_read<T: DeserializeOwned>(name: &str, record: &Value) {
    if let Err(error) = serde_json::from_value::<T>(record.clone()) {
        panic!("{name} was written by version 1 and is no longer read: {error}");
    }
}

#[test]
fn version_1_records_are_read() {
    for (name, record) in examples() {
        let read: fn(&str, &Value) = match record["schema"].as_str().expect("a schema") {
            results::COPY_SCHEMA => is_read::<results::CopyRecord>,
            results::FAN_OUT_SCHEMA => is_read::<results::FanOutRecord>,
            results::BATCH_SCHEMA => is_read::<results::BatchRecord>,
            results::PLAN_ANSWER_SCHEMA => is_read::<results::PlanAnswer>,
            results::PLAN_SCHEMA => is_read::<results::ExplainedPlan>,
            results::FAN_OUT_PLAN_SCHEMA => is_read::<results::FanOutPlan>,
            results::BATCH_PLAN_SCHEMA => is_read::<results::BatchPlan>,
            results::VERIFY_SCHEMA => is_read::<results::VerifyRecord>,
            results::MANIFEST_RECORD_SCHEMA => is_read::<results::ManifestRecord>,
            results::EXPORT_SCHEMA => is_read::<results::ExportRecord>,
            results::EXPORTS_SCHEMA => is_read::<results::ExportList>,
            results::EXPORT_STATUS_SCHEMA => is_read::<results::ExportStatus>,
            results::DOCTOR_SCHEMA | results::DOCTOR_SCHEMA_1 => is_read::<results::DoctorRecord>,
            results::TOPO_DIFF_SCHEMA => is_read::<results::TopoDiffRecord>,
            results::WORKLOAD_SCHEMA => is_read::<results::Workload>,
            results::BENCH_SCHEMA => is_read::<results::BenchRecord>,
            results::COMPARE_SCHEMA => is_read::<results::Comparison>,
            results::NODES_SCHEMA => is_read::<results::NodesRecord>,
            results::COMPARE_NODES_SCHEMA => is_read::<results::NodesComparison>,
            // What people read once: no type of this workspace reads it back.
            _ => continue,
        };
        read(&name, &record);
    }
}

/// The fields that each type of a record needs to be read: by type, or by record for the outermost.
fn required() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for record in results::schemas() {
        let root = record.schema.as_value();
        needs(root, record.id, &mut all);
        for (name, schema) in root["$defs"].as_object().into_iter().flatten() {
            needs(schema, name, &mut all);
        }
    }
    all
}

fn needs(schema: &Value, name: &str, all: &mut BTreeMap<String, Vec<String>>) {
    let fields = schema["required"].as_array().into_iter().flatten();
    let fields: Vec<String> = fields.filter_map(Value::as_str).map(str::to_owned).collect();
    if !fields.is_empty() {
        all.insert(name.to_owned(), fields);
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        let word =
            ["kind", "answer"].iter().find_map(|tag| variant["properties"][tag]["const"].as_str());
        needs(variant, &format!("{name} {}", word.unwrap_or_default()), all);
    }
}

/// A field that came later must not be needed: what an older version wrote lacks it. `UPDATE=1` adds
/// types that are new, and changes nothing of those that are there.
#[test]
fn version_1_requires_no_new_fields() {
    let path = repository().join("fixtures/results/v1/required.json");
    let text = fs::read_to_string(&path).expect("what version 1 needs");
    let mut then: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).expect("JSON");
    let now = required();
    if std::env::var_os("UPDATE").is_some() {
        for (name, fields) in &now {
            then.entry(name.clone()).or_insert_with(|| fields.clone());
        }
        let text = serde_json::to_string_pretty(&then).expect("JSON");
        fs::write(&path, format!("{text}\n")).expect("the file");
    }
    for (name, fields) in now {
        let before = then.get(&name).unwrap_or_else(|| {
            panic!(
                "{name} is new: `UPDATE=1 cargo test -p peerlane-cli --test suite records` adds it"
            )
        });
        let more: Vec<&String> = fields.iter().filter(|field| !before.contains(field)).collect();
        assert!(more.is_empty(), "{name} did not need {more:?}: add `#[serde(default)]`");
    }
}
