//! A ring whose regions stages work on: an operation [`Action::Stage`] is one chunk of one stage.
//!
//! Requests go to the ring below, which works on while stages do. Work of the CPU is done by the thread
//! that submits, one chunk at a time, so the work after a chunk is handed over before the next
//! chunk; it gets the bytes of a slot only while no request is on them. For stages that work by
//! themselves a wait ends by their descriptor, or after [`NAP`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::mem;

use peerlane_units::Nanos;
use rustix::io::Errno;

use super::{Action, Around, Completion, FileId, Operation, PushError, Ring};
use crate::io::stage::{Chunk, Stage, StageFault};

/// Pause between two looks at stages that cannot wake the ring.
const NAP: Nanos = Nanos(50_000);

/// A ring, and the stages that work on its regions.
pub struct Staged<R> {
    /// There until it is dropped; left behind if a stage still works on its memory.
    ring: Option<R>,
    stages: Vec<Box<dyn Stage>>,
    /// Chunks that wait for their stage.
    waiting: VecDeque<Operation>,
    /// Chunks that stages have, by tag.
    open: HashMap<u64, Operation>,
    ended: VecDeque<Completion>,
    said: Option<StageFault>,
}

impl<R> Staged<R> {
    /// The ring, without a stage so far.
    pub fn new(ring: R) -> Self {
        Self {
            ring: Some(ring),
            stages: Vec::new(),
            waiting: VecDeque::new(),
            open: HashMap::new(),
            ended: VecDeque::new(),
            said: None,
        }
    }

    /// Adds a stage; its number is that of the stages before it.
    pub fn add(&mut self, stage: Box<dyn Stage>) {
        self.stages.push(stage);
    }

    /// Words of the first stage that failed.
    pub fn fault(&self) -> Option<&StageFault> {
        self.said.as_ref()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty() && self.ended.is_empty()
    }

    fn end(&mut self, tag: u64, result: Result<u32, StageFault>) {
        let result = result.map_err(|fault| {
            self.said.get_or_insert(fault);
            Errno::IO
        });
        self.ended.push_back(Completion { tag, result });
    }

    /// Takes the chunks that stages are done with.
    fn collect(&mut self) {
        for number in 0..self.stages.len() {
            while let Some((tag, result)) = self.stages[number].finished() {
                // A stage may answer twice; the second answer is of nothing.
                let Some(chunk) = self.open.remove(&tag) else { continue };
                self.end(tag, result.map(|()| chunk.length));
            }
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for Staged<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged")
            .field("ring", &self.ring)
            .field("stages", &self.stages.len())
            .field("waiting", &self.waiting.len())
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

impl<R: Ring> Staged<R> {
    /// Hands chunks over until one is done; a stage that is full keeps only its own waiting.
    fn start_waiting(&mut self) {
        let mut kept = VecDeque::new();
        while let Some(operation) = self.waiting.pop_front() {
            if !self.ended.is_empty()
                || self.stage(operation.file).is_none_or(|one| one.room() == 0)
            {
                kept.push_back(operation);
                continue;
            }
            self.start(operation);
            self.collect();
        }
        self.waiting = kept;
    }

    fn stage(&self, number: FileId) -> Option<&dyn Stage> {
        Some(self.stages.get(usize::try_from(number.0).ok()?)?.as_ref())
    }

    fn start(&mut self, operation: Operation) {
        let (region, start) = (operation.region, operation.region_offset);
        let length = u64::from(operation.length);
        let number = usize::try_from(operation.file.0).unwrap_or(usize::MAX);
        let (Some(stage), Some(ring)) = (self.stages.get_mut(number), &mut self.ring) else {
            return;
        };
        let chunk = Chunk {
            tag: operation.tag,
            offset: operation.file_offset,
            length,
            memory_offset: start,
            content: ring.host_range(region, start..start + length),
        };
        match stage.start(chunk) {
            Ok(()) => {
                self.open.insert(operation.tag, operation);
            }
            Err(fault) => self.end(operation.tag, Err(fault)),
        }
    }

    /// Waits for a request, or for a stage.
    fn wait(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        let ring = self.ring.as_mut().expect("a ring until it is dropped");
        let stages = &self.stages;
        let is_at_work = |number: &usize| {
            self.open.values().any(|chunk| usize::try_from(chunk.file.0) == Ok(*number))
        };
        let watched = (0..stages.len()).filter(is_at_work).all(|number| {
            stages[number].descriptor().is_some_and(|descriptor| ring.watch(descriptor))
        });
        let timeout = if watched { timeout } else { timeout.min(NAP) };
        ring.submit(wait, timeout)
    }
}

impl<R: Ring> Around for Staged<R> {
    type Inner = R;

    fn inner(&self) -> &R {
        self.ring.as_ref().expect("a ring until it is dropped")
    }

    fn inner_mut(&mut self) -> &mut R {
        self.ring.as_mut().expect("a ring until it is dropped")
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        if operation.action != Action::Stage {
            return self.inner_mut().push(operation);
        }
        if self.stage(operation.file).is_none() {
            return Err(PushError::UnknownStage { stage: operation.file });
        }
        let (region, offset, length) =
            (operation.region, operation.region_offset, operation.length);
        let region_length =
            self.region_length(region).ok_or(PushError::UnknownRegion { region })?;
        if offset.checked_add(length.into()).is_none_or(|end| end > region_length) {
            return Err(PushError::OutOfRegion { offset, length, region_length });
        }
        self.waiting.push_back(operation);
        Ok(())
    }

    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        if self.is_idle() {
            return self.inner_mut().submit(wait, timeout);
        }
        // Requests are on their way while the CPU works on a chunk.
        self.inner_mut().submit(0, Nanos(0))?;
        self.collect();
        self.start_waiting();
        if self.ended.is_empty() && wait > 0 {
            self.wait(wait, timeout)?;
            self.collect();
        }
        Ok(())
    }

    fn on_pop(&mut self) -> Option<Completion> {
        self.ended.pop_front().or_else(|| self.inner_mut().pop())
    }

    fn on_in_flight(&self) -> u32 {
        let own = self.waiting.len() + self.open.len() + self.ended.len();
        self.inner().in_flight().saturating_add(u32::try_from(own).unwrap_or(u32::MAX))
    }
}

impl<R> Drop for Staged<R> {
    /// Gives up chunks that stages still work on. Memory that one may still use is neither freed
    /// nor taken from the drives.
    fn drop(&mut self) {
        let mut is_over = true;
        for mut stage in mem::take(&mut self.stages) {
            is_over &= stage.cancel();
        }
        if is_over {
            return;
        }
        tracing::warn!(chunks = self.open.len(), "leaving memory to a stage that may work on it");
        mem::forget(self.ring.take());
    }
}
