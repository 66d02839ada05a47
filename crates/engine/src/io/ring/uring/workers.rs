//! Flushes and zeroes of a ring, by worker processes: the kernel blocks the calling thread for them.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;

use super::Uring;
use crate::io::ring::passthrough::PassthroughNamespace;
use crate::io::ring::queue::Queued;
use crate::io::ring::queues::RingRequest;
use crate::io::ring::worker::{Task, Worker};
use crate::io::ring::{Action, FileId, Operation};

/// Marks the number of a poll for the answers of a worker; the rest of it is the number of its file.
pub(super) const POLLED: u64 = 1 << 63;

/// The number of a poll of a descriptor that is watched, which is not a file's.
pub(super) const WATCHED: u64 = u64::MAX;

/// A file of a ring.
#[derive(Debug)]
pub(super) struct RingFile {
    pub(super) file: File,
    /// Set for a passthrough node.
    pub(super) namespace: Option<PassthroughNamespace>,
    /// Flushes and zeroes, which the kernel does in a thread that cannot be left behind; started when needed.
    pub(super) worker: Option<Worker>,
    /// True when the kernel tells that the worker has answered.
    is_polled: bool,
}

impl RingFile {
    pub(super) fn new(file: File, namespace: Option<PassthroughNamespace>) -> Self {
        Self { file, namespace, worker: None, is_polled: false }
    }

    /// Tasks that the worker has not answered.
    fn open_tasks(&self) -> usize {
        self.worker.as_ref().map_or(0, Worker::open)
    }

    /// Hands a task to the worker, which is started for the first one.
    fn ask(&mut self, number: u64, task: Task) -> Result<(), Errno> {
        if self.worker.is_none() {
            let started = Worker::start(self.file.as_fd());
            self.worker = Some(started.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?);
        }
        self.worker.as_mut().map_or(Err(Errno::IO), |worker| worker.ask(number, task))
    }
}

/// A question whether something can be read.
fn poll(descriptor: BorrowedFd<'_>) -> RingRequest {
    #[allow(clippy::cast_sign_loss)]
    let events = libc::POLLIN as u32;
    RingRequest::Plain(opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events).build())
}

impl Uring {
    /// Returns the task of a worker; `None` for operations that the kernel does without blocking.
    pub(super) fn task(&self, operation: &Operation) -> Option<Task> {
        if self.namespace(operation.file).is_some() {
            return None;
        }
        match operation.action {
            Action::Read | Action::Write | Action::Stage => None,
            Action::Flush => Some(Task::Flush),
            Action::Zero => Some(Task::Zero {
                mode: crate::io::extents::ZERO_MODE.bits(),
                offset: operation.file_offset,
                length: operation.length.into(),
            }),
        }
    }

    /// Hands a task to the worker of a file; false if it has too much to do.
    pub(super) fn hand_to_worker(&mut self, number: u64, file: FileId, task: Task) -> bool {
        let index = usize::try_from(file.0).unwrap_or(usize::MAX);
        let asked = match self.files.get_mut(index).and_then(Option::as_mut) {
            Some(attached) => attached.ask(number, task),
            None => Err(Errno::BADF),
        };
        match asked {
            Ok(()) => self.poll_workers(),
            Err(Errno::AGAIN) => return false,
            Err(errno) => {
                let completion = self.settle(number, -errno.raw_os_error());
                self.ended.extend(completion);
            }
        }
        true
    }

    /// Has the kernel tell when workers have answered, as far as there is room to ask for it.
    pub(super) fn poll_workers(&mut self) {
        for (index, place) in self.files.iter_mut().enumerate() {
            let Some(attached) = place.as_mut().filter(|one| !one.is_polled) else { continue };
            let Some(worker) = attached.worker.as_ref().filter(|one| one.open() > 0) else {
                continue;
            };
            let poll = poll(worker.socket());
            // SAFETY: a poll touches no memory; a socket that is closed meanwhile ends it.
            let pushed = unsafe { self.queues.push(poll, POLLED | index as u64) };
            if pushed {
                attached.is_polled = true;
                self.waiting.push(Queued::Poll);
            }
        }
    }

    /// Has the kernel end a wait once the descriptor is readable; false without room for that
    /// request, or if another descriptor is watched.
    pub(super) fn watch_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> bool {
        if let Some(watched) = self.watching {
            return watched == descriptor.as_raw_fd();
        }
        // SAFETY: a poll touches no memory; a descriptor that is closed meanwhile ends it.
        let pushed = unsafe { self.queues.push(poll(descriptor), WATCHED) };
        if pushed {
            self.watching = Some(descriptor.as_raw_fd());
            self.waiting.push(Queued::Poll);
        }
        pushed
    }

    /// Takes answers from the worker of a file.
    pub(super) fn take_answers(&mut self, file: u64) {
        let index = usize::try_from(file).unwrap_or(usize::MAX);
        let Some(attached) = self.files.get_mut(index).and_then(Option::as_mut) else { return };
        attached.is_polled = false;
        let Some(worker) = &mut attached.worker else { return };
        let answers: Vec<_> = std::iter::from_fn(|| worker.answer()).collect();
        for (number, result) in answers {
            let result = result.map_or_else(|errno| -errno.raw_os_error(), |()| 0);
            let completion = self.settle(number, result);
            self.ended.extend(completion);
        }
        self.poll_workers();
    }

    /// Tasks that workers have not answered.
    pub(super) fn with_workers(&self) -> usize {
        self.files.iter().flatten().map(RingFile::open_tasks).sum()
    }
}
