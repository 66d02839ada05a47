//! Access control services in the text of `lspci`.

use super::account::Ledger;
use super::blocks::Statement;
use super::{Key, SetAsideReason};
use crate::Acs;

/// Bits of the control register by their names in `lspci` (PCIe 6.0 section 7.7.11.3).
const BITS: [(&str, u16); 7] = [
    ("SrcValid", 0x01),
    ("TransBlk", 0x02),
    ("ReqRedir", 0x04),
    ("CmpltRedir", 0x08),
    ("UpstreamFwd", 0x10),
    ("EgressCtrl", 0x20),
    ("DirectTrans", 0x40),
];
/// Bits that show the kernel that a function redirects (`pci_bridge_has_acs_redir`).
const REDIRECT: [&str; 3] = ["ReqRedir", "CmpltRedir", "EgressCtrl"];
const NAME: &str = "Access Control Services";

/// Returns whether a trimmed line is the control register.
pub(super) fn is_control(line: &str) -> bool {
    line.contains("ACSCtl:")
}

/// Reads the control register; [`Acs::Unknown`] where a bit that decides was cut off.
pub(super) fn control(text: &str) -> Acs {
    let mut control = 0;
    let mut seen = 0;
    for word in text.split([' ', '\t', ',']) {
        let Some(sign) = word.chars().last().filter(|sign| matches!(sign, '+' | '-')) else {
            continue;
        };
        let name = &word[..word.len() - 1];
        let Some(&(name, bit)) = BITS.iter().find(|(known, _)| *known == name) else { continue };
        control |= if sign == '+' { bit } else { 0 };
        seen += usize::from(REDIRECT.contains(&name));
    }
    if seen == REDIRECT.len() || control & Acs::REDIRECT != 0 {
        Acs::Present { control }
    } else {
        Acs::Unknown
    }
}

/// The capabilities of a function, as far as they bear on ACS.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// An ordinary capability was printed.
    has_ordinary: bool,
    /// An extended capability was printed.
    has_extended: bool,
    is_express: bool,
    /// Reading them was denied, or the list is damaged.
    is_denied: bool,
    /// A capability may be that of ACS.
    may_have_acs: bool,
    /// The status register says that there are none.
    has_none: bool,
    /// Registers of PCIe were printed, which no summary has.
    has_registers: bool,
    has_status: bool,
    control: Option<(Acs, u32)>,
}

impl Capabilities {
    /// Takes a statement into account.
    pub(super) fn see(&mut self, statement: &Statement, ledger: &mut Ledger) {
        let text = statement.text.as_str();
        if let Some(rest) = text.strip_prefix("Capabilities:") {
            self.capability(rest.trim());
        } else if let Some(rest) = text.strip_prefix("ACSCtl:") {
            let found = control(rest);
            let (found, fate) = match (self.control, found) {
                (Some(_), _) => (Acs::Unknown, Err(SetAsideReason::Twice)),
                (None, Acs::Unknown) => (found, Err(SetAsideReason::Value)),
                (None, _) => (found, Ok(())),
            };
            ledger.note(statement, Key::AcsControl, fate);
            self.control = Some((found, statement.line));
        } else if text.starts_with("ACSCap:") {
            ledger.attach(statement, Key::AcsCapability);
            self.may_have_acs = true;
        } else if let Some(rest) = text.strip_prefix("Status:") {
            self.has_status = true;
            self.has_none = rest.split_whitespace().any(|word| word == "Cap-");
        } else if text.starts_with("Flags:") {
            self.has_status = true;
        } else if text.starts_with("LnkSta") || text.starts_with("DevSta:") {
            self.has_registers = true;
        }
        self.is_denied |= ends_in_cut_key(text);
    }

    fn capability(&mut self, text: &str) {
        let inner = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let Some((place, name)) = inner else {
            // `<access denied>`, or the empty rest of it, or a line that was cut.
            self.is_denied = true;
            return;
        };
        let offset = place.split(' ').next().unwrap_or(place);
        let name = name.trim();
        if offset.len() > 2 {
            self.has_extended = true;
            self.may_have_acs |= NAME.starts_with(name) || name.starts_with(NAME);
        } else {
            self.has_ordinary = true;
            self.is_express |= is_express(name);
            self.is_denied |= name.is_empty();
        }
    }

    /// Concludes; `is_complete` says that nothing of the block was cut off.
    pub(super) fn acs(&self, is_complete: bool) -> (Acs, Option<u32>) {
        if let Some((acs, line)) = self.control {
            return (acs, Some(line));
        }
        if !is_complete || self.is_denied || self.may_have_acs || !self.has_status {
            return (Acs::Unknown, None);
        }
        let is_listed = self.has_extended || (self.is_express && self.has_registers);
        let is_conventional = self.has_ordinary && !self.is_express;
        let is_absent = self.has_none || is_listed || is_conventional;
        (if is_absent { Acs::Absent } else { Acs::Unknown }, None)
    }

    /// Returns whether capabilities were readable and PCIe is not among them.
    pub(super) fn is_conventional(&self, is_complete: bool) -> bool {
        let is_readable = self.has_ordinary && !self.is_denied && is_complete;
        self.has_none || (is_readable && !self.is_express)
    }
}

/// Returns whether the name of a capability is that of PCIe, not of a device that is called so.
pub(super) fn is_express(name: &str) -> bool {
    name.starts_with("Express (") || name.starts_with("Express ")
}

/// Returns whether a statement ends in the beginning of a line that names a capability.
fn ends_in_cut_key(text: &str) -> bool {
    text.rsplit_once(' ').is_some_and(|(_, last)| "Capabilities:".starts_with(last))
}
