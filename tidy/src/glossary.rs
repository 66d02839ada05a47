//! Words that this project uses, each explained once, and those that it does not use: the last table of `GLOSSARY.md`.

use crate::files::SourceFile;
use crate::{Violation, markdown};

/// Heading of the table in `GLOSSARY.md`.
pub const SECTION: &str = "Words we do not use";

/// A word or a phrase that is not used, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Lower case; a phrase has single spaces.
    pub phrase: String,
    /// The right word.
    pub instead: String,
}

/// Reads the table: words in backquotes in the first column, the right word in the second.
#[must_use]
pub fn read_table(glossary: &str) -> Vec<Refused> {
    let text = markdown::section(glossary, SECTION).unwrap_or_default();
    let mut refused = Vec::new();
    for row in markdown::table_rows(text) {
        let [words, instead, ..] = row.as_slice() else { continue };
        for word in markdown::code_words(words) {
            let phrase = word.to_lowercase();
            refused.push(Refused { phrase, instead: (*instead).to_owned() });
        }
    }
    refused
}

/// Finds refused words in Rust, Markdown and TOML files, the glossary itself left out.
#[must_use]
pub fn check(refused: &[Refused], files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    let read = files.iter().filter(|file| file.is_one_of(&["rs", "md", "toml"]));
    for file in read.filter(|file| file.path != "GLOSSARY.md") {
        for (index, line) in file.text().lines().enumerate() {
            for word in refused.iter().filter(|word| contains(line, &word.phrase)) {
                let what = format!("`{}`: write {}", word.phrase, word.instead);
                findings.push(Violation::new(&file.path, index + 1, what));
            }
        }
    }
    findings
}

/// Returns whether `line` has `phrase` as whole words.
///
/// Case does not matter and `_` separates words. A word next to `/` is part of a path, which is not
/// ours to name (`crates/units/src/lib.rs`).
#[must_use]
pub fn contains(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase().replace('_', " ");
    let is_part = |c: char| c.is_alphanumeric() || c == '/';
    line.match_indices(phrase).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + phrase.len()..].starts_with(is_part)
    })
}

/// Finds terms that the page explains more than once: words in bold, wherever they stand.
#[must_use]
pub fn check_once(glossary: &str) -> Vec<Violation> {
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for (index, line) in glossary.lines().enumerate() {
        for term in line.split("**").skip(1).step_by(2).map(str::to_lowercase) {
            if seen.contains(&term) {
                let what = format!("`{term}` is explained above already");
                findings.push(Violation::new("GLOSSARY.md", index + 1, what));
            } else {
                seen.push(term);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "## Words we do not use\n\n| Not | But |\n| --- | --- |\n\
        | `foo`, `bar` | source, target |\n| `waiting room` | bounce buffer |\n";

    #[test]
    fn refuses_words_and_parts_of_identifiers() {
        let refused = read_table(PAGE);
        assert_eq!(refused.len(), 3);
        let text = "let foo = 1;\nlet bar_offset = 2;\n// A waiting room.\nlet Foo: u8;\n";
        let findings = check(&refused, &[SourceFile::planted("a.rs", text)]);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(findings[0].what, "`foo`: write source, target");
    }

    #[test]
    fn a_term_has_one_explanation() {
        let page = "| **one**, **two** | A thing; *one* |\n| **three** | Its **Two** |\n";
        let findings = check_once(page);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        assert_eq!(findings[0].what, "`two` is explained above already");
        assert_eq!(check_once("| **one** | A thing |\n"), []);
    }

    #[test]
    fn leaves_paths_and_longer_words_alone() {
        let refused = read_table(PAGE);
        let text = "crates/units/foo/lib.rs foo/main.rs myfoo waiting for room\n";
        assert_eq!(check(&refused, &[SourceFile::planted("a.md", text)]), []);
        let files =
            [SourceFile::planted("GLOSSARY.md", "foo\n"), SourceFile::planted("a.c", "foo\n")];
        assert_eq!(check(&refused, &files), []);
    }
}
