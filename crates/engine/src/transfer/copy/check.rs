//! Proof, flush and verification, by the ring that moves the payload.

use std::collections::BTreeSet;
use std::ops::Range;

use peerlane_results::{
    MemoryKind, PhaseKind, Plan, RouteEvidence, RouteVerdict, Tail, Verification, VerifyMode,
};
use peerlane_units::{Bytes, Nanos};

use super::attempt::AttachedMemory;
use super::twin::{self, StagedCopy};
use super::{CopyError, Tools, claims};
use crate::endpoints::machine::Machine;
use crate::io::clock::Clock;
use crate::io::failure::{Cause, RequestError, RequestFailure, Role, Stuck, error_in_words};
use crate::io::ranges::RangeSet;
use crate::io::request::{LONGEST_SLEEP, fresh_tag};
use crate::io::ring::{Action, FileId, Operation, RegionId, Ring};
use crate::transfer::prove::{
    LENGTH_MAX, Proof, ProofCause, ProofFailure, ProofSetup, TargetState, prove_route,
};
use crate::transfer::relay::Transfer;
use crate::transfer::stages::StageRow;
use crate::transfer::verify::{self, ComparisonRequest, Coverage, Mismatch, Verified, VerifyError};

/// Reason why a route is not proved.
#[derive(Debug)]
pub(crate) enum NotProved {
    /// This memory does not serve; another may.
    Rejected { reason: String, hint: Option<String> },
    /// No other memory would help.
    Ended(Box<ProofFailure>),
}

/// Proves that data arrive by this route. Host memory needs no proof: verification is the same way.
pub(super) fn prove(
    ready: &mut AttachedMemory,
    seed: u64,
    tools: &mut Tools<'_>,
) -> Result<Vec<RouteEvidence>, NotProved> {
    let Some(setup) = setup(&ready.transfer, ready.host, seed)? else { return Ok(Vec::new()) };
    // A GPU was read into before, where either end has data.
    let setup = ProofSetup { probes: ready.gpu.is_none(), ..setup };
    ready.ring.phase(PhaseKind::Prove);
    judge(prove_route(&mut ready.ring, &setup, tools.clock))
}

/// Prepares a proof; `None` if there is nothing to prove.
pub(crate) fn setup(
    transfer: &Transfer,
    host: RegionId,
    seed: u64,
) -> Result<Option<ProofSetup>, NotProved> {
    if transfer.memory == MemoryKind::Host || transfer.length == 0 {
        return Ok(None);
    }
    // Powers of two, so the larger is a multiple of both.
    let block = transfer.source_block.max(transfer.target_block);
    if block > LENGTH_MAX {
        let most = Bytes(LENGTH_MAX);
        let reason = format!("a block of {} is longer than a proof, {most} at most", Bytes(block));
        return Err(NotProved::Rejected { reason, hint: None });
    }
    let most = LENGTH_MAX.min(transfer.request).max(block);
    // What lies behind the copy is not the copy's, and could not be given back after a loss of power;
    // a file that is made for the copy has whole blocks of its own, and is cut in the end.
    let whole = match transfer.tail {
        Tail::RoundUpAndCut => transfer.length.next_multiple_of(block),
        _ => transfer.length / block * block,
    };
    if whole == 0 {
        let reason = format!(
            "{} bytes are less than a block of {block}: a proof would write next to them",
            transfer.length
        );
        return Err(NotProved::Rejected { reason, hint: None });
    }
    let length = whole.min(most / block * block);
    Ok(Some(ProofSetup {
        source: transfer.source,
        target: transfer.target,
        memory: transfer.region,
        memory_kind: transfer.memory,
        slot_offset: 0,
        host,
        source_offset: transfer.source_offset,
        target_offset: transfer.target_offset,
        length,
        payload: transfer.length.min(length),
        source_block: transfer.source_block,
        target_block: transfer.target_block,
        probes: true,
        seed,
        deadline: transfer.deadline,
    }))
}

fn judge(proved: Result<Proof, ProofFailure>) -> Result<Vec<RouteEvidence>, NotProved> {
    match proved {
        // It shows that data arrive; counters say by which route.
        Ok(proof) => {
            let evidence = proof.evidence.into_iter();
            Ok(evidence.map(|one| one.says(RouteVerdict::Consistent)).collect())
        }
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

/// True when a drive itself failed, whatever the memory.
fn is_of_an_end(failure: &ProofFailure) -> bool {
    match &failure.cause {
        ProofCause::Request(RequestError::Failed(failure)) => match failure.cause {
            Cause::RouteRefused
            | Cause::MemoryNotAccepted
            | Cause::ProviderGone
            | Cause::NoProgress { .. }
            | Cause::Other { .. } => false,
            Cause::Nvme { status } => !status.is_of_memory(),
            _ => true,
        },
        ProofCause::Request(RequestError::Stuck(_)) | ProofCause::Differs { .. } => false,
        _ => true,
    }
}

/// Makes the writes durable, waiting no longer than the deadline.
pub(super) fn flush(ready: &mut AttachedMemory, clock: &dyn Clock) -> Result<(), RequestError> {
    ready.ring.phase(PhaseKind::Flush);
    let transfer = &ready.transfer;
    let (file, region) = (transfer.target, transfer.region);
    flush_file(&mut ready.ring, file, region, transfer.deadline, clock)
}

/// The same for any file of the ring; a region of the ring is named with it and not used.
pub(crate) fn flush_file<R: Ring>(
    ring: &mut R,
    file: FileId,
    region: RegionId,
    deadline: Nanos,
    clock: &dyn Clock,
) -> Result<(), RequestError> {
    let operation = Operation {
        action: Action::Flush,
        file,
        file_offset: 0,
        region,
        region_offset: 0,
        length: 0,
        tag: fresh_tag(),
    };
    ring.push(operation)?;
    let (role, action) = (Role::Target, Action::Flush);
    let start = clock.now();
    loop {
        // Before the kernel is asked: a program that was stopped for a while finds everything old.
        let age = clock.now().since(start);
        ring.submit(1, LONGEST_SLEEP)?;
        // Late answers to requests that were given up are passed over.
        let answers = std::iter::from_fn(|| ring.pop());
        if let Some(completion) = answers.into_iter().find(|answer| answer.tag == operation.tag) {
            return completion.result.map(drop).map_err(|errno| {
                let cause = Cause::from_errno(errno, action, MemoryKind::Host);
                RequestFailure { role, action, offset: 0, length: 0, cause }.into()
            });
        }
        if age >= deadline {
            return Err(Stuck { role, action, offset: 0, age }.into());
        }
    }
}

/// Compares source and target by way of host memory; a sample has as many blocks from earlier runs
/// as from the rest.
pub(super) fn verify(
    machine: &dyn Machine,
    ready: &mut AttachedMemory,
    plan: &Plan,
    before: &RangeSet,
    stages: &StageRow,
    tools: &mut Tools<'_>,
) -> Result<Verification, CopyError> {
    let mode = plan.asked.verify;
    if let (true, Some(chunk)) = (stages.changes_content(), stages.chunk()) {
        let (transfer, compared) = (&ready.transfer, ready.compared);
        let copy = StagedCopy { plan, transfer, chunk, compared };
        return twin::verify(machine, &mut ready.ring, &copy, tools);
    }
    let coverage = match mode {
        VerifyMode::None => {
            return Ok(Verification { mode, bytes: Bytes::ZERO, mismatches: 0 });
        }
        VerifyMode::Sample => Coverage::Sample { seed: tools.seed },
        VerifyMode::Full => Coverage::Full,
    };
    ready.ring.phase(PhaseKind::Verify);
    let transfer = ready.transfer;
    // While one part is compared, the next is on its way into the other region.
    let room = Bytes(ready.ring.region_length(ready.host).unwrap_or(0));
    let second = ready.ring.attach_region(machine.host_memory(room)?);
    let comparison =
        ComparisonRequest::new(&transfer, ready.compared, coverage, [ready.host, second]);
    let path = || plan.target.path.clone().into();
    let verified = match coverage {
        Coverage::Sample { seed } if !before.is_empty() => {
            let pieces = sample_of_both(before, &transfer, seed);
            verify_pieces(ready, &comparison, &pieces, tools)
        }
        _ => verify::verify(&mut ready.ring, &comparison, tools.clock, tools.watch),
    };
    let verified = verified.map_err(|source| CopyError::Check { path: path(), source })?;
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

/// First and last block, and samples of equal size from earlier runs and from the rest.
fn sample_of_both(before: &RangeSet, transfer: &Transfer, seed: u64) -> Vec<Range<u64>> {
    let length = transfer.length;
    let unit = transfer.source_block.max(transfer.target_block).max(claims::PAGE);
    let mut rest = RangeSet::new();
    before.missing(0..length).for_each(|range| rest.insert(range));
    let mut chosen = BTreeSet::from([0, length.div_ceil(unit).saturating_sub(1)]);
    for (ranges, seed) in [(before, seed), (&rest, !seed)] {
        let whole = claims::whole_units(ranges, length, unit);
        chosen.extend(claims::random_units(&whole, verify::sample_size(length), seed));
    }
    claims::pieces(&chosen, length, unit)
}

/// Compares pieces that do not touch, up to the first that differs.
fn verify_pieces(
    ready: &mut AttachedMemory,
    whole: &ComparisonRequest,
    pieces: &[Range<u64>],
    tools: &mut Tools<'_>,
) -> Result<Verified, VerifyError> {
    let total = Bytes(pieces.iter().map(|piece| piece.end - piece.start).sum());
    let mut sum = Verified::default();
    tools.watch.begin(Bytes::ZERO, total);
    for piece in pieces {
        sum.interrupted = tools.watch.stop_requested();
        if sum.interrupted || sum.first.is_some() {
            break;
        }
        let part = claims::part_of(whole, piece);
        let verified = verify::verify(&mut ready.ring, &part, tools.clock, &mut ())?;
        sum.bytes += verified.bytes;
        sum.mismatches += verified.mismatches;
        sum.first =
            verified.first.map(|first| Mismatch { offset: piece.start + first.offset, ..first });
        sum.comparing = sum.comparing.after(verified.comparing);
        tools.watch.compared(Bytes(sum.bytes), total);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ring::sim::{Halting, Mood, SimFault, SimFile, SimRegion, SimRing};

    /// Copies `length` bytes from a drive with blocks of 4 KiB to the end of one with blocks of 512.
    fn prove_at_the_end(length: u64) -> (Result<Vec<RouteEvidence>, NotProved>, u64) {
        let mut ring = SimRing::new(16, 1, Mood::default());
        let file = |block| SimFile { bytes: vec![7; 32 << 10], block, ..SimFile::default() };
        let source = ring.attach_file(file(4096)).unwrap();
        let target_offset = (32 << 10) - length.next_multiple_of(512);
        let target = ring.attach_file(file(512)).unwrap();
        let region = |is_device| SimRegion { bytes: vec![0; 48 << 10], is_device };
        let (slots, host) = (ring.attach_region(region(true)), ring.attach_region(region(false)));
        let transfer = Transfer {
            source,
            target,
            region: slots,
            memory: MemoryKind::P2pmem,
            source_offset: 0,
            target_offset,
            length,
            request: 16 << 10,
            slots: 1,
            slot_stride: 16 << 10,
            source_block: 4096,
            target_block: 512,
            tail: Tail::None,
            stages: 0,
            deadline: peerlane_units::Nanos::seconds(1),
        };
        let clock = ring.clock();
        let proved = setup(&transfer, host, 1)
            .and_then(|setup| judge(prove_route(&mut ring, &setup.unwrap(), &clock)));
        let bytes = &ring.file(target).unwrap().bytes;
        let changed = bytes.iter().filter(|&&byte| byte != 7).count();
        (proved, changed as u64)
    }

    /// Flushes a file with a program that stands still for as long as `time` all the while.
    fn flush_halting(file: SimFile, time: Nanos) -> Result<(), RequestError> {
        let mut ring = SimRing::new(4, 1, Mood { early: 512, ..Mood::default() });
        let region = ring.attach_region(SimRegion { bytes: vec![0; 512], is_device: false });
        let (file, clock) = (ring.attach_file(file).unwrap(), ring.clock());
        flush_file(&mut Halting { ring, time }, file, region, Nanos::seconds(1), &clock)
    }

    #[test]
    fn flush_survives_pause_beyond_deadline() {
        let file = SimFile { block: 512, latency: Nanos(300_000_000), ..SimFile::default() };
        for time in [Nanos(0), Nanos::seconds(2)] {
            flush_halting(file.clone(), time).unwrap();
            let hangs = SimFault { action: Action::Flush, offset: 0, errno: None };
            let hanging = SimFile { faults: vec![hangs], ..file.clone() };
            let error = flush_halting(hanging, time).unwrap_err();
            let RequestError::Stuck(stuck) = error else { panic!("{error:?}") };
            assert!(stuck.age >= Nanos::seconds(1), "{stuck}");
        }
    }

    #[test]
    fn device_proof_uses_whole_blocks() {
        let (proved, changed) = prove_at_the_end(4096 + 512);
        assert_eq!((proved.unwrap().len(), changed), (2, 0));
    }

    #[test]
    fn copy_shorter_than_block_is_not_proved() {
        let (proved, changed) = prove_at_the_end(512);
        assert_eq!(changed, 0);
        let Err(NotProved::Rejected { reason, .. }) = proved else { panic!("{proved:?}") };
        assert_eq!(
            reason,
            "512 bytes are less than a block of 4096: a proof would write next to them"
        );
    }
}
