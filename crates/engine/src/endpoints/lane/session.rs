//! A ring with open files, memory and a trace, set up in one place.

use std::io;

use peerlane_memory::MemoryError;
use peerlane_results::MemoryFacts;
use peerlane_units::Bytes;

use super::SlotShape;
use crate::endpoints::machine::{self, Machine};
use crate::endpoints::open::{Attached, Opened};
use crate::io::ring::{AnyRing, Around as _, FileId, RegionId, Ring as _, Staged, UringError};
use crate::io::stage::Stage;
use crate::io::trace::{NoteLog, Traced};

/// A ring of a machine for files that are open.
pub(crate) struct Session<'m> {
    machine: &'m dyn Machine,
    pub(crate) ring: Traced<Staged<AnyRing>>,
}

impl<'m> Session<'m> {
    /// Sets up a ring; `has_nodes` permits passthrough nodes.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn on(
        machine: &'m dyn Machine,
        entries: u32,
        has_nodes: bool,
        log: Option<NoteLog>,
    ) -> Result<Self, UringError> {
        Ok(Self::with(machine, machine.ring(entries, has_nodes)?, log))
    }

    /// Wraps an existing ring.
    pub(crate) fn with(machine: &'m dyn Machine, ring: AnyRing, log: Option<NoteLog>) -> Self {
        Self { machine, ring: Traced::new(Staged::new(ring), log) }
    }

    /// Has stages work on regions of the ring, in their order; a trace has them by their names.
    pub(crate) fn add_stages(
        &mut self,
        names: impl Iterator<Item = String>,
        stages: Vec<Box<dyn Stage>>,
    ) {
        self.ring.name_stages(names);
        stages.into_iter().for_each(|stage| self.ring.inner_mut().add(stage));
    }

    /// Attaches a file, by the name that a trace has for it.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn attach(&mut self, opened: &Opened, name: &str) -> io::Result<Attached> {
        opened.attach(&mut self.ring, name)
    }

    /// Attaches the file or block device itself, not the passthrough node that it may have.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn attach_file(&mut self, opened: &Opened) -> io::Result<FileId> {
        self.ring.attach_file(opened.file.try_clone()?)
    }

    /// Names the memory of the slots for a trace.
    pub(crate) fn name_slots(&mut self, region: RegionId, memory: &MemoryFacts, shape: SlotShape) {
        self.ring.name_region(region, &memory.name, memory.kind);
        self.ring.slots(region, shape.stride, shape.slots);
    }

    /// Takes host memory.
    ///
    /// # Errors
    /// [`MemoryError`] with the length asked for.
    pub(crate) fn host(&mut self, length: Bytes) -> Result<RegionId, MemoryError> {
        Ok(self.ring.attach_region(self.machine.host_memory(length)?))
    }
}

impl Session<'static> {
    /// Sets up a ring of this machine, with passthrough nodes if one of the files has one.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn new<'a>(
        entries: u32,
        files: impl IntoIterator<Item = &'a Opened>,
        log: Option<NoteLog>,
    ) -> Result<Self, UringError> {
        let has_nodes = files.into_iter().any(|opened| opened.passthrough.is_some());
        Self::on(machine::host(), entries, has_nodes, log)
    }
}
