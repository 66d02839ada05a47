//! The kernel's arithmetic on an ACS control register, on bits that are known and bits that are not
//! (`pci_enable_acs`, `pci_std_enable_acs` and `__pci_config_acs` in drivers/pci/pci.c, Linux 6.18 and 7.x).
//!
//! The firmware's value shows where nothing has been set over it. A bit that the kernel sets by itself
//! hides it: such a bit is the firmware's or the kernel's.

use super::boot::{AcsBoot, AcsDecision};
use super::list::{DecidedBits, SETTABLE};
use crate::{Acs, Fabric, FunctionId};

/// Source Validation, Request and Completion Redirect, Upstream Forwarding: the kernel sets those that the
/// function has (`pci_std_enable_acs`).
const SET_BY_KERNEL: u16 = 0x1d;
/// Translation Blocking: set for devices that are not trusted, and without ATS.
const TRANSLATION_BLOCKING: u16 = 0x02;

/// A control register with some known bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartialControl {
    /// Values of the known bits; zero elsewhere.
    value: u16,
    /// Known bits.
    known: u16,
}

impl PartialControl {
    fn new(value: u16, known: u16) -> Self {
        Self { value: value & known, known }
    }

    fn from_acs(acs: Acs) -> Self {
        match acs {
            Acs::Present { control } => Self::new(control, u16::MAX),
            Acs::NotRedirecting => Self::new(0, Acs::REDIRECT),
            Acs::Unknown | Acs::Absent => Self::new(0, 0),
        }
    }

    /// As far as a fabric can say it.
    fn to_acs(self) -> Acs {
        if self.known == u16::MAX || self.value & Acs::REDIRECT != 0 {
            Acs::Present { control: self.value }
        } else if self.known & Acs::REDIRECT == Acs::REDIRECT {
            Acs::NotRedirecting
        } else {
            Acs::Unknown
        }
    }

    /// Without knowledge of some bits.
    fn forget(self, bits: u16) -> Self {
        Self::new(self.value, self.known & !bits)
    }

    /// With bits of another register.
    fn with(self, bits: u16, other: Self) -> Self {
        Self {
            value: self.value & !bits | other.value & bits,
            known: self.known & !bits | other.known & bits,
        }
    }

    /// Bits that both know, with the same value.
    fn common(self, other: Self) -> Self {
        let known = self.known & other.known & !(self.value ^ other.value);
        Self::new(self.value, known)
    }

    /// With bits that a parameter decides. A bit that is set stays clear where the function lacks it; it
    /// is known to have those that `seen` shows.
    fn decide(self, bits: DecidedBits, seen: Self) -> Self {
        let set = Self::new(bits.flags, !bits.flags | seen.value);
        self.with(bits.mask, set)
    }
}

/// The register of a function after another boot.
pub(super) fn predict(before: &AcsBoot, after: &AcsBoot, fabric: &Fabric, id: FunctionId) -> Acs {
    let acs = fabric.function(id).acs;
    if acs == Acs::Absent {
        return acs;
    }
    let now = PartialControl::from_acs(acs);
    let old = before.decision(fabric, id);
    let new = after.known_decision(fabric, id);
    if new == before.known_decision(fabric, id) && before.switches_on == after.switches_on {
        return acs;
    }
    let firmware = firmware(now, old, before.switches_on);
    let own = match (old, before.switches_on == after.switches_on) {
        (AcsDecision::None, true) => now,
        _ => set_by_kernel(firmware, now, old, after.switches_on),
    };
    match new {
        AcsDecision::None => own,
        AcsDecision::OverFirmware(bits) => firmware.decide(bits, now),
        AcsDecision::OverKernel(bits) => own.decide(bits, now),
        AcsDecision::NotKnown => now.forget(SETTABLE),
    }
    .to_acs()
}

/// The firmware's value, as far as the present register shows it.
fn firmware(
    now: PartialControl,
    decision: AcsDecision,
    switches_on: Option<bool>,
) -> PartialControl {
    let hidden = if switches_on == Some(false) {
        0
    } else {
        now.value & (SET_BY_KERNEL | TRANSLATION_BLOCKING)
    };
    match decision {
        AcsDecision::None => now.forget(hidden),
        AcsDecision::OverFirmware(bits) => now.forget(bits.mask),
        AcsDecision::OverKernel(bits) => now.forget(bits.mask | hidden),
        AcsDecision::NotKnown => now.forget(SETTABLE),
    }
}

/// The value without parameters.
fn set_by_kernel(
    firmware: PartialControl,
    now: PartialControl,
    old: AcsDecision,
    switches_on: Option<bool>,
) -> PartialControl {
    let set = DecidedBits { mask: SET_BY_KERNEL, flags: SET_BY_KERNEL };
    let on = firmware.forget(TRANSLATION_BLOCKING).decide(set, now);
    let on = match old {
        // The kernel set all that there are, and they still stand.
        AcsDecision::OverKernel(bits) => on.with(SET_BY_KERNEL & !bits.mask, now),
        _ => on,
    };
    match switches_on {
        Some(true) => on,
        Some(false) => firmware,
        None => firmware.common(on),
    }
}
