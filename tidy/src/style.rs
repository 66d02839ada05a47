//! Counts of style, each with a limit in `CONTRIBUTING.md`.

use std::collections::BTreeMap;

use crate::files::SourceFile;
use crate::{Violation, clauses, markdown};

/// The section of `CONTRIBUTING.md` with the limits.
pub const SECTION: &str = "Counts with limits";

/// Words that open a relative clause instead of a noun or a verb.
const RELATIVE: [&str; 12] = [
    "what", "whether", "which", "who", "whose", "whom", "where", "when", "how", "why", "those",
    "that",
];

/// A count of the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// As the page names it.
    pub name: &'static str,
    /// A number, or a share in thousandths.
    pub value: usize,
    /// Details for the reader of a fault; may be empty.
    pub note: String,
}

/// Counts all files.
#[must_use]
pub fn count(files: &[SourceFile]) -> Vec<Count> {
    let mut found = StyleCounts::default();
    for file in files.iter().filter(|file| file.is_one_of(&["rs"])) {
        found.add(file.text());
    }
    let shared: usize = found.types.values().filter(|count| **count > 1).sum();
    let share = |part: usize, all: usize| (1000 * part).div_ceil(all.max(1));
    let types = found.types.values().sum();
    let count = |name, value| Count { name, value, note: String::new() };
    let mut counts = vec![
        count("relative openings", share(found.relative, found.docs)),
        count("`fn of`", found.of),
        count("shared type names", share(shared, types)),
        count("words in test names", median(found.words)),
    ];
    counts.extend(clauses::count(files));
    counts
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[derive(Default)]
struct StyleCounts<'a> {
    docs: usize,
    relative: usize,
    of: usize,
    types: BTreeMap<&'a str, usize>,
    /// Words in the name of each test.
    words: Vec<usize>,
}

impl<'a> StyleCounts<'a> {
    fn add(&mut self, text: &'a str) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            let before = &lines[index.saturating_sub(4)..index];
            self.add_doc(line, before.last().is_some_and(|last| doc_text(last).is_some()));
            self.of += usize::from(name_after(line, "fn ") == Some("of"));
            if let Some(name) = type_name(line) {
                *self.types.entry(name).or_default() += 1;
            }
            if let Some(name) = name_after(line, "fn ")
                && before.contains(&"#[test]")
            {
                self.words.push(name.split('_').count());
            }
        }
    }

    fn add_doc(&mut self, line: &str, goes_on: bool) {
        let Some(text) = doc_text(line).filter(|_| !goes_on) else { return };
        let first = text.split(|one: char| !one.is_alphanumeric()).next().unwrap_or_default();
        self.docs += 1;
        self.relative += usize::from(RELATIVE.contains(&first.to_lowercase().as_str()));
    }
}

/// The text of a doc comment's line.
pub(crate) fn doc_text(line: &str) -> Option<&str> {
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// The name behind a keyword, wherever that stands in the line.
fn name_after<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    if line.starts_with("//") {
        return None;
    }
    let at = line.match_indices(keyword).find(|(at, _)| *at == 0 || line[..*at].ends_with(' '))?.0;
    let rest = &line[at + keyword.len()..];
    let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// The name of a type that the line declares.
fn type_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |p| p.1);
        rest.trim_start()
    });
    let declares =
        ["struct ", "enum ", "trait "].into_iter().find(|word| rest.starts_with(word))?;
    name_after(rest, declares)
}

/// Compares counts with the limits that the page states.
#[must_use]
pub fn check(page: &str, counts: &[Count]) -> Vec<Violation> {
    let rows = markdown::table_rows(markdown::section(page, SECTION).unwrap_or_default());
    let limit = |name: &str| {
        let row = rows.iter().find(|row| row.first() == Some(&name))?;
        row.get(1)?.parse::<usize>().ok()
    };
    let judge = |Count { name, value, note }: &Count| {
        let fault = match limit(name) {
            None => format!("`{SECTION}` has no limit of {name}, now {value}"),
            Some(limit) if *value > limit => {
                format!("{name}: {value}, above the limit of {limit}{note}")
            }
            Some(_) => return None,
        };
        Some(Violation::new("CONTRIBUTING.md", 0, fault))
    };
    counts.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line behind a mark: the file does not count itself.
    const SOURCE: &str = "\
|/// Which of them it is.
|pub(crate) struct One;
|/// Reads one.
|/// What goes on is not an opening.
|impl One {
|    pub fn of(x: u8) {}
|}
|enum One {}
|//! Tree.
|struct Other;
|#[test]
|fn reads_a_tree() {}
";

    fn planted() -> [SourceFile; 1] {
        [SourceFile::planted("a.rs", &SOURCE.replace('|', ""))]
    }

    fn counts() -> Vec<usize> {
        count(&planted()).iter().map(|one| one.value).collect()
    }

    #[test]
    fn counts_each_kind() {
        assert_eq!(counts(), [334, 1, 667, 3, 67, 0, 0, 0]);
    }

    #[test]
    fn counts_above_limits_are_refused() {
        let page = |openings: usize| {
            format!(
                "## {SECTION}\n\n| Count | Limit |\n| --- | --- |\n| relative openings | {openings} |\n\
                 | `fn of` | 1 |\n| shared type names | 667 |\n| words in test names | 3 |\n\
                 | what clauses | 67 |\n| which clauses | 0 |\n| where clauses | 0 |\n| odd words | 0 |\n"
            )
        };
        let check = |page: &str| check(page, &count(&planted()));
        assert!(check(&page(334)).is_empty());
        assert!(check(&page(333))[0].what.contains("above the limit"));
        assert_eq!(check("").len(), 8);
    }
}
