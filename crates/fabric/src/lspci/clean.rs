//! Lines of a pasted text without what terminals, mail and web pages put around them.

use std::borrow::Cow;

/// Columns of a tab.
const TAB: usize = 8;

/// A line without dirt; its indentation stays.
#[derive(Debug, Clone)]
pub(super) struct CleanLine<'a> {
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) text: Cow<'a, str>,
}

/// Lines of a text, each without terminal codes, mail quotes, HTML escapes and odd spaces.
pub(super) fn lines(text: &str) -> impl Iterator<Item = CleanLine<'_>> {
    text.lines().zip(1u32..).map(|(line, number)| CleanLine { number, text: clean(line) })
}

fn clean(line: &str) -> Cow<'_, str> {
    let line = line.trim_end();
    let is_plain = |byte: u8| matches!(byte, b'\t' | b' '..=b'~') && byte != b'&';
    if line.bytes().all(is_plain) {
        return Cow::Borrowed(unquoted(line));
    }
    let text = without_codes(line);
    let text = if text.contains('&') { unescaped(&text) } else { text };
    Cow::Owned(unquoted(&text).trim_end().to_owned())
}

/// Removes mail quotes, each with at most one space behind it.
fn unquoted(line: &str) -> &str {
    let mut rest = line;
    while let Some(inner) = rest.trim_start_matches(' ').strip_prefix('>') {
        // `>TAbort-` begins a line of the status register that was wrapped.
        if inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        rest = inner.strip_prefix(' ').unwrap_or(inner);
    }
    rest
}

/// Removes terminal codes (ECMA-48 section 5.4) and characters without width; odd spaces become plain ones.
fn without_codes(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                Some('[') => {
                    let _ = characters.find(|c| ('@'..='~').contains(c));
                }
                Some(']') => {
                    let _ = characters.find(|&c| c == '\u{7}' || c == '\\');
                }
                _ => {}
            },
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => kept.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{ad}' => {}
            '\t' => kept.push('\t'),
            c if c.is_control() => {}
            c => kept.push(c),
        }
    }
    kept
}

/// Replaces the escapes that web pages make of characters of `lspci`.
fn unescaped(text: &str) -> String {
    const ESCAPES: [(&str, &str); 8] = [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    ESCAPES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The column of the first character that is not a space.
pub(super) fn indentation(line: &str) -> usize {
    let mut column = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column = (column / TAB + 1) * TAB,
            _ => break,
        }
    }
    column
}
