//! Foreign text made safe to show: without control characters and of bounded length.
//!
//! Each format escapes its own special characters on top of this.

/// Longest text that is shown of one name, in characters.
const LONGEST: usize = 600;
/// Longest line of a command: parameters of the kernel may name hundreds of ports.
const LONGEST_COMMAND: usize = 1 << 16;

/// A text in one line, without characters that a terminal, a browser or an editor would obey.
///
/// Control characters and direction marks (Unicode annex 9, section 2) are shown by their numbers.
pub(crate) fn plain(text: &str) -> String {
    within(text, LONGEST)
}

/// A line of a command, which is worth nothing if it is cut.
pub(crate) fn command_line(text: &str) -> String {
    within(text, LONGEST_COMMAND)
}

fn within(text: &str, longest: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * longest));
    for (count, character) in text.chars().enumerate() {
        if count == longest {
            shown.push('\u{2026}');
            break;
        }
        let is_direction = matches!(character,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}');
        if character.is_control() || is_direction {
            shown += &format!("\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Text in the form that XML and HTML take, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => {}
            character => escaped.push(character),
        }
    }
    escaped
}

/// `1 run`, `2 runs`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_obeyed_is_shown_by_its_number() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{202e}"), "a\\u{1b}[2Jb\\u{a}c\\u{202e}");
        assert_eq!(plain(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("<script a=\"b\">'&\u{0}"), "&lt;script a=&quot;b&quot;&gt;&#39;&amp;");
    }
}
