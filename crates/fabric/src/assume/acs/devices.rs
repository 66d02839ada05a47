//! Devices as kernel parameters name them (`pci_dev_str_match` in drivers/pci/pci.c, Linux 6.18 and 7.x):
//! `[DOMAIN:]BUS:DEVICE.FUNCTION[/DEVICE.FUNCTION]*` or `pci:VENDOR:DEVICE[:SUBVENDOR:SUBDEVICE]`.

use crate::{Fabric, FunctionId, Parent};

/// Answer to whether a function is the named one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identification {
    /// It is.
    Named,
    /// It is not.
    Other,
    /// Its address or identity is unknown.
    NotKnown,
}

impl From<bool> for Identification {
    fn from(is_named: bool) -> Self {
        if is_named { Self::Named } else { Self::Other }
    }
}

/// Compares a function with the device at the start of a text; the second part is the rest of the text.
/// `None` where the kernel gives up (-EINVAL).
pub(super) fn compare<'a>(
    text: &'a str,
    fabric: &Fabric,
    id: FunctionId,
) -> Option<(Identification, &'a str)> {
    if let Some(numbers) = text.strip_prefix("pci:") {
        let (wanted, rest) = identity(numbers)?;
        return Some((compare_identity(wanted, fabric, id), rest));
    }
    let (path, rest) = path_and_rest(text);
    compare_path(path, fabric, id).map(|is| (is, rest))
}

/// Returns the text behind the device at its start; `None` where the device cannot be read.
pub(super) fn behind(text: &str) -> Option<&str> {
    if let Some(numbers) = text.strip_prefix("pci:") {
        return identity(numbers).map(|(_, rest)| rest);
    }
    let (path, rest) = path_and_rest(text);
    let mut parts = path.split('/');
    full_address(parts.next()?)?;
    parts.all(|part| device_function(part).is_some()).then_some(rest)
}

/// A comma does not end a path (`strchrnul(path, ';')`).
fn path_and_rest(text: &str) -> (&str, &str) {
    text.split_at(text.find(';').unwrap_or(text.len()))
}

/// Vendor, device and the same of the subsystem; 0 stands for any.
fn identity(text: &str) -> Option<([u32; 4], &str)> {
    let pair = |text| {
        let (vendor, rest) = hexadecimal(text)?;
        let (device, rest) = hexadecimal(rest.strip_prefix(':')?)?;
        // %hx keeps 16 bits.
        Some((vendor & 0xffff, device & 0xffff, rest))
    };
    let (vendor, device, rest) = pair(text)?;
    let subsystem = rest.strip_prefix(':').and_then(pair);
    let (subvendor, subdevice, rest) = subsystem.unwrap_or((0, 0, rest));
    Some(([vendor, device, subvendor, subdevice], rest))
}

fn compare_identity(wanted: [u32; 4], fabric: &Fabric, id: FunctionId) -> Identification {
    let function = fabric.function(id);
    // A fabric has no subsystem identities.
    let has = [function.vendor, function.device, None, None];
    let is = |(wanted, has): (u32, Option<u16>)| match (wanted, has) {
        (0, _) => Identification::Named,
        (wanted, Some(has)) => (wanted == u32::from(has)).into(),
        (_, None) => Identification::NotKnown,
    };
    let answers: Vec<Identification> = wanted.into_iter().zip(has).map(is).collect();
    let first = |answer| answers.contains(&answer).then_some(answer);
    first(Identification::Other)
        .or_else(|| first(Identification::NotKnown))
        .unwrap_or(Identification::Named)
}

/// By the way from the root bus, from its end upward.
fn compare_path(path: &str, fabric: &Fabric, id: FunctionId) -> Option<Identification> {
    let mut at = id;
    let mut path = path;
    while let Some((above, last)) = path.rsplit_once('/') {
        let (device, function) = device_function(last)?;
        let Some(address) = fabric.function(at).address else {
            return Some(Identification::NotKnown);
        };
        if u32::from(address.devfn()) != devfn(device, function) {
            return Some(Identification::Other);
        }
        let Parent::Function(port) = fabric.function(at).parent else {
            return Some(Identification::Other);
        };
        at = port;
        path = above;
    }
    let (domain, bus, device, function) = full_address(path)?;
    let Some(address) = fabric.function(at).address else { return Some(Identification::NotKnown) };
    let is_same = address.domain() == domain
        && u32::from(address.bus()) == bus
        && u32::from(address.devfn()) == devfn(device, function);
    Some(is_same.into())
}

/// PCI_DEVFN of include/uapi/linux/pci.h.
fn devfn(device: u32, function: u32) -> u32 {
    (device & 0x1f) << 3 | function & 7
}

/// `[DOMAIN:]BUS:DEVICE.FUNCTION`.
fn full_address(text: &str) -> Option<(u32, u32, u32, u32)> {
    let (first, rest) = hexadecimal(text)?;
    let (second, rest) = hexadecimal(rest.strip_prefix(':')?)?;
    if let Some(rest) = rest.strip_prefix(':') {
        let (device, function) = device_function(rest)?;
        return Some((first, second, device, function));
    }
    let (function, rest) = hexadecimal(rest.strip_prefix('.')?)?;
    rest.is_empty().then_some((0, first, second, function))
}

/// `DEVICE.FUNCTION` and nothing behind it.
fn device_function(text: &str) -> Option<(u32, u32)> {
    let (device, rest) = hexadecimal(text)?;
    let (function, rest) = hexadecimal(rest.strip_prefix('.')?)?;
    rest.is_empty().then_some((device, function))
}

/// A hexadecimal number at the start of a text, as `%x` of the kernel's `sscanf` reads it: 32 bits, with
/// or without `0x`.
fn hexadecimal(text: &str) -> Option<(u32, &str)> {
    let prefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_digit = |rest: &&str| rest.starts_with(|one: char| one.is_ascii_hexdigit());
    let text = prefixed.filter(is_digit).unwrap_or(text);
    let end = text.find(|one: char| !one.is_ascii_hexdigit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let last = &digits[digits.len().saturating_sub(8)..];
    Some((u32::from_str_radix(last, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch below a root port, and a drive below one of its ports.
    fn machine() -> Fabric {
        let text = peerlane_testing::machine_text(
            "
            root root-port @0000:00:01.0 8086:2030
              up upstream-port @0000:01:00.0 10b5:8747
                down downstream-port @0000:02:08.0 10b5:8747
                  drive nvme @0000:03:00.0",
        );
        Fabric::from_toml(&text).expect("a machine")
    }

    /// Names of the functions that a text names, and the rest behind it.
    fn named(text: &str) -> Option<(Vec<String>, &str)> {
        let machine = machine();
        let answers: Option<Vec<_>> =
            machine.iter().map(|(id, one)| Some((compare(text, &machine, id)?, one))).collect();
        let answers = answers?;
        let rest = answers[0].0.1;
        let is_named =
            |(answer, _): &((Identification, &str), _)| answer.0 == Identification::Named;
        let names = answers.iter().filter(|one| is_named(one)).map(|(_, one)| one.name.clone());
        Some((names.collect(), rest))
    }

    #[test]
    fn paths_and_identities_name_functions() {
        for (text, expected, rest) in [
            ("0000:02:08.0", vec!["down"], ""),
            ("2:8.0;rest", vec!["down"], ";rest"),
            ("0000:00:01.0/00.0/08.0", vec!["down"], ""),
            ("0:1.0/0.0;x", vec!["up"], ";x"),
            ("00:01.0/00.0/08.0/00.0", vec!["drive"], ""),
            ("00:01.0/08.0", vec![], ""),
            ("01:00.0/00.0", vec![], ""),
            ("1:00:01.0", vec![], ""),
            ("pci:10b5:8747,x", vec!["up", "down"], ",x"),
            ("pci:10b5:0;x", vec!["up", "down"], ";x"),
            ("pci:0:0", vec!["root", "up", "down", "drive"], ""),
            ("pci:0x8086:0x2030", vec!["root"], ""),
            ("pci:10b5:8747:0:0;", vec!["up", "down"], ";"),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(named(text), Some((expected, rest)), "{text}");
        }
    }

    #[test]
    fn unreadable_devices_end_the_list() {
        for text in ["", "00", "0000:02:08", "02:08.0,03:00.0", "pci:10b5", "pci:x:y", "nvme0"] {
            assert_eq!(named(text), None, "{text}");
            assert_eq!(behind(text), None, "{text}");
        }
        let machine = machine();
        let drive = machine.find("drive").expect("it is there");
        assert_eq!(
            compare("x/00.1", &machine, drive),
            Some((Identification::Other, "")),
            "the end decides"
        );
        assert_eq!(compare("x/00.0", &machine, drive), None);
        assert_eq!(behind("00:01.0/00.0;rest"), Some(";rest"));
    }

    #[test]
    fn subsystems_and_missing_addresses_stay_unknown() {
        let mut machine = machine();
        let down = machine.find("down").expect("it is there");
        assert_eq!(
            compare("pci:10b5:8747:1:2", &machine, down),
            Some((Identification::NotKnown, ""))
        );
        assert_eq!(compare("pci:8086:8747:1:2", &machine, down), Some((Identification::Other, "")));
        machine.functions[down.0].address = None;
        machine.functions[down.0].vendor = None;
        assert_eq!(compare("02:08.0", &machine, down), Some((Identification::NotKnown, "")));
        assert_eq!(compare("pci:10b5:8747", &machine, down), Some((Identification::NotKnown, "")));
        assert_eq!(compare("pci:10b5:1", &machine, down), Some((Identification::Other, "")));
    }
}
