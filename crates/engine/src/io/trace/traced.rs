//! A ring that notes its requests if a trace was asked for.

use std::{fmt, io};

use peerlane_results::{BytesByRoute, MemoryKind, PhaseKind};
use peerlane_units::{Bytes, Nanos};

use super::NoteLog;
use super::tally::RequestTally;
use crate::io::ring::{Around, Completion, FileId, Operation, PushError, RegionId, Ring};

/// A ring, and the log of its requests.
pub(crate) struct Traced<R> {
    ring: R,
    log: Option<NoteLog>,
    tally: RequestTally,
}

impl<R> Traced<R> {
    /// The ring with a log, or without one.
    pub(crate) fn new(ring: R, log: Option<NoteLog>) -> Self {
        Self { ring, log, tally: RequestTally::default() }
    }

    /// Counts requested bytes from here on; `device` is the region in device memory, if there is
    /// one.
    pub(crate) fn begin_count(&mut self, device: Option<RegionId>) {
        self.tally.begin(device);
    }

    /// Splits this much payload by memory, as named by the requests since the count began.
    pub(crate) fn counted(&self, payload: Bytes) -> BytesByRoute {
        self.tally.by_route(payload)
    }

    /// Says which drive a file is on, by a name that a reader knows.
    pub(crate) fn name_file(&mut self, file: FileId, drive: &str) {
        if let Some(log) = &mut self.log {
            log.name_file(file, drive);
        }
    }

    /// Says which stages there are, in the order of their work.
    pub(crate) fn name_stages(&mut self, names: impl Iterator<Item = String>) {
        if let Some(log) = &mut self.log {
            log.name_stages(names.collect());
        }
    }

    /// Says whose memory a region is; one without a name is host memory.
    pub(crate) fn name_region(&mut self, region: RegionId, name: &str, kind: MemoryKind) {
        if let Some(log) = &mut self.log {
            log.name_region(region, name, kind);
        }
    }

    /// Notes the region and the slots for payload; the stride is in bytes.
    pub(crate) fn slots(&mut self, region: RegionId, stride: u64, count: u32) {
        if let Some(log) = &mut self.log {
            log.slots(region, stride, count);
        }
    }

    /// Notes the next phase.
    pub(crate) fn phase(&mut self, kind: PhaseKind) {
        if let Some(log) = &mut self.log {
            log.phase(kind);
        }
    }

    /// Notes so far, as a trace.
    #[cfg(test)]
    pub(super) fn trace(&self) -> Option<peerlane_results::Trace> {
        self.log.as_ref().map(NoteLog::read)
    }
}

impl<R: Ring> Around for Traced<R> {
    type Inner = R;

    fn inner(&self) -> &R {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.ring.push(operation)?;
        self.tally.add(&operation);
        if let Some(log) = &mut self.log {
            log.pushed(&operation);
        }
        Ok(())
    }

    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        let Some(log) = &mut self.log else { return self.ring.submit(wait, timeout) };
        let begin = log.submits();
        let submitted = self.ring.submit(wait, timeout);
        log.looks(begin, wait > 0);
        submitted
    }

    fn on_pop(&mut self) -> Option<Completion> {
        let completion = self.ring.pop()?;
        if let Some(log) = &mut self.log {
            log.popped(completion);
        }
        Some(completion)
    }
}

impl<R: fmt::Debug> fmt::Debug for Traced<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ring.fmt(f)
    }
}
