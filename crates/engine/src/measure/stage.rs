//! The stage of a flow: its name, the ways and memories that it works in, its set-up and its
//! failure.

use std::path::Path;

use peerlane_results::{MemoryKind, Path as Way, Refusal, StageRecord, Warning};

use super::look::FlowLook;
use super::planned::PlannedFlow;
use super::{MeasureError, Result};
use crate::io::failure::RequestError;
use crate::io::stage::{StageFault, StageName};
use crate::transfer::relay::{RelayError, StageTally};
use crate::transfer::stages::{StageError, StageRow};

/// Reason that a digest of a benchmark has no root.
const NO_ROOT: &str = "a benchmark keeps no digests";

impl FlowLook<'_> {
    /// The stage that the flow names, if it does.
    pub(super) fn stage(&self) -> Result<Option<StageName>> {
        let Some(stage) = &self.flow.stage else { return Ok(None) };
        let name: StageName = stage.name.parse().map_err(StageError::Name)?;
        // Its file is read before anything moves.
        StageRow::single(name.clone())?;
        Ok(Some(name))
    }

    /// Adds a stage to a flow.
    ///
    /// # Errors
    /// When its way has no place for one, or the stage does not reach its memory.
    pub(super) fn with_stage(
        &self,
        planned: PlannedFlow,
        stage: Option<StageName>,
    ) -> Result<PlannedFlow> {
        let Some(name) = stage else { return Ok(planned) };
        if let Some(reason) = planned.way_without_stages() {
            return Err(self.no_pair(format!("stage {name} has no place there: {reason}")));
        }
        let in_gpu = planned.memory.kind == MemoryKind::Gpu;
        if let Some(reason) = name.not_reached(&planned.memory, in_gpu) {
            let hint = Some(hint(&name, &planned));
            return Err(MeasureError::Refused(vec![Refusal { reason, hint, forceable: false }]));
        }
        Ok(PlannedFlow { stage: Some(name), ..planned })
    }
}

/// A memory that the stage reaches.
fn hint(name: &StageName, planned: &PlannedFlow) -> String {
    let is_between_drives =
        planned.source.storage().is_some() && planned.target.storage().is_some();
    match name {
        StageName::Digest if is_between_drives => "take the route `host`".to_owned(),
        StageName::Cuda { .. } if is_between_drives => {
            "`peerlane bench roundtrip DRIVE --via gpu:0` measures both halves of the path through a GPU"
                .to_owned()
        }
        _ => format!("take {} as the memory", name.memory_example()),
    }
}

impl PlannedFlow {
    /// Reason why a stage cannot get at any chunk; `None` if requests of a ring move payload.
    fn way_without_stages(&self) -> Option<&'static str> {
        if self.gpu.is_some() {
            let reason =
                "the driver moves payload of this route by the CPU, in one call for a block";
            return self.is_classical().then_some(reason);
        }
        if self.source.storage().is_none() && self.target.storage().is_none() {
            return Some("one core copies, and no device takes part");
        }
        match self.flow.path {
            Way::HostSerial | Way::HostPageCache => {
                Some("this route has one buffer, which calls of the system read and write in turn")
            }
            Way::HostMapped => Some("payload of this route rests in a map, not in slots"),
            Way::P2p | Way::HostPipelined | Way::HostCufile => None,
        }
    }

    /// The stage as a row of one; an empty row without it.
    pub(super) fn stage_row(&self) -> Result<StageRow> {
        let row = self.stage.clone().map(StageRow::single).transpose()?;
        Ok(row.unwrap_or_default())
    }

    /// The image and the kernel of a card whose memory the slots have to lie in.
    pub(super) fn card_image(&self) -> Option<(&Path, &str)> {
        self.stage.as_ref()?.card_image()
    }

    /// True if the target is to hold the content of its source.
    pub(super) fn is_comparable(&self) -> bool {
        !self.stage.as_ref().is_some_and(StageName::changes_content)
    }

    /// Says that a stage changes content.
    pub(super) fn not_comparable(&self) -> Option<Warning> {
        let stages = self.stage.as_ref().filter(|_| !self.is_comparable())?.to_string();
        Some(Warning::NotComparable { stages })
    }

    /// The record of its stage.
    pub(super) fn stage_record(&self, tally: &StageTally) -> Option<StageRecord> {
        let name = self.stage.as_ref()?;
        let no_root = (*name == StageName::Digest).then(|| NO_ROOT.to_owned());
        Some(StageRecord { no_root, ..tally.record(name.to_string()) })
    }

    /// Names the stage and its own words if that is why a flow ended.
    pub(super) fn name_the_stage(
        &self,
        error: MeasureError,
        said: Option<&StageFault>,
    ) -> MeasureError {
        let source = match error {
            MeasureError::Request(source @ RequestError::Stage { .. })
            | MeasureError::Relay(RelayError::Stopped {
                source: source @ RequestError::Stage { .. },
                ..
            }) => source,
            error => return error,
        };
        let stage = self.stage.as_ref().map(ToString::to_string).unwrap_or_default();
        MeasureError::StageFailed { stage, said: said.map(ToString::to_string), source }
    }
}
