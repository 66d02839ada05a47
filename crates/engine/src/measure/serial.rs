//! The baselines that papers call classical: one buffer, read then write, one after the other.

use std::ops::Range;
use std::os::fd::AsFd;

use peerlane_memory::{Region, host};
use peerlane_results::{MemoryKind, Path as Way};
use peerlane_units::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread, pwrite};

use super::carry::{CarriedRun, CheckResult};
use super::in_turn::{Half, SerialSteps};
use super::planned::PlannedFlow;
use super::ready::CacheMode;
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::open::Opened;
use crate::io::failure::{Cause, RequestError, RequestFailure, Role};
use crate::io::ranges::RangeSet;
use crate::io::ring::Action;

/// From file to file through one buffer.
pub(super) struct BufferCopy {
    /// Source and target, until all is moved.
    ends: Option<(Opened, Opened)>,
    buffer: Region,
    written: RangeSet,
}

impl BufferCopy {
    pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let is_cached = planned.flow.path == Way::HostPageCache;
        let cache = if is_cached { CacheMode::Through } else { CacheMode::Around };
        let [source, target] = planned.open_ends(cache, tools)?;
        let ends = source.zip(target).ok_or(MeasureError::WithOthers)?;
        if is_cached {
            forget(&ends.0.file, planned.flow.offset.0, planned.flow.bytes);
        }
        let buffer = host::allocate(planned.flow.block)?;
        Ok(Self { ends: Some(ends), buffer, written: RangeSet::new() })
    }
}

impl SerialSteps for BufferCopy {
    fn block(
        &mut self,
        range: Range<u64>,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<Half> {
        let (source, target) = self.ends.as_ref().ok_or(MeasureError::WithOthers)?;
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let bytes = self.buffer.host_bytes_mut().and_then(|bytes| bytes.get_mut(..length));
        let bytes = bytes.ok_or(MeasureError::WithOthers)?;
        read_all(source, bytes, planned.flow.offset.0 + range.start)?;
        let between = tools.clock.now();
        write_all(&target.file, bytes, planned.flow.target_offset.0 + range.start)?;
        self.written.insert(range);
        Ok(Half::Both(between))
    }

    fn flush(&mut self, _: &FlowTools<'_>) -> Result<()> {
        let (_, target) = self.ends.as_ref().ok_or(MeasureError::WithOthers)?;
        rustix::fs::fdatasync(&target.file)
            .map_err(|errno| failure(Role::Target, Action::Flush, 0, 0, errno))
    }

    fn compare(
        &mut self,
        planned: &PlannedFlow,
        _: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        self.ends = None;
        let mut ready = planned.open(tools)?;
        let verification = Some(ready.compare(planned, &self.written, tools)?);
        Ok(CheckResult { verification, evidence: ready.evidence, ..CheckResult::default() })
    }
}

/// Reads all of it by the calls of the system.
pub(super) fn read_all(file: &Opened, bytes: &mut [u8], offset: u64) -> Result<()> {
    let length = bytes.len() as u64;
    all(bytes.len(), Errno::IO, |done| pread(&file.file, &mut bytes[done..], offset + done as u64))
        .map_err(|errno| failure(Role::Source, Action::Read, offset, length, errno))
}

/// Writes all of it by the calls of the system.
pub(super) fn write_all(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<()> {
    let length = bytes.len() as u64;
    all(bytes.len(), Errno::NOSPC, |done| {
        pwrite(file.as_fd(), &bytes[done..], offset + done as u64)
    })
    .map_err(|errno| failure(Role::Target, Action::Write, offset, length, errno))
}

/// Calls until so many bytes are moved; `end` is the failure of a call that moves none.
fn all(
    length: usize,
    end: Errno,
    mut call: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < length {
        match call(done) {
            Ok(0) => return Err(end),
            Ok(moved) => done += moved,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn failure(role: Role, action: Action, offset: u64, length: u64, errno: Errno) -> MeasureError {
    let cause = Cause::from_errno(errno, action, MemoryKind::Host);
    RequestError::from(RequestFailure { role, action, offset, length, cause }).into()
}

/// Makes the page cache forget a file, so a read of it reaches the drive.
pub(super) fn forget(file: impl AsFd, offset: u64, length: Bytes) {
    // What stays makes the baseline faster, never slower.
    let _ = fadvise(file, offset, std::num::NonZeroU64::new(length.0), Advice::DontNeed);
}
