//! The programs that read the gauges: Python's `prometheus_client`, and the textfile collector of node_exporter.

use std::fs;
use std::process::Command;

use peerlane_fabric::Fabric;
use peerlane_report::machine::openmetrics;
use serde_json::Value;

use crate::fixtures;
use crate::served::{Served, packages};

/// Reads each file by the parsers of both formats, and prints their samples as JSON, a line a file.
const PARSER: &str = r#"
import json, pathlib, sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

def samples(read, text):
    families = list(read(text))
    assert all(one.type == "gauge" and one.documentation for one in families)
    return [[one.name, one.labels, one.value] for family in families for one in family.samples]

for name in sys.argv[1:]:
    text = pathlib.Path(name).read_text(encoding="utf-8")
    found = samples(openmetrics.text_string_to_metric_families, text)
    assert found == samples(parser.text_string_to_metric_families, text)
    print(json.dumps(found))
"#;

/// The text of every fixture, and that of a machine with a hostile name.
fn texts() -> Vec<(String, String)> {
    const HOSTILE: &str = "name = 'm'\n[[function]]\nname = \"a\\\"} 1\\nforged 1\\\\\"\n\
                           kind = 'nvme'\np2pmem = { size = '64M' }\n";
    let hostile = Fabric::from_toml(HOSTILE).expect("a machine");
    let fixtures = fixtures().into_iter().map(|(name, fabric)| (name, openmetrics(&fabric)));
    fixtures.chain([("hostile".to_owned(), openmetrics(&hostile))]).collect()
}

/// The number of samples in a text.
fn count(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn python_client_reads_every_fixture() {
    let Some(packages) = packages() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let texts = texts();
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages.join("usr/lib/python3/dist-packages"));
    command.args(["-c", PARSER]);
    for (name, text) in &texts {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("room");
        command.arg(file);
    }
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return peerlane_testing::skip("python", "there is no python3");
        }
        output => output.expect("python3 starts"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");
    assert_eq!(lines.lines().count(), texts.len());
    for ((name, text), line) in texts.iter().zip(lines.lines()) {
        let samples: Vec<(String, Value, f64)> = serde_json::from_str(line).expect("samples");
        assert_eq!(samples.len(), count(text), "{name}");
        let is_forged = |labels: &Value| labels["device"] == "a\"} 1\\u{a}forged 1\\";
        assert_eq!(samples.iter().any(|(_, labels, _)| is_forged(labels)), name == "hostile");
    }
}

#[test]
fn node_exporter_collects_every_fixture() {
    let Some(packages) = packages() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let exporter = Served::start(
        Command::new(packages.join("usr/bin/prometheus-node-exporter"))
            .args(["--collector.disable-defaults", "--collector.textfile"])
            .arg(format!("--collector.textfile.directory={}", folder.path().display())),
    );
    let scrape = || {
        let answer = exporter.get("/metrics");
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
        answer
    };
    for (name, text) in texts() {
        let (fresh, file) = (folder.path().join("a.prom.new"), folder.path().join("a.prom"));
        fs::write(&fresh, &text).expect("room");
        fs::rename(fresh, file).expect("a rename");
        let answer = scrape();
        assert!(answer.contains("\nnode_textfile_scrape_error 0\n"), "{name}: {answer}");
        let collected = answer.lines().filter(|line| line.starts_with("peerlane_")).count();
        assert_eq!(collected, count(&text), "{name}: {answer}");
        let whole = text.lines().find(|line| line.starts_with("peerlane_pairs{"));
        let whole = whole.expect("a count of pairs");
        assert!(answer.lines().any(|line| line == whole), "{name}: {whole}");
    }
    // A broken file is noticed, so that 0 means something.
    fs::write(folder.path().join("a.prom"), "peerlane_pairs{verdict=\n").expect("room");
    assert!(scrape().contains("\nnode_textfile_scrape_error 1\n"));
}
