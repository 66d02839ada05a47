//! Names of vendors and devices by their PCI numbers, from the PCI ID repository as it was at build
//! time; a number that is not in it has no name.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::Function;

// Sorted lines, each a number in lower-case hexadecimal digits and its name, as build.rs writes them.
const VENDORS: &str = include_str!(concat!(env!("OUT_DIR"), "/vendors"));
const DEVICES: &str = include_str!(concat!(env!("OUT_DIR"), "/devices"));
const SUBCLASSES: &str = include_str!(concat!(env!("OUT_DIR"), "/subclasses"));

/// The name of a PCI vendor.
pub fn vendor(vendor: u16) -> Option<&'static str> {
    find(VENDORS, &format!("{vendor:04x}"))
}

/// The name of a PCI device.
pub fn device(vendor: u16, device: u16) -> Option<&'static str> {
    find(DEVICES, &format!("{vendor:04x}{device:04x}"))
}

/// Returns all subclasses of devices: class and subclass in one number, and the name.
pub(crate) fn subclasses() -> impl Iterator<Item = (u16, &'static str)> {
    SUBCLASSES.lines().filter_map(|line| {
        let (number, name) = line.split_at_checked(4)?;
        Some((u16::from_str_radix(number, 16).ok()?, name))
    })
}

/// Returns what follows the key in the one of the sorted lines that begins with it.
fn find<'a>(lines: &'a str, key: &str) -> Option<&'a str> {
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let before = lines.as_bytes().get(low..low + (high - low) / 2)?;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(low, |end| low + end + 1);
        let line = lines.get(start..)?.lines().next()?;
        let (number, name) = line.split_at_checked(key.len())?;
        match number.cmp(key) {
            Ordering::Less => low = start + line.len() + 1,
            Ordering::Equal => return Some(name),
            Ordering::Greater => high = start,
        }
    }
    None
}

/// Vendor and device of a function as a person knows them, numbers where there are no names; `None`
/// where not even the vendor is known.
pub fn look_up(function: &Function) -> Option<String> {
    let vendor_id = function.vendor?;
    let mut text = match vendor(vendor_id) {
        Some(name) => short(name).to_owned(),
        None => format!("vendor {vendor_id:04x}"),
    };
    if let Some(id) = function.device {
        // Writing to a String cannot fail.
        let _ = match device(vendor_id, id) {
            Some(name) => write!(text, " {name}"),
            None => write!(text, " {id:04x}"),
        };
    }
    Some(text)
}

/// A maker's name without its legal form: `Intel Corporation` is Intel.
fn short(name: &str) -> &str {
    const FORMS: [&str; 13] = [
        "Corporation",
        "Corp.",
        "Corp",
        "LLC",
        "Co",
        "Ltd",
        "Ltd.",
        "Limited",
        "Inc.",
        "Inc",
        "Electronics",
        "Technologies",
        "Semiconductor",
    ];
    // `Advanced Micro Devices, Inc. [AMD/ATI]` names itself in brackets.
    if let Some(inner) = name.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
        return inner.1;
    }
    let mut name = name;
    loop {
        let cut = name.trim_end_matches([',', ' ']);
        match cut.rsplit_once(' ') {
            Some((rest, last)) if FORMS.contains(&last.trim_end_matches(',')) => name = rest,
            _ => return cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_have_short_names() {
        for (id, expected) in [
            (0x8086, "Intel"),
            (0x10de, "NVIDIA"),
            (0x144d, "Samsung"),
            (0x1022, "AMD"),
            (0x10ee, "Xilinx"),
        ] {
            assert_eq!(vendor(id).map(short), Some(expected));
        }
        assert_eq!(vendor(0x0002), None);
    }

    #[test]
    fn every_number_has_its_name() {
        for known in pci_ids::Vendors::iter() {
            assert_eq!(vendor(known.id()), Some(known.name()));
            for one in known.devices() {
                assert_eq!(
                    device(known.id(), one.id()),
                    Some(one.name()),
                    "{:04x}:{:04x}",
                    known.id(),
                    one.id()
                );
            }
        }
        let known = pci_ids::Classes::iter().map(|class| class.subclasses().count());
        assert_eq!(subclasses().count(), known.sum::<usize>());
    }

    #[test]
    fn missing_numbers_have_no_name() {
        let lines = "0001a\n0003b\n0005c";
        for (key, name) in [("0001", "a"), ("0003", "b"), ("0005", "c")] {
            assert_eq!(find(lines, key), Some(name));
        }
        for key in ["0000", "0002", "0004", "ffff"] {
            assert_eq!(find(lines, key), None);
        }
        assert_eq!(find("", "0001"), None);
    }
}
