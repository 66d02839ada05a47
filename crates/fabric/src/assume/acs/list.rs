//! The list of a parameter, read for one function (`__pci_config_acs` in drivers/pci/pci.c, Linux 6.18 and
//! 7.x): the first entry that names the function decides, and an entry that cannot be read ends the list.

use super::AcsParameter;
use super::devices::{self, Identification};
use crate::{Acs, Fabric, FunctionId};

/// Bits of the control register that a parameter can set: SV, TB, RR, CR, UF, EC, DT (PCIe 6.0 section
/// 7.7.11.3).
pub(super) const SETTABLE: u16 = 0x7f;

/// Bits that a parameter decides, and their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecidedBits {
    /// The bits that are decided; the others are the firmware's.
    pub(super) mask: u16,
    /// Their values.
    pub(super) flags: u16,
}

/// The bits of `disable_acs_redir`.
const WITHOUT_REDIRECT: DecidedBits = DecidedBits { mask: Acs::REDIRECT, flags: 0 };

/// The entry for a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryMatch {
    /// There is none.
    No,
    /// It decides these bits.
    Yes(DecidedBits),
    /// An entry may name it, or another one may decide.
    NotKnown,
}

/// Finds the entry that decides for a function.
pub(super) fn find(
    parameter: AcsParameter,
    list: &str,
    fabric: &Fabric,
    id: FunctionId,
) -> EntryMatch {
    let mut found = EntryMatch::No;
    let mut rest = list;
    while !rest.is_empty() {
        let Some((bits, device)) = bits(parameter, rest) else { break };
        let Some((is, behind)) = devices::compare(device, fabric, id) else { break };
        match is {
            Identification::Named if found == EntryMatch::No => return EntryMatch::Yes(bits),
            Identification::Named | Identification::NotKnown => found = EntryMatch::NotKnown,
            Identification::Other => {}
        }
        let Some(next) = behind.strip_prefix([';', ',']) else { break };
        rest = next;
    }
    found
}

/// Returns the entry that ends the kernel's reading, if there is one.
pub(super) fn fault(parameter: AcsParameter, list: &str) -> Option<&str> {
    let mut rest = list;
    while !rest.is_empty() {
        let entry = rest.split(';').next().unwrap_or(rest);
        let Some((_, device)) = bits(parameter, rest) else { return Some(entry) };
        let Some(behind) = devices::behind(device) else { return Some(entry) };
        match behind.strip_prefix([';', ',']) {
            Some(next) => rest = next,
            None if behind.is_empty() => break,
            None => return Some(entry),
        }
    }
    None
}

/// The bits of the entry at the start of a text, and the text of its device.
fn bits(parameter: AcsParameter, text: &str) -> Option<(DecidedBits, &str)> {
    match parameter {
        AcsParameter::DisableAcsRedir => Some((WITHOUT_REDIRECT, text)),
        AcsParameter::ConfigAcs => {
            let (flags, device) = text.split_once('@')?;
            Some((read_flags(flags)?, device))
        }
    }
}

/// Flags from right to left: `0` clears a bit, `1` sets it, `x` leaves it to the firmware.
fn read_flags(text: &str) -> Option<DecidedBits> {
    let mut bits = DecidedBits { mask: 0, flags: 0 };
    for (position, flag) in text.bytes().rev().enumerate() {
        let bit = u32::try_from(position).ok().and_then(|position| 1_u16.checked_shl(position));
        let bit = bit.unwrap_or(0);
        match flag {
            b'0' => bits.mask |= bit,
            b'1' => {
                bits.mask |= bit;
                bits.flags |= bit;
            }
            b'x' | b'X' => {}
            _ => return None,
        }
    }
    (bits.mask & !SETTABLE == 0).then_some(bits)
}

/// Flags that decide all bits a parameter can set.
pub(super) fn flags(control: u16) -> String {
    format!("{:07b}", control & SETTABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Fabric {
        let text = peerlane_testing::machine_text(
            "a root-port @0000:00:01.0 1b36:000c\nb root-port @0000:00:02.0 1b36:000c\n\
             c root-port @0000:00:03.0 1b36:000c",
        );
        Fabric::from_toml(&text).expect("a machine")
    }

    fn found(parameter: AcsParameter, list: &str) -> [EntryMatch; 3] {
        let machine = machine();
        [0, 1, 2].map(|index| find(parameter, list, &machine, FunctionId(index)))
    }

    fn yes(mask: u16, flags: u16) -> EntryMatch {
        EntryMatch::Yes(DecidedBits { mask, flags })
    }

    #[test]
    fn first_matching_entry_decides() {
        let list = "0000001@00:01.0;x1x0x@00:02.0;1xxxxxx@pci:1b36:c";
        let expected = [yes(0x7f, 1), yes(0x0a, 0x08), yes(0x40, 0x40)];
        assert_eq!(found(AcsParameter::ConfigAcs, list), expected);
        let list = "00:02.0;00:03.0";
        let clear = yes(0x2c, 0);
        assert_eq!(found(AcsParameter::DisableAcsRedir, list), [EntryMatch::No, clear, clear]);
    }

    #[test]
    fn entries_behind_fault_are_ignored() {
        for (list, fault) in [
            ("0@00:01.0;00:02.0;0@00:03.0", "00:02.0"),
            ("0@00:01.0;2@00:02.0", "2@00:02.0"),
            ("0@00:01.0;00000000@00:02.0", "00000000@00:02.0"),
            ("0@00:01.0;0@two;0@00:02.0", "0@two"),
        ] {
            let expected = [yes(1, 0), EntryMatch::No, EntryMatch::No];
            assert_eq!(found(AcsParameter::ConfigAcs, list), expected, "{list}");
            assert_eq!(super::fault(AcsParameter::ConfigAcs, list), Some(fault), "{list}");
        }
        assert_eq!(super::fault(AcsParameter::ConfigAcs, "0@00:01.0;x@pci:0:0;"), None);
        assert_eq!(super::fault(AcsParameter::DisableAcsRedir, "pci:0:0x"), Some("pci:0:0x"));
    }

    #[test]
    fn possible_match_leaves_doubt() {
        let list = "1@pci:1b36:c:1:1;1@00:01.0";
        let expected = [EntryMatch::NotKnown; 3];
        assert_eq!(found(AcsParameter::ConfigAcs, list), expected);
    }

    #[test]
    fn all_seven_flags_are_written() {
        assert_eq!(flags(0x11), "0010001");
        assert_eq!(read_flags("0010001"), Some(DecidedBits { mask: 0x7f, flags: 0x11 }));
        assert_eq!(read_flags("xxxxxxxxxxxxxxxxxxxx"), Some(DecidedBits { mask: 0, flags: 0 }));
    }
}
