//! The first line of a function: address, class, numbers.
//!
//! `0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:0d57] (rev 01)` with `-nn`,
//! `0000:00:00.0 0600: 8086:0d57 (rev 01)` with `-n`. Names contain brackets, too.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::{Bdf, pci_names};

/// Class and numbers in a heading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Heading {
    /// Base class and subclass.
    pub(super) class: Option<u16>,
    pub(super) interface: Option<u8>,
    pub(super) vendor: Option<u16>,
    pub(super) device: Option<u16>,
}

/// Returns whether a trimmed line is a heading.
pub(super) fn is_heading(line: &str) -> bool {
    split(line).is_some()
}

/// The address, and the text behind it.
pub(super) fn split(line: &str) -> Option<(Bdf, &str)> {
    let (path, rest) = split_path(line)?;
    Some((*path.last()?, rest))
}

/// The addresses from the root bus down to the function, which `-PP` prints, and the text behind them; the function
/// alone without that option.
pub(super) fn split_path(line: &str) -> Option<(Vec<Bdf>, &str)> {
    // Most lines are told by their first characters.
    if !line.as_bytes().first()?.is_ascii_hexdigit() {
        return None;
    }
    let (word, rest) = line.split_once([' ', '\t'])?;
    let mut steps = word.split('/');
    let first = address(steps.next()?)?;
    let below = steps.map(|step| {
        let step = address(step).filter(|_| step.matches(':').count() == 1)?;
        Bdf::new(first.domain(), step.bus(), step.device(), step.function())
    });
    let path = std::iter::once(Some(first)).chain(below).collect::<Option<Vec<Bdf>>>()?;
    let rest = rest.trim_start();
    let is_class = rest.contains(':') && rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_class.then_some((path, rest))
}

/// An address with all digits that `lspci` prints; domain 0 where there is none.
fn address(word: &str) -> Option<Bdf> {
    let short = word.len() == "00:00.0".len();
    let long = word.len() >= "0000:00:00.0".len();
    let is_it = (short && word.as_bytes()[2] == b':') || (long && word.matches(':').count() == 2);
    word.parse().ok().filter(|_| is_it)
}

/// Reads the text behind the address; wrapped lines are joined.
pub(super) fn read(text: &str) -> Heading {
    let (class, names) = text.split_once(':').unwrap_or((text, ""));
    let (vendor, device) = ids(names).map_or_else(
        || pci_names::numbers(name(names)),
        |(vendor, device)| (Some(vendor), Some(device)),
    );
    Heading { class: class_number(class.trim()), interface: interface(names), vendor, device }
}

/// Vendor and device without revision and programming interface.
pub(super) fn name(names: &str) -> &str {
    let ends = [" (rev ", " (prog-if "].iter().filter_map(|front| names.find(front));
    names[..ends.min().unwrap_or(names.len())].trim()
}

/// Returns whether all bits of the revision are set, as in a read that no device answers.
pub(super) fn has_no_revision(text: &str) -> bool {
    text.contains("(rev ff)")
}

/// `[0604]` behind a name, `0604` alone, `Class 0604`, or a name that the PCI ID repository has.
fn class_number(class: &str) -> Option<u16> {
    let last = class.rsplit(' ').next().unwrap_or(class);
    let bracketed = last.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = class.strip_prefix("Class ").unwrap_or(class);
    let number = bracketed.or(Some(bare)).and_then(hex16);
    number.or_else(|| class_names().get(class).copied())
}

fn hex16(digits: &str) -> Option<u16> {
    let is_it = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_it.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

/// The last `[8086:0d57]`, or `8086:0d57` where numbers stand alone.
pub(super) fn ids(names: &str) -> Option<(u16, u16)> {
    let pair = |text: &str| {
        let (vendor, device) = text.split_once(':')?;
        Some((hex16(vendor)?, hex16(device)?))
    };
    let bracketed = names.rmatch_indices('[').find_map(|(at, _)| {
        let inner = &names[at + 1..];
        pair(&inner[..inner.find(']')?])
    });
    let alone = || {
        let names = names.trim_start();
        let names = names.strip_prefix("Device ").unwrap_or(names);
        pair(names.split(' ').next()?)
    };
    bracketed.or_else(alone)
}

fn interface(names: &str) -> Option<u8> {
    let (_, rest) = names.rsplit_once("(prog-if ")?;
    u8::from_str_radix(rest.get(..2)?, 16).ok()
}

/// Classes without subclasses (PCI ID repository).
const WITHOUT_SUBCLASSES: [(&str, u16); 3] = [
    ("Coprocessor", 0x40_00),
    ("Non-Essential Instrumentation", 0x13_00),
    ("Unassigned class", 0xff_00),
];

/// Subclasses by name; those of a name that several have are left out.
fn class_names() -> &'static HashMap<&'static str, u16> {
    static NAMES: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names: HashMap<&str, Option<u16>> = HashMap::new();
        for (number, name) in pci_names::subclasses() {
            names.entry(name).and_modify(|known| *known = None).or_insert(Some(number));
        }
        let named = names.into_iter().filter_map(|(name, number)| Some((name, number?)));
        named.chain(WITHOUT_SUBCLASSES).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(line: &str) -> Heading {
        read(split(line).expect("a heading").1)
    }

    #[test]
    fn numbers_are_read_in_every_form() {
        let bridge = Heading {
            class: Some(0x0604),
            interface: None,
            vendor: Some(0x8086),
            device: Some(0x1901),
        };
        for line in [
            "0000:00:01.0 PCI bridge [0604]: Intel Corporation 6th [x16] (Express) [8086:1901] (rev 07)",
            "00:01.0 0604: 8086:1901 (rev 07)",
            "00:01.0 Class [0604]: Device [8086:1901]",
            "00:01.0 Class 0604: Device 8086:1901",
            "10000:00:01.0 PCI bridge [0604]: Intel Corporation Device [8086:1901]",
        ] {
            assert_eq!(heading(line), bridge, "{line}");
        }
    }

    #[test]
    fn names_alone_give_their_numbers() {
        let drive = "01:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd Device a80a (rev 01) (prog-if 02 [NVM Express])";
        let expected = Heading {
            class: Some(0x0108),
            interface: Some(2),
            vendor: Some(0x144d),
            device: Some(0xa80a),
        };
        assert_eq!(heading(drive), expected);
    }

    #[test]
    fn path_of_bridges_ends_in_function() {
        let line = "0001:48:01.1/49:00.0/4a:04.0 Processing accelerators: AMD Device 74a1";
        let (path, _) = split_path(line).expect("a heading");
        let names: Vec<String> = path.iter().map(Bdf::to_string).collect();
        assert_eq!(names, ["0001:48:01.1", "0001:49:00.0", "0001:4a:04.0"]);
        assert_eq!(split("00:01.0/x Host bridge: y"), None);
    }

    #[test]
    fn other_lines_are_no_headings() {
        for line in [
            "",
            "00: 86 80 00 00",
            "0000:01:00.0: BAR 0 assigned",
            "1:00.0 PCI bridge: x",
            "0000:01:00.0",
            "NUMA node: 0",
            "00:1c.0/00.0 PCI bridge: x",
        ] {
            assert!(!is_heading(line), "{line}");
        }
    }
}
