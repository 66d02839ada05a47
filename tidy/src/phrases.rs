//! Phrases that no user reads: translations that a native speaker reads twice.

use crate::Violation;
use crate::files::SourceFile;
use crate::rust::literals_only;

/// Each phrase with its replacement.
const PHRASES: [(&str, &str); 17] = [
    ("none that moves payload", "No GPUs, NVMe drives, RDMA NICs or FPGA cards found"),
    ("peer traffic round", "Disable ACS redirect"),
    ("addresses through", "passthrough mode"),
    ("without its repair", "may lack the fix for"),
    ("in force after one restart", "Fixes (one reboot)"),
    ("speaks against", "blocks"),
    ("stands against", "blocked by"),
    ("stand against", "blocked by"),
    ("seen from here", "unknown (not in this input)"),
    ("is there already", "already exists"),
    ("give it air", "improve cooling"),
    ("somebody may miss", "targets that contain data"),
    ("in place of", "instead of"),
    ("beside", "next to"),
    ("somebody", "the actor's name"),
    ("nobody", "the actor's name"),
    ("whoever", "the actor's name"),
];

/// Files whose comments become help or a page of the reference.
const HELP: [&str; 2] = ["crates/cli/src/args/", "crates/results/src/"];

/// Finds the phrases in pages for users, in the program's strings and in the help of its options.
#[must_use]
pub fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !is_of_tests(&file.path)) {
        let text = match &file.path {
            path if is_page(path) => file.text().to_owned(),
            path if HELP.iter().any(|folder| path.starts_with(folder)) => shown(file.text(), true),
            path if path.starts_with("crates/") && path.ends_with(".rs") => {
                shown(file.text(), false)
            }
            _ => continue,
        };
        findings.extend(in_text(&file.path, &text));
    }
    findings
}

fn in_text(path: &str, text: &str) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, instead) in PHRASES.iter().filter(|one| occurrences(&line, one.0) > 0) {
            let fault = format!("\"{phrase}\": say \"{instead}\"");
            findings.push(Violation::new(path, number + 1, fault));
        }
    }
    findings
}

/// Counts the phrase in a text as words of their own.
pub(crate) fn occurrences(text: &str, phrase: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |&(at, _): &(usize, &str)| {
        let goes_on = phrase.starts_with(is_word) && text[..at].ends_with(is_word);
        !goes_on && !text[at + phrase.len()..].starts_with(is_word)
    };
    text.match_indices(phrase).filter(is_whole).count()
}

/// The text of a Rust file that a user may read: its strings, and the comments that become help.
fn shown(source: &str, has_help: bool) -> String {
    let end = source.find("#[cfg(test)]").unwrap_or(source.len());
    let source = &source[..end];
    let help = |line: &str| line.trim_start().strip_prefix("///").map(str::to_owned);
    let literals = literals_only(source);
    let lines = source.lines().zip(literals.lines());
    let line = |(whole, literal): (&str, &str)| {
        help(whole).filter(|_| has_help).unwrap_or_else(|| literal.to_owned())
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}

fn is_page(path: &str) -> bool {
    let is_history = path.starts_with("docs/decisions/") || path == "GLOSSARY.md";
    path.ends_with(".md") && (path.starts_with("docs/") || path == "README.md") && !is_history
}

fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/mock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_help_are_read() {
        let source = "/// Nobody reads it.\nfn f() {\n    // nobody\n    say(\"nobody \\\n        beside\");\n}\n\
                      #[cfg(test)]\nmod tests { const A: &str = \"nobody\"; }\n";
        let found = |has_help| in_text("a.rs", &shown(source, has_help)).len();
        assert_eq!((found(false), found(true)), (2, 3));
    }

    #[test]
    fn words_are_whole() {
        let text = "besides, it stands\nit lies beside it\n";
        assert_eq!(in_text("docs/a.md", text).len(), 1);
    }
}
