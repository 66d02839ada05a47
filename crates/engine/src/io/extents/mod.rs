//! Holes: ranges of a file that hold no data and read as zeroes, and ways to make such at a target.
//!
//! [`Extents`] walks a range as data and holes in turn, with two calls of the system each and no list
//! in memory. A hole is reported only where the file system itself says so: data are rounded outward
//! to blocks, and whatever is doubtful counts as data, which costs time and never a byte. So all is
//! data on block devices, since `lseek` knows no holes there; on file systems other than those
//! listed in [`Density`]; and after an answer that makes no sense.
//!
//! Unwritten extents (allocated, never written) are holes as long as no dirty page lies over them
//! (`iomap_seek_data`, fs/iomap/seek.c), so no write is missed.
//!
//! Holes are those of the moment: a source that is written to while it is copied is not copied
//! right, with holes or without. Its identity is checked for such a change.

mod device_reads;
mod zero;

use std::fmt;
use std::fs::File;
use std::io;
use std::iter::FusedIterator;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

pub(crate) use device_reads::DeviceReads;
pub(crate) use zero::ZERO_MODE;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Bytes that may be anything.
    Data(Range<u64>),
    /// Bytes that read as zeroes.
    Hole(Range<u64>),
}

/// Blocks that data are rounded outward to.
///
/// Counted from the start of the copy, not of the file, every piece keeps its alignment at the target
/// as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Offset in the file of the first block.
    pub origin: u64,
    /// Size of a block in bytes; zero counts as one.
    pub block: u64,
}

/// Reason why a file is taken as data from end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Density {
    /// It is not: its file system is asked for holes. These are ext2, ext3, ext4, XFS, btrfs, F2FS and
    /// tmpfs. Others have reported data as holes (openzfs/zfs #15526), or pass the question on to one
    /// that is unknown.
    Asked,
    /// A block device has no holes.
    BlockDevice,
    /// Holes are not trusted on this file system.
    FileSystem {
        /// Its number (`statfs` f_type, include/uapi/linux/magic.h).
        magic: u64,
    },
    /// The file could not be opened anew, which keeps its position to its owner.
    NotReopened(Errno),
    /// The file system does not answer where holes are.
    NoAnswer(Errno),
}

impl fmt::Display for Density {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("the file system says where holes are"),
            Self::BlockDevice => f.write_str("a block device has no holes"),
            Self::FileSystem { magic } => {
                write!(f, "holes are not trusted on a file system of type {magic:#x}")
            }
            Self::NotReopened(errno) => write!(f, "the file cannot be opened again: {errno}"),
            Self::NoAnswer(errno) => write!(f, "the file system does not tell holes: {errno}"),
        }
    }
}

/// File systems whose holes are trusted (include/uapi/linux/magic.h): ext2 to ext4, XFS, btrfs, F2FS,
/// tmpfs.
const TRUSTED: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Walks `within` of a file as data and holes; see [`Extents`].
///
/// The position of `file` is neither used nor changed: the file is opened anew through `/proc/self/fd`,
/// since descriptors that were duplicated share one position.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when a regular file ends before `within` does; the system's answer
/// when the file does not tell about itself.
pub(crate) fn data_ranges(file: &File, within: Range<u64>, grid: Grid) -> io::Result<Extents> {
    let facts = rustix::fs::fstat(file)?;
    let (probe, density) = match FileType::from_raw_mode(facts.st_mode) {
        FileType::BlockDevice => (None, Density::BlockDevice),
        _ => {
            if u64::try_from(facts.st_size).unwrap_or(0) < within.end {
                let text = format!("file of {} bytes ends before {}", facts.st_size, within.end);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            open_probe(file)?
        }
    };
    let rest = if within.is_empty() { within.end..within.end } else { within };
    Ok(Extents { probe, density, rest, grid, hole_min: 0, known_data: None })
}

/// Returns whether the file system reports a hole in `within`.
///
/// # Errors
/// As [`data_ranges`].
pub(crate) fn has_hole(file: &File, within: Range<u64>) -> io::Result<bool> {
    for extent in data_ranges(file, within, Grid { origin: 0, block: 1 })? {
        if matches!(extent?, Extent::Hole(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the first block of `within` that holds data; `None` if all of it is a hole.
///
/// # Errors
/// As [`data_ranges`].
pub(crate) fn first_data(file: &File, within: Range<u64>, grid: Grid) -> io::Result<Option<u64>> {
    for extent in data_ranges(file, within, grid)? {
        if let Extent::Data(range) = extent? {
            return Ok(Some(range.start));
        }
    }
    Ok(None)
}

/// Number of a file's file system (`statfs` f_type).
pub(crate) fn magic_of(file: &File) -> io::Result<u64> {
    // The field is signed on some architectures; numbers of file systems have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, clippy::unnecessary_cast)]
    Ok(u64::from(rustix::fs::fstatfs(file)?.f_type as u32))
}

fn open_probe(file: &File) -> io::Result<(Option<OwnedFd>, Density)> {
    let magic = magic_of(file)?;
    if !TRUSTED.contains(&magic) {
        return Ok((None, Density::FileSystem { magic }));
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(probe) => Ok((Some(probe), Density::Asked)),
        Err(errno) => Ok((None, Density::NotReopened(errno))),
    }
}

/// A walk over a range of a file, ascending, without gaps or overlaps; kinds take turns. After an
/// error it has ended.
#[derive(Debug)]
pub(crate) struct Extents {
    probe: Option<OwnedFd>,
    density: Density,
    rest: Range<u64>,
    grid: Grid,
    /// Shortest hole between data that is told.
    hole_min: u64,
    /// Data that were found behind a hole that has been handed out, rounded.
    known_data: Option<Range<u64>>,
}

impl Extents {
    /// Joins data with shorter holes between them, so a file of many small holes does not become
    /// many small requests.
    pub(crate) fn joining(self, hole_min: u64) -> Self {
        Self { hole_min, ..self }
    }

    /// Tells whether the file system is asked for holes, and if not, why.
    pub(crate) fn density(&self) -> Density {
        self.density
    }

    /// The next run of data at or after `from`, rounded outward and cut to the rest of the walk;
    /// `None` when no more follow.
    fn find_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let Some(probe) = &self.probe else { return Ok(Some(from..self.rest.end)) };
        let start = match rustix::fs::seek(probe, SeekFrom::Data(from)) {
            Ok(start) if start >= self.rest.end => return Ok(None),
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(errno) => return self.give_up(errno, from).map(Some),
        };
        let end = match rustix::fs::seek(probe, SeekFrom::Hole(start)) {
            Ok(end) => end,
            // No hole from here on, or the file was cut meanwhile; reading it will tell.
            Err(Errno::NXIO) => self.rest.end,
            Err(errno) => return self.give_up(errno, from).map(Some),
        };
        if start < from || end <= start {
            return self.give_up(Errno::INVAL, from).map(Some);
        }
        Ok(Some(self.round(start..end)))
    }

    /// Takes the rest as data when the file system cannot answer; hands other errors on.
    fn give_up(&mut self, errno: Errno, from: u64) -> io::Result<Range<u64>> {
        if !matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) {
            return Err(errno.into());
        }
        self.probe = None;
        self.density = Density::NoAnswer(errno);
        Ok(from..self.rest.end)
    }

    fn round(&self, range: Range<u64>) -> Range<u64> {
        let block = self.grid.block.max(1);
        let phase = self.grid.origin % block;
        // Distance of an offset from the last block's edge at or before it.
        let beyond = |offset: u64| (offset % block + block - phase) % block;
        let start = range.start.saturating_sub(beyond(range.start));
        let end = match beyond(range.end) {
            0 => range.end,
            beyond => range.end.saturating_add(block - beyond),
        };
        start.max(self.rest.start)..end.min(self.rest.end)
    }

    /// The next run of data, joined with those that touch it after rounding, or nearly do.
    fn find_joined(&mut self) -> io::Result<Option<Range<u64>>> {
        let Some(mut data) = (match self.known_data.take() {
            Some(data) => Some(data),
            None => self.find_data(self.rest.start)?,
        }) else {
            return Ok(None);
        };
        while data.end < self.rest.end {
            let Some(next) = self.find_data(data.end)? else { break };
            if next.start.saturating_sub(data.end) >= self.hole_min.max(1) {
                // A hole lies between; what was found behind it is found again when its turn comes.
                break;
            }
            data.end = next.end.max(data.end);
        }
        Ok(Some(data))
    }

    fn step(&mut self) -> io::Result<Extent> {
        let Some(data) = self.find_joined()? else {
            let hole = self.rest.clone();
            self.rest.start = self.rest.end;
            return Ok(Extent::Hole(hole));
        };
        if data.start > self.rest.start {
            let hole = self.rest.start..data.start;
            self.rest.start = data.start;
            self.known_data = Some(data);
            return Ok(Extent::Hole(hole));
        }
        self.rest.start = data.end;
        Ok(Extent::Data(data))
    }
}

impl Iterator for Extents {
    type Item = io::Result<Extent>;

    fn next(&mut self) -> Option<io::Result<Extent>> {
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.rest.start = self.rest.end;
        }
        Some(step)
    }
}

impl FusedIterator for Extents {}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
mod tests;
