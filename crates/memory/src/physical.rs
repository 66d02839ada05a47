//! Physical addresses of mapped regions, for a device that finds its data by them.
//!
//! The kernel lists them in `/proc/self/pagemap` (`Documentation/admin-guide/mm/pagemap.rst`), one
//! entry of 64 bits a page: bit 63 says that the page is mapped, bits 0 to 54 are its frame. A map
//! of [`crate::p2pmem`] has its pages from the start, so nothing has to touch them.
//!
//! 1. The file can be read (`ENOENT` without `CONFIG_PROC_PAGE_MONITOR`).
//! 2. The process has `CAP_SYS_ADMIN`; frames read as 0 without it.
//! 3. The region is one run of frames, as every map of [`crate::p2pmem`] is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use peerlane_units::Bytes;

use crate::region::Region;

const PAGEMAP: &str = "/proc/self/pagemap";
const IS_MAPPED: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// Lines of `resource` that are BARs; the ROM and windows of bridges follow.
const BARS: usize = 6;

/// The reason why a region has no address that a device could use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// A file of the kernel cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel hides frames from a process without `CAP_SYS_ADMIN`.
    #[error("cannot tell a physical address: {PAGEMAP} shows frames to CAP_SYS_ADMIN alone")]
    Hidden,
    /// A page of the region is not mapped.
    #[error("cannot tell a physical address: a page of the region is not mapped")]
    NotMapped,
    /// The pages of the region are not one run.
    #[error("cannot tell one physical address: the region is not one run of pages")]
    Scattered,
    /// No BAR of the function holds the region.
    #[error("cannot find {address:#x} in a BAR of {}", function.display())]
    Elsewhere {
        /// Folder of the function.
        function: PathBuf,
        /// Physical address of the region.
        address: u64,
    },
}

impl AddressError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        matches!(self, Self::Hidden).then(|| "run as root".to_owned())
    }
}

/// A place in the memory of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarOffset {
    /// Number of the BAR.
    pub bar: usize,
    /// Distance from its start.
    pub offset: Bytes,
}

/// Returns the physical address of a region's first byte.
///
/// # Errors
/// [`AddressError`]; the region must be mapped, and be one run of pages.
pub fn address(region: &Region) -> Result<u64, AddressError> {
    let unreadable = |source| AddressError::Unreadable { path: PAGEMAP.into(), source };
    let pagemap = File::open(PAGEMAP).map_err(unreadable)?;
    let page = rustix::param::page_size() as u64;
    let start = region.address().addr().get() as u64;
    let last = start + region.length().0.max(1) - 1;
    let mut entries = Vec::new();
    for number in start / page..=last / page {
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, number * 8).map_err(unreadable)?;
        entries.push(u64::from_ne_bytes(entry));
    }
    Ok(first_frame(&entries)? * page + start % page)
}

/// Returns the place of a region in a BAR of the function whose directory is given
/// (`/sys/bus/pci/devices/BDF`).
///
/// # Errors
/// [`AddressError`], and [`AddressError::Elsewhere`] for memory that is not the function's.
pub fn bar_offset(region: &Region, function: &Path) -> Result<BarOffset, AddressError> {
    let address = address(region)?;
    let path = function.join("resource");
    let resource = std::fs::read_to_string(&path)
        .map_err(|source| AddressError::Unreadable { path, source })?;
    bar_with(&resource, address, region.length())
        .ok_or_else(|| AddressError::Elsewhere { function: function.to_owned(), address })
}

/// The first frame of pages that are one run.
fn first_frame(entries: &[u64]) -> Result<u64, AddressError> {
    let mut first = None;
    for (distance, entry) in (0..).zip(entries) {
        let frame = entry & FRAME;
        if entry & IS_MAPPED == 0 {
            return Err(AddressError::NotMapped);
        }
        if frame == 0 {
            return Err(AddressError::Hidden);
        }
        if *first.get_or_insert(frame) + distance != frame {
            return Err(AddressError::Scattered);
        }
    }
    first.ok_or(AddressError::NotMapped)
}

/// The BAR that holds a range, by lines of first address, last address and flags.
fn bar_with(resource: &str, address: u64, length: Bytes) -> Option<BarOffset> {
    let last = address.checked_add(length.0.checked_sub(1)?)?;
    resource.lines().take(BARS).enumerate().find_map(|(bar, line)| {
        let mut numbers =
            line.split(' ').map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let (start, end) = (numbers.next()??, numbers.next()??);
        // An unused BAR is all zeros.
        let holds = end > start && start <= address && last <= end;
        holds.then(|| BarOffset { bar, offset: Bytes(address - start) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn first_frame_needs_one_mapped_run() {
        let mapped = |frame| IS_MAPPED | 1 << 61 | frame;
        assert!(matches!(first_frame(&[mapped(7), mapped(8)]), Ok(7)));
        assert!(matches!(first_frame(&[mapped(7), mapped(9)]), Err(AddressError::Scattered)));
        assert!(matches!(first_frame(&[mapped(7), 8]), Err(AddressError::NotMapped)));
        assert!(matches!(first_frame(&[mapped(0)]), Err(AddressError::Hidden)));
    }

    #[test]
    fn bars_hold_whole_ranges_only() {
        let resource = "0x00000000fe000000 0x00000000fe0000ff 0x0000000000040200\n\
                        0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                        0x0000003800000000 0x0000003803ffffff 0x000000000014220c\n";
        let find = |address, length| bar_with(resource, address, Bytes(length));
        let found = BarOffset { bar: 2, offset: Bytes(0x30_0000) };
        assert_eq!(find(0x38_0030_0000, 0x3d0_0000), Some(found));
        assert_eq!(find(0x38_0030_0000, 0x3d0_0001), None);
        assert_eq!(find(0, 1), None);
        let rom =
            format!("{}0x0000000000001000 0x0000000000001fff 0x2\n", "0x0 0x0 0x0\n".repeat(6));
        assert_eq!(bar_with(&rom, 0x1000, Bytes(1)), None);
    }

    #[test]
    fn host_memory_lies_in_no_bar() {
        let mut region = host::allocate(Bytes::kib(4)).expect("memory");
        region.host_bytes_mut().expect("host memory").fill(1);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("resource"), "0x1 0x2 0x3\n").expect("room");
        match bar_offset(&region, folder.path()) {
            Err(AddressError::Elsewhere { .. }) => {}
            // Without the capability.
            Err(error @ AddressError::Hidden) => assert!(error.hint().is_some()),
            other => panic!("{other:?}"),
        }
    }
}
