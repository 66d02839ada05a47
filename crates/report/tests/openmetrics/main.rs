//! Machines as gauges for Prometheus: their values, their page, and the programs that read them.
//!
//! `INSTA_UPDATE=always cargo test -p peerlane-report --test openmetrics` writes the snapshot.

mod prometheus;
mod readers;
mod served;
mod values;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_report::machine::openmetrics;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The machine of a fixture.
fn fixture(name: &str) -> Fabric {
    let archive = repository().join("fixtures/sysfs").join(name).join("tree.tar.zst");
    Fabric::discover(&archive).expect("a machine")
}

/// Every fixture by name.
fn fixtures() -> Vec<(String, Fabric)> {
    let entries = std::fs::read_dir(repository().join("fixtures/sysfs")).expect("fixtures");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let names = folders.filter(|path| path.is_dir()).map(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        name.to_owned()
    });
    let all: Vec<_> = names.map(|name| (name.clone(), fixture(&name))).collect();
    assert!(all.len() >= 16, "{} fixtures", all.len());
    all
}

/// The page with every family, without its commands and rules.
fn page() -> String {
    std::fs::read_to_string(repository().join("docs/monitoring.md")).expect("a page")
}

#[test]
fn page_lists_every_family() {
    let text = openmetrics(&fixture("lab-pair"));
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let emitted: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let page = page();
    let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let words = page.split(|one| !is_name(one));
    let listed: BTreeSet<&str> = words.filter(|word| word.starts_with("peerlane_")).collect();
    assert_eq!(listed, emitted);
    let rows = page.lines().filter(|line| line.starts_with("| `peerlane_")).count();
    assert_eq!(rows, emitted.len(), "a row for each family");
}
