//! Names of vendors and devices by their PCI numbers, from the PCI ID repository as it was at build
//! time; a number that is not in it has no name.

use std::fmt::Write as _;

use pci_ids::FromId as _;

use crate::Function;

/// The name of a PCI vendor.
pub fn vendor(vendor: u16) -> Option<&'static str> {
    pci_ids::Vendor::from_id(vendor).map(pci_ids::Vendor::name)
}

/// The name of a PCI device.
pub fn device(vendor: u16, device: u16) -> Option<&'static str> {
    pci_ids::Device::from_vid_pid(vendor, device).map(pci_ids::Device::name)
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
}
