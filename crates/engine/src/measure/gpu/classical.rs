//! The way that papers compare with, as Donard's program had it (`filemap.c` and `nvme2gpu_write.c` of
//! libdonard, 2014): into a GPU out of a map of the source, and out of a GPU into a buffer that is taken anew
//! for each block and then written by the page cache. Nothing is pinned, so that the driver moves every byte by
//! the CPU, and every page comes in by a fault.
//!
//! What differs: one flush at the end, as after any other route here, where Donard's program flushed every file
//! of 32 MiB. The one thing to know: calls of the driver and of the kernel return when they are done, so that a
//! thread makes them, and whoever waits for it has a deadline.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use peerlane_memory::Region;
use peerlane_memory::cuda::{CudaError, DeviceMemory};
use peerlane_memory::host;
use peerlane_memory::mapped;
use peerlane_results::Path as Way;
use peerlane_units::{Bytes, Nanos};

use super::super::blocks::{Account, Ended};
use super::super::carry::Run;
use super::super::planned::PlannedFlow;
use super::super::serial::write_all;
use super::super::stream::{Log, Place};
use super::super::{FlowTools, MeasureError};
use super::ready::Ready;
use crate::failure::Role;
use crate::relay::{Work, latencies};

/// Pause between two looks at the deadline, and the longest of a pace.
const LOOK: Duration = Duration::from_millis(10);

/// Whether a path is this way; `role` is the drive's.
pub(super) fn is_classical(path: Way, role: Role) -> bool {
    matches!((path, role), (Way::HostMapped, _) | (Way::HostPageCache, Role::Target))
}

/// What moves the bytes.
pub(super) struct Hands {
    asked: SyncSender<Piece>,
    done: Receiver<Result<(), Failed>>,
    thread: JoinHandle<()>,
}

/// A block to be moved.
#[derive(Clone, Copy)]
struct Piece {
    file_offset: u64,
    memory_offset: u64,
    length: u64,
}

/// Why a block was not moved.
enum Failed {
    Cuda(CudaError),
    File(MeasureError),
}

/// Both ends, in the hands of their thread.
enum Ends {
    In { map: Region, memory: Arc<DeviceMemory> },
    Out { file: File, memory: Arc<DeviceMemory> },
}

impl Ends {
    fn carry(&self, piece: Piece) -> Result<(), Failed> {
        let Piece { file_offset, memory_offset, length } = piece;
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
    ) -> Result<Self, MeasureError> {
        let memory = Arc::clone(memory);
        let failed = |action| {
            let facts = planned.source().or(planned.target());
            let path = facts.map(|facts| facts.path.clone().into()).unwrap_or_default();
            move |source| MeasureError::File { action, path, source }
        };
        let ends = match role {
            Role::Source => {
                let end = Bytes(planned.flow.offset.0.saturating_add(planned.flow.bytes.0));
                let map = mapped::map(&file, end).map_err(|errno| failed("map")(errno.into()))?;
                Ends::In { map, memory }
            }
            Role::Target => Ends::Out { file, memory },
        };
        let (asked, to_do) = sync_channel::<Piece>(1);
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
        piece: Piece,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<(), MeasureError> {
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

/// Moves the blocks one after the other, and flushes what was written.
pub(super) fn carry(
    planned: &PlannedFlow,
    ready: &mut Ready,
    hands: Hands,
    log: &mut dyn Log,
    tools: &mut FlowTools<'_>,
) -> Result<Run, MeasureError> {
    let (flow, clock) = (&planned.flow, tools.clock);
    let offset = match ready.role {
        Role::Source => flow.offset.0,
        Role::Target => flow.target_offset.0,
    };
    let (start, mut latency, mut bytes) = (clock.now(), latencies(), 0);
    let mut blocks = planned.blocks(start, Account::OfRequests, tools);
    let mut interrupted = false;
    loop {
        interrupted = interrupted || tools.watch.stop_requested();
        let begin = clock.now();
        let pause = blocks.pause(begin);
        if pause > Nanos(0) && !interrupted {
            thread::sleep(Duration::from_nanos(pause.0).min(LOOK));
            continue;
        }
        let Some(range) = (if interrupted { None } else { blocks.next() }) else { break };
        let length = range.end - range.start;
        blocks.begins(length, begin);
        let memory_offset = match ready.place {
            Place::Range(start) => start + range.start,
            Place::Slot(_) => 0,
        };
        let piece = Piece { file_offset: offset + range.start, memory_offset, length };
        hands.carry(piece, planned, tools)?;
        let now = clock.now();
        latency.saturating_record(now.since(begin).0);
        bytes += length;
        log.done(0, range.clone());
        blocks.done(range, now);
    }
    if ready.role == Role::Target {
        ready.flush(tools)?;
    }
    let end = clock.now();
    hands.end();
    let Ended { first_done, pace, .. } = blocks.end();
    let block = latency.clone();
    let (read, write) = match ready.role {
        Role::Source => (latency, latencies()),
        Role::Target => (latencies(), latency),
    };
    Ok(Run { bytes, start, first_done, end, read, write, block, interrupted, pace })
}
