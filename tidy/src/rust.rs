//! Blanks comments and literals out of Rust source: a word left in it is a word of the code.
//!
//! This is a scanner of the lexical forms that hide text (comments, strings, characters), not a
//! parser. Line numbers and columns stay.

use crate::Violation;
use crate::files::SourceFile;

/// Finds chains of `let`, which Rust has from 1.88 on only: the compiler that lints takes them, whatever
/// `rust-version` says.
#[must_use]
pub fn check_oldest(files: &[SourceFile]) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_one_of(&["rs"])) {
        let code = code_only(file.text());
        let lines = code.lines().enumerate().filter(|(_, line)| line.contains("&& let "));
        let what = "a chain of `let` needs Rust 1.88";
        findings.extend(lines.map(|(index, _)| Violation::new(&file.path, index + 1, what)));
    }
    findings
}

/// Returns `source` with the content of comments, strings and characters replaced by spaces.
#[must_use]
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = hidden_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Returns `source` with everything but the content of strings replaced by spaces.
#[must_use]
pub fn literals_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut literals = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = hidden_end(&chars, at).max(at + 1);
        let is_string = end > at + 1 && matches!(chars[at], '"' | 'r');
        let keep = |c: char| if is_string || c == '\n' { c } else { ' ' };
        literals.extend(chars[at..end].iter().map(|&c| keep(c)));
        at = end;
    }
    literals
}

/// Returns where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn hidden_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied().unwrap_or('\0');
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next == '/' => position_from(chars, at, |c| c == '\n'),
        '/' if next == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at),
        'r' if !after_word || chars[at - 1] == 'b' || chars[at - 1] == 'c' => {
            raw_string_end(chars, at)
        }
        '\'' => character_end(chars, at),
        _ => at,
    }
}

fn position_from(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| wanted(c)).map_or(chars.len(), |found| from + found)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => {
                depth += 1;
                i += 2;
            }
            ('*', '/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let quote = position_from(chars, at + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return at;
    }
    let hashes = quote - at - 1;
    let mut i = quote + 1;
    while i < chars.len() {
        let closing = chars[i] == '"'
            && chars.len() >= i + 1 + hashes
            && chars[i + 1..=i + hashes].iter().all(|&c| c == '#');
        if closing {
            return i + 1 + hashes;
        }
        i += 1;
    }
    chars.len()
}

/// Tells a character literal from a lifetime: `'a'` and `'\n'` hide text, `'a` does not.
fn character_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => {
            let close = position_from(chars, at + 3, |c| c == '\'');
            (close + 1).min(chars.len())
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let code = code_only(source);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn let_chain_is_found_in_code() {
        let planted = "if a\n    && let Some(b) = c {}\n// a && let b\n\"x && let y\"";
        let found = check_oldest(&[SourceFile::planted("x.rs", planted)]);
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn hides_comments_and_literals() {
        check("a // unsafe\nb /* x /* unsafe */ y */ c", "a b c");
        check(r#"let s = "unsafe \" unsafe"; t"#, "let s = ; t");
        check("let s = r##\"unsafe \"# \"##; t", "let s = ; t");
        check("let c = 'u'; let q = '\\''; let n = '\"'; t", "let c = ; let q = ; let n = ; t");
        check("b\"x\\\"\" br#\"y\"# z", "b b z");
    }

    #[test]
    fn keeps_code_that_resembles_literals() {
        check(
            "fn f<'a>(r: &'a str) -> for_r { r#type }",
            "fn f<'a>(r: &'a str) -> for_r { r#type }",
        );
        check("fn g() { unsafe { h('\\u{7f}') } }", "fn g() { unsafe { h( ) } }");
    }
}
