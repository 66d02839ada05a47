//! Memory windows of an endpoint, with address space and without.
//!
//! A window without address space has one of three forms. The kernel marks it (`IORESOURCE_UNSET`), leaves it
//! at address 0, or clears its line (`reset_resource()` in drivers/pci/setup-bus.c). A line that was cleared
//! still has a register, whose low bits say that there is a memory window. Captures write every window at
//! the end of the addresses of as many bits, so there the second form does not count.

use std::path::Path;

use peerlane_units::Bytes;

use super::config_space::{BARS, ConfigSpace};
use super::tree::Tree;
use crate::model::bits_of;
use crate::{Bar, FunctionKind, UnassignedBar};

/// Flags of `include/linux/ioport.h`.
pub(crate) const IORESOURCE_MEM: u64 = 0x200;
const IORESOURCE_PREFETCH: u64 = 0x2000;
const IORESOURCE_MEM_64: u64 = 0x0010_0000;
pub(crate) const IORESOURCE_UNSET: u64 = 0x2000_0000;

/// The windows of an endpoint.
#[derive(Debug, Default)]
pub(super) struct MemoryWindows {
    pub(super) assigned: Vec<Bar>,
    pub(super) unassigned: Vec<UnassignedBar>,
    /// Set when one of them lies at an address other than 0.
    pub(super) show_addresses: bool,
    /// Registers of the windows that lie at address 0.
    pub(super) at_zero: Vec<u8>,
}

/// A line `start end flags` of the file `resource`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceLine {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) flags: u64,
}

impl ResourceLine {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut numbers = line
            .split_whitespace()
            .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        Some(Self { start: numbers.next()??, end: numbers.next()??, flags: numbers.next()?? })
    }

    pub(crate) fn size(self) -> Option<Bytes> {
        let length = self.end.checked_sub(self.start).filter(|&length| length > 0)?;
        length.checked_add(1).map(Bytes)
    }

    /// Number of bits of the highest address; `None` for a window at address 0.
    pub(crate) fn address_bits(self) -> Option<u8> {
        bits_of(self.end).filter(|_| self.start > 0)
    }

    /// Returns whether it begins at an address of the machine, and not where [`place`] puts a window.
    pub(crate) fn shows_address(self) -> bool {
        let bits = self.address_bits();
        let placed = self.size().map(|size| place(size, bits));
        self.start > 0 && placed != Some((self.start, self.end))
    }
}

/// First and last address of a window that tell no more than the number of bits of the last.
pub(crate) fn place(size: Bytes, bits: Option<u8>) -> (u64, u64) {
    let last = size.0.saturating_sub(1);
    let end = bits.and_then(|bits| u64::MAX.checked_shr(64u32.checked_sub(bits.into())?));
    match end.and_then(|end| Some((end.checked_sub(last)?, end))) {
        Some(placed) => placed,
        None => (0, last),
    }
}

/// Reads the windows of an endpoint, in order; those of a bridge move no payload.
pub(super) fn read(
    tree: &Tree,
    at: &Path,
    kind: FunctionKind,
    config: ConfigSpace<'_>,
) -> MemoryWindows {
    let mut windows = MemoryWindows::default();
    if kind.is_bridge() {
        return windows;
    }
    let text = tree.text(&at.join("resource")).unwrap_or_default();
    let lines: Vec<Option<ResourceLine>> = text.lines().map(ResourceLine::parse).collect();
    let mut index = 0;
    while let Some(&line) = lines.get(usize::from(index)).filter(|_| index < BARS) {
        index += match line {
            Some(line) if line.flags == 0 => windows.cleared(index, config),
            Some(line) if line.flags & IORESOURCE_MEM != 0 => {
                let largest = || largest(tree, &at.join(format!("resource{index}_resize")));
                windows.memory(index, line, largest)
            }
            _ => 1,
        };
    }
    windows
}

impl MemoryWindows {
    /// Adds a memory window; returns the registers that it takes.
    fn memory(
        &mut self,
        index: u8,
        line: ResourceLine,
        largest: impl FnOnce() -> Option<Bytes>,
    ) -> u8 {
        let is_unset = line.flags & IORESOURCE_UNSET != 0;
        match line.size() {
            Some(size) if !is_unset => {
                self.show_addresses |= line.shows_address();
                self.at_zero.extend((line.start == 0).then_some(index));
                self.assigned.push(Bar {
                    index,
                    size,
                    is_prefetchable: line.flags & IORESOURCE_PREFETCH != 0,
                    largest: largest(),
                    address_bits: line.address_bits(),
                });
            }
            size => self.unassigned.push(UnassignedBar { index, size }),
        }
        if line.flags & IORESOURCE_MEM_64 != 0 { 2 } else { 1 }
    }

    /// Adds a window whose line the kernel cleared; returns the registers that it takes.
    fn cleared(&mut self, index: u8, config: ConfigSpace<'_>) -> u8 {
        let Some(register) = config.memory_register(index) else { return 1 };
        self.unassigned.push(UnassignedBar { index, size: None });
        if register.is_64_bit { 2 } else { 1 }
    }
}

/// The largest of the sizes that a window can be given: bit n stands for 2^n MiB.
fn largest(tree: &Tree, file: &Path) -> Option<Bytes> {
    let sizes = u64::from_str_radix(&tree.word(file)?, 16).ok()?;
    1u64.checked_shl(sizes.checked_ilog2()?.checked_add(20)?).map(Bytes)
}
