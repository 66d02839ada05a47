//! Lines that the kernel wrote to its log while a case ran: errors of links, faults of the IOMMU.
//!
//! The log is read from where it ended when the case began (`Documentation/ABI/testing/dev-kmsg`).

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

use peerlane_fabric::Bdf;
use peerlane_results::{RouteEvidence, RouteVerdict};
use rustix::fs::{Mode, OFlags};

use super::root::short;
use super::{Root, Unread, says, unseen};

const LOOKED_AT: &str = "kernel log: link errors (AER), IOMMU faults, drive resets";
const PATH: &str = "dev/kmsg";
/// Records that are read at most: more than the kernel's buffer holds.
const MOST_RECORDS: usize = 1 << 16;
/// The kernel gives no longer record (`CONSOLE_EXT_LOG_MAX` in `include/linux/printk.h`).
const LONGEST_RECORD: usize = 8192;
/// Lines that are shown.
const MOST_SHOWN: usize = 4;

/// The log, open at its end.
#[derive(Debug)]
pub(super) struct KernelLog(Result<File, Unread>);

impl KernelLog {
    pub(super) fn at_end(root: &Root) -> Self {
        Self(open(root, SeekFrom::End(0)))
    }

    pub(super) fn end(self, addresses: &[Bdf]) -> RouteEvidence {
        let read = self
            .0
            .and_then(|mut file| read_on(&mut file).map_err(|error| Unread::new(PATH, error)));
        match read {
            Ok((text, is_complete)) => judge(&text, is_complete, addresses),
            Err(unread) => unseen(LOOKED_AT, unread),
        }
    }
}

/// Lines of the kernel's log about some devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMessages {
    /// The lines, with the seconds since the start of the kernel, as `dmesg` prints them.
    pub lines: Vec<String>,
    /// False where the kernel has overwritten earlier ones.
    pub is_complete: bool,
}

/// Reads the lines of the whole log that name one of the functions or words.
///
/// # Errors
/// When the log cannot be read; without root, mostly (`kernel.dmesg_restrict`).
pub fn device_messages(
    root: &Root,
    addresses: &[Bdf],
    words: &[&str],
) -> Result<DeviceMessages, Unread> {
    let mut file = open(root, SeekFrom::Start(0))?;
    let (text, no_gap) = read_on(&mut file).map_err(|error| Unread::new(PATH, error))?;
    let is_about = |message: &str| {
        words.iter().any(|word| message.contains(word))
            || addresses.iter().any(|address| names(message, *address))
    };
    let found: Vec<_> =
        records(&text).filter_map(|(head, message)| Some((place(head)?, message))).collect();
    let begins_at_start = found.first().is_none_or(|((sequence, _), _)| *sequence == 0);
    let told =
        found.iter().filter(|(_, message)| is_about(message)).map(|((_, micros), message)| {
            format!("[{:5}.{:06}] {message}", micros / 1_000_000, micros % 1_000_000)
        });
    Ok(DeviceMessages { lines: told.collect(), is_complete: no_gap && begins_at_start })
}

/// The records of the log, each as its head and its message; lines that continue one are left out.
fn records(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(';'))
}

/// Sequence number and microseconds in a head, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS`.
fn place(head: &str) -> Option<(u64, u64)> {
    let mut numbers = head.split(',').skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn open(root: &Root, from: SeekFrom) -> Result<File, Unread> {
    let path = root.within(PATH)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(&path, flags, Mode::empty());
    let mut file = File::from(opened.map_err(|error| Unread::new(PATH, error))?);
    file.seek(from).map_err(|error| Unread::new(PATH, error))?;
    Ok(file)
}

/// Reads the records written since, and returns false with them when some may be lost.
fn read_on(file: &mut impl Read) -> std::io::Result<(String, bool)> {
    let mut text = String::new();
    let mut is_complete = true;
    let mut record = [0; LONGEST_RECORD];
    for _ in 0..MOST_RECORDS {
        match file.read(&mut record) {
            Ok(0) => return Ok((text, is_complete)),
            Ok(length) => text.push_str(&String::from_utf8_lossy(&record[..length])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((text, is_complete)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Records were overwritten before they could be read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => is_complete = false,
            Err(error) => return Err(error),
        }
    }
    Ok((text, false))
}

/// Returns whether a message reports a fault of the IOMMU (`drivers/iommu/intel/dmar.c`,
/// `drivers/iommu/amd/iommu.c`, `drivers/iommu/arm/arm-smmu-v3`).
fn is_iommu_fault(message: &str) -> bool {
    (message.contains("DMAR:") && message.contains("ault"))
        || message.contains("IO_PAGE_FAULT")
        || (message.contains("arm-smmu") && message.contains("event 0x"))
}

/// Returns whether a message reports trouble of a link or a drive (`drivers/pci/pcie/aer.c`,
/// `drivers/nvme/host/pci.c`).
fn is_trouble(message: &str) -> bool {
    message.contains("AER:")
        || message.contains("PCIe Bus Error")
        || (message.contains("nvme") && (message.contains("timeout") || message.contains("reset")))
}

/// A DMA of one of our devices that the IOMMU refused did not go where it should.
fn judge(text: &str, is_complete: bool, addresses: &[Bdf]) -> RouteEvidence {
    let messages = records(text).map(|(_, message)| message);
    let found: Vec<&str> =
        messages.filter(|message| is_iommu_fault(message) || is_trouble(message)).collect();
    let names_ours = |message: &&str| addresses.iter().any(|address| names(message, *address));
    let ours = found.iter().filter(|message| is_iommu_fault(message)).find(|one| names_ours(one));
    let verdict = if ours.is_some() { RouteVerdict::Contradicted } else { RouteVerdict::NotKnown };
    let mut showed = match found.len() {
        0 => "none".to_owned(),
        count => format!("{count}: "),
    };
    let lines: Vec<String> =
        ours.into_iter().chain(&found).take(MOST_SHOWN).map(|line| short(line)).collect();
    showed.push_str(&lines.join("; "));
    if !is_complete {
        showed.push_str(" (records were lost before they could be read)");
    }
    says(verdict, LOOKED_AT, showed)
}

/// Returns whether a message names a device, with or without its domain.
fn names(message: &str, address: Bdf) -> bool {
    let full = address.to_string();
    let short = full.strip_prefix("0000:").unwrap_or(&full);
    message.contains(short)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_testing::Scratch;

    fn watched(new: &str) -> RouteEvidence {
        let tree = Scratch::new();
        let old = "6,1,1,-;DMAR: [DMA Read] Request device [41:00.0] fault addr 0x1\n";
        tree.write("dev/kmsg", old);
        let log = KernelLog::at_end(&Root::at(tree.path()));
        tree.write("dev/kmsg", format!("{old}{new}"));
        log.end(&["0000:41:00.0".parse().unwrap()])
    }

    #[test]
    fn only_what_is_new_counts() {
        let found = watched("6,2,2,-;usb 1-1: new device\n SUBSYSTEM=usb\n");
        assert_eq!((found.says, &*found.evidence.showed), (RouteVerdict::NotKnown, "none"));
    }

    #[test]
    fn refused_dma_of_drive_contradicts() {
        let found =
            watched("3,2,2,-;DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x3\n");
        assert_eq!(found.says, RouteVerdict::Contradicted);
        let found =
            watched("3,2,2,-;nvme 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x1]\n");
        assert_eq!(found.says, RouteVerdict::Contradicted);
        let found = watched("3,2,2,-;DMAR: [DMA Write] Request device [99:00.0] fault addr 0x3\n");
        assert_eq!(found.says, RouteVerdict::NotKnown, "another device");
    }

    #[test]
    fn link_errors_are_shown_without_verdict() {
        let found = watched("4,2,2,-;pcieport 0000:40:01.1: AER: Correctable error received\n");
        assert_eq!(found.says, RouteVerdict::NotKnown);
        assert!(found.evidence.showed.starts_with("1: pcieport"), "{found:?}");
    }

    #[test]
    fn unreadable_log_is_a_reason() {
        let tree = Scratch::new();
        let found = KernelLog::at_end(&Root::at(tree.path())).end(&[]);
        assert!(found.evidence.showed.contains("cannot read /dev/kmsg"), "{found:?}");
    }

    #[test]
    fn messages_name_devices_or_words() {
        let tree = Scratch::new();
        let log = "6,0,339,-;Linux version 6.12 (me@home)\n\
                   6,1,5140900,-;pci 0000:41:00.0: BAR 0 [mem 0x0]\n SUBSYSTEM=pci\n\
                   6,2,6000000,-;usb 1-1: new device\n\
                   6,3,7000001,c;DMAR: IOMMU enabled\nnonsense\n";
        tree.write("dev/kmsg", log);
        let about = [("0000:41:00.0").parse().unwrap()];
        let read = device_messages(&Root::at(tree.path()), &about, &["DMAR"]).expect("a log");
        let lines = [
            "[    5.140900] pci 0000:41:00.0: BAR 0 [mem 0x0]",
            "[    7.000001] DMAR: IOMMU enabled",
        ];
        assert_eq!(
            read,
            DeviceMessages { lines: lines.map(str::to_owned).to_vec(), is_complete: true }
        );
        tree.write("dev/kmsg", "6,9,339,-;DMAR: late\n");
        let read = device_messages(&Root::at(tree.path()), &about, &["DMAR"]).expect("a log");
        assert!(!read.is_complete && read.lines.len() == 1, "earlier records are gone");
    }

    proptest! {
        #[test]
        fn judging_never_panics(text in "(?s).*", is_complete: bool) {
            let found = judge(&text, is_complete, &["0000:41:00.0".parse().unwrap()]);
            prop_assert!(found.evidence.showed.len() < 4096);
        }
    }
}
