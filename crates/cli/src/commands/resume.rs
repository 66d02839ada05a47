//! The command that continues a copy: the typed one, with `--resume`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, CommandFactory};

use crate::args::Cli;

/// The words of this command as a shell takes them, with `--resume` among the options.
pub(crate) fn command(words: &[OsString]) -> String {
    let resume = OsString::from("--resume");
    let mut all: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    if !all.contains(&resume.as_os_str()) {
        // Behind `--` there are no options.
        let end = all.iter().position(|word| *word == "--").unwrap_or(all.len());
        all.insert(end, &resume);
    }
    all.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The same with the targets that `is_kept` keeps, in the typed order.
pub(crate) fn command_with(words: &[OsString], is_kept: &[bool]) -> String {
    let places = positionals(words);
    // The command itself and the source are in front of the targets.
    let targets = places.get(2..).unwrap_or_default();
    if targets.len() != is_kept.len() {
        return command(words);
    }
    let is_left_out = |at: usize| {
        let target = targets.iter().position(|place| *place == at);
        target.is_some_and(|target| !is_kept[target])
    };
    let kept = words.iter().enumerate().filter(|(at, _)| !is_left_out(*at));
    command(&kept.map(|(_, word)| word.clone()).collect::<Vec<_>>())
}

/// Indices of the words of `peerlane copy` that are neither options nor values of options.
fn positionals(words: &[OsString]) -> Vec<usize> {
    let program = Cli::command();
    let copy = program.find_subcommand("copy");
    let options =
        || program.get_arguments().chain(copy.iter().flat_map(|copy| copy.get_arguments()));
    let has_value =
        |option: Option<&Arg>| option.is_some_and(|one| one.get_action().takes_values());
    let mut found = Vec::new();
    let (mut at, mut is_ended) = (1, false);
    while let Some(word) = words.get(at) {
        let bytes = word.as_bytes();
        if is_ended || bytes == b"-" || !bytes.starts_with(b"-") {
            found.push(at);
        } else if bytes == b"--" {
            is_ended = true;
        } else if let Some(name) = bytes.strip_prefix(b"--") {
            // With a `=` the value is in the same word, and no option is called so.
            let is_named = |one: &&Arg| {
                let aliases = one.get_all_aliases().unwrap_or_default();
                one.get_long().into_iter().chain(aliases).any(|long| long.as_bytes() == name)
            };
            at += usize::from(has_value(options().find(is_named)));
        } else {
            // Of short options in one word, the first with a value takes the rest, or the next word.
            let takes = |letter: &u8| {
                let letter = char::from(*letter);
                has_value(options().find(|one| one.get_short() == Some(letter)))
            };
            let first = bytes[1..].iter().position(takes);
            at += usize::from(first == Some(bytes.len() - 2));
        }
        at += 1;
    }
    found
}

/// One word for any POSIX shell; bytes that are not UTF-8 need a shell with `$'...'`.
pub(crate) fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return word.to_string_lossy().into_owned();
    }
    match word.to_str().filter(|text| !text.contains(char::is_control)) {
        Some(text) => format!("'{}'", text.replace('\'', "'\\''")),
        None => {
            let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("$'{escaped}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn command_of(words: &[&str]) -> String {
        command(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn resume_is_added_once_among_options() {
        assert_eq!(command_of(&["peerlane", "copy", "a", "b"]), "peerlane copy a b --resume");
        assert_eq!(command_of(&["p", "copy", "--", "-a", "b"]), "p copy --resume -- -a b");
        assert_eq!(command_of(&["p", "copy", "a", "--resume", "b"]), "p copy a --resume b");
    }

    #[test]
    fn only_complete_targets_are_left_out() {
        for (words, is_kept, expected) in [
            ("p copy s a b --force", &[false, true][..], "p copy s b --force --resume"),
            ("p copy s a b --force", &[true, true], "p copy s a b --force --resume"),
            (
                "p copy s out mode --preserve mode --limit 1M",
                &[true, false],
                "p copy s out --preserve mode --limit 1M --resume",
            ),
            (
                "p copy --preserve mode --block=1M s mode out",
                &[false, true],
                "p copy --preserve mode --block=1M s out --resume",
            ),
            (
                "p copy --bwlimit 1M s mode out",
                &[false, true],
                "p copy --bwlimit 1M s out --resume",
            ),
            ("p copy copy copy b", &[false, true], "p copy copy b --resume"),
            (
                "p --color never -vv copy never never b",
                &[false, true],
                "p --color never -vv copy never b --resume",
            ),
            ("p copy s a ./a b", &[true, false, true], "p copy s a b --resume"),
            (
                "p copy --force -- s -a --limit b",
                &[true, false, true],
                "p copy --force --resume -- s -a b",
            ),
            // What is not understood is given back as it was.
            ("p copy s a", &[true, false], "p copy s a --resume"),
        ] {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let found = command_with(&words, is_kept);
            assert_eq!(found, expected);
            let again = Cli::command().try_get_matches_from(found.split(' '));
            assert!(again.is_ok(), "{found}: {again:?}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(
            command_of(&["p", "it's a file", "$HOME", ""]),
            r"p 'it'\''s a file' '$HOME' '' --resume"
        );
        let odd = OsString::from_vec(vec![b'a', 0xff, b'\n']);
        assert_eq!(quoted(&odd), r"$'\x61\xff\x0a'");
    }

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = ["p", "it's", "a b", "$(x)", "`y`", "\\", "*", "\"", ""];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let script = format!("printf '%s\\0' {}", command(&words));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let found: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let expected: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(found[..expected.len()], expected[..]);
    }
}
