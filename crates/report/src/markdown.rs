//! A report as Markdown: the same words and tables, without pictures.

use std::fmt::Write as _;

use crate::document::{Block, Document, Table};
use crate::figure::MARK;

/// The report as Markdown.
pub(crate) fn write(document: &Document) -> String {
    let mut text = format!("{MARK}\n\n# {}\n", escape(&document.title));
    let verdicts = document.verdicts.iter().map(|(_, verdict)| verdict);
    for verdict in document.headline.iter().chain(verdicts) {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n**{}** ({}).",
            escape(verdict.text.trim_end_matches('.')),
            verdict.basis
        );
        for line in &verdict.more {
            let _ = write!(text, " {}", escape(line));
        }
        text.push('\n');
    }
    for block in &document.overview {
        text.push('\n');
        write_block(&mut text, block);
    }
    for section in &document.sections {
        let _ = write!(text, "\n## {}\n", escape(&section.heading));
        for block in &section.blocks {
            text.push('\n');
            write_block(&mut text, block);
        }
    }
    text
}

fn write_block(text: &mut String, block: &Block) {
    match block {
        Block::Facts(facts) => {
            for (name, value) in facts {
                let _ = writeln!(text, "- {name}: {}", escape(value));
            }
        }
        Block::Text(words) => {
            let _ = writeln!(text, "{}", escape(words));
        }
        Block::Commands(step, lines) => {
            let fence = fence(lines);
            let _ = writeln!(text, "{}\n\n{fence}sh\n{}\n{fence}", escape(step), lines.join("\n"));
        }
        Block::Warnings(warnings) => {
            for (warning, advice) in warnings {
                let _ = writeln!(text, "- **warning:** {}; {}", escape(warning), escape(advice));
            }
        }
        // What a figure shows is in the tables; that there is one is said.
        Block::Figure(figure) => {
            let _ = writeln!(
                text,
                "*{}: in the HTML form. {}*",
                escape(&figure.title),
                escape(&figure.caption)
            );
        }
        Block::Table(table) => write_table(text, table),
    }
}

/// A fence that no line can end (CommonMark 0.31, section 4.5): everything inside is text.
fn fence(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let most = lines.iter().map(longest).max().unwrap_or(0);
    "`".repeat(most.max(2) + 1)
}

fn write_table(text: &mut String, table: &Table) {
    let is_number = |column: usize| {
        table.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.sort.is_some()))
    };
    let rule: Vec<&str> = (0..table.columns.len())
        .map(|column| if is_number(column) { "---:" } else { "---" })
        .collect();
    let _ = writeln!(
        text,
        "{}:\n\n| {} |\n| {} |",
        escape(&table.caption),
        table.columns.join(" | "),
        rule.join(" | ")
    );
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(&cell.text)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// Text without special characters of Markdown (CommonMark 0.31, section 2.4), HTML included.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(character);
            }
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_no_links_cells_or_markup() {
        assert_eq!(
            escape("a|b [x](y) <i> `c` *d* !"),
            "a\\|b \\[x\\](y) &lt;i&gt; \\`c\\` \\*d\\* \\!"
        );
    }
}
