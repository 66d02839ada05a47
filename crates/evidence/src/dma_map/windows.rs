//! Owners of physical addresses: memory windows of PCI functions, and system memory.

use std::collections::BTreeMap;

use peerlane_fabric::Bdf;

use crate::{Root, Unread};

/// Lines of a function's `resource` that are its own windows; later ones are a bridge's forwarded
/// windows.
const WINDOWS_MAX: usize = 6;

/// The owner of a physical address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressOwner {
    /// A function, by its memory window.
    Function(Bdf),
    /// Host memory.
    SystemRam,
    /// Neither.
    Other,
}

/// Physical address ranges with their owners.
#[derive(Debug)]
pub(super) struct AddressMap(BTreeMap<u64, (u64, AddressOwner)>);

impl AddressMap {
    /// Reads the windows of these functions and the ranges of system memory.
    ///
    /// # Errors
    /// Where `/proc/iomem` hides its addresses, as it does from all but root.
    pub(super) fn read(root: &Root, functions: &[Bdf]) -> Result<Self, Unread> {
        let mut ranges = BTreeMap::new();
        for &function in functions {
            let text = root.text(&format!("sys/bus/pci/devices/{function}/resource"))?;
            for (first, last) in text.lines().take(WINDOWS_MAX).filter_map(window) {
                ranges.insert(first, (last, AddressOwner::Function(function)));
            }
        }
        let path = "proc/iomem";
        let ram = system_ram(&root.text(path)?);
        if ram.is_empty() {
            return Err(Unread::new(path, "it shows addresses to root alone"));
        }
        ranges
            .extend(ram.into_iter().map(|(first, last)| (first, (last, AddressOwner::SystemRam))));
        Ok(Self(ranges))
    }

    /// The owner of all of a range; [`AddressOwner::Other`] where it has several.
    pub(super) fn owner(&self, first: u64, last: u64) -> AddressOwner {
        let before = self.0.range(..=last).next_back();
        match before {
            // A bucket may begin below the memory that it ends in: what was mapped lies in that memory.
            Some((_, &(end, owner))) if first <= end => owner,
            _ => AddressOwner::Other,
        }
    }
}

/// `0x00000000f4000000 0x00000000f7ffffff 0x0000000000140204`; an empty window is all zeros.
fn window(line: &str) -> Option<(u64, u64)> {
    let mut fields = line
        .split_whitespace()
        .map(|field| u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok());
    let (first, last) = (fields.next()??, fields.next()??);
    (first < last).then_some((first, last))
}

/// `00100000-7fffffff : System RAM`, at any depth; all zeros without privileges.
fn system_ram(iomem: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let (range, name) = line.trim().split_once(" : ")?;
        let (first, last) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        (name.starts_with("System RAM") && first < last).then_some((first, last))
    };
    iomem.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_testing::Scratch;

    fn planted() -> Scratch {
        let tree = Scratch::new();
        let lines = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n".repeat(6);
        let resource = format!(
            "0x00000000fe000000 0x00000000fe003fff 0x140204\n{}\
             0x00000000f4000000 0x00000000f7ffffff 0x14220c\n{lines}",
            "0x0000000000000000 0x0000000000000000 0x0\n"
        );
        tree.write("sys/bus/pci/devices/0000:05:00.0/resource", &resource);
        tree.write(
            "proc/iomem",
            "00001000-0009ffff : System RAM\n00100000-7fffffff : System RAM\n  01000000-02ffffff : \
             Kernel code\nf4000000-f7ffffff : 0000:05:00.0\n",
        );
        tree
    }

    #[test]
    fn addresses_belong_to_window_owner() {
        let memory: Bdf = "0000:05:00.0".parse().unwrap();
        let map = AddressMap::read(&Root::at(planted().path()), &[memory]).unwrap();
        assert_eq!(map.owner(0xf400_0000, 0xf41f_ffff), AddressOwner::Function(memory));
        assert_eq!(map.owner(0x10_0000, 0x2f_ffff), AddressOwner::SystemRam);
        assert_eq!(
            map.owner(0, 0x1f_ffff),
            AddressOwner::SystemRam,
            "a bucket wider than the memory"
        );
        assert_eq!(map.owner(0x1_0000_0000, 0x1_001f_ffff), AddressOwner::Other);
    }

    #[test]
    fn hidden_addresses_are_a_reason() {
        let tree = planted();
        tree.write("proc/iomem", "00000000-00000000 : System RAM\n");
        let found = AddressMap::read(&Root::at(tree.path()), &[]).unwrap_err();
        assert!(found.to_string().contains("root"), "{found}");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "(?s).*", line in "[0-9a-fx -]*: System RAM") {
            let _ = (text.lines().filter_map(window).count(), system_ram(&text), system_ram(&line));
        }
    }
}
