//! Permitted edges between crates: the table of `ARCHITECTURE.md` against the manifests.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::{Violation, markdown};

/// Heading of `ARCHITECTURE.md` below which the table is.
pub const SECTION: &str = "Who may depend on whom";

/// A package of the workspace and the packages of the workspace that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name without `peerlane-`, as in the table.
    pub name: String,
    /// True for a package below `crates/`, which belongs in the table.
    pub is_product: bool,
    /// Names of dependencies in the workspace: normal, build and development ones alike.
    pub uses: Vec<String>,
}

/// Reads the table: lines of names, the first line the highest.
///
/// # Errors
/// When the section or its block is not there, or a name stands in it twice.
pub fn read_table(architecture: &str) -> Result<BTreeMap<String, usize>, Violation> {
    let fault = |what: &str| Violation::new("ARCHITECTURE.md", 0, what);
    let text = markdown::section(architecture, SECTION)
        .ok_or_else(|| fault(&format!("no section `{SECTION}`")))?;
    let lines = markdown::fenced_block(text).ok_or_else(|| fault("no fenced table of crates"))?;
    let mut heights = BTreeMap::new();
    for (height, line) in lines.iter().rev().enumerate() {
        for name in line.split_whitespace() {
            if heights.insert(name.to_owned(), height).is_some() {
                return Err(fault(&format!("`{name}` stands twice in the table")));
            }
        }
    }
    Ok(heights)
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
        let uses = package["dependencies"].as_array()?.iter();
        packages.push(Package {
            name: short(package["name"].as_str()?)?,
            is_product: manifest.starts_with(root.join("crates")),
            uses: uses.filter_map(|used| short(used["name"].as_str()?)).collect(),
        });
    }
    Some(packages)
}

/// Finds edges that the table does not allow, packages that it lacks, and names that stand for nothing.
///
/// A crate may use crates on lower lines only. A package outside `crates/` is not in the table and
/// may use none.
#[must_use]
pub fn check(heights: &BTreeMap<String, usize>, packages: &[Package]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for package in packages {
        let height = heights.get(&package.name);
        if package.is_product && height.is_none() {
            let what = format!("`{}` is not in the table", package.name);
            findings.push(Violation::new("ARCHITECTURE.md", 0, what));
        }
        for used in &package.uses {
            let is_lower = matches!((heights.get(used), height), (Some(a), Some(b)) if a < b);
            if !is_lower {
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

    const PAGE: &str = "## Who may depend on whom\n\n```text\ncli\nmemory   results\nunits\n```\n";

    fn package(name: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(|&name| name.to_owned()).collect();
        Package { name: name.to_owned(), is_product: name != "tidy", uses }
    }

    #[track_caller]
    fn faults(packages: &[Package]) -> Vec<String> {
        let table = read_table(PAGE).unwrap();
        check(&table, packages).into_iter().map(|finding| finding.to_string()).collect()
    }

    fn sound() -> Vec<Package> {
        vec![
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
        packages[3].uses.push("cli".to_owned());
        packages[1].uses.push("results".to_owned());
        packages[4].uses.push("units".to_owned());
        let places: Vec<_> = faults(&packages);
        assert_eq!(places.len(), 3, "{places:?}");
        for name in ["memory: uses `results`", "units: uses `cli`", "tidy: uses `units`"] {
            assert!(places.iter().any(|fault| fault.starts_with(name)), "{name} in {places:?}");
        }
    }

    #[test]
    fn crates_and_table_must_match() {
        let mut packages = sound();
        packages[2].name = "report".to_owned();
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
            "dependencies": [{"name": "peerlane-units", "kind": "dev"}, {"name": "serde", "kind": null}]}]}"#;
        assert_eq!(read_packages(metadata, Path::new("/r")).unwrap(), [package("cli", &["units"])]);
        assert_eq!(read_packages("{}", Path::new("/r")), None);
    }
}
