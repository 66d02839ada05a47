//! Proof, flush and verification, by the ring that moves the payload.

use peerlane_memory::host;
use peerlane_results::{Evidence, MemoryKind, Plan, Verification, VerifyMode};
use peerlane_units::Bytes;

use super::attempt::{Ready, error_in_words};
use super::{CopyError, Tools};
use crate::Clock;
use crate::failure::{Cause, Failure, RequestError, Role, Stuck};
use crate::prove::{LENGTH_MAX, ProofCause, ProofFailure, ProofSetup, TargetState, prove_route};
use crate::request::LONGEST_SLEEP;
use crate::ring::{Action, Operation, Ring};
use crate::verify::{self, Comparison, Coverage, Digests};

/// Why a route is not proved.
#[derive(Debug)]
pub(super) enum NotProved {
    /// This memory does not serve; another may.
    Rejected { reason: String, hint: Option<String> },
    /// No other memory would help.
    Ended(Box<ProofFailure>),
}

/// Proves that data arrive by this route. Host memory needs no proof: verification is the same way.
pub(super) fn prove(
    ready: &mut Ready,
    seed: u64,
    clock: &dyn Clock,
) -> Result<Vec<Evidence>, NotProved> {
    let transfer = ready.transfer;
    if transfer.memory == MemoryKind::Host || transfer.length == 0 {
        return Ok(Vec::new());
    }
    // Powers of two, so the larger is a multiple of both.
    let block = transfer.source_block.max(transfer.target_block);
    let most = LENGTH_MAX.min(transfer.request).max(block);
    let length = transfer.length.next_multiple_of(block).min(most / block * block);
    let setup = ProofSetup {
        source: transfer.source,
        target: transfer.target,
        memory: transfer.region,
        memory_kind: transfer.memory,
        slot_offset: 0,
        host: ready.host,
        source_offset: transfer.source_offset,
        target_offset: transfer.target_offset,
        length,
        payload: transfer.length.min(length),
        source_block: transfer.source_block,
        target_block: transfer.target_block,
        seed,
        deadline: transfer.deadline,
    };
    match prove_route(&mut ready.ring, &setup, clock) {
        Ok(proof) => Ok(proof.evidence),
        Err(failure) if failure.target == TargetState::NotRestored || is_of_an_end(&failure) => {
            Err(NotProved::Ended(Box::new(failure)))
        }
        Err(failure) => {
            let hint = match &failure.cause {
                ProofCause::Request(error) => error.hint().map(str::to_owned),
                _ => Some("`dmesg | tail` shows IOMMU faults and bus errors".to_owned()),
            };
            Err(NotProved::Rejected { reason: error_in_words(&failure), hint })
        }
    }
}

/// Whether a drive itself failed, whatever the memory.
fn is_of_an_end(failure: &ProofFailure) -> bool {
    match &failure.cause {
        ProofCause::Request(RequestError::Failed(failure)) => !matches!(
            failure.cause,
            Cause::RouteRefused
                | Cause::MemoryNotAccepted
                | Cause::ProviderGone
                | Cause::NoProgress { .. }
                | Cause::Other { .. }
        ),
        ProofCause::Request(RequestError::Stuck(_)) | ProofCause::Differs { .. } => false,
        _ => true,
    }
}

/// Makes what was written durable, waiting no longer than the deadline.
pub(super) fn flush(ready: &mut Ready, clock: &dyn Clock) -> Result<(), RequestError> {
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
    ring.push(operation)?;
    let (role, action) = (Role::Target, Action::Flush);
    let start = clock.now();
    loop {
        ring.submit(1, LONGEST_SLEEP)?;
        if let Some(completion) = ring.pop() {
            return completion.result.map(drop).map_err(|errno| {
                let cause = Cause::of(errno, action, MemoryKind::Host);
                Failure { role, action, offset: 0, length: 0, cause }.into()
            });
        }
        let age = clock.now().since(start);
        if age >= transfer.deadline {
            return Err(Stuck { role, action, offset: 0, age }.into());
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
    let coverage = match mode {
        VerifyMode::None => {
            return Ok(Verification { mode, bytes: Bytes::ZERO, mismatches: 0 });
        }
        VerifyMode::Sample => Coverage::Sample { seed: tools.seed },
        VerifyMode::Full => Coverage::Full,
    };
    let transfer = ready.transfer;
    // While one part is compared, the next is on its way into the other region.
    let room = Bytes(ready.ring.region_length(ready.host).unwrap_or(0));
    let second = ready.ring.attach_region(host::allocate(room)?);
    let comparison = Comparison {
        source: transfer.source,
        target: transfer.target,
        source_offset: transfer.source_offset,
        target_offset: transfer.target_offset,
        length: transfer.length,
        source_block: transfer.source_block,
        target_block: transfer.target_block,
        coverage,
        hosts: [ready.host, second],
        digests: Digests::Left,
        deadline: transfer.deadline,
    };
    let path = || plan.target.path.clone().into();
    let verified = verify::verify(&mut ready.ring, &comparison, tools.clock, tools.watch)
        .map_err(|source| CopyError::Check { path: path(), source })?;
    if let Some(first) = verified.first {
        return Err(CopyError::Differs {
            path: path(),
            offset: transfer.target_offset + first.offset,
            length: first.length,
            pages: verified.mismatches,
            expected: first.source_bytes,
            found: first.target_bytes,
        });
    }
    if verified.interrupted {
        let total = Bytes(transfer.length);
        return Err(CopyError::Interrupted { done: total, total, journal: None });
    }
    Ok(Verification { mode, bytes: Bytes(verified.bytes), mismatches: verified.mismatches })
}
