//! Other writers to a namespace: other controllers, and hosts with a reservation.
//!
//! The kernel tells neither. The drive does, by Identify and Reservation Report, which only read.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use peerlane_units::Nanos;
use rustix::io::Errno;
use rustix::ioctl::ioctl;

use super::apart;
use super::identify::{ANSWER, IoCommand, NamespaceId, Structure, identify};
use super::status::NvmeStatus;

/// Reservation Report (NVMe Base Specification 2.0, figure 502).
const RESERVATION_REPORT: u8 = 0x0e;
/// Bytes of a report that are read: more registrants than any drive here takes.
const REPORT: usize = 4096;
/// The same in dwords, less one, as the command counts it.
const REPORT_DWORDS: u32 = 1023;

/// Other possible writers to a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The namespace may be attached to several controllers (NMIC, bit 0).
    pub(crate) is_shared: bool,
    /// Identifiers of the controllers that it is attached to; `None` if the drive does not tell.
    pub(crate) controllers: Option<Vec<u16>>,
    /// The reservation in force.
    pub(crate) reservation: Option<Reservation>,
}

/// A reservation of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Its type (NVMe Base Specification 2.0, figure 498).
    pub(crate) kind: u8,
    /// Identifiers of the controllers whose hosts hold it.
    pub(crate) holders: Vec<u16>,
}

impl Reservation {
    /// The type in words.
    pub(crate) fn kind_in_words(&self) -> &'static str {
        match self.kind {
            1 => "write exclusive",
            2 => "exclusive access",
            3 => "write exclusive, registrants only",
            4 => "exclusive access, registrants only",
            5 => "write exclusive, all registrants",
            6 => "exclusive access, all registrants",
            _ => "of an unknown type",
        }
    }
}

/// Asks the drive behind an open block device of NVMe who else can write to it.
///
/// # Errors
/// The system's answer, or the drive's; it takes `CAP_SYS_ADMIN`. `ENOTTY` for anything but an NVMe
/// namespace.
pub(crate) fn sharing(device: &File, deadline: Nanos) -> io::Result<Sharing> {
    // SAFETY: `NVME_IOCTL_ID` takes no argument and writes nothing; its answer is a number.
    let nsid = unsafe { ioctl(device, NamespaceId) }?;
    let namespace = identify(device, Structure::Namespace, nsid, deadline)?;
    let controller = identify(device, Structure::Controller, 0, deadline)?;
    let is_shared = namespace[30] & 1 != 0;
    let controllers = if is_shared {
        let list = identify(device, Structure::AttachedControllers, nsid, deadline);
        list.ok().map(|list| controllers(&list))
    } else {
        None
    };
    // Optional NVM Command Support, bit 5; the namespace's own capabilities (RESCAP).
    let has_reservations = controller[520] & (1 << 5) != 0 && namespace[31] != 0;
    let reservation = if has_reservations { report(device, nsid, deadline)? } else { None };
    Ok(Sharing { is_shared, controllers, reservation })
}

/// A list of controllers: their number, then their identifiers (NVMe Base Specification 2.0, section 4.4.1).
fn controllers(list: &[u8; ANSWER]) -> Vec<u16> {
    let mut words = list.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    let count = words.next().unwrap_or(0);
    words.take(count.into()).collect()
}

/// Both forms of a report are tried: which one a drive gives depends on the host identifier in use.
fn report(device: &File, nsid: u32, deadline: Nanos) -> io::Result<Option<Reservation>> {
    let mut last = None;
    for is_extended in [true, false] {
        match ask(device, nsid, is_extended, deadline) {
            Ok(report) => return Ok(reservation(&report, is_extended)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(None), Err)
}

fn ask(
    device: &File,
    nsid: u32,
    is_extended: bool,
    deadline: Nanos,
) -> io::Result<Box<[u8; REPORT]>> {
    let mut answer = Box::new([0; REPORT]);
    let ask = |device: BorrowedFd<'_>, answer: &mut [u8]| {
        let words = [REPORT_DWORDS, u32::from(is_extended), 0, 0, 0, 0];
        let command = IoCommand::new(RESERVATION_REPORT, nsid, words, answer);
        // SAFETY: the command asks for as many bytes as `answer` has, which outlives the call and is not
        // looked at before it returns.
        let status = unsafe { ioctl(device, command) }?;
        NvmeStatus::check(status).map(|()| 0)
    };
    // SAFETY: `ask` makes one system call, and compares numbers.
    unsafe { apart::call_with_answer(device.as_fd(), deadline, answer.as_mut_slice(), ask) }?;
    Ok(answer)
}

/// Reads a report (NVMe Base Specification 2.0, figures 503 to 506).
fn reservation(report: &[u8; REPORT], is_extended: bool) -> Option<Reservation> {
    let kind = report[4];
    if kind == 0 {
        return None;
    }
    let count = usize::from(u16::from_le_bytes([report[5], report[6]]));
    let (head, size) = if is_extended { (64, 64) } else { (24, 24) };
    let registrants = report[head..].chunks_exact(size).take(count);
    let holders = registrants.filter(|one| one[2] & 1 != 0);
    let holders = holders.map(|one| u16::from_le_bytes([one[0], one[1]])).collect();
    Some(Reservation { kind, holders })
}

/// True when an answer means that no controller can be asked.
pub(crate) fn is_no_answer(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::NOTTY | Errno::INVAL | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_lists_are_read_by_their_count() {
        let mut list = [0; ANSWER];
        list[..8].copy_from_slice(&[2, 0, 1, 0, 7, 1, 9, 9]);
        assert_eq!(controllers(&list), [1, 0x107]);
        assert_eq!(controllers(&[0xff; ANSWER]).len(), ANSWER / 2 - 1);
    }

    #[test]
    fn holders_are_read_from_either_form() {
        for (is_extended, size) in [(true, 64), (false, 24)] {
            let mut report = [0; REPORT];
            assert_eq!(reservation(&report, is_extended), None);
            (report[4], report[5]) = (1, 2);
            report[size..size + 3].copy_from_slice(&[3, 0, 0]);
            report[2 * size..2 * size + 3].copy_from_slice(&[4, 1, 1]);
            let found = reservation(&report, is_extended).unwrap();
            assert_eq!((found.kind_in_words(), found.holders), ("write exclusive", vec![0x104]));
        }
    }

    #[test]
    fn counts_beyond_the_report_are_bounded() {
        let report = [0xff; REPORT];
        assert!(reservation(&report, true).unwrap().holders.len() < 64);
        assert!(reservation(&report, false).unwrap().holders.len() < 170);
    }

    #[test]
    fn other_devices_have_no_answer() {
        let file = File::open("/dev/null").unwrap();
        assert!(is_no_answer(&sharing(&file, Nanos::seconds(5)).unwrap_err()));
    }
}
