//! Crates that a page in a browser is built of: they open no file and start no program outside named modules.

use crate::files::SourceFile;
use crate::rust::code_only;
use crate::{Violation, text};

/// Crates that build for `wasm32-unknown-unknown`.
const CRATES: [&str; 7] = ["units", "fabric", "reach", "doctor", "results", "report", "web"];

/// Modules that read the running machine, or a tree or file that a person named.
const MODULES: [&str; 7] = [
    "crates/fabric/src/assume/read.rs",
    "crates/fabric/src/machine_file/mod.rs",
    "crates/fabric/src/sysfs/archive/folder.rs",
    "crates/fabric/src/sysfs/mod.rs",
    "crates/fabric/src/sysfs/tree.rs",
    // Commands on the terminal of the machine itself.
    "crates/doctor/src/examine/boot_loader.rs",
    "crates/web/src/ffi.rs",
];

/// Names of what a browser does not have.
const ABSENT: [&str; 4] = ["std::fs", "std::process", "std::thread", "rustix"];

/// Finds names of files, processes and threads in those crates, tests apart.
#[must_use]
pub fn check(files: &[SourceFile]) -> Vec<Violation> {
    let is_portable = |path: &str| {
        CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
            && !MODULES.contains(&path)
            && !path.ends_with("/tests.rs")
            && !path.contains("/tests/")
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_one_of(&["rs"]) && is_portable(&file.path)) {
        let code = code_only(file.text());
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate() {
            for name in ABSENT.iter().filter(|name| text::find_word(line, name).is_some()) {
                let what = format!("`{name}` in a crate that a browser runs");
                findings.push(Violation::new(&file.path, index + 1, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn findings_at(path: &str, text: &str) -> Vec<usize> {
        check(&[SourceFile::planted(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn refuses_files_in_portable_crates() {
        let text = "fn f() {}\nuse std::fs;\n";
        assert_eq!(findings_at("crates/report/src/csv.rs", text), [2]);
        assert_eq!(findings_at("crates/reach/src/x.rs", "use rustix::fs;\n"), [1]);
        assert_eq!(findings_at("crates/cli/src/x.rs", text), [0; 0]);
    }

    #[test]
    fn leaves_tests_and_named_modules_alone() {
        let text = "use std::fs;\n";
        for path in [MODULES[0], "crates/fabric/src/sysfs/tests.rs", "crates/web/tests/x.rs"] {
            assert_eq!(findings_at(path, text), [0; 0], "{path}");
        }
        let tested = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(findings_at("crates/fabric/src/find.rs", tested), [0; 0]);
    }
}
