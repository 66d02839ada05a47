//! A drive or a file read by way of the page cache: copied out of it into one buffer, or mapped.
//!
//! Leaves out writes: what the page cache takes says when memory is full, and not how fast a drive
//! is. The cache forgets the range each time that it is read from its start, so that every byte
//! comes from the drive, as far as the kernel drops it.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use peerlane_memory::{Region, host, mapped};
use peerlane_units::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};

use super::error::MAP;
use super::in_turn::{Half, SerialSteps};
use super::planned::PlannedFlow;
use super::ready::CacheMode;
use super::serial::{forget, read_all};
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::open::Opened;

/// Bytes that are written at once to a file in memory.
const PART: usize = 1 << 20;

/// Reads by `pread(2)`, which copies out of the page cache.
pub(super) struct CacheReader {
    source: Opened,
    offset: u64,
    bytes: Bytes,
    buffer: Region,
}

impl CacheReader {
    pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let source = planned.cached_source(tools)?;
        let (offset, bytes) = (planned.flow.offset.0, planned.flow.bytes);
        Ok(Self { source, offset, bytes, buffer: host::allocate(planned.flow.block)? })
    }
}

impl PlannedFlow {
    /// Opens the source through the page cache, which forgets the range.
    pub(super) fn cached_source(&self, tools: &FlowTools<'_>) -> Result<Opened> {
        let [source, _] = self.open_ends(CacheMode::Through, tools)?;
        let source = source.ok_or(MeasureError::WithOthers)?;
        forget(&source.file, self.flow.offset.0, self.flow.bytes);
        Ok(source)
    }
}

impl SerialSteps for CacheReader {
    fn again(&mut self) -> Result<()> {
        forget(&self.source.file, self.offset, self.bytes);
        Ok(())
    }

    fn block(&mut self, range: Range<u64>, _: &PlannedFlow, _: &FlowTools<'_>) -> Result<Half> {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let buffer = self.buffer.host_bytes_mut().and_then(|bytes| bytes.get_mut(..length));
        read_all(&self.source, buffer.unwrap_or(&mut []), self.offset + range.start)?;
        Ok(Half::Read)
    }
}

/// Has the kernel map page after page, as a program does that reads a map: nothing is copied.
pub(super) struct MapReader {
    source: Opened,
    /// For errors.
    path: PathBuf,
    offset: u64,
    bytes: Bytes,
    /// True if there is a drive behind it, which is read each time.
    is_stored: bool,
    map: Option<Region>,
}

impl MapReader {
    /// Maps the source.
    pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let (source, path) = (planned.cached_source(tools)?, planned.path());
        let (offset, bytes) = (planned.flow.offset.0, planned.flow.bytes);
        let mut mapped = Self { source, path, offset, bytes, is_stored: true, map: None };
        mapped.again()?;
        Ok(mapped)
    }

    /// Maps a file that is in memory.
    pub(super) fn in_memory(planned: &PlannedFlow) -> Result<Self> {
        let (bytes, path) = (planned.flow.bytes, PathBuf::from("a file in memory"));
        let made = memfd_create(c"peerlane", MemfdFlags::CLOEXEC);
        let mut file: File =
            made.map_err(|errno| MeasureError::file("make", &path)(errno.into()))?.into();
        let part = vec![1; PART];
        let mut left = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        while left > 0 {
            let part = &part[..left.min(PART)];
            file.write_all(part).map_err(MeasureError::file("write to", &path))?;
            left -= part.len();
        }
        let source = Opened::new(file, false);
        let mut mapped = Self { source, path, offset: 0, bytes, is_stored: false, map: None };
        mapped.again()?;
        Ok(mapped)
    }
}

impl SerialSteps for MapReader {
    fn again(&mut self) -> Result<()> {
        // The cache keeps what is mapped.
        self.map = None;
        if self.is_stored {
            forget(&self.source.file, self.offset, self.bytes);
        }
        let end = Bytes(self.offset.saturating_add(self.bytes.0));
        let map = mapped::map(&self.source.file, end)
            .map_err(|errno| MeasureError::file("map", &self.path)(errno.into()))?;
        self.map = Some(map);
        Ok(())
    }

    fn block(&mut self, range: Range<u64>, _: &PlannedFlow, _: &FlowTools<'_>) -> Result<Half> {
        let map = self.map.as_mut().ok_or(MeasureError::WithOthers)?;
        mapped::fault_in(map, self.offset + range.start..self.offset + range.end)
            .map_err(|errno| MeasureError::file(MAP, &self.path)(errno.into()))?;
        Ok(Half::Read)
    }
}
