//! Long lines of prose, wrapped at the width of the terminal.
//!
//! Rows of tables and commands stay whole: a table is read by columns, and a command is pasted.

use std::borrow::Cow;
use std::io;

use terminal_size::{Width, terminal_size, terminal_size_of};
use textwrap::core::{Word, display_width};
use textwrap::{Options, WordSeparator, WordSplitter};

use crate::render::VERBATIM;

/// Columns of text that goes into a pipe or a file.
const COLUMNS: usize = 100;
/// Narrower terminals wrap by themselves.
const MIN_COLUMNS: usize = 40;
/// A line whose label is longer continues below its start.
const LABEL_MAX: usize = 24;

/// Columns of standard output: those of `COLUMNS`, of the terminal, or 100.
pub(super) fn columns() -> usize {
    let named = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&columns| columns > 0);
    let columns = named.or_else(|| terminal_size().map(|(Width(width), _)| width.into()));
    columns.unwrap_or(COLUMNS).max(MIN_COLUMNS)
}

/// Columns of standard error, if it is a terminal.
pub(super) fn columns_of_stderr() -> Option<usize> {
    terminal_size_of(io::stderr()).map(|(Width(width), _)| usize::from(width).max(MIN_COLUMNS))
}

/// Text with prose lines of at most so many columns, if their words permit it.
pub(super) fn wrapped(text: &str, columns: usize) -> Cow<'_, str> {
    let fits = |line: &str| display_width(line) <= columns && !line.starts_with(VERBATIM);
    if text.lines().all(fits) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len() + text.len() / 32);
    for line in text.split_inclusive('\n') {
        match line.strip_prefix(VERBATIM) {
            Some(command) => all.push_str(command),
            None if display_width(line.trim_end()) <= columns || is_row(line) => {
                all.push_str(line);
            }
            None => all.push_str(&in_lines(line, columns)),
        }
    }
    Cow::Owned(all)
}

/// True for a row of a table with more than a label set apart, and for a line of a tree.
fn is_row(line: &str) -> bool {
    let content = line.trim();
    let parts = content.split("  ").filter(|part| !part.is_empty());
    parts.count() > 2 || content.starts_with('|') || content.starts_with("`-- ")
}

fn in_lines(line: &str, columns: usize) -> String {
    let content = line.trim_start_matches(' ');
    let start = line.len() - content.len();
    let label = content.find("  ").map(|end| {
        let gap = content[end..].chars().take_while(|&c| c == ' ').count();
        start + display_width(&content[..end]) + gap
    });
    // `1. ` of a list.
    let number =
        content.find(". ").filter(|&end| content[..end].bytes().all(|c| c.is_ascii_digit()));
    let own = start + number.map_or(2, |end| end + 2);
    let further = label.filter(|&column| column <= LABEL_MAX).unwrap_or(own);
    let further = " ".repeat(further);
    let options = Options::new(columns)
        .subsequent_indent(&further)
        .break_words(false)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation);
    let mut lines = textwrap::fill(line.trim_end_matches('\n'), options);
    if line.ends_with('\n') {
        lines.push('\n');
    }
    lines
}

/// Words; a command between backticks is one.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut rest = line;
    Box::new(std::iter::from_fn(move || {
        let mut is_quoted = false;
        let mut ends = rest.char_indices().peekable();
        while let Some((_, letter)) = ends.next() {
            is_quoted ^= letter == '`';
            match ends.peek() {
                // Spaces belong to the word before them.
                Some(&(next, following)) if letter == ' ' && following != ' ' && !is_quoted => {
                    let (word, after) = rest.split_at(next);
                    rest = after;
                    return Some(Word::from(word));
                }
                _ => {}
            }
        }
        (!rest.is_empty()).then(|| Word::from(std::mem::take(&mut rest)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_continues_below_its_value() {
        let text = "  kernel    one two three four five six seven eight\n";
        let expected = "  kernel    one two three four five six\n            seven eight\n";
        assert_eq!(wrapped(text, 40), expected);
        let text = "    one two three four five six seven eight nine";
        assert_eq!(wrapped(text, 40), "    one two three four five six seven\n      eight nine");
    }

    #[test]
    fn commands_and_tables_stay_whole() {
        let command = "one two three four five `six seven eight nine ten`";
        assert_eq!(wrapped(command, 40), "one two three four five\n  `six seven eight nine ten`");
        let line = format!("{VERBATIM}     sudo sed -i s/a/b/ /etc/a/long/name/of/a/file");
        assert_eq!(wrapped(&line, 40), &line[VERBATIM.len_utf8()..]);
        let row = "  one   two   three   four   five   six   seven\n";
        assert_eq!(wrapped(row, 40), row);
        for tree in [
            "|   |-- 0000:17:04.0 (downstream port), up to 32 GT/s\n",
            "    |   `-- 0000:1c:00.0 (NIC) mlx5_0, 32 GT/s x16\n",
            "        `-- 0000:1c:00.0 (NIC) mlx5_0, 32 GT/s x16\n",
        ] {
            assert_eq!(wrapped(tree, 40), tree);
        }
    }

    #[test]
    fn only_spaces_at_line_ends_are_lost() {
        let text =
            "warning: a name  with two spaces, and \u{e4}\u{f6}\u{fc} and 漢字漢字漢字 in it\n";
        let lines = wrapped(text, 40).into_owned();
        let joined: String = lines.split_whitespace().collect();
        assert_eq!(joined, text.split_whitespace().collect::<String>());
        assert!(lines.lines().all(|line| display_width(line) <= 40), "{lines}");
    }
}
