//! The io_uring of the running kernel.
//!
//! Reads and writes carry plain addresses. Registered buffers would save pinning, but the kernel
//! refuses them for P2P pages (`io_uring/rsrc.c`, long-term pins; Linux 7.2). Files are registered
//! if the kernel can.
//!
//! Soundness rests on three facts: the ring owns every file and region, an operation is checked
//! against its region before it is queued, and a ring that is dropped while the kernel still works on
//! its memory leaks that memory instead of freeing it.

mod error;
mod workers;

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, opcode};
use peerlane_memory::Region;
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::passthrough::{PassthroughFile, PassthroughNamespace, URING_CMD_IO};
use super::queue::{HeldOperation, InFlight, PassthroughCommand, QueueEntry, Queued, Waiting};
use super::queues::{Queues, RingRequest, Width};
use super::status::NvmeStatus;
use super::{Action, Completion, FileId, Operation, PushError, RegionId, Ring};
pub use error::UringError;
use workers::{POLLED, RingFile, WATCHED};

/// Files that a ring can hold: a source and 16 targets (`TARGETS_MAX` of the plan), each of them two
/// if it is a passthrough node, are 34. Unused places cost the kernel a pointer each.
const FILES: u32 = 64;

/// Time that a dropped ring waits for the kernel before it leaks files and memory that the kernel
/// still holds.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// The io_uring of the running kernel. Not `Send`: the kernel ties it to the thread that made it.
pub struct Uring {
    queues: Queues,
    /// `None` for files given back.
    files: Vec<Option<RingFile>>,
    files_registered: bool,
    regions: Vec<Region>,
    in_flight: InFlight,
    waiting: Waiting,
    /// Descriptor of a stage that ends a wait in the kernel.
    watching: Option<RawFd>,
    /// Operations that are to be handed over by the next submission.
    ready: VecDeque<HeldOperation>,
    /// Ends that the kernel has no part in.
    ended: VecDeque<Completion>,
    thread_bound: PhantomData<*const ()>,
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("files", &self.files)
            .field("regions", &self.regions)
            .field("in_flight", &self.in_flight.count())
            .field("waiting", &self.waiting.count())
            .finish_non_exhaustive()
    }
}

impl Uring {
    /// Sets up a ring with room for `entries` operations at a time, fewer if the kernel clamps.
    ///
    /// # Errors
    /// [`UringError`], by the system's answer.
    pub fn new(entries: u32) -> Result<Self, UringError> {
        Self::of_width(entries, Width::Narrow)
    }

    /// Sets up a ring that takes passthrough nodes, too; its entries are twice as long.
    ///
    /// # Errors
    /// [`UringError`], by the system's answer: such entries came with Linux 5.19.
    pub fn for_passthrough(entries: u32) -> Result<Self, UringError> {
        Self::of_width(entries, Width::Wide)
    }

    fn of_width(entries: u32, width: Width) -> Result<Self, UringError> {
        let queues = Queues::new(entries, width)?;
        if !queues.params().is_feature_ext_arg() || !queues.params().is_feature_nodrop() {
            return Err(UringError::TooOld);
        }
        let files_registered = queues.submitter().register_files_sparse(FILES).is_ok();
        let capacity = usize::try_from(queues.params().cq_entries()).unwrap_or(usize::MAX);
        Ok(Self {
            queues,
            files: Vec::new(),
            files_registered,
            regions: Vec::new(),
            in_flight: InFlight::new(capacity),
            waiting: Waiting::default(),
            watching: None,
            ready: VecDeque::new(),
            ended: VecDeque::new(),
            thread_bound: PhantomData,
        })
    }

    /// Takes a passthrough node; it is closed when the ring is dropped.
    ///
    /// # Errors
    /// As [`Ring::attach_file`]; `EINVAL` for a ring that was not set up for it.
    pub fn attach_passthrough(&mut self, node: PassthroughFile) -> io::Result<FileId> {
        if !self.queues.is_wide() || !node.namespace.block.is_power_of_two() {
            return Err(Errno::INVAL.into());
        }
        self.attach(RingFile::new(node.file, Some(node.namespace)))
    }

    fn attach(&mut self, attached: RingFile) -> io::Result<FileId> {
        let free = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        let index = u32::try_from(free).unwrap_or(FILES);
        if index >= FILES {
            return Err(Errno::NFILE.into());
        }
        if self.files_registered {
            let descriptor = attached.file.as_raw_fd();
            self.queues.submitter().register_files_update(index, &[descriptor])?;
        }
        if free == self.files.len() {
            self.files.push(None);
        }
        self.files[free] = Some(attached);
        Ok(FileId(index))
    }

    /// Gives a file back that nothing in flight is of; its number may become that of another.
    pub(crate) fn detach_file(&mut self, file: FileId) {
        let index = usize::try_from(file.0).unwrap_or(usize::MAX);
        let taken = self.files.get_mut(index).and_then(Option::take);
        let Some(RingFile { worker, .. }) = taken else { return };
        if let Some(worker) = worker {
            worker.end();
        }
        if self.files_registered {
            // Where the kernel does not let go of it now, it does when another takes its place.
            let _ = self.queues.submitter().register_files_update(file.0, &[-1]);
        }
    }

    fn file(&self, file: FileId) -> Option<&RingFile> {
        usize::try_from(file.0).ok().and_then(|index| self.files.get(index)?.as_ref())
    }

    fn namespace(&self, file: FileId) -> Option<PassthroughNamespace> {
        self.file(file)?.namespace
    }

    fn check(&self, operation: &Operation) -> Result<(), PushError> {
        let file = operation.file;
        if operation.action == Action::Stage {
            return Err(PushError::UnknownStage { stage: file });
        }
        let attached = self.file(file).ok_or(PushError::UnknownFile { file })?;
        if operation.action.has_memory() {
            let region = operation.region;
            let region_length =
                self.region_length(region).ok_or(PushError::UnknownRegion { region })?;
            let (offset, length) = (operation.region_offset, operation.length);
            match offset.checked_add(u64::from(length)) {
                Some(end) if end <= region_length => {}
                _ => return Err(PushError::OutOfRegion { offset, length, region_length }),
            }
        }
        match &attached.namespace {
            Some(namespace) => namespace.check(operation, self.address(operation) as u64),
            None => Ok(()),
        }
    }

    /// Returns the address of an operation's bytes.
    fn address(&self, operation: &Operation) -> *mut u8 {
        let region = usize::try_from(operation.region.0).ok().and_then(|i| self.regions.get(i));
        let offset = usize::try_from(operation.region_offset).unwrap_or(usize::MAX);
        region.map_or(std::ptr::null_mut(), |region| {
            region.address().as_ptr().cast::<u8>().wrapping_add(offset)
        })
    }

    /// The request of an operation that [`Uring::check`] accepted.
    fn request(&self, operation: &Operation) -> RingRequest {
        let address = self.address(operation);
        let namespace = self.namespace(operation.file);
        macro_rules! for_file {
            ($file:expr) => {
                match (operation.action, namespace) {
                    (_, Some(namespace)) => RingRequest::command(
                        opcode::UringCmd80::new($file, URING_CMD_IO),
                        namespace.command(operation, address as u64),
                    ),
                    (Action::Read, None) => RingRequest::Plain(
                        opcode::Read::new($file, address, operation.length)
                            .offset(operation.file_offset)
                            .build(),
                    ),
                    (Action::Write, None) => RingRequest::Plain(
                        opcode::Write::new($file, address, operation.length)
                            .offset(operation.file_offset)
                            .build(),
                    ),
                    // Not reached: these are tasks of a worker, or work of a stage.
                    (Action::Flush | Action::Zero | Action::Stage, None) => {
                        RingRequest::Plain(opcode::Nop::new().build())
                    }
                }
            };
        }
        if self.files_registered {
            return for_file!(Fixed(operation.file.0));
        }
        let descriptor = self.file(operation.file).map_or(-1, |attached| attached.file.as_raw_fd());
        for_file!(Fd(descriptor))
    }

    /// Queues an operation that was checked under its number; false if there is no room.
    fn hand_over(&mut self, number: u64, operation: &Operation) -> bool {
        if let Some(task) = self.task(operation) {
            return self.hand_to_worker(number, operation.file, task);
        }
        let (part, rest) = match self.namespace(operation.file) {
            Some(namespace) => namespace.first_part(operation),
            None => (*operation, None),
        };
        let request = self.request(&part);
        // SAFETY: the request's address range lies within a region that was checked when it was pushed
        // and that the ring owns until the operation's completion was popped, or for ever (see `Drop`);
        // so does the file. No reference to the bytes is given out meanwhile (`host_bytes`).
        let pushed = unsafe { self.queues.push(request, number) };
        if pushed {
            if let Some(command) =
                self.in_flight.get_mut(number).and_then(|entry| entry.command.as_mut())
            {
                command.rest = rest;
            }
            self.waiting.push(Queued::Operation);
        }
        pushed
    }

    /// Hands over operations that became ready, as far as there is room.
    fn hand_over_ready(&mut self) {
        while let Some(held) = self.ready.front().copied() {
            if !self.hand_over(held.number, &held.operation) {
                return;
            }
            self.ready.pop_front();
        }
    }

    /// Takes a result of the kernel; `None` if the operation goes on, or is none of ours.
    fn settle(&mut self, number: u64, result: i32) -> Option<Completion> {
        let entry = *self.in_flight.get_mut(number)?;
        let result = match entry.command {
            Some(command) => match (NvmeStatus::check(result), command.rest) {
                (Ok(()), Some(operation)) => {
                    self.ready.push_back(HeldOperation { number, operation });
                    return None;
                }
                (Ok(()), None) => Ok(entry.length.unwrap_or(0)),
                (Err(errno), _) => Err(errno),
            },
            None => u32::try_from(result)
                .map_err(|_| Errno::from_raw_os_error(result.checked_neg().unwrap_or(i32::MAX))),
        };
        self.in_flight.remove(number);
        Some(Completion { tag: entry.tag, result })
    }

    /// Operations that the kernel has and has not finished, or whose end was not popped.
    fn with_kernel(&self) -> usize {
        let elsewhere = self.ready.len() + self.with_workers();
        self.in_flight.count() - self.waiting.operations() - elsewhere
    }

    /// Waits for one completion without handing over queued requests.
    fn wait_only(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        // SAFETY: the flags say that the argument is an extended one, which `SubmitArgs` is, and it
        // outlives the call. Nothing is submitted.
        let entered = unsafe { self.queues.submitter().enter(0, 1, flags, Some(&arguments)) };
        entered.map(drop)
    }
}

impl Ring for Uring {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        self.attach(RingFile::new(file, None))
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        self.regions.push(region);
        RegionId(u32::try_from(self.regions.len() - 1).unwrap_or(u32::MAX))
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        let index = usize::try_from(region.0).ok()?;
        self.regions.get(index).map(|region| region.length().0)
    }

    fn space(&self) -> u32 {
        let entries = usize::try_from(self.queues.params().sq_entries()).unwrap_or(usize::MAX);
        let queued = self.waiting.count() + self.ready.len();
        let free = entries.saturating_sub(queued).min(self.in_flight.space());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.check(&operation)?;
        let full = PushError::Full { space: self.space() };
        let namespace = self.namespace(operation.file);
        if operation.action == Action::Zero && namespace.is_some_and(|one| one.zeroes_max == 0) {
            let (tag, result) = (operation.tag, Err(Errno::OPNOTSUPP));
            self.ended.push_back(Completion { tag, result });
            return Ok(());
        }
        let has_memory = operation.action.has_memory();
        let entry = QueueEntry {
            tag: operation.tag,
            region: has_memory.then_some((operation.region, operation.region_offset)),
            length: has_memory.then_some(operation.length),
            command: namespace.map(|_| PassthroughCommand { rest: None }),
        };
        let number = self.in_flight.insert(entry).ok_or(full)?;
        if !self.hand_over(number, &operation) {
            self.in_flight.remove(number);
            return Err(full);
        }
        Ok(())
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.hand_over_ready();
        self.poll_workers();
        let wait = if self.ended.is_empty() { wait } else { 0 };
        let wait = usize::try_from(wait).unwrap_or(usize::MAX).min(self.in_flight.count().max(1));
        let timeout = Timespec::from(Duration::from(timeout));
        let arguments = SubmitArgs::new().timespec(&timeout);
        let entered = self.queues.submitter().submit_with_args(wait, &arguments);
        self.waiting.keep_newest(self.queues.waiting());
        match entered.map_err(|error| Errno::from_io_error(&error).ok_or(error)) {
            Ok(_) => Ok(()),
            // Nothing has come in time, a signal came, or the kernel wants completions popped or
            // memory freed first; what is queued is handed over by the next call.
            Err(Ok(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN)) => Ok(()),
            Err(Ok(errno)) => Err(errno.into()),
            Err(Err(error)) => Err(error),
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.ended.pop_front() {
                return Some(completion);
            }
            let (number, result) = self.queues.pop()?;
            if number == WATCHED {
                self.watching = None;
                continue;
            }
            if number & POLLED != 0 {
                self.take_answers(number ^ POLLED);
                continue;
            }
            if let Some(completion) = self.settle(number, result) {
                return Some(completion);
            }
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.in_flight.count() + self.ended.len()).unwrap_or(u32::MAX)
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        if self.in_flight.touches(region, &range) {
            return None;
        }
        let index = usize::try_from(region.0).ok()?;
        let bytes = self.regions.get_mut(index)?.host_bytes_mut()?;
        bytes.get_mut(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    fn watch(&mut self, descriptor: BorrowedFd<'_>) -> bool {
        self.watch_descriptor(descriptor)
    }
}

impl Drop for Uring {
    /// Waits a second at most for requests in the kernel; queued ones are not handed over. If the
    /// kernel still holds memory then, files and regions are leaked.
    fn drop(&mut self) {
        let end = Instant::now() + DROP_WAIT;
        loop {
            while self.pop().is_some() {}
            let left = end.saturating_duration_since(Instant::now());
            if self.with_kernel() + self.with_workers() == 0 || left.is_zero() {
                break;
            }
            let waited = self.wait_only(left).map_err(|e| Errno::from_io_error(&e));
            if !matches!(waited, Ok(()) | Err(Some(Errno::TIME | Errno::INTR))) {
                break;
            }
        }
        for worker in self.files.iter_mut().flatten().filter_map(|one| one.worker.take()) {
            worker.end();
        }
        if self.with_kernel() > 0 {
            tracing::warn!(
                requests = self.with_kernel(),
                "leaking memory that the kernel still uses"
            );
            mem::forget(mem::take(&mut self.files));
            mem::forget(mem::take(&mut self.regions));
        } else if self.files_registered {
            // Without this the kernel lets go of them some time after the ring was closed, and a target
            // that the copy is done with cannot be unmounted or opened exclusively.
            let _ = self.queues.submitter().unregister_files();
        }
    }
}
