//! Clauses inside the sentences of doc comments and docstrings, each written instead of a noun.

use crate::files::SourceFile;
use crate::phrases::occurrences;
use crate::style::{Count, doc_text};

/// Files that a count names.
const WORST: usize = 5;

/// Words that follow "what" in a clause.
const VERBS: &str =
    "is are was were has have goes go comes came it they a an the else would can may must does do";
/// Words before "which", "whom" and "whose".
const PREPOSITIONS: &str = "of by in from to on with for below behind through";
const ODD: [&str; 8] =
    ["beside", "so that", "but for", "in place of", "somebody", "nobody", "whoever", "as it were"];

/// Each count, and its phrases.
fn patterns() -> [(&'static str, Vec<String>); 4] {
    let what = VERBS.split(' ').map(|verb| format!("what {verb}"));
    let which = PREPOSITIONS
        .split(' ')
        .flat_map(|word| ["which", "whom", "whose"].map(|pronoun| format!("{word} {pronoun}")));
    [
        ("what clauses", what.collect()),
        ("which clauses", which.collect()),
        ("where clauses", vec![", where".to_owned()]),
        ("odd words", ODD.map(str::to_owned).to_vec()),
    ]
}

/// Counts the clauses of each kind in a thousand words.
pub(crate) fn count(files: &[SourceFile]) -> Vec<Count> {
    let texts: Vec<(&str, String)> =
        files.iter().map(|file| (file.path.as_str(), prose(file))).collect();
    let words: usize = texts.iter().map(|(_, text)| text.split_whitespace().count()).sum();
    let count = |(name, phrases): (&'static str, Vec<String>)| {
        let hits = |text: &str| phrases.iter().map(|phrase| occurrences(text, phrase)).sum();
        let mut found: Vec<(usize, &str)> =
            texts.iter().map(|(path, text)| (hits(text), *path)).filter(|one| one.0 > 0).collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        let all: usize = found.iter().map(|one| one.0).sum();
        let worst: Vec<_> =
            found.iter().take(WORST).map(|(hits, path)| format!("{path} ({hits})")).collect();
        let note = format!("; {all} in {words} words, most in {}", worst.join(", "));
        Count { name, value: (1000 * all).div_ceil(words.max(1)), note }
    };
    patterns().into_iter().map(count).collect()
}

/// The sentences of a file in lower case, with a word for each piece of code.
fn prose(file: &SourceFile) -> String {
    let text = if file.is_one_of(&["rs"]) {
        file.text().lines().filter_map(|line| doc_text(line.trim())).collect::<Vec<_>>().join("\n")
    } else if file.is_one_of(&["py", "pyi"]) {
        docstrings(file.text())
    } else {
        String::new()
    };
    text.split('`').step_by(2).collect::<Vec<_>>().join(" code ").to_lowercase()
}

/// Docstrings: the strings of three quotes that begin a file, or a block after a colon.
fn docstrings(source: &str) -> String {
    let mut found = Vec::new();
    let mut is_first = true;
    let mut lines = source.lines();
    while let Some(line) = lines.next().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let opening = line.strip_prefix("\"\"\"").filter(|_| is_first);
        is_first = line.ends_with(':');
        let mut next = opening;
        while let Some(line) = next {
            let (text, end) = line.split_once("\"\"\"").map_or((line, None), |p| (p.0, Some(p.1)));
            found.push(text);
            next = if end.is_some() { None } else { lines.next() };
        }
    }
    found.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(path: &str, text: &str) -> Vec<usize> {
        count(&[SourceFile::planted(path, text)]).iter().map(|one| one.value).collect()
    }

    #[test]
    fn doc_comments_are_counted_without_code() {
        let text = "|/// Reads what is there, where `what is` code, of which\n|/// one lies beside it.\n\
                    // what is no doc comment\nlet a = 1;\n";
        assert_eq!(values("a.rs", &text.replace('|', "")), [77; 4]);
    }

    #[test]
    fn docstrings_are_counted_without_other_strings() {
        let text = "#!/usr/bin/env python3\n\"\"\"What is in\n\nthe file.\"\"\"\n\ndef f(a,\n  b):\n    \
                    \"\"\"Nobody reads it.\"\"\"\n    c = 1\n    \"\"\"What is no docstring.\"\"\"\n";
        assert_eq!(values("a.py", text), [125, 0, 0, 125]);
        assert_eq!(values("a.md", text), [0; 4]);
    }

    #[test]
    fn worst_file_is_named() {
        let files = [("a.rs", "|/// So that."), ("b.rs", "|/// Somebody or nobody.")]
            .map(|(path, text)| SourceFile::planted(path, &text.replace('|', "")));
        assert_eq!(count(&files)[3].note, "; 3 in 5 words, most in b.rs (2), a.rs (1)");
    }
}
