//! Places where `unsafe` may be: the fence of `ARCHITECTURE.md`, invariant 1.

use crate::files::SourceFile;
use crate::rust::code_only;
use crate::{Violation, text};

/// Crates that hold fenced files: their root cannot forbid `unsafe`, and denies it.
const FENCED_CRATES: [&str; 4] = ["crates/memory/", "crates/engine/", "crates/web/", "python/"];

/// Most lines between the start of a `SAFETY:` note and its unsafe block.
const NOTE_REACH: usize = 12;

/// Returns whether `path` is inside the fence: `memory/*/ffi.rs`, `memory/src/map.rs`,
/// `engine/src/io/ring/`, `web/src/ffi.rs`, `python/src/ffi.rs`,
/// `python/src/reserve.rs`.
#[must_use]
pub fn is_inside(path: &str) -> bool {
    path == "crates/memory/src/map.rs"
        || (path.starts_with("crates/memory/src/") && path.ends_with("/ffi.rs"))
        || path.starts_with("crates/engine/src/io/ring/")
        || path == "crates/web/src/ffi.rs"
        || path == "python/src/ffi.rs"
        || path == "python/src/reserve.rs"
}

/// Finds `unsafe` outside the fence, blocks without a `SAFETY:` note, and crate roots that
/// do not forbid it.
#[must_use]
pub fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_one_of(&["rs"])) {
        check_words(file, &mut findings);
        check_root(file, &mut findings);
    }
    findings
}

fn check_words(file: &SourceFile, findings: &mut Vec<Violation>) {
    let code = code_only(file.text());
    let lines: Vec<&str> = file.text().lines().collect();
    for (index, line) in code.lines().enumerate() {
        let Some(column) = text::find_word(line, "unsafe") else { continue };
        if !is_inside(&file.path) {
            findings.push(Violation::new(&file.path, index + 1, "`unsafe` outside its fence"));
            continue;
        }
        let rest = line[column + "unsafe".len()..].trim_start();
        let needs_note = rest.is_empty() || rest.starts_with('{') || rest.starts_with("impl");
        let from = index.saturating_sub(NOTE_REACH);
        if needs_note && !lines[from..=index].iter().any(|line| line.contains("SAFETY:")) {
            findings.push(Violation::new(
                &file.path,
                index + 1,
                "`unsafe` without a `SAFETY:` note",
            ));
        }
    }
}

fn check_root(file: &SourceFile, findings: &mut Vec<Violation>) {
    let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    let is_fenced = FENCED_CRATES.iter().any(|folder| file.path.starts_with(folder));
    let code = code_only(file.text());
    let guarded = code.contains("#![forbid(unsafe_code)]")
        || (is_fenced && code.contains("#![deny(unsafe_code)]"));
    if is_root && !guarded {
        let word = if is_fenced { "deny" } else { "forbid" };
        let what = format!("no `#![{word}(unsafe_code)]` at the root");
        findings.push(Violation::new(&file.path, 0, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = "fn f() {\n    unsafe { g() }\n}\n";

    #[track_caller]
    fn findings_at(path: &str, text: &str) -> Vec<usize> {
        check(&[SourceFile::planted(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn refuses_unsafe_outside_the_fence() {
        for path in [
            "crates/cli/src/x.rs",
            "crates/memory/src/p2pmem.rs",
            "crates/engine/src/io/r.rs",
            "python/src/x.rs",
        ] {
            assert_eq!(findings_at(path, BLOCK), [2], "{path}");
        }
    }

    #[test]
    fn wants_a_note_inside_the_fence() {
        let noted = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() }\n}\n";
        for path in [
            "crates/memory/src/map.rs",
            "crates/memory/src/cuda/ffi.rs",
            "crates/engine/src/io/ring/a.rs",
            "python/src/ffi.rs",
        ] {
            assert_eq!(findings_at(path, BLOCK), [2], "{path}");
            assert_eq!(findings_at(path, noted), [0; 0], "{path}");
        }
    }

    #[test]
    fn wants_roots_to_forbid_unsafe() {
        assert_eq!(findings_at("crates/cli/src/main.rs", "fn main() {}\n"), [0]);
        assert_eq!(findings_at("crates/cli/src/main.rs", "// #![forbid(unsafe_code)]\n"), [0]);
        assert_eq!(findings_at("crates/cli/src/main.rs", "#![forbid(unsafe_code)]\n"), [0; 0]);
        assert_eq!(findings_at("crates/cli/src/main.rs", "#![deny(unsafe_code)]\n"), [0]);
        assert_eq!(findings_at("crates/engine/src/lib.rs", "mod ring;\n"), [0]);
        assert_eq!(findings_at("crates/engine/src/lib.rs", "#![deny(unsafe_code)]\n"), [0; 0]);
    }

    #[test]
    fn reads_code_and_not_prose() {
        assert_eq!(findings_at("crates/cli/src/x.rs", "// unsafe\nlet s = \"unsafe\";\n"), [0; 0]);
    }
}
