//! Compressed archives, told apart by their first bytes.
//!
//! Each format may be several streams one after the other, as tools write them that compress in parallel.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::ArchiveError;

/// The first bytes of a member (RFC 1952 section 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first bytes of a stream of bzip2, with the letter of its Huffman form.
const BZIP2: &[u8] = b"BZh";
/// The first bytes of a stream (The .xz File Format 1.2.1, section 2.1.1.1).
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// The first bytes of a Zstandard frame (RFC 8878 section 3.1.1).
const ZSTANDARD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a frame that readers skip, behind a byte from 50h to 5Fh (RFC 8878 section 3.1.2).
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];
/// Longest of the above.
const LONGEST_MAGIC: usize = 6;
/// Memory for one stream of xz in KiB; `xz -9` takes 65 MiB to uncompress.
const MOST_XZ_MEMORY: u32 = 160 << 10;

/// Returns whether a file that begins with `head` is compressed in a format that is read here.
pub(super) fn is_compressed(head: &[u8]) -> bool {
    [GZIP, BZIP2, XZ].iter().any(|magic| head.starts_with(magic)) || is_zstandard(head)
}

fn is_zstandard(head: &[u8]) -> bool {
    let is_skipped = matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(SKIPPED));
    is_skipped || head.starts_with(ZSTANDARD)
}

/// The bytes of an archive as they were before it was compressed.
pub(super) fn plain<'a>(mut bytes: impl Read + 'a) -> Result<Box<dyn Read + 'a>, ArchiveError> {
    let mut head = Vec::new();
    bytes.by_ref().take(LONGEST_MAGIC as u64).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    let whole = BufReader::new(io::Cursor::new(head.clone()).chain(bytes));
    Ok(match head {
        head if head.starts_with(GZIP) => Box::new(MultiGzDecoder::new(whole)),
        head if head.starts_with(BZIP2) => Box::new(MultiBzDecoder::new(whole)),
        head if head.starts_with(XZ) => {
            Box::new(XzReader::new_mem_limit(whole, true, MOST_XZ_MEMORY))
        }
        head if is_zstandard(&head) => Box::new(Frames::new(whole)),
        _ => Box::new(whole),
    })
}

/// Frames of Zstandard one after the other, without those that are to be skipped.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new() }
    }

    /// Goes into the next frame; `false` where there is none.
    fn enter(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            while !self.decoder.is_finished() && self.decoder.can_collect() < buffer.len() {
                let more = BlockDecodingStrategy::UptoBytes(buffer.len());
                self.decoder.decode_blocks(&mut self.source, more).map_err(io::Error::other)?;
            }
            let length = self.decoder.read(buffer)?;
            if length > 0 || buffer.is_empty() || !self.enter()? {
                return Ok(length);
            }
        }
    }
}
