//! Names of vendors and devices by their PCI numbers, from the PCI ID repository as it was at build
//! time; a number that is not in it has no name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

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

/// Returns the rest of the sorted line that begins with the key.
fn find<'a>(lines: &'a str, key: &str) -> Option<&'a str> {
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let mut middle = low + (high - low) / 2;
        while !lines.is_char_boundary(middle) {
            middle -= 1;
        }
        let start = lines.get(low..middle)?.rfind('\n').map_or(low, |end| low + end + 1);
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

/// Names that the repository gave makers earlier, and that machines with an old copy of it print.
const FORMER_VENDORS: [(&str, u16); 14] = [
    ("nVidia Corporation", 0x10de),
    ("ATI Technologies Inc", 0x1002),
    ("Advanced Micro Devices [AMD] nee ATI", 0x1002),
    ("Advanced Micro Devices [AMD]", 0x1022),
    ("Broadcom Corporation", 0x14e4),
    ("Broadcom Limited", 0x14e4),
    ("LSI Logic / Symbios Logic", 0x1000),
    ("PMC-Sierra Inc.", 0x11f8),
    ("Microsemi / PMC / IDT", 0x11f8),
    ("Matrox Graphics, Inc.", 0x102b),
    ("Hynix Semiconductor", 0x1c5c),
    ("Solarflare Communications", 0x1924),
    ("Toshiba America Info Systems", 0x1179),
    ("Red Hat, Inc", 0x1af4),
];

/// First words of makers whose rules are known, for names that the repository has in another form.
const FIRST_WORDS: [(&str, u16); 8] = [
    ("nvidia", 0x10de),
    ("mellanox", 0x15b3),
    ("intel", 0x8086),
    ("samsung", 0x144d),
    ("aspeed", 0x1a03),
    ("matrox", 0x102b),
    ("xilinx", 0x10ee),
    ("altera", 0x1172),
];

/// Vendor and device numbers of a name as `lspci` prints it, `NVIDIA Corporation GH100 [H100 SXM5 80GB]`; `None`
/// for a part that the repository does not have, or has for several numbers.
pub(crate) fn numbers(name: &str) -> (Option<u16>, Option<u16>) {
    let name = name.trim();
    let ends = name.match_indices(' ').map(|(at, _)| at).chain([name.len()]);
    let ends: Vec<usize> = ends.collect();
    for &end in ends.iter().rev() {
        let Some(vendors) = by_name().vendors.get(&name[..end]) else { continue };
        let of_vendor = |vendor: u16| device_number(vendor, name[end..].trim());
        let known = vendors.iter().find_map(|&vendor| Some((vendor, of_vendor(vendor)?)));
        return match (known, vendors.as_slice()) {
            (Some((vendor, device)), _) => (Some(vendor), Some(device)),
            (None, [vendor]) => (Some(*vendor), None),
            (None, _) => (None, None),
        };
    }
    let first = name.split(' ').next().unwrap_or(name);
    let is_it = |(word, _): &&(&str, u16)| first.eq_ignore_ascii_case(word);
    (FIRST_WORDS.iter().find(is_it).map(|&(_, vendor)| vendor), None)
}

/// `Device 2330`, or a name that only one device of the vendor has.
fn device_number(vendor: u16, name: &str) -> Option<u16> {
    let number = name.strip_prefix("Device ").filter(|digits| digits.len() == 4);
    let number = number.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    number.or_else(|| by_name().devices.get(&(vendor, name)).copied().flatten())
}

/// Numbers by name.
struct NumbersByName {
    vendors: HashMap<&'static str, Vec<u16>>,
    /// `None` for a name that several devices of the vendor have.
    devices: HashMap<(u16, &'static str), Option<u16>>,
}

fn by_name() -> &'static NumbersByName {
    static NUMBERS: OnceLock<NumbersByName> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let number = |line: &'static str| -> Option<(u16, &'static str)> {
            let (digits, rest) = line.split_at_checked(4)?;
            Some((u16::from_str_radix(digits, 16).ok()?, rest))
        };
        let mut vendors: HashMap<&str, Vec<u16>> = HashMap::new();
        let former = FORMER_VENDORS.iter().map(|&(name, vendor)| (vendor, name));
        for (vendor, name) in VENDORS.lines().filter_map(number).chain(former) {
            vendors.entry(name).or_default().push(vendor);
        }
        let mut devices = HashMap::new();
        for (vendor, rest) in DEVICES.lines().filter_map(number) {
            let Some((device, name)) = number(rest) else { continue };
            let known = devices.entry((vendor, name));
            known.and_modify(|known| *known = None).or_insert(Some(device));
        }
        NumbersByName { vendors, devices }
    })
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
    fn names_of_lspci_give_numbers() {
        for (name, expected) in [
            ("NVIDIA Corporation GH100 [H100 SXM5 80GB]", (Some(0x10de), Some(0x2330))),
            ("nVidia Corporation Device 2330", (Some(0x10de), Some(0x2330))),
            ("NVIDIA Corp. of another name", (Some(0x10de), None)),
            ("Mellanox Technologies Device 1021", (Some(0x15b3), Some(0x1021))),
            ("Advanced Micro Devices, Inc. [AMD/ATI] a card", (Some(0x1002), None)),
            ("Matrox Electronics Systems Ltd. Integrated", (Some(0x102b), None)),
            ("Red Hat, Inc. QXL paravirtual graphic card", (Some(0x1b36), Some(0x0100))),
            ("Red Hat, Inc. unheard of", (None, None)),
            ("Nobody knows this maker", (None, None)),
            ("", (None, None)),
        ] {
            assert_eq!(numbers(name), expected, "{name}");
        }
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
