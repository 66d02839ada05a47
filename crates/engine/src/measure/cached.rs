//! A drive or a file read by way of the page cache: copied out of it into one buffer, or mapped.
//!
//! Leaves out writes: what the page cache takes says when memory is full, and not how fast a drive is. The one thing
//! to know: the cache forgets the range each time that it is read from its start, so that every byte comes from the
//! drive, as far as the kernel drops it.

use std::fs::File;
use std::ops::Range;

use peerlane_memory::{Region, host, mapped};
use peerlane_results::Path as Way;
use peerlane_units::Bytes;
use rustix::io::Errno;

use super::error::MAP;
use super::in_turn::{self, Step};
use super::planned::PlannedFlow;
use super::ready::Cache;
use super::serial::{forget, read_all};
use super::{FlowOutcome, FlowTools, MeasureError};
use crate::open::Opened;

/// Carries a flow from a drive or a file to host memory out by the page cache.
pub(super) fn carry(
    planned: &PlannedFlow,
    tools: &mut FlowTools<'_>,
) -> Result<FlowOutcome, MeasureError> {
    let [source, _] = planned.open_ends(Cache::Through, tools.hold, tools.deadline)?;
    let source = source.ok_or(MeasureError::WithOthers)?;
    let (offset, bytes) = (planned.flow.offset.0, planned.flow.bytes);
    let run = if planned.flow.path == Way::HostMapped {
        let path = planned.source().map(|facts| facts.path.clone()).unwrap_or_default();
        let mut step = Mapped { file: &source.file, path, offset, bytes, stored: true, map: None };
        in_turn::carry(planned, &mut step, tools)?
    } else {
        let buffer = host::allocate(planned.flow.block)?;
        in_turn::carry(planned, &mut Copied { source, offset, bytes, buffer }, tools)?
    };
    Ok(planned.outcome(run, None, Vec::new(), Vec::new()))
}

/// Reads by `pread(2)`, which copies out of the page cache.
struct Copied {
    source: Opened,
    offset: u64,
    bytes: Bytes,
    buffer: Region,
}

impl Step for Copied {
    fn begin(&mut self) -> Result<(), MeasureError> {
        forget(&self.source.file, self.offset, self.bytes);
        Ok(())
    }

    fn block(&mut self, range: Range<u64>) -> Result<(), MeasureError> {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let buffer = self.buffer.host_bytes_mut().and_then(|bytes| bytes.get_mut(..length));
        read_all(&self.source, buffer.unwrap_or(&mut []), self.offset + range.start)
    }
}

/// Has the kernel map page after page, as a program does that reads a map: nothing is copied.
pub(super) struct Mapped<'a> {
    pub(super) file: &'a File,
    /// For errors.
    pub(super) path: String,
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    /// Whether there is a drive behind it, which is to be read each time.
    pub(super) stored: bool,
    pub(super) map: Option<Region>,
}

impl Mapped<'_> {
    fn failed(&self, action: &'static str) -> impl Fn(Errno) -> MeasureError + use<> {
        let path = self.path.clone();
        move |errno| MeasureError::File { action, path: path.clone().into(), source: errno.into() }
    }
}

impl Step for Mapped<'_> {
    fn begin(&mut self) -> Result<(), MeasureError> {
        // The cache keeps what is mapped.
        self.map = None;
        if self.stored {
            forget(self.file, self.offset, self.bytes);
        }
        let end = Bytes(self.offset.saturating_add(self.bytes.0));
        self.map = Some(mapped::map(self.file, end).map_err(self.failed("map"))?);
        Ok(())
    }

    fn block(&mut self, range: Range<u64>) -> Result<(), MeasureError> {
        let failed = self.failed(MAP);
        let Some(map) = &mut self.map else { return Err(MeasureError::WithOthers) };
        let within = self.offset + range.start..self.offset + range.end;
        mapped::fault_in(map, within).map_err(failed)
    }
}
