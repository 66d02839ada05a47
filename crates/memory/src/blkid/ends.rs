//! The two ends of a device as they were read, and a memory file that looks like the device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use peerlane_units::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// Bytes to read at each end of a device. Every magic number lies within them.
pub const END_BYTES: usize = 8 << 20;

/// A page without content: pages like it are left out of the memory file.
const BLANK: [u8; 4096] = [0; 4096];

/// The two ends of a device.
///
/// They may overlap, as on a device below twice [`END_BYTES`]; where they differ the head counts.
#[derive(Debug, Clone, Copy)]
pub struct DeviceEnds<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    /// Offset of the tail.
    tail_offset: u64,
    size: u64,
}

impl<'a> DeviceEnds<'a> {
    /// The ends of a device of `size`: `head` from its first byte on, `tail` up to its last. Bytes that would lie
    /// outside of the device are left out.
    pub fn new(head: &'a [u8], tail: &'a [u8], size: Bytes) -> Self {
        let most = usize::try_from(size.0).unwrap_or(usize::MAX);
        let head = &head[..head.len().min(most)];
        let tail = &tail[tail.len() - tail.len().min(most)..];
        Self { head, tail, tail_offset: size.0 - tail.len() as u64, size: size.0 }
    }

    /// Size of the device.
    pub fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// Bytes of the device; `None` where they are not all in one of its ends.
    pub fn bytes(&self, offset: u64, length: usize) -> Option<&'a [u8]> {
        let within = |part: &'a [u8], start: u64| {
            let start = usize::try_from(offset.checked_sub(start)?).ok()?;
            part.get(start..start.checked_add(length)?)
        };
        within(self.head, 0).or_else(|| within(self.tail, self.tail_offset))
    }
}

/// A file in memory with the size of a device and the content of its ends. Its middle reads as zeroes and takes no
/// memory.
#[derive(Debug)]
pub struct MemoryImage(File);

impl MemoryImage {
    /// Makes the file.
    ///
    /// # Errors
    /// The system's answer: no memory, or a size above the largest of a file (8 EiB).
    pub fn new(ends: &DeviceEnds<'_>) -> io::Result<Self> {
        let file = File::from(create()?);
        file.set_len(ends.size)?;
        let image = Self(file);
        image.write(ends.head, 0)?;
        let covered = (ends.head.len() as u64).saturating_sub(ends.tail_offset);
        let covered = usize::try_from(covered).unwrap_or(usize::MAX).min(ends.tail.len());
        image.write(&ends.tail[covered..], ends.tail_offset + covered as u64)?;
        Ok(image)
    }

    /// Empties the file, which ends every read from now on and those that have begun.
    pub(super) fn cut(&self) {
        // A failure changes nothing: the reader has a deadline.
        let _ = self.0.set_len(0);
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let pages = bytes.chunks(BLANK.len()).enumerate();
        for (index, page) in pages.filter(|(_, page)| *page != &BLANK[..page.len()]) {
            self.0.write_all_at(page, offset + (index * BLANK.len()) as u64)?;
        }
        Ok(())
    }
}

impl AsFd for MemoryImage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A memory file that cannot be run as a program, as `vm.memfd_noexec` demands; before Linux 6.3 there is no such mark.
fn create() -> Result<std::os::fd::OwnedFd, Errno> {
    let name = c"peerlane-ends";
    match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that the memory file of a small device reads as.
    fn image(ends: &DeviceEnds<'_>) -> Vec<u8> {
        let image = MemoryImage::new(ends).expect("a memory file");
        let mut bytes = vec![1; usize::try_from(ends.size().0).expect("in memory")];
        image.0.read_exact_at(&mut bytes, 0).expect("its size is that of the device");
        bytes
    }

    #[test]
    fn image_has_ends_and_blank_middle() {
        let (head, tail) = ([1; 5000], [2; 300]);
        let bytes = image(&DeviceEnds::new(&head, &tail, Bytes(10_001)));
        assert!(bytes[..5000] == head && bytes[9701..] == tail);
        assert!(bytes[5000..9701].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn head_counts_where_ends_overlap() {
        let ends = DeviceEnds::new(&[0, 1], &[2, 2, 2], Bytes(4));
        assert_eq!(image(&ends), [0, 1, 2, 2]);
        assert_eq!((ends.bytes(0, 2), ends.bytes(1, 3)), (Some(&[0, 1][..]), Some(&[2; 3][..])));
        assert_eq!(ends.bytes(0, 3), None);
    }

    #[test]
    fn ends_longer_than_device_are_cut() {
        let ends = DeviceEnds::new(&[1, 2, 3], &[4, 5, 6], Bytes(2));
        assert_eq!(image(&ends), [1, 2]);
        assert_eq!(ends.bytes(0, 3), None);
        assert_eq!(DeviceEnds::new(&[1], &[2], Bytes(0)).bytes(0, 0), Some(&[][..]));
    }

    #[test]
    fn cut_image_reads_as_empty() {
        let ends = DeviceEnds::new(&[1; 512], &[1; 512], Bytes(512));
        let image = MemoryImage::new(&ends).expect("a memory file");
        image.cut();
        assert_eq!(image.0.read_at(&mut [0; 512], 0).expect("it can be read"), 0);
    }

    proptest! {
        #[test]
        fn image_is_what_ends_say(
            head in proptest::collection::vec(any::<u8>(), 0..9000),
            tail in proptest::collection::vec(any::<u8>(), 0..9000),
            size in 0..20_000_u64,
        ) {
            let ends = DeviceEnds::new(&head, &tail, Bytes(size));
            let bytes = image(&ends);
            let length = bytes.len();
            prop_assert!(bytes[..head.len().min(length)] == head[..head.len().min(length)]);
            let covered = tail.len().min(length.saturating_sub(head.len()));
            prop_assert!(bytes[length - covered..] == tail[tail.len() - covered..]);
        }
    }
}
