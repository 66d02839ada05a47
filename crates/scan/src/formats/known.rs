//! Kinds of images that are known by their first bytes and not read.

use super::FormatError;

/// First bytes, their offset, and the format.
const UNREAD: &[(&[u8], usize, &str)] = &[
    (b"GIF8", 0, "GIF"),
    (b"8BPS", 0, "Photoshop"),
    (b"\0\0\0\x0cjP  ", 0, "JPEG 2000"),
    (b"\xff\x4f\xff\x51", 0, "JPEG 2000"),
    (b"\xff\x0a", 0, "JPEG XL"),
    (b"\0\0\0\x0cJXL ", 0, "JPEG XL"),
    (b"ftypavif", 4, "AVIF"),
    (b"ftypavis", 4, "AVIF"),
    (b"ftyphei", 4, "HEIF"),
    (b"ftypmif1", 4, "HEIF"),
    (b"DDS ", 0, "DDS"),
    (b"\x76\x2f\x31\x01", 0, "OpenEXR"),
    (b"#?RADIANCE", 0, "Radiance HDR"),
    (b"qoif", 0, "QOI"),
    (b"SIMPLE  =", 0, "FITS"),
    (b"icns", 0, "ICNS"),
    (b"\0\0\x01\0", 0, "ICO"),
    (b"\x01\xda", 0, "SGI"),
    (b"\x59\xa6\x6a\x95", 0, "Sun raster"),
    (b"/* XPM */", 0, "XPM"),
    (b"BLP1", 0, "BLP"),
    (b"BLP2", 0, "BLP"),
    (b"\xb1\x68\xde\x3a", 0, "DCX"),
    (b"%!PS", 0, "PostScript"),
    (b"\xc5\xd0\xd3\xc6", 0, "PostScript"),
    (b"\xd7\xcd\xc6\x9a", 0, "WMF"),
    (b" EMF", 40, "EMF"),
    (b"\x0a\0\x01", 0, "PCX"),
    (b"\x0a\x02\x01", 0, "PCX"),
    (b"\x0a\x03\x01", 0, "PCX"),
    (b"\x0a\x04\x01", 0, "PCX"),
    (b"\x0a\x05\x01", 0, "PCX"),
    (b"\x0a\x05\0", 0, "PCX"),
    (b"\x11\xaf", 4, "FLI"),
    (b"\x12\xaf", 4, "FLC"),
    (b"FTEX", 0, "FTEX"),
    (b"Image type: ", 0, "IM"),
    (b"DanM", 0, "MSP"),
    (b"LinS", 0, "MSP"),
    (b"\x8aMNG", 0, "MNG"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "FlashPix or an office document"),
];

/// The error of a file that is not read; names the format of a known image.
pub(super) fn error(bytes: &[u8]) -> FormatError {
    let has = |(mark, at, _): &&(&[u8], usize, &str)| {
        bytes.get(*at..).is_some_and(|from| from.starts_with(mark))
    };
    match UNREAD.iter().find(has) {
        Some((_, _, format)) => FormatError::Unread { format },
        None if is_cursor(bytes) => FormatError::Unread { format: "cursor" },
        None if is_targa(bytes) => FormatError::Unread { format: "TGA" },
        None if is_x_bitmap(bytes) => FormatError::Unread { format: "XBM" },
        None => FormatError::Unknown,
    }
}

/// A TGA begins alike, with zeroes where a cursor has the count of its images.
fn is_cursor(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0\0\x02\0") && bytes.get(4..6).is_some_and(|count| count != [0, 0])
}

/// Version 2 has a footer; the first one has nothing to be known by.
fn is_targa(bytes: &[u8]) -> bool {
    bytes.ends_with(b"TRUEVISION-XFILE.\0")
}

/// Source of C, with a size and then bits.
fn is_x_bitmap(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1024)];
    let has = |word: &[u8]| head.windows(word.len()).any(|part| part == word);
    has(b"#define ") && has(b"_width ") && has(b"_height ") && has(b"_bits[]")
}
