//! Values of GRUB's variables: as the shell reads the file, then as GRUB reads the line made of it.
//!
//! `grub-mkconfig` runs the files as shell scripts and copies the value into a line of `grub.cfg`.
//! GRUB reads that line in its own script language: `;` outside quotes ends the command there (GRUB
//! manual, "Shell-like scripting").

use super::forms::LineFault;

/// Characters that end a word of GRUB's script, and that no plain kernel parameter has.
const GRUB_METACHARACTERS: [char; 8] = [';', '&', '|', '<', '>', '{', '}', '$'];

/// Reads the value of a shell assignment, without references to `GRUB_CMDLINE_LINUX` and its kin,
/// which stand for parameters of the present boot.
pub(super) fn value(text: &str) -> Result<String, LineFault> {
    let mut value = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' => double_quoted(&rest[1..], &mut value)?,
            '\'' => {
                let (inner, behind) = rest[1..].split_once('\'').ok_or_else(unclosed)?;
                value.push_str(inner);
                behind
            }
            ' ' | '\t' => return end(rest, value),
            '\\' | '$' => escape_or_variable(rest, &mut value)?,
            '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => return Err(no_script(first)),
            plain => {
                value.push(plain);
                &rest[plain.len_utf8()..]
            }
        };
    }
    Ok(value)
}

/// Nothing but a comment may follow.
fn end(rest: &str, value: String) -> Result<String, LineFault> {
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(value);
    }
    Err(LineFault::new("more words stand behind the value").hint("put the whole value into quotes"))
}

/// Text up to the closing quote; returns the text behind it.
fn double_quoted<'a>(mut rest: &'a str, value: &mut String) -> Result<&'a str, LineFault> {
    loop {
        let first = rest.chars().next().ok_or_else(unclosed)?;
        rest = match first {
            '"' => return Ok(&rest[1..]),
            '`' => return Err(no_script(first)),
            // Other characters keep the backslash in front of them.
            '\\' if !rest[1..].starts_with(['"', '\\', '$', '`']) => {
                value.push('\\');
                &rest[1..]
            }
            '\\' | '$' => escape_or_variable(rest, value)?,
            plain => {
                value.push(plain);
                &rest[plain.len_utf8()..]
            }
        };
    }
}

/// A backslash with the character that it quotes, or a variable.
fn escape_or_variable<'a>(rest: &'a str, value: &mut String) -> Result<&'a str, LineFault> {
    if let Some(behind) = rest.strip_prefix('\\') {
        let quoted = behind.chars().next().ok_or_else(unclosed)?;
        value.push(quoted);
        return Ok(&behind[quoted.len_utf8()..]);
    }
    let name = rest[1..].strip_prefix('{').unwrap_or(&rest[1..]);
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let end = name.find(|one| !is_part(one)).unwrap_or(name.len());
    let (name, behind) = name.split_at(end);
    if !name.starts_with("GRUB_CMDLINE_LINUX") {
        return Err(no_script('$'));
    }
    match rest.starts_with("${") {
        true => behind.strip_prefix('}').ok_or_else(|| no_script('$')),
        false => Ok(behind),
    }
}

fn unclosed() -> LineFault {
    LineFault::new("a quote is not closed")
}

fn no_script(character: char) -> LineFault {
    LineFault::new(format!("`{character}` makes it a script, which is not run"))
        .hint("put the kernel command line itself into a file")
}

/// Words of GRUB's script, each a kernel parameter.
pub(super) fn grub_words(text: &str) -> Result<Vec<String>, LineFault> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            one if one.is_whitespace() => words.extend(word.take()),
            '"' | '\'' => grub_quoted(character, &mut characters, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(characters.next().ok_or_else(unclosed)?),
            one if GRUB_METACHARACTERS.contains(&one) => return Err(cut_off(one, text)),
            one => word.get_or_insert_default().push(one),
        }
    }
    words.extend(word);
    Ok(words)
}

fn grub_quoted(
    quote: char,
    characters: &mut std::str::Chars<'_>,
    word: &mut String,
) -> Result<(), LineFault> {
    loop {
        match characters.next().ok_or_else(unclosed)? {
            one if one == quote => return Ok(()),
            '\\' if quote == '"' => match characters.next().ok_or_else(unclosed)? {
                one @ ('"' | '\\' | '$') => word.push(one),
                one => word.extend(['\\', one]),
            },
            '$' if quote == '"' => return Err(no_script('$')),
            one => word.push(one),
        }
    }
}

/// The word that GRUB takes apart, and how to quote it.
fn cut_off(character: char, text: &str) -> LineFault {
    let word = text.split_whitespace().find(|word| word.contains(character)).unwrap_or(text);
    LineFault::new(format!("GRUB ends the kernel's command line at `{character}`")).hint(format!(
        "put the parameter into quotes that GRUB sees: \\\"{}\\\"",
        word.trim_matches(['"', '\''])
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        value(text).and_then(|value| grub_words(&value)).map_err(|fault| fault.reason)
    }

    #[test]
    fn shell_and_grub_quotes_are_removed() {
        for (text, expected) in [
            ("\"quiet splash\"", vec!["quiet", "splash"]),
            ("'quiet pci=realloc' # no reason", vec!["quiet", "pci=realloc"]),
            ("quiet", vec!["quiet"]),
            ("\"$GRUB_CMDLINE_LINUX pci=noats\"", vec!["pci=noats"]),
            ("\"${GRUB_CMDLINE_LINUX_DEFAULT} a\"", vec!["a"]),
            ("\"\\\"pci=disable_acs_redir=a;b\\\"\"", vec!["pci=disable_acs_redir=a;b"]),
            ("\"'pci=config_acs=0@a;0@b' x\"", vec!["pci=config_acs=0@a;0@b", "x"]),
            ("'pci=a\\;b'", vec!["pci=a;b"]),
            ("\"\"", vec![]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(words(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unquoted_separators_get_quoted_hint() {
        let fault = grub_words("quiet pci=disable_acs_redir=a;b").expect_err("GRUB cuts it");
        assert_eq!(fault.reason, "GRUB ends the kernel's command line at `;`");
        assert!(fault.hint.expect("a hint").ends_with("\\\"pci=disable_acs_redir=a;b\\\""));
    }

    #[test]
    fn scripts_and_open_quotes_are_refused() {
        for text in [
            "\"quiet",
            "'quiet",
            "\"$(uname -r)\"",
            "\"$ROOT\"",
            "`x`",
            "a b",
            "a;b",
            "\"\\\"a\"",
            "\\",
            "\"${GRUB_CMDLINE_LINUX:-x}\"",
            "\"'a\"",
        ] {
            assert!(words(text).is_err(), "{text}: {:?}", words(text));
        }
    }
}
