//! Switches of cuFile that let payload go through host memory.

use std::fmt;

use super::abi::{control, parameter};

/// A switch that lets payload of a direct mode go through host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Compatibility mode where the direct way is not possible.
    AllowCompatible,
    /// Compatibility mode always.
    ForceCompatible,
    /// Plain reads and writes without any of cuFile's checks (1.17). The library takes it by itself where NVIDIA's
    /// driver is missing.
    PosixIo,
    /// A second try in compatibility mode after direct I/O failed (1.17).
    FallbackIo,
}

impl Fallback {
    /// All of them.
    pub(super) const ALL: [Self; 4] =
        [Self::AllowCompatible, Self::ForceCompatible, Self::PosixIo, Self::FallbackIo];

    /// The Boolean parameter that switches it.
    pub(super) fn parameter(self) -> i32 {
        match self {
            Self::AllowCompatible => parameter::ALLOW_COMPATIBLE,
            Self::ForceCompatible => parameter::FORCE_COMPATIBLE,
            Self::PosixIo => parameter::POSIX_IO,
            Self::FallbackIo => parameter::FALLBACK_IO,
        }
    }

    /// Bit of `dcontrolflags` that shows it, if there is one.
    pub(super) fn control_bit(self) -> Option<u32> {
        match self {
            Self::AllowCompatible => Some(control::ALLOW_COMPATIBLE),
            Self::ForceCompatible => None,
            Self::PosixIo => Some(control::POSIX_IO),
            Self::FallbackIo => Some(control::FALLBACK_IO),
        }
    }

    /// Its key in `/etc/cufile.json`.
    pub fn key(self) -> &'static str {
        match self {
            Self::AllowCompatible => "properties.allow_compat_mode",
            Self::ForceCompatible => "properties.force_compat_mode",
            Self::PosixIo => "properties.vanilla_posix_io_mode",
            Self::FallbackIo => "properties.gds_fallback_io",
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllowCompatible => "its compatibility mode",
            Self::ForceCompatible => "its forced compatibility mode",
            Self::PosixIo => "its POSIX mode",
            Self::FallbackIo => "its second try through host memory",
        })
    }
}

/// Names of switches, with a word between them.
pub(super) struct Names<'a>(pub(super) &'a [Fallback]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fallback) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { " and " };
            write!(f, "{between}{fallback} ({})", fallback.key())?;
        }
        Ok(())
    }
}
