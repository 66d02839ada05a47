//! The command that goes on with a copy: the one that was typed, with `--resume`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

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

/// The same without some of the targets, which are positional words.
pub(crate) fn command_without(words: &[OsString], targets: &[&str]) -> String {
    let mut left = targets.to_vec();
    let mut kept = words.to_vec();
    // From the end: targets are behind the source, which may be called like an option's value.
    for at in (0..kept.len()).rev() {
        if let Some(found) = left.iter().position(|target| kept[at] == *target) {
            left.remove(found);
            kept.remove(at);
        }
    }
    command(&kept)
}

/// One word for any POSIX shell; bytes that are no UTF-8 only a shell with `$'...'` can take.
fn quoted(word: &OsStr) -> String {
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
    fn resume_is_put_among_the_options_and_once() {
        assert_eq!(command_of(&["peerlane", "copy", "a", "b"]), "peerlane copy a b --resume");
        assert_eq!(command_of(&["p", "copy", "--", "-a", "b"]), "p copy --resume -- -a b");
        assert_eq!(command_of(&["p", "copy", "a", "--resume", "b"]), "p copy a --resume b");
    }

    #[test]
    fn targets_that_are_complete_are_left_out() {
        let words: Vec<OsString> =
            ["p", "copy", "s", "a", "b", "--force"].map(OsString::from).into();
        assert_eq!(command_without(&words, &["a"]), "p copy s b --force --resume");
        assert_eq!(command_without(&words, &[]), "p copy s a b --force --resume");
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
