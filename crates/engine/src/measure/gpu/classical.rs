//! The way that papers compare with, as Donard's program had it (`filemap.c` and `nvme2gpu_write.c` of
//! libdonard, 2014): into a GPU out of a map of the source, and out of a GPU into a buffer that is taken anew
//! for each block and then written by the page cache. Nothing is pinned, so that the driver moves every byte by
//! the CPU, and every page comes in by a fault.
//!
//! What differs: one flush at the end, as after any other route here, where Donard's program
//! flushed every file of 32 MiB. Calls of the driver and of the kernel return when they are done,
//! so that a thread makes them, and whoever waits for it has a deadline.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use peerlane_memory::cuda::{CudaError, DeviceMemory};
use peerlane_memory::{Region, host, mapped};
use peerlane_results::Path as Way;
use peerlane_units::Bytes;

use super::super::carry::CarriedRun;
use super::super::in_turn::{self, Half, LOOK, SerialSteps};
use super::super::planned::PlannedFlow;
use super::super::serial::write_all;
use super::super::stream::{RegionLocation, SlotLog};
use super::super::{FlowTools, MeasureError, Result};
use super::ready::ReadyGpuFlow;
use crate::io::failure::Role;

/// True when a path is this way; `role` is the drive's.
pub(super) fn is_classical(path: Way, role: Role) -> bool {
    matches!((path, role), (Way::HostMapped, _) | (Way::HostPageCache, Role::Target))
}

/// A thread that moves the bytes, and its queues.
pub(super) struct Hands {
    asked: SyncSender<QueuedBlock>,
    done: Receiver<Result<(), Failed>>,
    thread: JoinHandle<()>,
}

/// A block to be moved.
#[derive(Clone, Copy)]
struct QueuedBlock {
    file_offset: u64,
    memory_offset: u64,
    length: u64,
}

/// Reason why a block was not moved.
enum Failed {
    Cuda(CudaError),
    File(MeasureError),
}

/// Both ends, in the hands of their thread.
enum ClassicalEnds {
    In { map: Region, memory: Arc<DeviceMemory> },
    Out { file: File, memory: Arc<DeviceMemory> },
}

impl ClassicalEnds {
    fn carry(&self, piece: QueuedBlock) -> Result<(), Failed> {
        let QueuedBlock { file_offset, memory_offset, length } = piece;
        match self {
            Self::In { map, memory } => {
                memory.load(memory_offset, (map, file_offset), length).map_err(Failed::Cuda)
            }
            Self::Out { file, memory } => {
                let mut buffer = host::untouched(Bytes(length))
                    .map_err(|error| Failed::Cuda(CudaError::Host(error)))?;
                memory.store(memory_offset, (&mut buffer, 0), length).map_err(Failed::Cuda)?;
                let bytes = buffer.host_bytes_mut().unwrap_or_default();
                write_all(file, bytes, file_offset).map_err(Failed::File)
            }
        }
    }
}

impl Hands {
    /// Maps a source, or takes a target.
    pub(super) fn new(
        planned: &PlannedFlow,
        file: File,
        role: Role,
        memory: &Arc<DeviceMemory>,
    ) -> Result<Self> {
        let memory = Arc::clone(memory);
        let failed = |action| MeasureError::file(action, planned.path());
        let ends = match role {
            Role::Source => {
                let end = Bytes(planned.flow.offset.0.saturating_add(planned.flow.bytes.0));
                let map = mapped::map(&file, end).map_err(|errno| failed("map")(errno.into()))?;
                ClassicalEnds::In { map, memory }
            }
            Role::Target => ClassicalEnds::Out { file, memory },
        };
        let (asked, to_do) = sync_channel::<QueuedBlock>(1);
        let (tell, done) = sync_channel(1);
        let work = move || {
            for piece in to_do {
                if tell.send(ends.carry(piece)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().spawn(work).map_err(failed("begin a thread for"))?;
        Ok(Self { asked, done, thread })
    }

    /// Moves a block; after a deadline the thread is left to itself, with all that it uses.
    fn carry(
        &self,
        piece: QueuedBlock,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<()> {
        let start = tools.clock.now();
        self.asked.send(piece).map_err(|_| MeasureError::WithOthers)?;
        loop {
            match self.done.recv_timeout(LOOK) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(Failed::Cuda(source))) => return Err(planned.no_gpu(source)),
                Ok(Err(Failed::File(error))) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return Err(MeasureError::WithOthers),
                Err(RecvTimeoutError::Timeout) => {
                    if tools.clock.now().since(start) >= tools.deadline {
                        let (gpu, deadline) = (planned.memory.name.clone(), tools.deadline);
                        return Err(MeasureError::CopyEngine { gpu, deadline });
                    }
                }
            }
        }
    }

    /// Gives both ends back: the map is gone when this returns.
    fn end(self) {
        drop(self.asked);
        // It waits for the next piece, of which there is none any more.
        let _ = self.thread.join();
    }
}

/// A flow in these hands.
struct Steps<'a> {
    ready: &'a mut ReadyGpuFlow,
    hands: &'a Hands,
    log: &'a mut dyn SlotLog,
}

impl SerialSteps for Steps<'_> {
    fn block(
        &mut self,
        range: Range<u64>,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<Half> {
        let memory_offset = match self.ready.place {
            RegionLocation::Range(start) => start + range.start,
            RegionLocation::Slot(_) => 0,
        };
        let (offset, half) = match self.ready.role {
            Role::Source => (planned.flow.offset.0, Half::Read),
            Role::Target => (planned.flow.target_offset.0, Half::Write),
        };
        let (file_offset, length) = (offset + range.start, range.end - range.start);
        self.hands.carry(QueuedBlock { file_offset, memory_offset, length }, planned, tools)?;
        self.log.done(0, range);
        Ok(half)
    }

    fn flush(&mut self, tools: &FlowTools<'_>) -> Result<()> {
        if self.ready.role == Role::Target { self.ready.flush(tools) } else { Ok(()) }
    }
}

/// Moves the blocks one after the other, and flushes what was written.
pub(super) fn carry(
    planned: &PlannedFlow,
    ready: &mut ReadyGpuFlow,
    hands: Hands,
    log: &mut dyn SlotLog,
    tools: &mut FlowTools<'_>,
) -> Result<CarriedRun> {
    let run = in_turn::run(planned, &mut Steps { ready, hands: &hands, log }, tools)?;
    hands.end();
    Ok(run)
}
