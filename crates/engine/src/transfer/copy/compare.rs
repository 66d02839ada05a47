//! Source and target of a copy compared before it moves anything, by host memory.

use std::ops::Range;

use peerlane_results::Plan;
use peerlane_units::{Bytes, Nanos};

use super::attempt::block;
use super::claims::part_of;
use super::pieces::CopyLayout;
use super::{CopyError, Tools};
use crate::endpoints::lane::Session;
use crate::endpoints::machine::Machine;
use crate::endpoints::open::Opened;
use crate::transfer::verify::{ComparisonRequest, Coverage, Digests, verify};

/// Host memory for each end.
const ROOM: Bytes = Bytes::kib(256);
/// The same if parts are longer than that.
const ROOM_LONG: Bytes = Bytes::mib(8);
/// Bytes of the copy that are compared at least before a difference ends it.
const PART: u64 = 64 << 20;
/// Requests at once of one comparison: two ends, two halves.
const ENTRIES: u32 = 128;

/// Both ends of a copy, open.
pub(super) struct OpenPair<'a> {
    pub(super) machine: &'a dyn Machine,
    pub(super) plan: &'a Plan,
    pub(super) layout: CopyLayout,
    pub(super) source: &'a Opened,
    pub(super) target: &'a Opened,
}

impl OpenPair<'_> {
    /// True when these parts of the copy are at the target. Stops at the first that is not. Parts
    /// begin at blocks.
    pub(super) fn is_equal(
        &self,
        parts: &[Range<u64>],
        tools: &mut Tools<'_>,
    ) -> Result<bool, CopyError> {
        let Some(longest) = parts.iter().map(|part| part.end - part.start).max() else {
            return Ok(true);
        };
        let room = if longest > ROOM.0 { ROOM_LONG } else { ROOM };
        let mut session = Session::on(self.machine, ENTRIES, false, None)?;
        let room = Bytes(room.0.max(2 * self.layout.block));
        let whole = self.comparison(&mut session, room, tools.deadline)?;
        let total = Bytes(parts.iter().map(|part| part.end - part.start).sum());
        let mut done = Bytes::ZERO;
        tools.watch.begin(done, total);
        for part in parts {
            if tools.watch.stop_requested() {
                let (done, total) = (Bytes::ZERO, Bytes(self.layout.length));
                return Err(CopyError::Interrupted { done, total, journal: None });
            }
            let part = part_of(&whole, part);
            let verified =
                verify(&mut session.ring, &part, tools.clock, &mut ()).map_err(|source| {
                    CopyError::Check { path: self.plan.target.path.clone().into(), source }
                })?;
            if verified.first.is_some() {
                return Ok(false);
            }
            done = Bytes(done.0 + part.length);
            tools.watch.compared(done, total);
        }
        Ok(true)
    }

    /// True when all of the copy is at the target already.
    pub(super) fn is_complete(&self, tools: &mut Tools<'_>) -> Result<bool, CopyError> {
        let (length, step) = (self.layout.length, PART.next_multiple_of(self.layout.block.max(1)));
        let parts = (0..length.div_ceil(step)).map(|n| n * step..((n + 1) * step).min(length));
        self.is_equal(&parts.collect::<Vec<_>>(), tools)
    }

    pub(super) fn comparison(
        &self,
        session: &mut Session<'_>,
        room: Bytes,
        deadline: Nanos,
    ) -> Result<ComparisonRequest, CopyError> {
        let plan = self.plan;
        let mut attach = |opened: &Opened, path: &str| {
            session.attach_file(opened).map_err(|source| CopyError::File {
                action: "attach",
                path: path.into(),
                source,
            })
        };
        let source = attach(self.source, &plan.source.path)?;
        let target = attach(self.target, &plan.target.path)?;
        let hosts = [session.host(room)?, session.host(room)?];
        Ok(ComparisonRequest {
            source,
            target,
            source_offset: plan.asked.offset.0,
            target_offset: plan.asked.target_offset.0,
            length: self.layout.length,
            source_block: block(self.source.is_direct, &plan.source),
            target_block: block(self.target.is_direct, &plan.target),
            coverage: Coverage::Full,
            hosts,
            digests: Digests::Left,
            deadline,
        })
    }
}
