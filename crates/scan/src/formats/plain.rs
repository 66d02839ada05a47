//! Formats whose grey pixels lie in the file as they are: PGM (binary, 8 bit), BMP (8 bit with a grey
//! palette, uncompressed), TIFF (one strip or contiguous strips, 8 bit grey, uncompressed).
//!
//! Leaves out every other form of them, which a library decodes. The one thing to know: these pixels
//! can go from storage to where they are searched without being touched on the way.

use super::{FormatError, PlainPixels, Rows, checked_size};

/// Where the pixels lie; `None` for what is no such file.
///
/// # Errors
/// [`FormatError`] for such a file with a size that cannot be, or without all of its pixels.
pub(super) fn find(bytes: &[u8]) -> Result<Option<PlainPixels>, FormatError> {
    match bytes {
        [b'P', b'5', ..] => pgm(bytes),
        [b'B', b'M', ..] => bmp(bytes),
        [b'I', b'I', 42, 0, ..] => tiff(bytes, u16::from_le_bytes, u32::from_le_bytes),
        [b'M', b'M', 0, 42, ..] => tiff(bytes, u16::from_be_bytes, u32::from_be_bytes),
        _ => Ok(None),
    }
}

/// Netpbm's binary PGM: `P5`, width, height, maximum, one white space, then the pixels (pgm(5)).
fn pgm(bytes: &[u8]) -> Result<Option<PlainPixels>, FormatError> {
    let wrong = |what: &str| FormatError::Header { format: "PGM", what: what.to_owned() };
    let mut at = 2;
    let mut fields = [0_u64; 3];
    for field in &mut fields {
        at = skip_space(bytes, at);
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&bytes[at..at + digits]).unwrap_or_default();
        *field = text.parse().map_err(|_| wrong("width, height and maximum are numbers"))?;
        at += digits;
    }
    let [width, height, maximum] = fields;
    let (width, height) = checked_size(width, height)?;
    // Sixteen bits a pixel, and shades that have to be stretched, are the library's.
    if maximum != 255 {
        return Ok(None);
    }
    found("PGM", bytes, at + 1, width, height, width, Rows::TopFirst).map(Some)
}

/// Past white space and comments.
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b'#') => {
                let rest = &bytes[at..];
                at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            _ => return at,
        }
    }
}

/// Windows bitmap with `BITMAPINFOHEADER`: 8 bits a pixel, no compression, a palette of greys in
/// order.
fn bmp(bytes: &[u8]) -> Result<Option<PlainPixels>, FormatError> {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let half =
        |at: usize| bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map(u16::from_le_bytes);
    let (Some(begin), Some(header), Some(width), Some(height), Some(depth), Some(packed)) =
        (word(10), word(14), word(18), word(22), half(28), word(30))
    else {
        return Ok(None);
    };
    let palette = 14 + header as usize;
    let is_grey = bytes.get(palette..palette + 1024).is_some_and(|palette| {
        let mut entries = palette.chunks_exact(4).zip(0_u8..=255);
        entries.all(|(entry, shade)| entry[..3] == [shade; 3])
    });
    if header < 40 || depth != 8 || packed != 0 || !is_grey {
        return Ok(None);
    }
    // A negative height means that the first row is the top one.
    let signed = i32::from_ne_bytes(height.to_ne_bytes());
    let rows = if signed < 0 { Rows::TopFirst } else { Rows::BottomFirst };
    let (width, height) = checked_size(width.into(), signed.unsigned_abs().into())?;
    let stride = width.next_multiple_of(4);
    found("BMP", bytes, begin as usize, width, height, stride, rows).map(Some)
}

/// Baseline TIFF 6.0: tags 256 width, 257 height, 258 bits, 259 compression, 262 photometric, 273 strip
/// offsets, 277 samples a pixel, 279 strip sizes.
fn tiff(
    bytes: &[u8],
    half: fn([u8; 2]) -> u16,
    word: fn([u8; 4]) -> u32,
) -> Result<Option<PlainPixels>, FormatError> {
    let half = |at: usize| bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map(half);
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(word);
    let Some(directory) = word(4).map(|at| at as usize) else { return Ok(None) };
    let Some(count) = half(directory) else { return Ok(None) };
    // Looked for once a tag: a file may have many entries, and name many strips.
    let entry = |tag: u16| {
        let entries = (0..usize::from(count)).map(|entry| directory + 2 + entry * 12);
        let entry = entries.into_iter().find(|entry| half(*entry) == Some(tag))?;
        let (kind, items) = (half(entry + 2)?, word(entry + 4)? as usize);
        let size = match kind {
            3 => 2,
            4 => 4,
            _ => return None,
        };
        let is_inside = items.checked_mul(size)? <= 4;
        let begin = if is_inside { entry + 8 } else { word(entry + 8)? as usize };
        Some((begin, size, items))
    };
    let number = |(begin, size, items): (usize, usize, usize), index: usize| {
        let at = begin.checked_add(index.checked_mul(size)?)?;
        let number = if size == 2 { half(at).map(u32::from) } else { word(at) };
        number.filter(|_| index < items)
    };
    let one =
        |tag: u16, default: u32| entry(tag).and_then(|entry| number(entry, 0)).unwrap_or(default);
    let is_plain = one(258, 1) == 8 && one(259, 1) == 1 && one(262, 0) == 1 && one(277, 1) == 1;
    let (Some(begins), Some(sizes), true) = (entry(273), entry(279), is_plain) else {
        return Ok(None);
    };
    let (width, height) = checked_size(one(256, 0).into(), one(257, 0).into())?;
    let Some(begin) = number(begins, 0) else { return Ok(None) };
    let mut end = begin;
    for strip in 0..begins.2.min(height) {
        let (Some(at), Some(size)) = (number(begins, strip), number(sizes, strip)) else {
            return Ok(None);
        };
        if at != end {
            return Ok(None);
        }
        end = end.saturating_add(size);
    }
    found("TIFF", bytes, begin as usize, width, height, width, Rows::TopFirst).map(Some)
}

fn found(
    format: &'static str,
    bytes: &[u8],
    begin: usize,
    width: usize,
    height: usize,
    stride: usize,
    rows: Rows,
) -> Result<PlainPixels, FormatError> {
    if width == 0 || height == 0 {
        return Err(FormatError::Header { format, what: "there are no pixels".to_owned() });
    }
    let end = begin.saturating_add(stride * height);
    if end > bytes.len() {
        let (bytes, needed) = (bytes.len() as u64, end as u64);
        return Err(FormatError::Short { format, bytes, needed });
    }
    Ok(PlainPixels { width, height, begin, stride, rows })
}
