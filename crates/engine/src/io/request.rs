//! One range of a file carried in full, over as many operations as the kernel makes of it.
//!
//! Short completions go on from the last whole block, `EAGAIN` and `EINTR` are tried again, both a
//! bounded number of times. [`carry_out`] does this for a few ranges at a time; the relay drives its
//! requests itself, since its writes follow its reads.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use peerlane_results::MemoryKind;
use peerlane_units::Nanos;
use rustix::io::Errno;

use crate::io::clock::Clock;
use crate::io::failure::{Cause, RequestError, RequestFailure, Role, Stuck};
use crate::io::ring::{Action, Completion, FileId, Operation, RegionId, Ring};

/// Tries of one request that bring nothing, before it is given up.
pub(crate) const TRIES: u32 = 64;

/// Tries that end at the very same byte within a block, before that is taken for the end of the file.
const SAME_ENDS: u32 = 8;

/// The longest sleep of a loop that also watches deadlines and wishes to stop.
pub(crate) const LONGEST_SLEEP: Nanos = Nanos(250_000_000);

/// Returns a tag that no other request has or had: a late answer to a request that was given up is never
/// taken for that to another.
pub(crate) fn fresh_tag() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

/// A range of a file that goes to or comes from a range of a region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) role: Role,
    pub(crate) action: Action,
    pub(crate) file: FileId,
    pub(crate) file_offset: u64,
    pub(crate) region: RegionId,
    pub(crate) region_offset: u64,
    pub(crate) memory: MemoryKind,
    /// Bytes that must move.
    pub(crate) need: u64,
    /// Bytes asked for: `need`, rounded up to whole blocks.
    pub(crate) ask: u64,
    /// Block size of the file.
    pub(crate) block: u64,
    /// Meaning of an end of the file before `need`.
    pub(crate) end: EndOfFile,
    pub(crate) progress: RequestProgress,
}

/// A place in a file of a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilePlace {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    /// Requests are multiples of it.
    pub(crate) block: u64,
}

/// A place in a region of a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPlace {
    pub(crate) region: RegionId,
    pub(crate) offset: u64,
    pub(crate) kind: MemoryKind,
}

impl MemoryPlace {
    /// A place in host memory.
    pub(crate) fn host(region: RegionId, offset: u64) -> Self {
        Self { region, offset, kind: MemoryKind::Host }
    }
}

/// Meaning of an end of the file before all was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOfFile {
    /// A failure.
    Fails,
    /// The end of the request: bytes beyond it count as not there.
    IsFine,
}

/// Progress of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestProgress {
    done: u64,
    ended: bool,
    tries: u32,
    /// The furthest byte within the block after `done` that was reached, and how often.
    furthest: (u64, u32),
    /// Short completions and repeated tries, for the record.
    pub(crate) repeats: u32,
    /// Start of the operation in flight, and its tag.
    started: Option<(Nanos, u64)>,
}

impl Request {
    /// Moves `need` bytes between a place in a file and one in memory, asked for in whole blocks of the file. A file
    /// that ends before is a failure.
    pub(crate) fn new(
        role: Role,
        action: Action,
        file: FilePlace,
        memory: MemoryPlace,
        need: u64,
    ) -> Self {
        Self {
            role,
            action,
            file: file.file,
            file_offset: file.offset,
            region: memory.region,
            region_offset: memory.offset,
            memory: memory.kind,
            need,
            ask: need.next_multiple_of(file.block),
            block: file.block,
            end: EndOfFile::Fails,
            progress: RequestProgress::default(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.progress.ended || self.progress.done >= self.need
    }

    /// Bytes that have moved.
    pub(crate) fn moved(&self) -> u64 {
        self.progress.done
    }

    /// Offset of the rest.
    pub(crate) fn rest_offset(&self) -> u64 {
        self.file_offset + self.progress.done
    }

    /// The operation for the rest; `ask` fits 32 bits by the checks of those who make requests.
    pub(crate) fn operation(&self, tag: u64) -> Operation {
        Operation {
            action: self.action,
            file: self.file,
            file_offset: self.rest_offset(),
            region: self.region,
            region_offset: self.region_offset + self.progress.done,
            length: u32::try_from(self.ask - self.progress.done).unwrap_or(u32::MAX),
            tag,
        }
    }

    /// Takes the result of the last operation.
    ///
    /// # Errors
    /// [`Failure`] when there is no sense in trying the rest.
    pub(crate) fn take(&mut self, result: Result<u32, Errno>) -> Result<(), RequestFailure> {
        match result {
            Ok(moved) if u64::from(moved) > self.ask - self.progress.done => {
                Err(self.failure(Cause::MoreThanAsked { moved }))
            }
            Ok(moved) => self.advance(u64::from(moved)),
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => self.try_again(Some(errno)),
            Err(errno) => Err(self.failure(Cause::from_errno(errno, self.action, self.memory))),
        }
    }

    fn advance(&mut self, moved: u64) -> Result<(), RequestFailure> {
        if self.action == Action::Zero {
            self.progress.done = self.need;
            return Ok(());
        }
        let reached = self.progress.done + moved;
        if self.action == Action::Flush || reached >= self.need {
            self.progress.done = reached;
            return Ok(());
        }
        // The next operation must start on a block; a part of one is moved again.
        let whole = reached / self.block * self.block;
        if moved == 0 && self.action == Action::Write {
            return Err(self.failure(Cause::TargetFullOrGone));
        }
        if whole > self.progress.done {
            self.progress =
                RequestProgress { done: whole, tries: 0, furthest: (0, 0), ..self.progress };
            self.progress.repeats += 1;
            return Ok(());
        }
        let (furthest, times) = self.progress.furthest;
        self.progress.furthest = match reached.cmp(&furthest) {
            Ordering::Greater => (reached, 1),
            Ordering::Equal => (furthest, times + 1),
            Ordering::Less => (furthest, times),
        };
        if moved > 0 && self.progress.furthest.1 < SAME_ENDS {
            return self.try_again(None);
        }
        match (self.action, self.end) {
            (Action::Read, EndOfFile::Fails) => Err(self.failure(Cause::EndedEarly)),
            (Action::Read, EndOfFile::IsFine) => {
                self.progress.done = reached;
                self.progress.ended = true;
                Ok(())
            }
            _ => self.try_again(None),
        }
    }

    fn try_again(&mut self, errno: Option<Errno>) -> Result<(), RequestFailure> {
        self.progress.tries += 1;
        self.progress.repeats += 1;
        if self.progress.tries < TRIES {
            return Ok(());
        }
        Err(self.failure(Cause::NoProgress { tries: TRIES, errno }))
    }

    pub(crate) fn failure(&self, cause: Cause) -> RequestFailure {
        RequestFailure {
            role: self.role,
            action: self.action,
            offset: self.rest_offset(),
            length: self.need.saturating_sub(self.progress.done),
            cause,
        }
    }

    pub(crate) fn stuck(&self, age: Nanos) -> Stuck {
        Stuck { role: self.role, action: self.action, offset: self.rest_offset(), age }
    }
}

/// Carries requests out side by side, as many as the ring has room for. At a failure the others are
/// still waited for, each within the deadline.
///
/// # Errors
/// The first failure, or [`RequestError::Stuck`] with something still in flight.
pub(crate) fn carry_out<R: Ring>(
    ring: &mut R,
    requests: &mut [Request],
    clock: &dyn Clock,
    deadline: Nanos,
) -> Result<(), RequestError> {
    let all = 0..requests.len();
    carry_until(ring, requests, all, clock, deadline)
}

/// Like [`carry_out`], but returns when the `wanted` of the requests are done, and leaves others in
/// flight. The next call gets the same requests, those that are done replaced or not.
///
/// # Errors
/// As [`carry_out`]: after a failure nothing is in flight.
pub(crate) fn carry_until<R: Ring>(
    ring: &mut R,
    requests: &mut [Request],
    wanted: Range<usize>,
    clock: &dyn Clock,
    deadline: Nanos,
) -> Result<(), RequestError> {
    let mut failed: Option<RequestError> = None;
    let others = (0..wanted.start).chain(wanted.end..requests.len());
    let order: Vec<usize> = wanted.clone().chain(others).collect();
    loop {
        let mut pending = 0;
        for &index in &order {
            let request = &mut requests[index];
            let wants = failed.is_none() && !request.is_done();
            if request.progress.started.is_none() && wants && (pending == 0 || ring.space() > 0) {
                let operation = request.operation(fresh_tag());
                ring.push(operation)?;
                request.progress.started = Some((clock.now(), operation.tag));
            }
            pending += usize::from(request.progress.started.is_some());
        }
        let waits = is_waiting(requests, &wanted, failed.is_some());
        let asked = clock.now();
        let age = oldest(requests, asked).map_or(Nanos(0), |(age, _)| age);
        // What was just pushed is handed over before the caller turns to what is done.
        ring.submit(u32::from(waits), deadline.since(age).min(LONGEST_SLEEP))?;
        if !waits {
            return failed.map_or(Ok(()), Err);
        }
        while let Some(completion) = ring.pop() {
            if let Err(failure) = settle(requests, completion) {
                failed.get_or_insert(failure.into());
            }
        }
        // What was old before the kernel was asked, and has not ended: a program that was stopped for a
        // while finds everything old.
        let overdue = oldest(requests, asked).filter(|&(age, _)| age >= deadline);
        if let Some((age, request)) = overdue {
            if is_waiting(requests, &wanted, failed.is_some()) {
                return Err(failed.unwrap_or_else(|| request.stuck(age).into()));
            }
        }
    }
}

/// True when a wanted request is not done; after a failure, true when anything is in flight.
fn is_waiting(requests: &[Request], wanted: &Range<usize>, has_failed: bool) -> bool {
    if has_failed {
        return requests.iter().any(|request| request.progress.started.is_some());
    }
    requests[wanted.clone()].iter().any(|request| !request.is_done())
}

/// The request that has been in flight for longest, and for how long.
fn oldest(requests: &[Request], now: Nanos) -> Option<(Nanos, &Request)> {
    requests
        .iter()
        .filter_map(|request| Some((now.since(request.progress.started?.0), request)))
        .max_by_key(|&(age, _)| age)
}

fn settle(requests: &mut [Request], completion: Completion) -> Result<(), RequestFailure> {
    let is_its =
        |one: &&mut Request| one.progress.started.is_some_and(|(_, tag)| tag == completion.tag);
    let Some(request) = requests.iter_mut().find(is_its) else { return Ok(()) };
    request.progress.started = None;
    request.take(completion.result)
}
