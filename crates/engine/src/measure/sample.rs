//! Tells whether a source holds anything, by a few of its blocks, read before anything is timed.

use peerlane_units::Bytes;

use super::planned::PlannedFlow;
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::lane::Session;
use crate::endpoints::open::open_source;
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, Ring};

/// Blocks that are read, spread evenly over the range.
const SAMPLES: u64 = 32;
/// Bytes of each, unless a block of the drive has more.
const SAMPLE: u64 = 4096;

impl PlannedFlow {
    /// True when every sampled block of the source holds zeroes only; `None` if the source is
    /// memory.
    ///
    /// # Errors
    /// When the source cannot be read.
    pub fn source_is_zero(&self, tools: &FlowTools<'_>) -> Result<Option<bool>> {
        let Some(end) = self.source.storage() else { return Ok(None) };
        let Some(live) = end.live.as_ref() else { return Ok(None) };
        let failed = |action| MeasureError::file(action, &live.path);
        let opened = open_source(live, tools.deadline).map_err(failed("open"))?;
        let mut session = Session::new(16, [&opened], None)?;
        let file = session.attach(&opened, &end.facts.path).map_err(failed("attach"))?.payload;
        let block = if opened.is_direct { end.facts.block.0.max(1) } else { 1 };
        let length = self.flow.bytes.0;
        let most = SAMPLE.next_multiple_of(block);
        let region = session.host(Bytes(most))?;
        let step = (length / SAMPLES).next_multiple_of(most).max(most);
        let mut start = 0;
        while start < length {
            let need = most.min(length - start);
            let from = FilePlace { file, offset: self.flow.offset.0 + start, block };
            let place = MemoryPlace::host(region, 0);
            let request = Request::new(Role::Source, Action::Read, from, place, need);
            carry_out(&mut session.ring, &mut [request], tools.clock, tools.deadline)?;
            let need = usize::try_from(need).unwrap_or(0);
            let found = session.ring.host_bytes(region).and_then(|bytes| bytes.get(..need));
            if found.is_none_or(|bytes| bytes.iter().any(|&byte| byte != 0)) {
                return Ok(Some(false));
            }
            start += step;
        }
        Ok(Some(true))
    }
}
