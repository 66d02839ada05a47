//! Formats whose grey pixels lie in the file as they are: PGM (binary, 8 bit), BMP (8 bit with a grey
//! palette, uncompressed), TIFF (one strip or contiguous strips, 8 bit grey, uncompressed).
//!
//! Leaves out every other form of them, which a library decodes. These pixels can go from storage
//! to where they are searched without being touched on the way.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{FormatError, PlainPixels, RowOrder, checked_size};

/// Bytes that are read from a file at a time.
const WINDOW: usize = 16 << 10;

/// A file that is looked at here and there.
pub(crate) trait Excerpts {
    /// Bytes of the file.
    fn length(&self) -> usize;

    /// Fills `into` with the bytes at an offset; false if there are fewer.
    fn read(&self, at: usize, into: &mut [u8]) -> bool;
}

impl Excerpts for [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let part = at.checked_add(into.len()).and_then(|end| self.get(at..end));
        part.is_some_and(|part| {
            into.copy_from_slice(part);
            true
        })
    }
}

/// A file that is not read as a whole; two parts that were last looked at are kept, since TIFF has two lists that are
/// read side by side.
pub(crate) struct FileExcerpts<'a> {
    file: &'a File,
    length: usize,
    kept: RefCell<FileParts>,
}

/// Parts of a file with their beginnings.
#[derive(Default)]
struct FileParts {
    parts: [(usize, Vec<u8>); 2],
    /// The one that is replaced next.
    older: usize,
}

impl<'a> FileExcerpts<'a> {
    /// A file of so many bytes.
    pub(crate) fn new(file: &'a File, length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Self { file, length, kept: RefCell::default() }
    }
}

impl Excerpts for FileExcerpts<'_> {
    fn length(&self) -> usize {
        self.length
    }

    fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let Some(end) = at.checked_add(into.len()).filter(|end| *end <= self.length) else {
            return false;
        };
        let mut kept = self.kept.borrow_mut();
        let has = |(begin, part): &(usize, Vec<u8>)| at >= *begin && end <= begin + part.len();
        let index = kept.parts.iter().position(has).unwrap_or(kept.older);
        kept.older = 1 - index;
        let (begin, part) = &mut kept.parts[index];
        if at < *begin || end > *begin + part.len() {
            part.resize(WINDOW.max(into.len()).min(self.length - at), 0);
            *begin = at;
            if self.file.read_exact_at(part, at as u64).is_err() {
                part.clear();
                return false;
            }
        }
        into.copy_from_slice(&part[at - *begin..end - *begin]);
        true
    }
}

fn array<const N: usize>(bytes: &(impl Excerpts + ?Sized), at: usize) -> Option<[u8; N]> {
    let mut array = [0; N];
    bytes.read(at, &mut array).then_some(array)
}

/// Finds the pixels; `None` for a file of another kind.
///
/// # Errors
/// [`FormatError`] for such a file with a size that cannot be, or without all of its pixels.
pub(crate) fn find(bytes: &(impl Excerpts + ?Sized)) -> Result<Option<PlainPixels>, FormatError> {
    match array(bytes, 0).or_else(|| array(bytes, 0).map(|[a, b]| [a, b, 0, 0])) {
        Some([b'P', b'5', ..]) => pgm(bytes),
        Some([b'B', b'M', ..]) => bmp(bytes),
        Some([b'I', b'I', 42, 0]) => tiff(bytes, u16::from_le_bytes, u32::from_le_bytes),
        Some([b'M', b'M', 0, 42]) => tiff(bytes, u16::from_be_bytes, u32::from_be_bytes),
        _ => Ok(None),
    }
}

/// Netpbm's binary PGM: `P5`, width, height, maximum, one white space, then the pixels (pgm(5)).
fn pgm(bytes: &(impl Excerpts + ?Sized)) -> Result<Option<PlainPixels>, FormatError> {
    let mut at = 2;
    let mut fields = [0_u64; 3];
    for field in &mut fields {
        at = skip_space(bytes, at);
        (*field, at) = decimal(bytes, at).ok_or_else(|| FormatError::Header {
            format: "PGM",
            what: "width, height and maximum are numbers".to_owned(),
        })?;
    }
    let [width, height, maximum] = fields;
    let (width, height) = checked_size(width, height)?;
    // Sixteen bits a pixel, and shades that have to be stretched, are the library's.
    if maximum != 255 {
        return Ok(None);
    }
    found("PGM", bytes, at + 1, width, height, width, RowOrder::TopFirst).map(Some)
}

/// Past white space and comments.
fn skip_space(bytes: &(impl Excerpts + ?Sized), mut at: usize) -> usize {
    let mut is_comment = false;
    while let Some([byte]) = array(bytes, at) {
        match byte {
            b'\n' => is_comment = false,
            b'#' => is_comment = true,
            _ if is_comment || byte.is_ascii_whitespace() => {}
            _ => break,
        }
        at += 1;
    }
    at
}

/// A number, and where it ends.
fn decimal(bytes: &(impl Excerpts + ?Sized), mut at: usize) -> Option<(u64, usize)> {
    let begin = at;
    let mut number = 0_u64;
    while let Some([byte @ b'0'..=b'9']) = array(bytes, at) {
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        at += 1;
    }
    (at > begin).then_some((number, at))
}

/// Windows bitmap with `BITMAPINFOHEADER`: 8 bits a pixel, no compression, a palette of greys in
/// order.
fn bmp(bytes: &(impl Excerpts + ?Sized)) -> Result<Option<PlainPixels>, FormatError> {
    let word = |at: usize| array(bytes, at).map(u32::from_le_bytes);
    let half = |at: usize| array(bytes, at).map(u16::from_le_bytes);
    let (Some(begin), Some(header), Some(width), Some(height), Some(depth), Some(packed)) =
        (word(10), word(14), word(18), word(22), half(28), word(30))
    else {
        return Ok(None);
    };
    let palette: Option<[u8; 1024]> = array(bytes, 14 + header as usize);
    let is_grey = palette.is_some_and(|palette| {
        let mut entries = palette.chunks_exact(4).zip(0_u8..=255);
        entries.all(|(entry, shade)| entry[..3] == [shade; 3])
    });
    if header < 40 || depth != 8 || packed != 0 || !is_grey {
        return Ok(None);
    }
    // A negative height means that the first row is the top one.
    let signed = i32::from_ne_bytes(height.to_ne_bytes());
    let rows = if signed < 0 { RowOrder::TopFirst } else { RowOrder::BottomFirst };
    let (width, height) = checked_size(width.into(), signed.unsigned_abs().into())?;
    let stride = width.next_multiple_of(4);
    found("BMP", bytes, begin as usize, width, height, stride, rows).map(Some)
}

/// Baseline TIFF 6.0: tags 256 width, 257 height, 258 bits, 259 compression, 262 photometric, 273 strip
/// offsets, 277 samples a pixel, 279 strip sizes.
fn tiff(
    bytes: &(impl Excerpts + ?Sized),
    half: fn([u8; 2]) -> u16,
    word: fn([u8; 4]) -> u32,
) -> Result<Option<PlainPixels>, FormatError> {
    let half = |at: usize| array(bytes, at).map(half);
    let word = |at: usize| array(bytes, at).map(word);
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
    // Of several pages, and of one that is turned, other code makes images.
    let next = word(directory + 2 + usize::from(count) * 12);
    let is_alone =
        next.unwrap_or(0) == 0 && one(274, 1) == 1 && one(266, 1) == 1 && one(339, 1) == 1;
    let is_plain =
        is_alone && one(258, 1) == 8 && one(259, 1) == 1 && one(262, 0) == 1 && one(277, 1) == 1;
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
    found("TIFF", bytes, begin as usize, width, height, width, RowOrder::TopFirst).map(Some)
}

fn found(
    format: &'static str,
    bytes: &(impl Excerpts + ?Sized),
    begin: usize,
    width: usize,
    height: usize,
    stride: usize,
    rows: RowOrder,
) -> Result<PlainPixels, FormatError> {
    if width == 0 || height == 0 {
        return Err(FormatError::Header { format, what: "there are no pixels".to_owned() });
    }
    let end = begin.saturating_add(stride * height);
    if end > bytes.length() {
        let (bytes, needed) = (bytes.length() as u64, end as u64);
        return Err(FormatError::Short { format, bytes, needed });
    }
    Ok(PlainPixels { width, height, begin, stride, rows })
}
