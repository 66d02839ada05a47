//! Clears the device memory that a copy used, whatever became of the copy.
//!
//! The first blocks of the copy are borrowed for it; the journal does not claim them meanwhile, and
//! only a block that was written back, compared and flushed is claimed again.

use peerlane_results::{MemoryKind, PhaseKind, Scrubbed, Tail, Warning};
use peerlane_units::Bytes;

use super::attempt::AttachedMemory;
use super::options::Scrub;
use super::{CopyError, CopyJob, Tools, check};
use crate::io::clock::Clock;
use crate::io::failure::{Cause, RequestError, error_in_words};
use crate::io::ring::Ring as _;
use crate::transfer::prove::{self, ProofCause, ProofFailure, ProofSetup, TargetState};
use crate::transfer::scrub::{
    BORROWED_MAX, ScrubCause, ScrubFailure, ScrubSetup, ScrubStep, scrub,
};

/// Clears the memory, if it is a device's. Memory that could not be cleared is a warning.
///
/// # Errors
/// When the target is not as it was.
pub(super) fn clear_memory(
    job: &mut CopyJob<'_>,
    ready: &mut AttachedMemory,
    tools: &mut Tools<'_>,
) -> Result<Scrubbed, CopyError> {
    let not = |reason: &str| Scrubbed { bytes: Bytes::ZERO, reason: reason.to_owned() };
    if ready.gpu.is_some() && tools.options.scrub != Scrub::Never {
        return Ok(match clear_gpu(ready, tools) {
            Ok(bytes) => Scrubbed { bytes, reason: "zeroes by the GPU's copy engine".to_owned() },
            Err(reason) => job.account.not_scrubbed(reason, tools),
        });
    }
    if ready.transfer.memory == MemoryKind::Host && ready.gpu.is_none() {
        return Ok(not("host memory, which the kernel clears"));
    }
    if ready.transfer.length == 0 {
        return Ok(not("nothing was copied"));
    }
    if tools.options.scrub == Scrub::Never {
        return Ok(not("`--scrub never`"));
    }
    let setup = setup(ready);
    let done = job.target.recorder.done().clone();
    let mut unclaimed = done.clone();
    unclaimed.subtract(0..setup.length);
    if let Err(error) = job.target.claim(&unclaimed) {
        return Ok(job.account.not_scrubbed(error_in_words(&error), tools));
    }
    let cleared = clear_durably(ready, &setup, tools.clock);
    match &cleared {
        Err(failure) if !failure.is_restored => {
            job.target.record_anew(unclaimed, tools);
        }
        _ => job.target.claim(&done)?,
    }
    match cleared {
        Ok(bytes) => Ok(Scrubbed { bytes, reason: how(&setup) }),
        Err(failure) if failure.is_restored => {
            Ok(job.account.not_scrubbed(error_in_words(&failure), tools))
        }
        Err(source) => {
            let path = &job.plan.target.path;
            let words = error_in_words(&source);
            tools.watch.caution(&format!("{path} may hold zeroes at its start: {words}"));
            Err(CopyError::Scrub { path: path.into(), source })
        }
    }
}

/// Clears memory of a GPU by its copy engine, without help of the target; says why it is not cleared.
fn clear_gpu(ready: &mut AttachedMemory, tools: &Tools<'_>) -> Result<Bytes, String> {
    match (ready.ring.in_flight(), &mut ready.gpu) {
        (0, Some(gpu)) => {
            ready.ring.phase(PhaseKind::Scrub);
            gpu.clear(tools.clock, tools.deadline).map_err(|stopped| error_in_words(&stopped))
        }
        (in_flight, _) => Err(format!("{in_flight} requests are in flight")),
    }
}

/// Clears the memory, and flushes the bytes written back to the target for it.
fn clear_durably(
    ready: &mut AttachedMemory,
    setup: &ScrubSetup,
    clock: &dyn Clock,
) -> Result<Bytes, ScrubFailure> {
    ready.ring.phase(PhaseKind::Scrub);
    let cleared = scrub(&mut ready.ring, setup, clock);
    match &cleared {
        Err(failure) if !failure.is_restored || failure.step == ScrubStep::Keep => return cleared,
        _ => {}
    }
    check::flush(ready, clock).map_err(|error| ScrubFailure {
        step: ScrubStep::PutBack,
        cause: ScrubCause::Request(error),
        is_restored: false,
    })?;
    cleared
}

/// Clears the bytes of a failed proof in the memory, out of the same block of the target, which no
/// journal claims then.
pub(super) fn after_proof(
    ready: &mut AttachedMemory,
    proof: &ProofSetup,
    failure: ProofFailure,
    tools: &mut Tools<'_>,
) -> ProofFailure {
    // The first step is the first to put anything there, which a read that is refused does not.
    let is_empty = failure.step == prove::ProofStep::ProbeTarget && is_refusal(&failure.cause);
    if tools.options.scrub == Scrub::Never || is_empty {
        return failure;
    }
    if ready.gpu.is_some() {
        if let Err(reason) = clear_gpu(ready, tools) {
            tools.watch.caution(&Warning::NotScrubbed { reason }.to_string());
        }
        return failure;
    }
    let setup = ScrubSetup {
        target: proof.target,
        target_offset: proof.target_offset,
        length: proof.length,
        block: proof.target_block,
        memory: proof.memory,
        memory_kind: proof.memory_kind,
        memory_length: proof.length,
        host: proof.host,
        deadline: proof.deadline,
    };
    ready.ring.phase(PhaseKind::Scrub);
    match scrub(&mut ready.ring, &setup, tools.clock) {
        Ok(_) => failure,
        Err(unclear) => {
            let reason = error_in_words(&unclear);
            tools.watch.caution(&Warning::NotScrubbed { reason }.to_string());
            let target =
                if unclear.is_restored { failure.target } else { TargetState::NotRestored };
            ProofFailure { target, ..failure }
        }
    }
}

/// True when the memory was cleared before the scrub failed.
pub(super) fn is_cleared(error: &CopyError) -> bool {
    let CopyError::Scrub { source, .. } = error else { return false };
    matches!(source.step, ScrubStep::PutBack | ScrubStep::Compare)
}

fn is_refusal(cause: &ProofCause) -> bool {
    let ProofCause::Request(RequestError::Failed(failure)) = cause else { return false };
    matches!(failure.cause, Cause::RouteRefused | Cause::MemoryNotAccepted)
}

/// All slots, out of as many blocks as one request may carry.
fn setup(ready: &AttachedMemory) -> ScrubSetup {
    let transfer = ready.transfer;
    let block = transfer.target_block;
    // What lies behind the copy is not the copy's, as for a proof, which has a whole block at least.
    let whole = match transfer.tail {
        Tail::RoundUpAndCut => transfer.length.next_multiple_of(block),
        _ => transfer.length / block * block,
    };
    let length = whole.min(BORROWED_MAX).min(transfer.request) / block * block;
    ScrubSetup {
        target: transfer.target,
        target_offset: transfer.target_offset,
        length,
        block,
        memory: transfer.region,
        memory_kind: transfer.memory,
        memory_length: u64::from(transfer.slots) * transfer.slot_stride / block * block,
        host: ready.host,
        deadline: transfer.deadline,
    }
}

fn how(setup: &ScrubSetup) -> String {
    format!(
        "zeroes read by DMA from the first {} of the target's range, which hold its content again",
        Bytes(setup.length)
    )
}
