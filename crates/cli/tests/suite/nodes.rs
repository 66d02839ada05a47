//! Records of several nodes: compared node by node, and drawn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::Exited;
use peerlane_testing::Scratch;
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results").join(name)
}

fn peerlane(arguments: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    command.args(arguments).env("NO_COLOR", "1").output().expect("the program starts")
}

/// The example, changed and written into a folder.
fn changed(folder: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let text = fs::read_to_string(example("nodes.json")).expect("an example");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut record);
    let path = folder.join("changed.json");
    fs::write(&path, record.to_string()).expect("room");
    path
}

fn compare(before: &Path, after: &Path) -> (Option<i32>, String, String) {
    let output = peerlane(&[Path::new("bench"), Path::new("compare"), before, after]);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn uncompared_nodes_are_named() {
    let folder = Scratch::new();
    let other = changed(folder.path(), |record| {
        record["nodes"].as_array_mut().expect("nodes").retain(|node| node["name"] != "one");
    });
    let (status, out, err) = compare(&example("nodes.json"), &other);
    assert_eq!(status, Some(1), "{err}");
    for words in ["one: not compared: not in the run after", "three: not compared"] {
        assert!(out.contains(words), "{out}");
    }
    assert!(err.contains("node one was not compared: not in the run after"), "{err}");
}

#[test]
fn nodes_are_not_compared_with_machine() {
    let (status, _, err) = compare(&example("nodes.json"), &example("bench-sweep.json"));
    assert_eq!(status, Some(2));
    assert!(err.contains("is of one machine, not of several nodes"), "{err}");
    let (status, _, err) = compare(&example("bench-sweep.json"), &example("nodes.json"));
    assert_eq!(status, Some(2), "{err}");
}

#[test]
fn impossible_node_records_are_refused() {
    let folder = Scratch::new();
    let twice = changed(folder.path(), |record| {
        let first = record["nodes"][0].clone();
        record["nodes"].as_array_mut().expect("nodes").push(first);
    });
    let output = peerlane(&[Path::new("report"), &twice]).exited(2);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("it has the node `one` twice"), "{err}");
}

#[test]
fn report_has_row_per_node() {
    let page = peerlane(&[Path::new("report"), &example("nodes.json")]).exited(0).text();
    for words in [
        "2 of 3 nodes answered. Missing: three",
        "| three | – |  | missing: it is not in the cluster (not back within 0 s) |",
        "| one | host-one | 10.0.0.1 | answered |",
        "| one | set.bin | 0000:03:00.0 |",
        "| two | host-two | 1 drive to host 1M |",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    let page = peerlane(&[Path::new("report"), &example("compare-nodes.json")]).text();
    assert!(page.contains("2 of 3 nodes compared"), "{page}");
}

#[test]
fn csv_has_node_column() {
    let folder = Scratch::new();
    let file = folder.at("runs.csv");

    peerlane(&[Path::new("report"), &example("nodes.json"), Path::new("-o"), &file]).exited(0);
    let text = fs::read_to_string(&file).expect("a file");
    let ends: Vec<&str> = text.lines().filter_map(|line| line.rsplit(',').next()).collect();
    assert_eq!(ends[0], "node");
    for name in ["one", "two"] {
        assert_eq!(ends.iter().filter(|end| **end == name).count(), 6, "{text}");
    }
}

#[test]
fn plain_records_keep_machines_apart() {
    let folder = Scratch::new();
    let text = fs::read_to_string(example("nodes.json")).expect("an example");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    let [first, second] = ["one", "two"].map(|name| {
        let nodes = record["nodes"].as_array().expect("nodes");
        let node = nodes.iter().find(|node| node["name"] == name).expect("a node");
        let path = folder.at(format!("{name}.json"));
        fs::write(&path, node["bench"].to_string()).expect("room");
        path
    });
    let page = peerlane(&[Path::new("report"), &first, &second]).text();
    assert!(page.contains("| one.json | host-one | 1 drive to host 1M |"), "{page}");
    assert!(page.contains("| two.json | host-two | 1 drive to host 1M |"), "{page}");
    let alone = peerlane(&[Path::new("report"), &first]);
    assert!(!String::from_utf8_lossy(&alone.stdout).contains("Several machines"));
}
