//! Devices made by hand for the tests of libblkid: bytes as the formats want them, no more than libblkid looks at.
#![allow(dead_code, reason = "each test program uses a part of it")]

use peerlane_memory::blkid::{Blkid, DeviceEnds};
use peerlane_units::Bytes;

pub(crate) const UUID: [u8; 16] =
    *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
pub(crate) const UUID_TEXT: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// The library of this machine; `None`, with a skip, if there is none.
pub(crate) fn library() -> Option<Blkid> {
    match Blkid::open() {
        Ok(blkid) => Some(blkid),
        Err(error) => {
            peerlane_testing::skip("libblkid", &error.to_string());
            None
        }
    }
}

/// A device, by its two ends.
pub(crate) struct ImageDevice {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    pub(crate) size: u64,
}

impl ImageDevice {
    /// A blank one.
    pub(crate) fn blank(size: u64) -> Self {
        let length = usize::try_from(size.min(4 << 20)).expect("4 MiB");
        Self { head: vec![0; length], tail: vec![0; length], size }
    }

    pub(crate) fn ends(&self) -> DeviceEnds<'_> {
        DeviceEnds::new(&self.head, &self.tail, Bytes(self.size))
    }

    /// Puts bytes at an offset, in whichever end that is.
    pub(crate) fn with(mut self, offset: u64, bytes: &[u8]) -> Self {
        let tail_offset = self.size - self.tail.len() as u64;
        for (part, start) in [(&mut self.head, 0), (&mut self.tail, tail_offset)] {
            let Some(at) = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok()) else {
                continue;
            };
            if let Some(place) = part.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        self
    }
}

pub(crate) fn ext4(device: ImageDevice, label: &[u8]) -> ImageDevice {
    let device = device.with(1024 + 0x38, b"\x53\xef").with(1024 + 0x5c, &4_u32.to_le_bytes());
    let device = device.with(1024 + 0x60, &0x40_u32.to_le_bytes());
    device.with(1024 + 0x68, &UUID).with(1024 + 0x78, label)
}

pub(crate) fn swap(device: ImageDevice, label: &[u8]) -> ImageDevice {
    let device = device.with(1024, &1_u32.to_le_bytes()).with(1028, &1000_u32.to_le_bytes());
    device.with(1036, &UUID).with(1052, label).with(4086, b"SWAPSPACE2")
}

pub(crate) fn luks1(device: ImageDevice) -> ImageDevice {
    device.with(0, b"LUKS\xba\xbe\0\x01").with(168, UUID_TEXT.as_bytes())
}

/// An MBR with one partition of a type.
pub(crate) fn mbr(device: ImageDevice, kind: u8) -> ImageDevice {
    let device = device.with(440, b"\x78\x56\x34\x12").with(446 + 4, &[kind]);
    let device = device.with(446 + 8, &1_u32.to_le_bytes()).with(446 + 12, &100_u32.to_le_bytes());
    device.with(510, b"\x55\xaa")
}

/// The two headers of a GPT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Primary,
    Backup,
}

/// A GPT without partitions, by one of its headers, with so many entries of zeroes.
pub(crate) fn gpt(device: ImageDevice, block: u64, header: Header, entries: u32) -> ImageDevice {
    let last = device.size / block - 1;
    let blocks = (u64::from(entries) * 128).div_ceil(block);
    let (own, other, table) = match header {
        Header::Primary => (1, last, 2),
        Header::Backup => (last, 1, last - blocks),
    };
    let mut bytes = Vec::from(*b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0");
    for number in [own, other, 2 + blocks, last - blocks - 1] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(UUID);
    bytes.extend(table.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend(128_u32.to_le_bytes());
    bytes.extend(crc32(std::iter::repeat_n(0, entries as usize * 128)).to_le_bytes());
    let sum = crc32(bytes.iter().copied());
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    device.with(own * block, &bytes)
}

/// The sum of UEFI 2.10 section 5.3.2, bit by bit.
pub(crate) fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let next = |sum: u32, byte: u8| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 }
        })
    };
    !bytes.fold(u32::MAX, next)
}
