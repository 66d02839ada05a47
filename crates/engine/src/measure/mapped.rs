//! The baseline of programs that map their source: written from the map, one request at a time, so
//! the kernel reads a page when the write asks for it.

use std::ops::Range;

use peerlane_memory::mapped;
use peerlane_results::MemoryKind;
use peerlane_units::Bytes;

use super::planned::PlannedFlow;
use super::requests::{CheckedContent, OneWayFlow};
use super::stream::{RegionLocation, SlotLog, StreamSetup};
use super::{FlowTools, MeasureError, Result};
use crate::io::ranges::RangeSet;
use crate::io::ring::{Action, Ring};

impl SlotLog for RangeSet {
    fn done(&mut self, _: u32, range: Range<u64>) {
        self.insert(range);
    }
}

/// Opens a flow from file to file by a map of the source.
pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<OneWayFlow> {
    let flow = &planned.flow;
    let source = planned.cached_source(tools)?;
    let mut ready = planned.open(tools)?;
    let end = Bytes(flow.offset.0.saturating_add(flow.bytes.0));
    let map = mapped::map(&source.file, end)
        .map_err(|errno| MeasureError::file("map", planned.path())(errno.into()))?;
    let way = StreamSetup {
        action: Action::Write,
        file: ready.target.ok_or(MeasureError::WithOthers)?.payload,
        offset: flow.target_offset.0,
        file_block: ready.blocks[1],
        region: ready.ring.attach_region(map),
        memory: MemoryKind::Host,
        slots: 1,
        place: RegionLocation::Range(flow.offset.0),
        has_stage: false,
        deadline: tools.deadline,
    };
    Ok(OneWayFlow { ready, way, content: CheckedContent::Ranges(RangeSet::new()) })
}
