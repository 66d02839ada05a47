//! Checks of a flow's ends: permission to write, content to read, and their ranges.

use peerlane_units::Bytes;

use super::look::FlowLook;
use super::{MeasureError, Result};
use crate::endpoints::open::open_source;
use crate::endpoints::{self, Endpoint, PathNode, guard};
use crate::io::extents::{Extent, Grid, data_ranges};
use crate::io::failure::Role;

impl FlowLook<'_> {
    pub(super) fn check_target(&self, target: &Endpoint) -> Result<()> {
        if self.is_scratch(target, &self.flow.target)? {
            return Ok(());
        }
        Err(MeasureError::NotScratch { path: target.facts.path.clone() })
    }

    /// Checks the source and returns whether it may be written. Such a source is filled, and
    /// nothing must stand against that. Any other must have content in its whole range.
    pub(super) fn check_source(&self, source: &Endpoint) -> Result<bool> {
        if !self.is_scratch(source, &self.flow.source)? {
            return self.check_holes(source).map(|()| false);
        }
        let found = {
            let written = (source, self.range(self.flow.offset));
            guard::check_in_place(self.system, self.surveyor, written, None, self.consent.force)
        };
        if found.refusals.is_empty() {
            Ok(true)
        } else {
            Err(MeasureError::Refused(found.refusals))
        }
    }

    /// Refuses a file with a hole in the range that is read: those bytes come from no drive.
    fn check_holes(&self, source: &Endpoint) -> Result<()> {
        let live = source.live.as_ref().filter(|live| live.node != PathNode::Block);
        let Some(live) = live else { return Ok(()) };
        let failed = |action| MeasureError::file(action, &live.path);
        let opened = open_source(live, self.surveyor.deadline()).map_err(failed("open"))?;
        let start = self.flow.offset.0;
        let within = start..start.saturating_add(self.flow.bytes.0);
        let grid = Grid { origin: start, block: 1 };
        for extent in data_ranges(&opened.file, within, grid).map_err(failed("look at"))? {
            if let Extent::Hole(hole) = extent.map_err(failed("look for holes of"))? {
                let path = source.facts.path.clone();
                return Err(MeasureError::Hole { path, at: hole.start });
            }
        }
        Ok(())
    }

    fn is_scratch(&self, end: &Endpoint, typed: &str) -> Result<bool> {
        // The same words mean the same end, which need not be looked at for that; others may mean it, too.
        if self.consent.scratch.iter().any(|scratch| scratch == typed) {
            return Ok(true);
        }
        for typed in &self.consent.scratch {
            let scratch = endpoints::look(self.system, self.fabric, typed, Role::Target)?;
            if scratch.facts.path == end.facts.path {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn check_range(&self, end: &Endpoint, offset: Bytes, role: Role) -> Result<()> {
        let (flow, facts) = (self.flow, &end.facts);
        let wrong = |reason: String| Err(MeasureError::Range { path: facts.path.clone(), reason });
        for (what, value) in [("block", flow.block), ("offset", offset), ("length", flow.bytes)] {
            if !value.is_multiple_of(facts.block) {
                let (value, block) = (value.0, facts.block.0);
                return wrong(format!(
                    "{what} {value} is not a multiple of its block, {block} bytes"
                ));
            }
        }
        if flow.bytes == Bytes::ZERO {
            return wrong("there is nothing to move".to_owned());
        }
        let is_file = end.live.as_ref().is_some_and(|live| live.node != PathNode::Block);
        let last = offset.0.checked_add(flow.bytes.0);
        let is_inside = last.is_some_and(|last| last <= facts.size.0);
        if is_inside || role == Role::Target && is_file && last.is_some() {
            return Ok(());
        }
        wrong(format!(
            "{} bytes from offset {} do not fit its {} bytes",
            flow.bytes.0, offset.0, facts.size.0
        ))
    }
}
