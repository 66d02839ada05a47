//! A simulated file or block device: its content, its cache, its faults.

use std::ops::Range;

use peerlane_units::Nanos;
use rustix::io::Errno;

use super::{Cache, index_of};
use crate::io::random::Random;
use crate::io::ring::Action;

/// Bytes that a medium writes as a whole.
pub(super) const SECTOR: u64 = 512;

/// A simulated file or block device.
#[derive(Debug, Clone, Default)]
pub struct SimFile {
    /// Content.
    pub bytes: Vec<u8>,
    /// Offsets and lengths must be multiples of it, in bytes.
    pub block: u64,
    /// Writes beyond the end make it longer, as a file; else they find no room, as a device.
    pub grows: bool,
    /// Time that the drive spends on 4 KiB, one request after another.
    pub page_time: Nanos,
    /// Time that a request takes besides, side by side with others: this at least, twice this at most.
    pub latency: Nanos,
    /// The answer to every request on device memory.
    pub device_refusal: Option<Errno>,
    /// The answer to every wish to make bytes zero.
    pub zero_refusal: Option<Errno>,
    /// Transfers with device memory that are lost although they succeed.
    pub lost: Lost,
    /// Offset of a sector that keeps its content, although every request succeeds.
    pub lost_sector: Option<u64>,
    /// Flushes that succeed before one that fails, once.
    pub failing_flush: Option<u32>,
    /// Requests that fail.
    pub faults: Vec<SimFault>,
    /// It was unplugged: every request fails, one way or another.
    pub is_gone: bool,
    /// Writes that a loss of power would take away.
    pub cache: Option<Cache>,
}

impl SimFile {
    /// Loses unflushed writes, in part; nothing without a cache.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        if let Some(cache) = &mut self.cache {
            // A page cache takes any length, and is written to the medium in sectors.
            self.bytes = cache.lose(self.block.max(SECTOR), random);
        }
    }

    /// Cuts a file, or extends it by zeroes.
    pub(crate) fn set_length(&mut self, length: usize) {
        self.bytes.resize(length, 0);
        if let Some(cache) = &mut self.cache {
            cache.set_length(length);
        }
    }

    /// Content that a lost sector keeps of a range, and its offset.
    pub(super) fn kept(&self, range: Range<usize>) -> (usize, Vec<u8>) {
        let Some(lost) = self.lost_sector.map(index_of) else { return (0, Vec::new()) };
        let start = lost.clamp(range.start, range.end);
        let end = (lost + index_of(SECTOR)).clamp(range.start, range.end);
        (start, self.bytes[start..end].to_vec())
    }

    /// Gives a lost sector its content back.
    pub(super) fn keep(&mut self, (start, bytes): (usize, Vec<u8>)) {
        self.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
    }

    /// Flushes a file without a ring.
    ///
    /// # Errors
    /// As a flush by the ring.
    pub(crate) fn sync(&mut self, random: &mut Random) -> Result<(), Errno> {
        let barrier = self.cache.as_ref().map_or(0, Cache::barrier);
        flush(self, barrier, random).map(drop)
    }
}

/// Transfers between a drive and device memory that are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lost {
    /// None.
    #[default]
    None,
    /// Bytes from the drive to memory, when it is read: memory stays as it was.
    Reads,
    /// Bytes from memory to the drive, when it is written: it gets ones.
    Writes,
    /// Whole writes: the file stays as it was.
    WholeWrites,
}

/// A place where requests fail or hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimFault {
    /// Kind of the requests.
    pub action: Action,
    /// Offset in the file; requests that touch it are affected, and every flush.
    pub offset: u64,
    /// The answer, or `None` for none, ever.
    pub errno: Option<Errno>,
}

/// Keeps the writes that had ended when the flush was submitted. After a failed one chance decides.
pub(super) fn flush(file: &mut SimFile, barrier: u64, random: &mut Random) -> Result<u32, Errno> {
    let fault = file.faults.iter().find(|fault| fault.action == Action::Flush);
    let errno = fault.and_then(|fault| fault.errno).or(file.is_gone.then_some(Errno::IO));
    let is_failing = file.failing_flush == Some(0);
    file.failing_flush = file.failing_flush.and_then(|left| left.checked_sub(1));
    let errno = errno.or(is_failing.then_some(Errno::IO));
    if let Some(cache) = &mut file.cache {
        match errno {
            None => cache.keep(barrier),
            Some(_) => cache.forget(barrier, random),
        }
    }
    errno.map_or(Ok(0), Err)
}

/// Draws an answer of a device that is not there.
pub(super) fn gone(action: Action, random: &mut Random) -> Result<u32, Errno> {
    match (action, random.below(3)) {
        (Action::Read, 0) => Ok(0),
        (Action::Write, 0) => Err(Errno::NOSPC),
        (_, 1) => Err(Errno::NODEV),
        _ => Err(Errno::IO),
    }
}

/// Zeroes whole blocks within the file.
pub(super) fn zero(file: &mut SimFile, offset: u64, length: u64) -> Result<u32, Errno> {
    if let Some(errno) = file.zero_refusal {
        return Err(errno);
    }
    let end = index_of(offset + length).min(file.bytes.len());
    if offset % file.block != 0 || length % file.block != 0 || end <= index_of(offset) {
        return Err(Errno::INVAL);
    }
    let touched = |fault: &&SimFault| {
        fault.action == Action::Zero && (offset..offset + length).contains(&fault.offset)
    };
    if let Some(errno) = file.faults.iter().find(touched).and_then(|fault| fault.errno) {
        return Err(errno);
    }
    let kept = file.kept(index_of(offset)..end);
    file.bytes[index_of(offset)..end].fill(0);
    file.keep(kept);
    if let Some(cache) = &mut file.cache {
        cache.wrote(index_of(offset), &file.bytes[index_of(offset)..end]);
    }
    Ok(0)
}
