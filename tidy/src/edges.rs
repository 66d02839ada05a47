//! Permitted edges between crates: the table of `ARCHITECTURE.md` against the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::{Violation, markdown};

/// Heading of the table in `ARCHITECTURE.md`.
pub const SECTION: &str = "Who may depend on whom";
/// First word of the line of crates that tests alone use, on any line.
pub const TESTS: &str = "tests:";

/// A package of the workspace and the packages of the workspace that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name without `peerlane-`, as in the table.
    pub name: String,
    /// True for a package below `crates/`, which belongs in the table.
    pub is_product: bool,
    /// Names of normal and build dependencies in the workspace.
    pub uses: Vec<String>,
    /// Names of development dependencies in the workspace.
    pub tests_use: Vec<String>,
}

/// The table: heights of crates, and those that tests alone use.
#[derive(Debug, Default)]
pub struct EdgeTable {
    heights: BTreeMap<String, usize>,
    of_tests: BTreeSet<String>,
}

/// Reads the table: lines of names, the first line the highest.
///
/// # Errors
/// When the section or its block is not there, or a name stands in it twice.
pub fn read_table(architecture: &str) -> Result<EdgeTable, Violation> {
    let fault = |what: &str| Violation::new("ARCHITECTURE.md", 0, what);
    let text = markdown::section(architecture, SECTION)
        .ok_or_else(|| fault(&format!("no section `{SECTION}`")))?;
    let lines = markdown::fenced_block(text).ok_or_else(|| fault("no fenced table of crates"))?;
    let mut table = EdgeTable::default();
    for (height, line) in lines.iter().rev().enumerate() {
        let tests = line.strip_prefix(TESTS);
        for name in tests.unwrap_or(line).split_whitespace() {
            if table.heights.insert(name.to_owned(), height).is_some() {
                return Err(fault(&format!("`{name}` stands twice in the table")));
            }
            table.of_tests.extend(tests.map(|_| name.to_owned()));
        }
    }
    Ok(table)
}

/// Reads the output of `cargo metadata --no-deps`; `None` when it is not that.
#[must_use]
pub fn read_packages(metadata: &str, root: &Path) -> Option<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    // The library has the name of the project.
    let short = |name: &str| match name {
        "peerlane" => Some(name.to_owned()),
        _ => name.strip_prefix("peerlane-").map(str::to_owned),
    };
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array()? {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let (tests_use, uses): (Vec<&Value>, _) =
            package["dependencies"].as_array()?.iter().partition(|used| used["kind"] == "dev");
        let names = |used: Vec<&Value>| -> Vec<String> {
            used.iter().filter_map(|used| short(used["name"].as_str()?)).collect()
        };
        packages.push(Package {
            name: short(package["name"].as_str()?)?,
            is_product: manifest.starts_with(root.join("crates")),
            uses: names(uses),
            tests_use: names(tests_use),
        });
    }
    Some(packages)
}

/// Finds edges that the table does not allow, packages that it lacks, and names that stand for nothing.
///
/// A crate may use crates on lower lines only, and its tests also the line [`TESTS`]. A package outside
/// `crates/` is not in the table and may use none.
#[must_use]
pub fn check(table: &EdgeTable, packages: &[Package]) -> Vec<Violation> {
    let EdgeTable { heights, of_tests } = table;
    let mut findings = Vec::new();
    for package in packages {
        let height = heights.get(&package.name);
        if package.is_product && height.is_none() {
            let what = format!("`{}` is not in the table", package.name);
            findings.push(Violation::new("ARCHITECTURE.md", 0, what));
        }
        let is_lower =
            |used: &String| matches!((heights.get(used), height), (Some(a), Some(b)) if a < b);
        for used in package.uses.iter().filter(|used| of_tests.contains(*used)) {
            let what = format!("uses `{used}`, which is for tests alone");
            findings.push(Violation::new(&package.name, 0, what));
        }
        let is_of_tests = |used: &&String| height.is_some() && of_tests.contains(*used);
        let tests_use = package.tests_use.iter().filter(|used| !is_of_tests(used));
        for used in package.uses.iter().filter(|used| !is_of_tests(used)).chain(tests_use) {
            if !is_lower(used) {
                let what = format!("uses `{used}`, which is not on a lower line of the table");
                findings.push(Violation::new(&package.name, 0, what));
            }
        }
    }
    for name in heights.keys() {
        if !packages.iter().any(|package| package.name == *name) {
            let what = format!("`{name}` in the table is not a crate");
            findings.push(Violation::new("ARCHITECTURE.md", 0, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "## Who may depend on whom\n\n```text\ntests: testing\ncli\nmemory   results\nunits\n```\n";

    fn package(name: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(|&name| name.to_owned()).collect();
        let name = name.to_owned();
        Package { is_product: name != "tidy", name, uses, tests_use: Vec::new() }
    }

    #[track_caller]
    fn faults(packages: &[Package]) -> Vec<String> {
        let table = read_table(PAGE).unwrap();
        check(&table, packages).into_iter().map(|finding| finding.to_string()).collect()
    }

    fn sound() -> Vec<Package> {
        vec![
            package("testing", &["memory"]),
            package("cli", &["memory", "units"]),
            package("memory", &["units"]),
            package("results", &[]),
            package("units", &[]),
            package("tidy", &[]),
        ]
    }

    #[test]
    fn allows_downward_edges() {
        assert_eq!(faults(&sound()), [""; 0]);
    }

    #[test]
    fn refuses_upward_and_sideways_edges() {
        let mut packages = sound();
        packages[4].uses.push("cli".to_owned());
        packages[2].uses.push("results".to_owned());
        packages[5].uses.push("units".to_owned());
        let places: Vec<_> = faults(&packages);
        assert_eq!(places.len(), 3, "{places:?}");
        for name in ["memory: uses `results`", "units: uses `cli`", "tidy: uses `units`"] {
            assert!(places.iter().any(|fault| fault.starts_with(name)), "{name} in {places:?}");
        }
    }

    #[test]
    fn crate_of_tests_serves_tests_alone() {
        let mut packages = sound();
        packages[4].tests_use.push("testing".to_owned());
        assert_eq!(faults(&packages), [""; 0]);
        packages[4].uses.push("testing".to_owned());
        assert_eq!(faults(&packages), ["units: uses `testing`, which is for tests alone"]);
        packages[4].uses.clear();
        packages[2].tests_use.push("results".to_owned());
        assert_eq!(faults(&packages).len(), 1);
    }

    #[test]
    fn crates_and_table_must_match() {
        let mut packages = sound();
        packages[3].name = "report".to_owned();
        assert_eq!(faults(&packages).len(), 2);
    }

    #[test]
    fn refuses_a_broken_table() {
        assert!(read_table("## Elsewhere\n").is_err());
        assert!(read_table("## Who may depend on whom\n\n```text\ncli cli\n```\n").is_err());
    }

    #[test]
    fn reads_what_cargo_prints() {
        let metadata = r#"{"packages": [{"name": "peerlane-cli", "manifest_path": "/r/crates/cli/Cargo.toml",
            "dependencies": [{"name": "peerlane-units", "kind": null}, {"name": "serde", "kind": null},
            {"name": "peerlane-testing", "kind": "dev"}]}]}"#;
        let tests_use = vec!["testing".to_owned()];
        let expected = Package { tests_use, ..package("cli", &["units"]) };
        assert_eq!(read_packages(metadata, Path::new("/r")).unwrap(), [expected]);
        assert_eq!(read_packages("{}", Path::new("/r")), None);
    }
}
