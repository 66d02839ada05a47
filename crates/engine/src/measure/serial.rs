//! The baselines that papers call classical: one buffer, read then write, one after the other.

use std::os::fd::AsFd;

use peerlane_memory::host;
use peerlane_results::{BytesByRoute, Path as Way};
use peerlane_units::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread, pwrite};

use super::carry::Run;
use super::looks::Looks;
use super::planned::PlannedFlow;
use super::ready::Cache;
use super::{FlowOutcome, FlowTools, MeasureError, Moved};
use crate::failure::{Cause, Failure, RequestError, Role};
use crate::open::Opened;
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::relay::latencies;
use crate::ring::Action;

/// Carries a flow from file to file out through one buffer.
pub(super) fn carry(
    planned: &PlannedFlow,
    tools: &mut FlowTools<'_>,
) -> Result<FlowOutcome, MeasureError> {
    let cache = match planned.flow.path {
        Way::HostPageCache => Cache::Through,
        _ => Cache::Around,
    };
    let [source, target] = planned.open_ends(cache, tools.hold, tools.deadline)?;
    let (Some(source), Some(target)) = (source, target) else {
        return Err(MeasureError::WithOthers);
    };
    if cache == Cache::Through {
        forget(&source.file, planned.flow.offset.0, planned.flow.bytes);
    }
    planned.wait(tools)?;
    let moved = copy(planned, [&source, &target], tools);
    let bytes = Bytes(moved.as_ref().map_or(0, |(run, _)| run.bytes));
    // Its one buffer is host memory, and it has no ring that counts.
    let requested = BytesByRoute { p2p: Bytes::ZERO, host: bytes };
    tools.gate.end(Moved { bytes, requested });
    let (run, written) = moved?;
    drop((source, target));
    let mut ready = planned.open(tools)?;
    let verification = ready.compare(planned, &written, tools)?;
    Ok(planned.outcome(run, Some(verification), ready.evidence, Vec::new()))
}

fn copy(
    planned: &PlannedFlow,
    [source, target]: [&Opened; 2],
    tools: &mut FlowTools<'_>,
) -> Result<(Run, RangeSet), MeasureError> {
    let flow = &planned.flow;
    let (length, block) = (flow.bytes.0, flow.block.0);
    let mut buffer = host::allocate(flow.block)?;
    let bytes = buffer.host_bytes_mut().unwrap_or(&mut []);
    let mut random = Random::new(tools.seed);
    let mut written = RangeSet::new();
    let mut run = Run {
        bytes: 0,
        start: tools.clock.now(),
        first_done: None,
        end: tools.clock.now(),
        read: latencies(),
        write: latencies(),
        block: latencies(),
        interrupted: false,
        pace: Vec::new(),
    };
    let mut looks = Looks::default();
    let until = tools.time.map(|time| run.start.after(time));
    loop {
        run.interrupted = tools.watch.stop_requested();
        let before = tools.clock.now();
        if run.interrupted || until.map_or(run.bytes >= length, |until| before >= until) {
            break;
        }
        let at = match flow.order {
            peerlane_results::Order::Sequential => run.bytes % length,
            peerlane_results::Order::Random => random.below((length / block).max(1)) * block,
        };
        let part = &mut bytes[..usize::try_from(block.min(length - at)).unwrap_or(0)];
        read_all(source, part, flow.offset.0 + at)?;
        let between = tools.clock.now();
        write_all(&target.file, part, flow.target_offset.0 + at)?;
        let after = tools.clock.now();
        run.read.saturating_record(between.since(before).0);
        run.write.saturating_record(after.since(between).0);
        run.block.saturating_record(after.since(before).0);
        run.first_done.get_or_insert(after);
        run.bytes += part.len() as u64;
        looks.note(after, run.bytes);
        written.insert(at..at + part.len() as u64);
    }
    rustix::fs::fdatasync(&target.file)
        .map_err(|errno| failure(Role::Target, Action::Flush, 0, 0, errno))?;
    run.end = tools.clock.now();
    run.pace = looks.all();
    Ok((run, written))
}

/// Reads all of it by the calls of the system.
pub(super) fn read_all(file: &Opened, bytes: &mut [u8], offset: u64) -> Result<(), MeasureError> {
    let (mut done, length) = (0, bytes.len() as u64);
    while done < bytes.len() {
        match pread(&file.file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(failure(Role::Source, Action::Read, offset, length, Errno::IO)),
            Ok(moved) => done += moved,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(Role::Source, Action::Read, offset, length, errno)),
        }
    }
    Ok(())
}

/// Writes all of it by the calls of the system.
pub(super) fn write_all(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<(), MeasureError> {
    let (mut done, length) = (0, bytes.len() as u64);
    while done < bytes.len() {
        match pwrite(file.as_fd(), &bytes[done..], offset + done as u64) {
            Ok(0) => {
                return Err(failure(Role::Target, Action::Write, offset, length, Errno::NOSPC));
            }
            Ok(moved) => done += moved,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(Role::Target, Action::Write, offset, length, errno)),
        }
    }
    Ok(())
}

fn failure(role: Role, action: Action, offset: u64, length: u64, errno: Errno) -> MeasureError {
    let cause = Cause::of(errno, action, peerlane_results::MemoryKind::Host);
    RequestError::from(Failure { role, action, offset, length, cause }).into()
}

/// Makes the page cache forget a file, so that a read of it reaches the drive.
pub(super) fn forget(file: impl AsFd, offset: u64, length: Bytes) {
    // What stays makes the baseline faster, never slower.
    let _ = fadvise(file, offset, std::num::NonZeroU64::new(length.0), Advice::DontNeed);
}
