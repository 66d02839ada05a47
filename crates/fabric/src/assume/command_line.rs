//! The kernel's command line: words, names and values, and the options within `pci=`.

/// Bytes of a kernel command line and its end (COMMAND_LINE_SIZE of arch/x86/include/asm/setup.h and
/// arch/arm64/include/uapi/asm/setup.h, Linux 7.2). The kernel cuts off the rest.
pub(super) const COMMAND_LINE_SIZE: usize = 2048;

/// Name and value of a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedValue<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Text behind the first equals sign.
    pub(super) value: Option<&'a str>,
}

impl<'a> NamedValue<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        match text.split_once('=') {
            Some((name, value)) => Self { name, value: Some(value) },
            None => Self { name: text, value: None },
        }
    }
}

/// Splits a command line into parameters as the kernel does (`next_arg` in lib/cmdline.c, Linux 7.2):
/// at spaces outside double quotes, which are left out around a whole word and around a value. A word
/// `--` ends them (`parse_args` in kernel/params.c).
pub(super) fn parameters(text: &str) -> Vec<String> {
    let words = words(text).into_iter().map(unquoted);
    words.take_while(|word| word != "--").collect()
}

/// The words with their quotes.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = None;
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        if character.is_whitespace() && !is_quoted {
            words.extend(start.take().map(|start: usize| &text[start..at]));
            continue;
        }
        start.get_or_insert(at);
        is_quoted ^= character == '"';
    }
    words.extend(start.map(|start| &text[start..]));
    words
}

/// A word without the quotes that the kernel leaves out.
fn unquoted(word: &str) -> String {
    let without_end = |text: &str| text.strip_suffix('"').unwrap_or(text).to_owned();
    if let Some(inner) = word.strip_prefix('"') {
        return without_end(inner);
    }
    match word.split_once("=\"") {
        Some((name, value)) if !name.contains('=') => format!("{name}={}", without_end(value)),
        _ => word.to_owned(),
    }
}

/// Returns whether the kernel takes two names for one: dashes and underscores are the same to it
/// (`parameq` in kernel/params.c).
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.replace('-', "_");
    plain(one) == plain(other)
}

/// The options of a parameter `pci=`, none for any other (`pci_setup` in drivers/pci/pci.c).
pub(super) fn pci_options(parameter: &str) -> impl Iterator<Item = &str> {
    let NamedValue { name, value } = NamedValue::new(parameter);
    let value = value.filter(|_| name == "pci").unwrap_or_default();
    value.split(',').filter(|option| !option.is_empty())
}

/// The answer of a yes-or-no parameter (`kstrtobool` in lib/kstrtox.c, Linux 7.2); a switch without a
/// value is a yes (`param_set_bool` in kernel/params.c).
pub(super) fn truth(value: Option<&str>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    let mut characters = value.chars().map(|character| character.to_ascii_lowercase());
    match (characters.next()?, characters.next()) {
        ('y' | 't' | '1', _) | ('o', Some('n')) => Some(true),
        ('n' | 'f' | '0', _) | ('o', Some('f')) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_outside_quotes() {
        for (text, expected) in [
            ("", vec![]),
            ("  quiet\tro ", vec!["quiet", "ro"]),
            ("\"pci=a b\" x", vec!["pci=a b", "x"]),
            ("dyndbg=\"file a.c +p\" x", vec!["dyndbg=file a.c +p", "x"]),
            ("a=b=\"c d\"", vec!["a=b=\"c d\""]),
            ("\"open a", vec!["open a"]),
            ("a -- b", vec!["a"]),
        ] {
            assert_eq!(parameters(text), expected, "{text}");
        }
    }

    #[test]
    fn pci_options_stand_between_commas() {
        let options = |text| pci_options(text).collect::<Vec<_>>();
        assert_eq!(options("pci=realloc,,noats"), ["realloc", "noats"]);
        assert_eq!(options("pci=config_acs=0@a;1@b,realloc"), ["config_acs=0@a;1@b", "realloc"]);
        assert!(options("pcie=realloc").is_empty() && options("pci").is_empty());
    }

    #[test]
    fn truth_is_that_of_the_kernel() {
        for (value, expected) in [
            (Some("N"), Some(false)),
            (Some("off"), Some(false)),
            (Some("0"), Some(false)),
            (Some("Y"), Some(true)),
            (Some("on"), Some(true)),
            (None, Some(true)),
            (Some("o"), None),
            (Some(""), None),
            (Some("2"), None),
        ] {
            assert_eq!(truth(value), expected, "{value:?}");
        }
    }
}
