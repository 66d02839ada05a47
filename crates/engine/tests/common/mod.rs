//! Files with direct I/O for tests on the running kernel, and a loud way to skip.

use std::fs::File;
use std::path::Path;

use peerlane_engine::ring::{Uring, UringError};
use rustix::fs::{Mode, OFlags};

use crate::testing::skip;

/// A ring, or `None` with a loud skip if this kernel or container has none.
pub(crate) fn ring(entries: u32) -> Option<Uring> {
    match Uring::new(entries) {
        Ok(ring) => Some(ring),
        Err(
            error @ (UringError::NotPermitted { .. } | UringError::Absent | UringError::TooOld),
        ) => {
            skip("io-uring", &error.to_string());
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// A folder on the file system of the build, which is more likely to know direct I/O than `/tmp`.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder")
}

/// Opens a file for direct I/O, or `None` with a loud skip if the file system has none.
pub(crate) fn direct(path: &Path) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Some(file.into()),
        Err(error) => {
            skip("direct-io", &format!("no direct I/O on {}: {error}", path.display()));
            None
        }
    }
}

/// Bytes that differ from block to block and from seed to seed.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[7]
    };
    (0..length).map(|_| next()).collect()
}
