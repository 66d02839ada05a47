//! The little of Markdown that the checks read: sections, fenced blocks, tables, code words.

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
}
