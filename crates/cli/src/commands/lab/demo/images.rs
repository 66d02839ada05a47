//! Drive images for the demonstration: made, and compared byte by byte, on the host.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use peerlane_units::Bytes;

use crate::error::{Failure, Tried};

const CHUNK: usize = 1 << 16;

/// Writes `size` pseudo-random bytes that `seed` determines.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn make(path: &Path, size: Bytes, seed: u64) -> Result<(), Failure> {
    fill(path, size, seed).map_err(Tried::to(format!("make image {}", path.display())))
}

/// Reports whether two files hold the same bytes.
///
/// # Errors
/// When one cannot be read.
pub(super) fn equal(one: &Path, other: &Path) -> Result<bool, Failure> {
    compare(one, other).map_err(Tried::to(format!(
        "compare {} and {}",
        one.display(),
        other.display()
    )))
}

fn fill(path: &Path, size: Bytes, seed: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(CHUNK, File::create(path)?);
    let mut state = seed;
    let mut left = size.0;
    while left > 0 {
        let word = next(&mut state).to_le_bytes();
        let take = usize::try_from(left).unwrap_or(word.len()).min(word.len());
        out.write_all(&word[..take])?;
        left -= take as u64;
    }
    out.into_inner()?.sync_all()
}

/// SplitMix64 (Steele, Lea, Flood 2014): every 8 bytes differ from those before them.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn compare(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let mut one = BufReader::with_capacity(CHUNK, one);
    let mut other = BufReader::with_capacity(CHUNK, other);
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..read])?;
        if left[..read] != right[..read] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_byte_makes_images_unequal() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let size = Bytes(3 * CHUNK as u64 + 5);
        make(&one, size, 1).unwrap();
        make(&other, size, 1).unwrap();
        assert!(equal(&one, &other).unwrap());
        let mut content = std::fs::read(&other).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(&other, content).unwrap();
        assert!(!equal(&one, &other).unwrap());
    }

    #[test]
    fn seed_and_size_change_image() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        make(&one, Bytes(4096), 1).unwrap();
        make(&other, Bytes(4096), 2).unwrap();
        assert!(!equal(&one, &other).unwrap());
        make(&other, Bytes(4097), 1).unwrap();
        assert!(!equal(&one, &other).unwrap());
    }
}
