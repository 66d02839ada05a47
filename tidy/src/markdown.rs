//! Markdown: sections, fenced blocks, tables and code words for other checks, and the width of prose.

use crate::Violation;
use crate::files::SourceFile;

/// Columns of prose at most.
pub const COLUMNS_MAX: usize = 100;

/// Returns the text of the section whose heading is `title`, up to the next heading of its level or above.
#[must_use]
pub fn section<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let mut begin = None;
    let mut level = 0;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let hashes = line.bytes().take_while(|&b| b == b'#').count();
        if hashes > 0 {
            match begin {
                Some(from) if hashes <= level => return Some(&page[from..at]),
                None if line[hashes..].trim() == title => {
                    begin = Some(at + line.len());
                    level = hashes;
                }
                _ => {}
            }
        }
        at += line.len();
    }
    begin.map(|from| &page[from..])
}

/// Returns the lines of the first fenced block in `text`.
#[must_use]
pub fn fenced_block(text: &str) -> Option<Vec<&str>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("```"));
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with("```")).collect())
}

/// Returns the body rows of all tables in `text`, as trimmed cells.
#[must_use]
pub fn table_rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().map(str::trim).filter(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let is_rule = |row: &Vec<&str>| {
        row.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|b| matches!(b, b'-' | b':')))
    };
    let mut body = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let is_head = rows.get(index + 1).is_some_and(is_rule);
        if !is_head && !is_rule(row) {
            body.push(row.clone());
        }
    }
    body
}

/// Returns the words in backquotes in `cell`.
#[must_use]
pub fn code_words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Finds lines of prose wider than [`COLUMNS_MAX`]: no table, no code, and not for a link's address alone.
#[must_use]
pub fn check_width(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_one_of(&["md"]) && !is_generated(file)) {
        let mut is_code = false;
        for (index, line) in file.text().lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            let width = without_addresses(line).chars().count();
            let is_prose = !is_code && !line.starts_with(['|', '!']) && !line.starts_with("    ");
            if is_prose && width > COLUMNS_MAX {
                let what = format!("{width} columns of prose, more than {COLUMNS_MAX}");
                findings.push(Violation::new(&file.path, index + 1, what));
            }
        }
    }
    findings
}

/// Tests for pages that a command writes.
fn is_generated(file: &SourceFile) -> bool {
    let pages = ["docs/reference/", "docs/reliability", "docs/agreement.md", "docs/predictions.md"];
    pages.iter().any(|page| file.path.starts_with(page)) || file.path.ends_with("/ABOUT.md")
}

/// The line without the addresses of its links, and without bare ones.
fn without_addresses(line: &str) -> String {
    let mut out = String::new();
    for (index, part) in line.split("](").enumerate() {
        out += match part.split_once(')') {
            Some((_, rest)) if index > 0 => rest,
            _ => part,
        };
    }
    let words = out.split(' ').filter(|word| !word.contains("://"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n## Table\n\ntext\n\n```text\ncli\nunits\n```\n\n### Deeper\n\nmore\n\n## After\n\nx\n";

    #[test]
    fn takes_a_section_with_its_subsections() {
        let text = section(PAGE, "Table").unwrap();
        assert!(text.contains("cli") && text.contains("more") && !text.contains("After"));
        assert_eq!(section(PAGE, "Nowhere"), None);
    }

    #[test]
    fn takes_the_first_fenced_block() {
        assert_eq!(fenced_block(PAGE).unwrap(), ["cli", "units"]);
        assert_eq!(fenced_block("no block"), None);
    }

    #[test]
    fn takes_the_body_of_a_table() {
        let rows = table_rows("| A | B |\n| --- | :-- |\n| `x`, `y` | z |\n");
        assert_eq!(rows, [["`x`, `y`", "z"]]);
        assert_eq!(code_words(rows[0][0]), ["x", "y"]);
    }

    #[test]
    fn wide_prose_is_found() {
        let check = |path: &str, line: &str| {
            check_width(&[SourceFile::planted(path, &format!("# A\n\n{line}\n"))]).len()
        };
        let wide = "word ".repeat(30);
        assert_eq!(check("docs/a.md", &wide), 1);
        assert_eq!(check("docs/a.md", &format!("- {wide}")), 1);
        assert_eq!(check("docs/reference/a.md", &wide), 0);
        assert_eq!(check("docs/a.md", &format!("| {wide} |")), 0);
        assert_eq!(check("docs/a.md", &format!("```text\n{wide}\n```")), 0);
        assert_eq!(check("docs/a.md", &format!("```text\n```\n{wide}")), 1);
        assert_eq!(check("docs/a.md", &format!("short [link](https://a/{})", "b/".repeat(60))), 0);
        assert_eq!(check("docs/a.md", &format!("{wide} [link](x)")), 1);
    }
}
