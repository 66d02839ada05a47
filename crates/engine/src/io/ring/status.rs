//! End of an NVMe command, in the drive's own status.
//!
//! A command through a passthrough node ends with the drive's own status, which the kernel hands over
//! as a positive number: the place where a read has its byte count. It must never be taken for one.
//! A ring's answers are errnos, so a status travels as one beyond those of Linux: errnos end at 4095
//! (`MAX_ERRNO`, include/linux/err.h) and are in use up to 530 (include/linux/errno.h), so the upper
//! half is free for the 11 bits of a status.

use std::fmt;

use rustix::io::Errno;

/// Status code type and status code of a completion (NVMe Base Specification 2.0, figure 92): three
/// bits of type above eight of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvmeStatus(u16);

/// The bits of type and code in the status from the kernel; above them are retry delay, more, and
/// do not retry.
const CODE: u16 = 0x7ff;
/// First errno that stands for a status.
const FIRST_ERRNO: i32 = 0x800;

/// `EINTR`.
const INTERRUPTED: i32 = 4;
/// `NVME_SC_HOST_ABORTED_CMD` of include/linux/nvme.h.
const HOST_ABORTED: u16 = 0x371;

/// Statuses that are met with, in words (NVMe Base Specification 2.0, figures 94 to 98; the last are
/// the kernel's own for a path, include/linux/nvme.h).
const NAMES: &[(u16, &str)] = &[
    (0x001, "invalid command opcode"),
    (0x002, "invalid field in the command"),
    (0x004, "data transfer error"),
    (0x005, "aborted since power is lost"),
    (0x006, "internal error of the drive"),
    (0x007, "aborted on request"),
    (0x008, "aborted since its queue was deleted"),
    (0x00b, "invalid namespace, or gone"),
    (0x013, "invalid offset into controller memory"),
    (0x01c, "sanitize has failed"),
    (0x01d, "sanitize is in progress"),
    (0x020, "the namespace is write protected"),
    (0x021, "interrupted"),
    (0x022, "transient transport error"),
    (0x080, "LBA out of range"),
    (0x081, "capacity exceeded"),
    (0x082, "the namespace is not ready"),
    (0x083, "reservation conflict"),
    (0x084, "format is in progress"),
    (0x182, "attempted write to a read-only range"),
    (0x280, "write fault"),
    (0x281, "unrecovered read error"),
    (0x282, "protection information: guard check error"),
    (0x283, "protection information: application tag check error"),
    (0x284, "protection information: reference tag check error"),
    (0x285, "compare failure"),
    (0x286, "access denied"),
    (0x287, "deallocated or unwritten block"),
    (0x300, "internal error of the path"),
    (0x301, "asymmetric access: persistent loss"),
    (0x302, "asymmetric access: inaccessible"),
    (0x303, "asymmetric access: in transition"),
    (0x370, "no path to the drive: it is being reset, or gone"),
    (0x371, "given up, since the drive is being reset or gone"),
];

impl NvmeStatus {
    /// Checks the result of a command through a passthrough node. A command that was not carried
    /// out ends with an errno, one that failed with its status.
    ///
    /// # Errors
    /// The errno, or a status as [`NvmeStatus::errno`] gives it; `EAGAIN` if the drive wants a
    /// retry.
    pub(crate) fn check(result: i32) -> Result<(), Errno> {
        match u16::try_from(result) {
            Ok(0) => Ok(()),
            Ok(status) => {
                let status = Self(status & CODE);
                Err(if status.is_transient() { Errno::AGAIN } else { status.errno() })
            }
            // The kernel gave it up at a reset (`nvme_uring_cmd_end_io` in drivers/nvme/host/ioctl.c). To
            // ask again at once would be to wait for the drive's timeout again and again.
            Err(_) if result == -INTERRUPTED => Err(Self(HOST_ABORTED).errno()),
            Err(_) if result < 0 => {
                Err(Errno::from_raw_os_error(result.checked_neg().unwrap_or(i32::MAX).min(4095)))
            }
            // More bits than a status has: still no success.
            Err(_) => Err(Errno::IO),
        }
    }

    /// A status as a ring's answer.
    pub(crate) fn errno(self) -> Errno {
        Errno::from_raw_os_error(FIRST_ERRNO + i32::from(self.0))
    }

    /// The status that a ring's answer is; `None` for an errno of Linux.
    pub(crate) fn from_errno(errno: Errno) -> Option<Self> {
        let number = errno.raw_os_error() - FIRST_ERRNO;
        u16::try_from(number).ok().filter(|status| *status <= CODE).map(Self)
    }

    /// Type and code, as `nvme` of nvme-cli prints them.
    pub fn code(self) -> u16 {
        self.0
    }

    /// True when the kernel itself would ask again at once: interrupted, not ready
    /// (`nvme_error_status` in drivers/nvme/host/core.c makes both a lack of resources).
    fn is_transient(self) -> bool {
        matches!(self.0, 0x021 | 0x082)
    }

    /// True when the place on the medium is bad (type 2, media and data integrity). Codes for
    /// protection information or permission do not count.
    pub fn is_medium(self) -> bool {
        matches!(self.0, 0x280 | 0x281 | 0x287)
    }

    /// True when the memory of the command may be at fault. Its data could not be transferred, or
    /// it is controller memory that is not to be used so.
    pub(crate) fn is_of_memory(self) -> bool {
        matches!(self.0, 0x004 | 0x012 | 0x013)
    }

    /// True when the drive or the way to it is gone, or was for a while.
    pub(crate) fn is_of_the_way(self) -> bool {
        matches!(self.0, 0x008 | 0x00b | 0x022 | 0x300..=0x303 | 0x370 | 0x371)
    }
}

impl fmt::Display for NvmeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(code, _)| *code == self.0).map(|(_, name)| *name);
        write!(f, "{} (NVMe status {:#05x})", name.unwrap_or("the drive refused it"), self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_status_is_named_and_never_a_byte_count() {
        for (result, words) in [
            (0x281, "unrecovered read error (NVMe status 0x281)"),
            (0x4280, "write fault (NVMe status 0x280)"),
            (0x4080, "LBA out of range (NVMe status 0x080)"),
            (0x400b, "invalid namespace, or gone (NVMe status 0x00b)"),
            (-4, "given up, since the drive is being reset or gone (NVMe status 0x371)"),
            (0x7c0, "the drive refused it (NVMe status 0x7c0)"),
        ] {
            let errno = NvmeStatus::check(result).expect_err("a failure");
            assert_eq!(NvmeStatus::from_errno(errno).expect("a status").to_string(), words);
        }
        assert_eq!(NvmeStatus::check(0), Ok(()));
        assert_eq!(NvmeStatus::check(-22), Err(Errno::INVAL));
        assert_eq!(NvmeStatus::check(0x4082), Err(Errno::AGAIN), "not ready is asked again");
    }

    #[test]
    fn errnos_of_linux_are_no_statuses() {
        for errno in [Errno::IO, Errno::INVAL, Errno::REMOTEIO, Errno::from_raw_os_error(530)] {
            assert_eq!(NvmeStatus::from_errno(errno), None);
        }
    }

    proptest! {
        #[test]
        fn no_result_but_zero_is_a_success(result: i32) {
            prop_assert_eq!(NvmeStatus::check(result).is_ok(), result == 0);
        }
    }
}
