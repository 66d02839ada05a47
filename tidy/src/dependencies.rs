//! Outside crates: each has a row with its reason in `CONTRIBUTING.md`, its version in one place, and a use.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::files::SourceFile;
use crate::{Violation, markdown};

/// Heading of the table in `CONTRIBUTING.md`.
pub const SECTION: &str = "Dependencies";

/// Finds outside crates without a row that gives a reason, and rows for crates that are not used.
#[must_use]
pub fn check_reasons(manifest: &str, contributing: &str) -> Vec<Violation> {
    let Some(used) = workspace_dependencies(manifest) else {
        return vec![Violation::new("Cargo.toml", 0, "no readable [workspace.dependencies]")];
    };
    let text = markdown::section(contributing, SECTION).unwrap_or_default();
    let mut reasons = BTreeMap::new();
    for row in markdown::table_rows(text) {
        let [crates, reason, ..] = row.as_slice() else { continue };
        for name in markdown::code_words(crates) {
            reasons.insert(name, *reason);
        }
    }
    let fault = |what: String| Violation::new("CONTRIBUTING.md", 0, what);
    let mut findings = Vec::new();
    for name in &used {
        if reasons.get(name.as_str()).is_none_or(|reason| reason.is_empty()) {
            findings.push(fault(format!("no reason for the dependency `{name}`")));
        }
    }
    for name in reasons.keys().filter(|name| !used.iter().any(|used| used == *name)) {
        findings.push(fault(format!("a row for `{name}`, which is not a dependency")));
    }
    findings
}

fn is_ours(name: &str) -> bool {
    name == "peerlane" || name.starts_with("peerlane-")
}

fn workspace_dependencies(root_manifest: &str) -> Option<Vec<String>> {
    let manifest: Table = root_manifest.parse().ok()?;
    let table = manifest.get("workspace")?.get("dependencies")?.as_table()?;
    Some(table.keys().filter(|name| !is_ours(name)).cloned().collect())
}

/// Finds dependencies of packages that do not take their version from the workspace.
#[must_use]
pub fn check_inherited(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        // fuzz/ has its own workspace, as cargo-fuzz wants it.
        if file.path.starts_with("fuzz/") {
            continue;
        }
        let Ok(manifest) = file.text().parse::<Table>() else {
            findings.push(Violation::new(&file.path, 0, "not a readable manifest"));
            continue;
        };
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(kind).and_then(Value::as_table) else { continue };
            for (name, value) in dependencies {
                if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                    let what = format!("`{name}` must be `{name}.workspace = true`");
                    findings.push(Violation::new(&file.path, 0, what));
                }
            }
        }
    }
    findings
}

/// Finds dependencies of packages that no Rust file of theirs names.
#[must_use]
pub fn check_used(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Ok(manifest) = file.text().parse::<Table>() else { continue };
        let folder = file.path.trim_end_matches("Cargo.toml");
        let sources = || {
            let below = files.iter().filter(|one| one.path.starts_with(folder));
            below.filter(|one| one.is_one_of(&["rs"]))
        };
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(kind).and_then(Value::as_table) else { continue };
            for name in dependencies.keys() {
                let word = name.replace('-', "_");
                if !sources().any(|source| names(source.text(), &word)) {
                    let what = format!("`{name}` is a dependency that nothing there uses");
                    findings.push(Violation::new(&file.path, 0, what));
                }
            }
        }
    }
    findings
}

/// Returns whether a text has a word that is not part of a longer one.
fn names(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\npeerlane-units = { path = \"u\" }\nserde = \"1\"\ntoml = \"1\"\n";

    fn page(rows: &str) -> String {
        format!("## Dependencies\n\n| Crate | Why |\n| --- | --- |\n{rows}\n## After\n")
    }

    #[test]
    fn wants_a_reason_for_each_dependency() {
        let findings = |rows| check_reasons(MANIFEST, &page(rows)).len();
        assert_eq!(findings("| `serde`, `toml` | reading |\n"), 0);
        assert_eq!(findings("| `serde` | reading |\n"), 1);
        assert_eq!(findings("| `serde` | reading |\n| `toml` | |\n"), 1);
        assert_eq!(findings("| `serde`, `toml`, `gone` | reading |\n"), 1);
        assert_eq!(check_reasons("not a manifest", "").len(), 1);
    }

    #[test]
    fn wants_every_dependency_used() {
        let manifest = "[dependencies]\nserde_json.workspace = true\npci-ids.workspace = true\n";
        let findings = |source: &str| {
            check_used(&[
                SourceFile::planted("crates/a/Cargo.toml", manifest),
                SourceFile::planted("crates/a/src/lib.rs", source),
                SourceFile::planted("crates/ab/src/lib.rs", "use pci_ids::x; serde_json::y();"),
            ])
        };
        assert_eq!(findings("use pci_ids::x; serde_json::y();"), []);
        let left = findings("use pci_ids::x; use serde_json_lenient::y;");
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].what, "`serde_json` is a dependency that nothing there uses");
    }

    #[test]
    fn wants_versions_in_one_place() {
        let findings =
            |text| check_inherited(&[SourceFile::planted("crates/a/Cargo.toml", text)]).len();
        assert_eq!(findings("[dependencies]\nserde.workspace = true\n"), 0);
        assert_eq!(findings("[dev-dependencies]\nserde = \"1\"\n"), 1);
        assert_eq!(findings("[dependencies]\nserde = { path = \"x\" }\n"), 1);
        assert_eq!(findings("[broken\n"), 1);
    }
}
