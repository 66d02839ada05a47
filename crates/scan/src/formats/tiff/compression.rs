//! Uncompresses strips and tiles.

use std::io::Read;

use fax::decoder::{DecodeStatus, Group3Decoder, Group4Decoder};
use flate2::read::ZlibDecoder;
use weezl::BitOrder;
use weezl::decode::Decoder as Lzw;
use zune_core::bytestream::ZCursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::super::FormatError;
use super::directory::header;

/// A strip or tile as it has to come out.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkShape {
    pub(super) width: usize,
    pub(super) rows: usize,
    /// Bytes of a row, and samples of a pixel.
    pub(super) stride: usize,
    pub(super) samples: usize,
}

/// Uncompresses; the result may be shorter than it should be, and exceeds it by a little at most.
///
/// # Errors
/// [`FormatError`] for unread methods and broken data.
pub(super) fn uncompress(
    data: &[u8],
    method: u64,
    shape: ChunkShape,
    tables: Option<&[u8]>,
) -> Result<Vec<u8>, FormatError> {
    let most = shape.stride * shape.rows;
    Ok(match method {
        1 => data[..data.len().min(most)].to_vec(),
        3 => fax3(data, shape)?,
        4 => fax4(data, shape)?,
        5 => lzw(data, most),
        7 => jpeg(data, shape, tables)?,
        8 | 32_946 => {
            let mut out = Vec::new();
            // What came before the damage is there; its length is looked at.
            let _ = ZlibDecoder::new(data).take(most as u64).read_to_end(&mut out);
            out
        }
        32_773 => pack_bits(data, most),
        other => return Err(header(&format!("compression {other} ({}) is not read", name(other)))),
    })
}

/// Names of methods, of the registered tags of TIFF.
fn name(method: u64) -> &'static str {
    match method {
        2 => "CCITT RLE",
        6 => "JPEG of TIFF 6.0, which TIFF itself gave up",
        32_771 => "CCITT RLE in words",
        32_766 => "NeXT",
        32_809 => "ThunderScan",
        32_908..=32_911 => "Pixar",
        34_661 => "JBIG",
        34_676 | 34_677 => "SGI Log",
        33_003 | 33_005 | 34_712 => "JPEG 2000",
        34_887 => "LERC",
        34_925 => "LZMA",
        50_000 => "Zstandard",
        50_001 => "WebP",
        50_002 | 52_546 => "JPEG XL",
        _ => "unknown",
    }
}

/// TIFF 6.0 section 13; files of the nineties have the bits of codes in the other order.
fn lzw(data: &[u8], most: usize) -> Vec<u8> {
    let is_old = data.len() > 1 && data[0] == 0 && data[1] & 1 == 1;
    let mut decoder = if is_old {
        Lzw::new(BitOrder::Lsb, 8)
    } else {
        Lzw::with_tiff_size_switch(BitOrder::Msb, 8)
    };
    let mut out = vec![0; most];
    let (mut read, mut written) = (0, 0);
    while written < most {
        let done = decoder.decode_bytes(&data[read..], &mut out[written..]);
        read += done.consumed_in;
        written += done.consumed_out;
        if !matches!(done.status, Ok(weezl::LzwStatus::Ok))
            || done.consumed_in + done.consumed_out == 0
        {
            break;
        }
    }
    out.truncate(written);
    out
}

/// TIFF 6.0 section 9.
fn pack_bits(mut data: &[u8], most: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(most.min(1 << 20));
    while let ([head, rest @ ..], true) = (data, out.len() < most) {
        data = rest;
        match head {
            0..=127 => {
                let (plain, rest) = data.split_at((usize::from(*head) + 1).min(data.len()));
                out.extend_from_slice(plain);
                data = rest;
            }
            128 => {}
            129.. => {
                let Some((byte, rest)) = data.split_first() else { break };
                out.resize(out.len() + 257 - usize::from(*head), *byte);
                data = rest;
            }
        }
    }
    out.truncate(most);
    out
}

/// Turns pixels black between every other two places where the colour changes; white is 0, as fax has it.
fn paint(row: &mut [u8], changes: &[u16], width: usize) {
    for pair in changes.chunks(2) {
        let end = pair.get(1).map_or(width, |end| usize::from(*end)).min(width);
        for x in usize::from(pair[0])..end {
            row[x / 8] |= 0x80 >> (x % 8);
        }
    }
}

fn fax3(data: &[u8], shape: ChunkShape) -> Result<Vec<u8>, FormatError> {
    let mut out = vec![0; shape.stride * shape.rows];
    let bytes = data.iter().map(|byte| Ok::<u8, ()>(*byte));
    let mut decoder = Group3Decoder::new(bytes)
        .map_err(|_| header("lines of fax without marks between them are not read"))?;
    for row in out.chunks_exact_mut(shape.stride.max(1)) {
        let status = decoder.advance();
        paint(row, decoder.transitions(), shape.width);
        match status {
            Ok(DecodeStatus::Incomplete) => {}
            Ok(DecodeStatus::End) | Err(_) => break,
        }
    }
    Ok(out)
}

fn fax4(data: &[u8], shape: ChunkShape) -> Result<Vec<u8>, FormatError> {
    let width = u16::try_from(shape.width).map_err(|_| header("rows of fax are too long"))?;
    let mut out = vec![0; shape.stride * shape.rows];
    let bytes = data.iter().map(|byte| Ok::<u8, ()>(*byte));
    let mut decoder = Group4Decoder::new(bytes, width).map_err(|()| header("no fax data"))?;
    for (index, row) in out.chunks_exact_mut(shape.stride.max(1)).enumerate() {
        match decoder.advance() {
            Ok(DecodeStatus::Incomplete) => paint(row, decoder.transition(), shape.width),
            Ok(DecodeStatus::End) => break,
            Err(_) => return Err(header(&format!("line {index} of its fax data is broken"))),
        }
    }
    Ok(out)
}

/// Samples as they are stored, without a change of colours (TIFF Technical Note 2).
fn jpeg(data: &[u8], shape: ChunkShape, tables: Option<&[u8]>) -> Result<Vec<u8>, FormatError> {
    let mut whole = Vec::new();
    if let Some(tables) = tables.filter(|tables| tables.len() > 4) {
        let tables = tables.strip_suffix(&[0xff, 0xd9]).unwrap_or(tables);
        whole.extend_from_slice(tables);
        whole.extend_from_slice(data.get(2..).unwrap_or_default());
    } else {
        whole.extend_from_slice(data);
    }
    let most = usize::from(u16::MAX);
    let options = DecoderOptions::default().set_max_width(most).set_max_height(most);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&whole), options);
    decoder.decode_headers()?;
    let (Some(colours), Some((width, rows))) = (decoder.input_colorspace(), decoder.dimensions())
    else {
        return Err(header("a part of it has no JPEG header"));
    };
    super::super::checked_size(width as u64, rows as u64)?;
    if colours.num_components() != shape.samples || width < shape.width {
        return Err(header("a JPEG in it has another size or other colours"));
    }
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let decoded = decoder.decode()?;
    let stride = width * shape.samples;
    let lines = decoded.chunks_exact(stride.max(1)).take(shape.rows);
    Ok(lines.flat_map(|line| line[..shape.stride].iter().copied()).collect())
}
