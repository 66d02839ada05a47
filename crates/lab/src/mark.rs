//! Marks in the DMA recorder's log, made from inside the guest.
//!
//! A mark is a one-byte read at an odd offset of the LPC bridge's base address registers
//! (`00:1f.0`, offsets 0x11 to 0x17): the bridge has no such registers, firmware, kernel and `lspci`
//! read them as whole dwords only, and QEMU logs every configuration access in order with the
//! drives' transfers. So the order of the log is enough and no clock is compared.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const BRIDGE_CONFIG: &str = "/sys/bus/pci/devices/0000:00:1f.0/config";

/// Environment variable that is set in the guest of a lab.
pub(crate) const LAB_VARIABLE: &str = "PEERLANE_LAB";

/// Purpose of the transfers after a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkPhase {
    /// Proof of a route, or reading back to verify: it may touch host memory on purpose.
    Check,
    /// The payload itself; also the default before any mark.
    Move,
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    WindowStart,
    WindowEnd,
    Phase(MarkPhase),
}

impl Mark {
    const ALL: [Self; 4] = [
        Self::WindowStart,
        Self::WindowEnd,
        Self::Phase(MarkPhase::Check),
        Self::Phase(MarkPhase::Move),
    ];

    /// Offset in the bridge's configuration space.
    pub(crate) fn offset(self) -> u64 {
        match self {
            Self::WindowStart => 0x11,
            Self::WindowEnd => 0x13,
            Self::Phase(MarkPhase::Check) => 0x15,
            Self::Phase(MarkPhase::Move) => 0x17,
        }
    }

    pub(crate) fn from_offset(offset: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.offset() == offset)
    }

    /// Leaves this mark in the log.
    pub(crate) fn leave(self) -> io::Result<()> {
        File::open(BRIDGE_CONFIG)?.read_exact_at(&mut [0], self.offset())
    }
}

/// Tells the DMA recorder the purpose of the next transfers; does nothing outside a lab.
///
/// The phase holds for the whole guest, not for one thread.
///
/// # Errors
/// When the configuration space of the LPC bridge cannot be read, which needs root.
pub fn mark(phase: MarkPhase) -> io::Result<()> {
    if std::env::var_os(LAB_VARIABLE).is_none() {
        return Ok(());
    }
    Mark::Phase(phase).leave()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_has_its_odd_offset() {
        for mark in Mark::ALL {
            assert_eq!(Mark::from_offset(mark.offset()), Some(mark));
            assert_eq!(mark.offset() % 2, 1, "{mark:?} would be hit by a dword read");
        }
    }
}
