//! Content for a source that may be written, given to it before anything is timed.

use peerlane_units::Bytes;

use super::content;
use super::planned::PlannedFlow;
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::lane::Session;
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, Ring};
use crate::transfer::copy::{Claim, check, open_in_place};

impl PlannedFlow {
    /// True when the source may be written: [`PlannedFlow::fill_source`] then gives it content.
    pub fn has_scratch_source(&self) -> bool {
        self.is_source_scratch
    }

    /// Writes a pattern by offset and seed to the range of a source that may be written; any other
    /// keeps its content. Returns whether all of it is written: the watch may ask for an end.
    ///
    /// # Errors
    /// When the drive does not take it.
    pub fn fill_source(&self, tools: &FlowTools<'_>) -> Result<bool> {
        if !self.is_source_scratch {
            return Ok(false);
        }
        let Some(end) = self.source.storage() else { return Ok(false) };
        let Some(live) = end.live.as_ref() else { return Ok(false) };
        let (offset, length) = (self.flow.offset.0, self.flow.bytes.0);
        let opened = open_in_place(live, offset + length, Claim::Exclusive, tools.deadline)
            .map_err(|error| MeasureError::Open(Box::new(error)))?;
        let mut session = Session::new(16, [&opened], None)?;
        let file = session
            .attach(&opened, &end.facts.path)
            .map_err(MeasureError::file("attach", &live.path))?
            .payload;
        let block = if opened.is_direct { end.facts.block.0 } else { 1 };
        let part = (1u64 << 20).next_multiple_of(block);
        let region = session.host(Bytes(part))?;
        let mut start = 0;
        while start < length {
            if tools.watch.stop_requested() {
                return Ok(false);
            }
            let need = part.min(length - start);
            if let Some(bytes) = session.ring.host_bytes(region) {
                content::fill(tools.seed, offset + start, bytes);
            }
            let (to, place) =
                (FilePlace { file, offset: offset + start, block }, MemoryPlace::host(region, 0));
            let request = Request::new(Role::Source, Action::Write, to, place, need);
            carry_out(&mut session.ring, &mut [request], tools.clock, tools.deadline)?;
            start += need;
        }
        check::flush_file(&mut session.ring, file, region, tools.deadline, tools.clock)?;
        Ok(true)
    }
}
