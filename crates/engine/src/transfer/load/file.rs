//! A file to load from, with the residency of its ranges in the page cache.

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use peerlane_memory::page_cache::cached_pages;
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{BLOCK, LoadError};
use crate::endpoints::open::reopen;
use crate::io::extents::magic_of;

/// Unit of the choice between page cache and direct I/O, in bytes.
const WINDOW: usize = 256 << 10;

/// `f_type` of file systems in memory (`linux/magic.h`): tmpfs, ramfs, hugetlbfs.
const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// A file open for loading; clones are of one file.
#[derive(Debug, Clone)]
pub struct LoadFile(Arc<OpenFile>);

#[derive(Debug)]
struct OpenFile {
    cached: File,
    /// The same for direct I/O, opened when first needed; `None` if it takes none.
    direct: OnceLock<Option<File>>,
}

/// Residency of a range in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CachedShare {
    None,
    Part,
    All,
}

impl LoadFile {
    /// Takes a file opened without `O_DIRECT`, for this loader alone.
    pub fn new(file: File) -> Self {
        // A look at what is not cached would read ahead of it; it is only advice.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Self(Arc::new(OpenFile { cached: file, direct: OnceLock::new() }))
    }

    pub(super) fn cached(&self) -> &File {
        &self.0.cached
    }

    /// The file for direct I/O; `None` if it takes none.
    pub(super) fn direct(&self) -> Option<&File> {
        self.0.direct.get_or_init(|| open_direct(&self.0.cached)).as_ref()
    }

    /// The windows of a range, each with its residency.
    pub(super) fn windows(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        let next = |at: u64| (at / WINDOW as u64 + 1) * WINDOW as u64;
        let starts = std::iter::successors(Some(range.start), |&at| Some(next(at)));
        let starts = starts.take_while(|start| *start < range.end);
        let window = |start: u64| start..range.end.min(next(start));
        match self.cached_share(range) {
            Some(CachedShare::Part) | None => {
                starts.map(window).map(|window| (window.clone(), self.is_cached(&window))).collect()
            }
            Some(share) => vec![(range.clone(), share == CachedShare::All)],
        }
    }

    /// Returns whether a range is fully cached. Without `cachestat`, one byte of each [`WINDOW`] decides.
    pub(super) fn is_cached(&self, range: &Range<u64>) -> bool {
        if let Some(share) = self.cached_share(range) {
            return share == CachedShare::All;
        }
        let mut places = range.clone().step_by(WINDOW).chain(range.end.checked_sub(1));
        places.all(|at| self.has_byte(at))
    }

    /// Returns whether a byte can be read without I/O. If not, Linux reads that one page ahead (`POSIX_FADV_RANDOM`).
    fn has_byte(&self, at: u64) -> bool {
        let mut byte = [0];
        preadv2(&self.0.cached, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT)
            == Ok(1)
    }

    fn cached_share(&self, range: &Range<u64>) -> Option<CachedShare> {
        let page = rustix::param::page_size() as u64;
        let pages = range.end.div_ceil(page) - range.start / page;
        match cached_pages(&self.0.cached, range.clone()).ok()? {
            0 => Some(CachedShare::None),
            count if count >= pages => Some(CachedShare::All),
            _ => Some(CachedShare::Part),
        }
    }

    /// Returns whether it is a regular file that ends before an offset.
    pub(super) fn ends_before(&self, end: u64) -> Result<bool, LoadError> {
        let facts = self.0.cached.metadata().map_err(LoadError::file("look at"))?;
        Ok(facts.is_file() && facts.len() < end)
    }
}

/// The same file, open for direct I/O; `None` if it takes none of [`BLOCK`].
fn open_direct(file: &File) -> Option<File> {
    if IN_MEMORY.contains(&magic_of(file).ok()?) {
        return None;
    }
    let same = reopen(file).ok()?;
    set_direct(&same).ok()?.then_some(same)
}

/// Switches direct I/O on, unless the file refuses it or tells of a larger unit than [`BLOCK`].
fn set_direct(file: &File) -> std::io::Result<bool> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags)?;
    let is_told = told.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let align = u64::from(told.stx_dio_offset_align);
    if is_told && (align == 0 || BLOCK % align != 0) {
        return Ok(false);
    }
    match fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
