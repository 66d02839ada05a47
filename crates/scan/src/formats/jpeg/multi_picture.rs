//! Further images of a JPEG file (CIPA DC-007, Multi-Picture Format): previews, other views, gain maps.

use super::segment;
use crate::formats::tiff::first_bytes;

/// Tag of the entries of all images, of 16 bytes each: attributes, length, offset, two links.
const ENTRIES: u16 = 0xb002;

/// The bytes of every image after the first one; empty where they do not lie in the file.
pub(crate) fn further_images(bytes: &[u8]) -> Vec<&[u8]> {
    let mut at = 2;
    while let Some((marker, body, next)) = segment(bytes, at) {
        match (marker, body.strip_prefix(b"MPF\0")) {
            (0xe2, Some(index)) => return listed(bytes, index, next - index.len()),
            (0xda | 0xd9, _) => break,
            _ => at = next,
        }
    }
    Vec::new()
}

/// Offsets count from the index, which begins at `begin`.
fn listed<'a>(bytes: &'a [u8], index: &[u8], begin: usize) -> Vec<&'a [u8]> {
    let is_little = index.starts_with(b"II");
    let number = |part: &[u8]| {
        let four: [u8; 4] = part.try_into().unwrap_or_default();
        let number = if is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) };
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    let image = |entry: &[u8]| {
        let from = begin.saturating_add(number(&entry[8..12]));
        let image = bytes.get(from..from.saturating_add(number(&entry[4..8])));
        image.filter(|image| image.starts_with(&[0xff, 0xd8])).unwrap_or_default()
    };
    let entries = first_bytes(index, ENTRIES).unwrap_or_default();
    entries.chunks_exact(16).skip(1).map(image).collect()
}
