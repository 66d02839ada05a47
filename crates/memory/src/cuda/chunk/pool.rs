//! Queues for chunks in flight: one for each chunk, reused.

use std::collections::VecDeque;

use crate::cuda::stream::settles;
use crate::cuda::{CudaError, KernelQueue};

/// A queue, with the place of its chunk's result.
pub(super) struct QueueSlot<S> {
    pub(super) queue: KernelQueue,
    pub(super) result: S,
}

/// The queues of one kernel.
pub(super) struct QueuePool<S> {
    idle: Vec<QueueSlot<S>>,
    /// Oldest first.
    in_flight: VecDeque<(u64, QueueSlot<S>)>,
    /// Queues whose work has no known end; kept until the pool is dropped.
    stuck: Vec<QueueSlot<S>>,
    failure: Option<CudaError>,
    /// True once `stuck` was waited for.
    is_given_up: bool,
}

impl<S> QueuePool<S> {
    pub(super) fn new() -> Self {
        Self {
            idle: Vec::new(),
            in_flight: VecDeque::new(),
            stuck: Vec::new(),
            failure: None,
            is_given_up: false,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Runs work for a tag in an idle queue, or in one that `make` gives.
    pub(super) fn start(
        &mut self,
        tag: u64,
        make: impl FnOnce() -> Result<QueueSlot<S>, CudaError>,
        work: impl FnOnce(&mut QueueSlot<S>) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut slot = match self.idle.pop() {
            Some(slot) => slot,
            None => make()?,
        };
        match work(&mut slot).and_then(|()| slot.queue.close()) {
            Ok(()) => self.in_flight.push_back((tag, slot)),
            Err(error) => {
                self.stuck.push(slot);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The oldest chunk that is over, with `read` of its slot; after an error, every chunk with that error.
    pub(super) fn finished<T>(
        &mut self,
        read: impl FnOnce(&mut QueueSlot<S>) -> Result<T, CudaError>,
    ) -> Option<(u64, Result<T, CudaError>)> {
        if self.failure.is_none() {
            for at in 0..self.in_flight.len() {
                match self.in_flight[at].1.queue.is_over() {
                    Ok(false) => {}
                    Ok(true) => {
                        let (tag, mut slot) = self.in_flight.remove(at)?;
                        let result = read(&mut slot);
                        self.idle.push(slot);
                        return Some((tag, result));
                    }
                    Err(error) => {
                        self.failure = Some(error);
                        break;
                    }
                }
            }
        }
        let failure = self.failure.clone()?;
        let (tag, slot) = self.in_flight.pop_front()?;
        self.stuck.push(slot);
        Some((tag, Err(failure)))
    }

    /// Waits for all queues together no longer than for one, and only once; false where one does
    /// not end. Chunks in flight are no longer reported.
    pub(super) fn settle(&mut self) -> bool {
        self.stuck.extend(self.in_flight.drain(..).map(|(_, slot)| slot));
        let stuck = &mut self.stuck;
        if !self.is_given_up {
            settles(|| {
                let mut failed = Ok(());
                stuck.retain_mut(|slot| match slot.queue.is_settled() {
                    Ok(is_over) => !is_over,
                    Err(error) => {
                        failed = Err(error);
                        true
                    }
                });
                failed.map(|()| stuck.is_empty())
            });
        }
        self.is_given_up = !self.stuck.is_empty();
        !self.is_given_up
    }
}

impl<S> Drop for QueuePool<S> {
    /// Waits for work under way, and leaks the queues that do not end.
    fn drop(&mut self) {
        if !self.settle() {
            self.stuck.drain(..).for_each(|slot| slot.queue.leak());
        }
    }
}
