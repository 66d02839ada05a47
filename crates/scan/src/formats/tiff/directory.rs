//! Directories of a TIFF or BigTIFF file, and of Exif data.

use std::collections::HashSet;

use super::super::FormatError;

/// Directories of one file at most.
const MOST_DIRECTORIES: usize = 1 << 16;

/// Order of the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    LittleEndian,
    BigEndian,
}

impl ByteOrder {
    /// A whole number of up to eight bytes.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self {
            Self::LittleEndian => bytes.iter().rev().fold(0, add),
            Self::BigEndian => bytes.iter().fold(0, add),
        }
    }
}

/// Tags of one page.
#[derive(Debug, Clone)]
pub(super) struct Directory<'a> {
    bytes: &'a [u8],
    pub(super) order: ByteOrder,
    entries: Vec<(u16, TagField)>,
    next: u64,
}

/// Position of the values of a tag.
#[derive(Debug, Clone, Copy)]
struct TagField {
    size: usize,
    count: usize,
    at: usize,
}

/// Tests whether a file begins as TIFF or BigTIFF do.
pub(crate) fn is_tiff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*") || is_big(bytes)
}

fn is_big(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II+\0") || bytes.starts_with(b"MM\0+")
}

/// The directories in the chain of a file, in their order, and why the chain ends early.
pub(super) fn chain(bytes: &[u8]) -> (Vec<Directory<'_>>, Option<FormatError>) {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    let mut at = first(bytes).unwrap_or(0);
    while at != 0 {
        if !known.insert(at) || all.len() >= MOST_DIRECTORIES {
            return (all, Some(header("its directories form a circle")));
        }
        let Some(directory) = Directory::read(bytes, at) else {
            return (all, Some(header("a directory lies beyond the end")));
        };
        at = directory.next;
        all.push(directory);
    }
    let nothing = all.is_empty().then(|| header("there is no directory"));
    (all, nothing)
}

pub(super) fn header(what: &str) -> FormatError {
    FormatError::Header { format: "TIFF", what: what.to_owned() }
}

fn order(bytes: &[u8]) -> Option<ByteOrder> {
    match bytes.get(..2)? {
        b"II" => Some(ByteOrder::LittleEndian),
        b"MM" => Some(ByteOrder::BigEndian),
        _ => None,
    }
}

fn first(bytes: &[u8]) -> Option<u64> {
    let at = if is_big(bytes) { 8..16 } else { 4..8 };
    Some(order(bytes)?.number(bytes.get(at)?))
}

/// The number of a tag in the first directory, as of Exif data.
pub(crate) fn first_number(bytes: &[u8], tag: u16) -> Option<u64> {
    Directory::read(bytes, first(bytes)?)?.number(tag)
}

/// The bytes of a tag in the first directory.
pub(crate) fn first_bytes(bytes: &[u8], tag: u16) -> Option<&[u8]> {
    Directory::read(bytes, first(bytes)?)?.bytes(tag)
}

impl<'a> Directory<'a> {
    /// TIFF 6.0 section 2; BigTIFF has counts and offsets of eight bytes.
    fn read(bytes: &'a [u8], at: u64) -> Option<Self> {
        let (order, is_big) = (order(bytes)?, is_big(bytes));
        let (head, wide) = if is_big { (8, 8) } else { (2, 4) };
        let at = usize::try_from(at).ok()?;
        let number =
            |at: usize, size: usize| Some(order.number(bytes.get(at..at.checked_add(size)?)?));
        let count = usize::try_from(number(at, head)?).ok().filter(|count| *count < 1 << 16)?;
        let (begin, length) = (at + head, 4 + 2 * wide);
        let mut entries = Vec::new();
        for at in (0..count).map(|index| begin + index * length) {
            let (tag, kind, items) = (number(at, 2)?, number(at + 2, 2)?, number(at + 4, wide)?);
            let size = match kind {
                1 | 2 | 6 | 7 => 1,
                3 | 8 => 2,
                4 | 9 | 11 | 13 => 4,
                5 | 10 | 12 | 16..=18 => 8,
                _ => continue,
            };
            let (Ok(tag), Ok(items)) = (u16::try_from(tag), usize::try_from(items)) else {
                continue;
            };
            let inside = items.checked_mul(size).is_some_and(|length| length <= wide);
            let value = at + 4 + wide;
            let from = if inside { value } else { usize::try_from(number(value, wide)?).ok()? };
            entries.push((tag, TagField { size, count: items, at: from }));
        }
        // Of a file that ends there this is the last one.
        let next = number(begin + count * length, wide).unwrap_or(0);
        Some(Self { bytes, order, entries, next })
    }

    /// The bytes of a tag; as much of them as there is.
    pub(super) fn bytes(&self, tag: u16) -> Option<&'a [u8]> {
        let (_, field) = self.entries.iter().find(|(one, _)| *one == tag)?;
        let end = field.at.saturating_add(field.count.saturating_mul(field.size));
        self.bytes.get(field.at..end.min(self.bytes.len()))
    }

    /// The whole numbers of a tag.
    pub(super) fn numbers(&self, tag: u16) -> Vec<u64> {
        let size =
            self.entries.iter().find(|(one, _)| *one == tag).map_or(1, |(_, field)| field.size);
        let bytes = self.bytes(tag).unwrap_or_default();
        bytes.chunks_exact(size).map(|number| self.order.number(number)).collect()
    }

    pub(super) fn number(&self, tag: u16) -> Option<u64> {
        self.numbers(tag).first().copied()
    }

    /// A part of the file; as much of it as there is.
    pub(super) fn part(&self, at: u64, length: u64) -> &'a [u8] {
        let begin = usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        &self.bytes[begin..begin.saturating_add(length).min(self.bytes.len())]
    }
}
