//! Lines of a pasted text without the additions of terminals, mail and web pages.

use std::borrow::Cow;

use super::{heading, numbering};

/// Columns of a tab.
const TAB: usize = 8;

/// A line without dirt; its indentation stays.
#[derive(Debug, Clone)]
pub(super) struct CleanLine<'a> {
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) text: Cow<'a, str>,
}

/// Lines of a text, each without terminal codes, mail quotes, markup, line numbers, HTML escapes and odd spaces.
pub(super) fn lines(text: &str) -> impl Iterator<Item = CleanLine<'_>> {
    let is_numbered = is_numbered(text);
    text.lines().zip(1u32..).map(move |(line, number)| {
        let line = if is_numbered { numbering::without(line) } else { line };
        CleanLine { number, text: clean(line) }
    })
}

/// Returns whether the lines have numbers in front, as `cat -n` and `grep -n` print them.
fn is_numbered(text: &str) -> bool {
    /// Lines that tell.
    const LINES: usize = 200;
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).take(LINES);
    let has_heading = |line: &str| heading::is_heading(clean(line).trim());
    let numbers: Vec<u32> = lines().filter_map(numbering::number).collect();
    let rises = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    rises
        && numbers.len() * 5 >= lines().count() * 4
        && !lines().any(has_heading)
        && lines().any(|line| has_heading(numbering::without(line)))
}

fn clean(line: &str) -> Cow<'_, str> {
    let line = line.trim_end();
    let is_plain = |byte: u8| matches!(byte, b'\t' | b' '..=b'~') && !matches!(byte, b'&' | b'<');
    if line.bytes().all(is_plain) && !has_mail_codes(line) {
        return Cow::Borrowed(unquoted(line));
    }
    let text = without_codes(line);
    let text = if has_mail_codes(&text) { without_mail_codes(&text) } else { text };
    let text = if text.contains('<') { without_tags(&text) } else { text };
    let text = if text.contains('&') { unescaped(&text) } else { text };
    Cow::Owned(unquoted(&text).trim_end().to_owned())
}

/// The code of an equals sign in quoted-printable mail (RFC 2045 section 6.7). `lspci` prints numbers in small letters.
const MAIL_EQUALS: &str = "=3D";
/// Ends of lines there: a line that goes on, and a space.
const MAIL_ENDS: [&str; 2] = ["=20", "="];

fn has_mail_codes(line: &str) -> bool {
    line.contains(MAIL_EQUALS) || MAIL_ENDS.iter().any(|end| line.ends_with(end))
}

fn without_mail_codes(line: &str) -> String {
    let end = MAIL_ENDS.iter().find_map(|end| line.strip_suffix(end));
    end.unwrap_or(line).replace(MAIL_EQUALS, "=")
}

/// Removes the tags that web pages put around and into preformatted text; `<access denied>` stays.
fn without_tags(text: &str) -> String {
    const TAGS: [&str; 23] = [
        "a",
        "article",
        "b",
        "blockquote",
        "body",
        "br",
        "code",
        "div",
        "em",
        "font",
        "html",
        "i",
        "kbd",
        "li",
        "p",
        "pre",
        "samp",
        "section",
        "span",
        "strong",
        "td",
        "tr",
        "tt",
    ];
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        kept.push_str(before);
        let tag = behind.split_once('>').filter(|(inner, _)| {
            let name = inner.strip_prefix('/').unwrap_or(inner);
            let name = name.split([' ', '\t', '/']).next().unwrap_or(name);
            TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag))
        });
        rest = match tag {
            Some((_, behind)) => behind,
            None => {
                kept.push('<');
                behind
            }
        };
    }
    kept + rest
}

/// Removes mail quotes, each with at most one space behind it.
fn unquoted(line: &str) -> &str {
    let mut rest = line;
    while let Some(inner) = rest.trim_start_matches(' ').strip_prefix('>') {
        // They begin a line of a register that was wrapped.
        if ["TAbort", "SERR", "Reset"].iter().any(|flag| inner.starts_with(flag)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_removed_and_values_kept() {
        for (line, expected) in [
            ("<pre><code class=\"language-text\">00:00.0 Host", "00:00.0 Host"),
            ("\tCapabilities: <access denied></code></pre>", "\tCapabilities: <access denied>"),
            ("\tStatus: >TAbort- <TAbort- <MAbort-", "\tStatus: >TAbort- <TAbort- <MAbort-"),
            ("a <b", "a <b"),
            ("<br/>x<BR />y", "xy"),
            ("\tBus: primary=3D20, secondary=3D21, =", "\tBus: primary=20, secondary=21,"),
            ("\tBus: primary=20, secondary=09", "\tBus: primary=20, secondary=09"),
            (">=20", ""),
            ("> > >vendor_id\t: AuthenticAMD", "vendor_id\t: AuthenticAMD"),
            (">TAbort- <TAbort- >SERR-", ">TAbort- <TAbort- >SERR-"),
        ] {
            assert_eq!(clean(line), expected);
        }
    }
}
