//! Rules for every text file: length, stray whitespace, notes to self, merge markers, size, hosts.

use crate::Violation;
use crate::files::SourceFile;

/// Most lines of a source file; a longer one cannot be read as one thing.
pub const LINES_MAX: usize = 800;

/// Bytes above which a file does not belong in git.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Extensions of recorded output, whose whitespace is not ours to choose.
const RECORDED: [&str; 5] = ["snap", "trycmd", "stdout", "stderr", "lock"];

/// Returns the byte column at which `word` stands in `line` as a whole identifier.
#[must_use]
pub fn find_word(line: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .map(|(at, _)| at)
        .find(|&at| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// Finds source files above [`LINES_MAX`] and files above [`FILE_BYTES_MAX`].
#[must_use]
pub fn check_sizes(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files {
        let lines = file.text().lines().count();
        if (file.is_one_of(&["rs", "py", "sh"]) || file.is_script()) && lines > LINES_MAX {
            let what = format!("{lines} lines, more than {LINES_MAX}: split it");
            findings.push(Violation::new(&file.path, 0, what));
        }
        if file.size > FILE_BYTES_MAX {
            let what = format!("{} bytes, more than {FILE_BYTES_MAX}", file.size);
            findings.push(Violation::new(&file.path, 0, what));
        }
    }
    findings
}

/// Finds trailing whitespace, tabs at the end of a line and a missing newline at the end of a file.
#[must_use]
pub fn check_whitespace(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_written_by_us(file)) {
        for (index, line) in file.text().split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Violation::new(
                    &file.path,
                    index + 1,
                    "whitespace at the end of the line",
                ));
            }
        }
        if !file.text().is_empty() && !file.text().ends_with('\n') {
            findings.push(Violation::new(&file.path, 0, "no newline at the end"));
        }
    }
    findings
}

fn is_written_by_us(file: &SourceFile) -> bool {
    let recorded = ["fixtures/", "fuzz/corpus/"];
    !file.is_one_of(&RECORDED) && !recorded.iter().any(|folder| file.path.starts_with(folder))
}

/// Finds notes to self and merge markers.
#[must_use]
pub fn check_leftovers(files: &[SourceFile]) -> Vec<Violation> {
    // Put together here, so that this file does not find itself.
    let notes = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), "X".repeat(3)];
    let markers = ["<", ">", "|"].map(|mark| format!("{} ", mark.repeat(7)));
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_written_by_us(file)) {
        for (index, line) in file.text().lines().enumerate() {
            for note in notes.iter().filter(|note| find_word(line, note).is_some()) {
                findings.push(Violation::new(
                    &file.path,
                    index + 1,
                    format!("{note} in the source"),
                ));
            }
            if markers.iter().any(|marker| line.starts_with(marker)) {
                findings.push(Violation::new(&file.path, index + 1, "merge marker"));
            }
        }
    }
    findings
}

/// Finds host names of package registries and mirrors, which the builder must choose.
#[must_use]
pub fn check_hosts(files: &[SourceFile]) -> Vec<Violation> {
    let hosts: Vec<String> = [
        ("crates", "io"),
        ("static.rust-lang", "org"),
        ("deb.debian", "org"),
        ("ftp.debian", "org"),
        ("security.debian", "org"),
        ("snapshot.debian", "org"),
        ("archive.ubuntu", "com"),
        ("security.ubuntu", "com"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("proxy.golang", "org"),
    ]
    .iter()
    .map(|(name, domain)| format!("{name}.{domain}"))
    .collect();
    let mut findings = Vec::new();
    // Cargo writes the name of its registry into the lock file.
    for file in files.iter().filter(|file| !file.path.ends_with("Cargo.lock")) {
        for (index, line) in file.text().lines().enumerate() {
            for host in hosts.iter().filter(|host| line.contains(host.as_str())) {
                findings.push(Violation::new(&file.path, index + 1, format!("host name {host}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> Vec<SourceFile> {
        vec![SourceFile::planted(path, text)]
    }

    #[test]
    fn refuses_long_source_files() {
        let long = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(check_sizes(&one("a.rs", &long)).len(), 1);
        assert_eq!(check_sizes(&one("run", &format!("#!/bin/sh\n{long}"))).len(), 1);
        assert_eq!(check_sizes(&one("a.md", &long)), []);
        assert_eq!(check_sizes(&one("a.rs", &"x\n".repeat(LINES_MAX))), []);
    }

    #[test]
    fn refuses_large_files() {
        let mut file = SourceFile::planted("picture.png", "");
        file.size = FILE_BYTES_MAX + 1;
        assert_eq!(check_sizes(&[file]).len(), 1);
    }

    #[test]
    fn refuses_stray_whitespace_outside_snapshots() {
        assert_eq!(check_whitespace(&one("a.rs", "a \nb\t\nc\r\nd")).len(), 4);
        assert_eq!(check_whitespace(&one("a.snap", "a \n")), []);
        assert_eq!(check_whitespace(&one("a.rs", "a\n\nb\n")), []);
    }

    #[test]
    fn refuses_notes_and_merge_markers() {
        let note = ["// TO", "DO: later\n"].concat();
        assert_eq!(check_leftovers(&one("a.rs", &note)).len(), 1);
        assert_eq!(check_leftovers(&one("a.md", &format!("{} ours\n", "<".repeat(7)))).len(), 1);
        assert_eq!(check_leftovers(&one("a.sh", "mktemp part.XXXXXX\ntodo!()\n=======\n")), []);
    }

    #[test]
    fn refuses_hosts_of_registries() {
        let text = ["see https://crates", ".io/x\n"].concat();
        assert_eq!(check_hosts(&one("README.md", &text)).len(), 1);
        assert_eq!(check_hosts(&one("Cargo.lock", &text)), []);
        assert_eq!(check_hosts(&one("a.md", "crates/io.rs\n")), []);
    }

    #[test]
    fn finds_whole_identifiers_only() {
        assert_eq!(find_word("unsafe_op unsafe {", "unsafe"), Some(10));
        assert_eq!(find_word("unsafe_code my_unsafe", "unsafe"), None);
    }
}
