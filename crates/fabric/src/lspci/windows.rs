//! Memory windows in the text of `lspci`.

use peerlane_units::Bytes;

use super::SetAsideReason;
use crate::model::bits_of;
use crate::{Bar, UnassignedBar};

/// Base address registers of an endpoint (PCI 3.0 section 6.2.5.1).
const REGISTERS: u8 = 6;

/// The windows of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FunctionWindows {
    pub(super) assigned: Vec<Bar>,
    pub(super) unassigned: Vec<UnassignedBar>,
    /// The register of the next window in a form that does not number them.
    next: u8,
}

impl FunctionWindows {
    /// Reads `Region 0: Memory at 4000000000 (64-bit, prefetchable) [size=32G]`; with `-v` alone there is no
    /// `Region`, and a window takes the register behind the one before.
    ///
    /// # Errors
    /// The reason why it is no window of the function.
    pub(super) fn see(&mut self, text: &str) -> Result<(), SetAsideReason> {
        let (index, rest) = match text.strip_prefix("Region ").and_then(|rest| rest.split_once(':'))
        {
            Some((index, rest)) => (index.trim().parse().ok(), rest.trim()),
            None => (Some(self.next), text),
        };
        let Some(index) = index.filter(|&index| index < REGISTERS) else {
            return Err(SetAsideReason::Value);
        };
        let rest = rest.strip_prefix("[virtual]").unwrap_or(rest).trim();
        let Some(window) = rest.strip_prefix("Memory at ") else {
            if rest.starts_with("I/O ports at ") {
                self.next = index + 1;
            }
            return Err(SetAsideReason::Value);
        };
        self.next = index + if window.contains("64-bit") { 2 } else { 1 };
        let is_known = self.assigned.iter().any(|bar| bar.index == index)
            || self.unassigned.iter().any(|bar| bar.index == index);
        if is_known {
            return Err(SetAsideReason::Twice);
        }
        let size = window.split_once("[size=").and_then(|(_, rest)| size(rest.split(']').next()?));
        if window.starts_with("<unassigned>") || window.starts_with("<ignored>") {
            self.unassigned.push(UnassignedBar { index, size });
        } else if let Some(size) = size {
            let is_prefetchable =
                window.contains("prefetchable") && !window.contains("non-prefetchable");
            let address_bits = address_bits(window, size);
            self.assigned.push(Bar { index, size, is_prefetchable, largest: None, address_bits });
        } else if window.contains("[size=") {
            return Err(SetAsideReason::Value);
        } else {
            return Err(SetAsideReason::NoSize);
        }
        Ok(())
    }

    /// Reads `BAR 1: current size: 256MB, supported: 256MB 512MB 1GB`.
    ///
    /// # Errors
    /// The reason why no window has these sizes.
    pub(super) fn resize(&mut self, text: &str) -> Result<(), SetAsideReason> {
        let read = || {
            let (index, rest) = text.strip_prefix("BAR ")?.split_once(':')?;
            let (_, supported) = rest.split_once("supported:")?;
            let sizes = supported.split_whitespace().map_while(size);
            Some((index.trim().parse::<u8>().ok()?, sizes.max()?))
        };
        let (index, largest) = read().ok_or(SetAsideReason::Value)?;
        let bar = self.assigned.iter_mut().find(|bar| bar.index == index);
        let bar = bar.ok_or(SetAsideReason::NoWindow)?;
        bar.largest = Some(largest.max(bar.size));
        Ok(())
    }
}

/// Number of bits of the highest address of a window `4000000000 (64-bit, ...`.
fn address_bits(window: &str, size: Bytes) -> Option<u8> {
    let start = u64::from_str_radix(window.split_whitespace().next()?, 16).ok()?;
    let end = start.checked_add(size.0.checked_sub(1)?)?;
    bits_of(end).filter(|_| start > 0)
}

/// Reads `512K`, `32G` and `256MB`, powers of 1024.
fn size(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|&size| size > 0).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(lines: &[&str]) -> FunctionWindows {
        let mut windows = FunctionWindows::default();
        for line in lines {
            let _ = windows.see(line);
        }
        windows
    }

    #[test]
    fn windows_of_every_version_are_read() {
        let found = windows(&[
            "Region 0: Memory at f6000000 (32-bit, non-prefetchable) [size=16M]",
            "Region 1: [virtual] Memory at 60000000 (64-bit, prefetchable) [size=256M]",
            "Region 3: Memory at 70000000 (64-bit, prefetchable) [virtual] [size=32M]",
            "Region 5: I/O ports at e000 [size=128]",
        ]);
        let bar = |index, mib, is_prefetchable| Bar {
            index,
            size: Bytes::mib(mib),
            is_prefetchable,
            largest: None,
            address_bits: Some(if index == 0 { 32 } else { 31 }),
        };
        assert_eq!(found.assigned, [bar(0, 16, false), bar(1, 256, true), bar(3, 32, true)]);
        let high = "Region 0: Memory at 380000000000 (64-bit, prefetchable) [size=32G]";
        assert_eq!(windows(&[high]).assigned[0].address_bits, Some(46));
    }

    #[test]
    fn windows_without_numbers_follow_each_other() {
        let found = windows(&[
            "Memory at f6000000 (32-bit, non-prefetchable) [size=16M]",
            "Memory at 60000000 (64-bit, prefetchable) [size=256M]",
            "Memory at 70000000 (64-bit, prefetchable) [size=32M]",
        ]);
        assert_eq!(found.assigned.iter().map(|bar| bar.index).collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn windows_without_space_are_unassigned() {
        let found = windows(&[
            "Region 0: Memory at <unassigned> (64-bit, prefetchable) [disabled]",
            "Region 2: Memory at <ignored> (64-bit, prefetchable) [size=32G]",
        ]);
        let bar = |index, size| UnassignedBar { index, size };
        assert_eq!(found.unassigned, [bar(0, None), bar(2, Some(Bytes(32 << 30)))]);
    }

    #[test]
    fn resizable_window_has_largest_size() {
        let mut found =
            windows(&["Region 1: Memory at 60000000 (64-bit, prefetchable) [size=256M]"]);
        let _ = found.resize("BAR 1: current size: 256MB, supported: 64MB 256MB 1GB 32GB");
        assert_eq!(found.assigned[0].largest, Some(Bytes(32 << 30)));
    }
}
