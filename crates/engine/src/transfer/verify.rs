//! Compares source and target after a copy, both read by host memory: another way than the copy's.
//!
//! All of it, or a sample: first and last page and one at a random place of every stretch between.
//! [`verify`] works on a ring that exists already; [`verify_ends`] opens two endpoints by itself.
//! Memory in use does not grow with the length.

mod ends;
mod tally;

use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role};
use crate::io::random::Random;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out, carry_until};
use crate::io::ring::{Action, FileId, RegionId, Ring};
use crate::io::watch::Watch;
use crate::transfer::relay::Transfer;
pub use ends::{VerifyAsked, VerifyEndsError, verify_ends};
use tally::CompareTally;

/// The smallest unit that is read and counted, in bytes, unless a block is larger.
const PAGE: u64 = 4096;

/// The most that one request reads, in bytes.
const REQUEST_MAX: u64 = 1 << 20;

/// Pairs of requests in flight at most.
const LANES: u64 = 16;

/// Pages of a sample: these, one more for each [`SAMPLE_STRETCH`], never more than [`SAMPLE_MAX`].
const SAMPLE_MIN: u64 = 32;
const SAMPLE_STRETCH: u64 = 64 << 20;
const SAMPLE_MAX: u64 = 4096;

/// Input of a comparison. Offsets, lengths and blocks are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparisonRequest {
    /// The expected content.
    pub source: FileId,
    /// The content to check.
    pub target: FileId,
    /// Offset in the source, a multiple of its block.
    pub source_offset: u64,
    /// Offset in the target, a multiple of its block.
    pub target_offset: u64,
    /// Bytes to compare; nothing behind them counts.
    pub length: u64,
    /// Block size of the source.
    pub source_block: u64,
    /// Block size of the target.
    pub target_block: u64,
    /// Part that is compared.
    pub coverage: Coverage,
    /// Two regions of host memory: two pages or blocks each at least; 16 MiB each read at full speed.
    pub hosts: [RegionId; 2],
    /// Set when digests are made.
    pub digests: Digests,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

impl ComparisonRequest {
    /// Of all that a transfer moved, by the files that its source and its target are compared by; no digests.
    pub fn new(
        transfer: &Transfer,
        [source, target]: [FileId; 2],
        coverage: Coverage,
        hosts: [RegionId; 2],
    ) -> Self {
        Self {
            source,
            target,
            source_offset: transfer.source_offset,
            target_offset: transfer.target_offset,
            length: transfer.length,
            source_block: transfer.source_block,
            target_block: transfer.target_block,
            coverage,
            hosts,
            digests: Digests::Left,
            deadline: transfer.deadline,
        }
    }
}

/// Part of the content that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// First and last page and a sample between, by a seed.
    Sample {
        /// Decides which pages.
        seed: u64,
    },
    /// Every byte.
    Full,
}

/// Choice of digests of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digests {
    /// Only compared.
    Left,
    /// Compared and hashed.
    Made,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes compared, each counted once.
    pub bytes: u64,
    /// Pages (4 KiB, or the larger block) that differ.
    pub mismatches: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// A watch asked for the end before all was compared.
    pub interrupted: bool,
    /// Time that a CPU spent comparing and hashing; reads were under way meanwhile.
    pub comparing: Nanos,
    /// Digests of the compared content of source and target, by xxh3 of 64 bits. `None` if none
    /// was asked for.
    pub digests: Option<[u64; 2]>,
}

/// A difference between source and target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset in the copy of the first byte that differs.
    pub offset: u64,
    /// From there to the last byte that differs in the same page.
    pub length: u64,
    /// Up to 16 bytes of the source from there.
    pub source_bytes: Vec<u8>,
    /// As many of the target.
    pub target_bytes: Vec<u8>,
}

/// Reason why a comparison came to no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The blocks are not powers of two, or the host memory does not hold two pages.
    #[error(
        "cannot compare source and target: {length} bytes of host memory do not hold two pages"
    )]
    Shape {
        /// Length of the host memory that there is.
        length: u64,
    },
    /// A request came to no good end.
    #[error("cannot compare source and target")]
    Request(#[from] RequestError),
}

/// Compares source and target: while a part of them is compared, the next one is read.
///
/// # Errors
/// [`VerifyError`]; a difference is not an error but a result.
pub fn verify<R: Ring>(
    ring: &mut R,
    comparison: &ComparisonRequest,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Verified, VerifyError> {
    let room = |region| ring.host_bytes(region).map_or(0, |bytes| bytes.len() as u64);
    let host = comparison.hosts.into_iter().map(room).min().unwrap_or(0);
    let layout = RegionLayout::new(comparison, host).ok_or(VerifyError::Shape { length: host })?;
    let mut stretches = Stretches::new(comparison, &layout);
    let total = Bytes(stretches.bytes());
    let mut tally = CompareTally::new(comparison, layout.page);
    let nothing = Stretch { offset: 0, length: 0 };
    let mut requests: Vec<Request> = (comparison.hosts.into_iter())
        .flat_map(|region| (0..layout.lanes as u64).map(move |lane| (region, lane)))
        .flat_map(|(region, lane)| pair(comparison, &layout, region, lane, nothing))
        .collect();
    let half = layout.lanes * 2;
    watch.begin(Bytes::ZERO, total);
    stretches.fill(&mut requests[..half], comparison, &layout, comparison.hosts[0]);
    for turn in 0.. {
        let current = if turn % 2 == 0 { 0..half } else { half..2 * half };
        let next = half - current.start..2 * half - current.start;
        if requests[current.start].need == 0 {
            break;
        }
        tally.verified.interrupted = watch.stop_requested();
        if tally.verified.interrupted {
            carry_out(ring, &mut requests, clock, comparison.deadline)?;
            break;
        }
        let region = comparison.hosts[(turn + 1) % 2];
        stretches.fill(&mut requests[next], comparison, &layout, region);
        carry_until(ring, &mut requests, current.clone(), clock, comparison.deadline)?;
        let start = clock.now();
        let bytes =
            ring.host_bytes(comparison.hosts[turn % 2]).ok_or(VerifyError::Shape { length: 0 })?;
        for pair in requests[current].chunks_exact(2) {
            tally.compare(bytes, pair);
        }
        tally.verified.comparing = tally.verified.comparing.after(clock.now().since(start));
        watch.compared(Bytes(tally.verified.bytes), total);
    }
    Ok(tally.end())
}

/// Parts in a sample of this many bytes.
pub(crate) fn sample_size(length: u64) -> u64 {
    (SAMPLE_MIN + length / SAMPLE_STRETCH).min(SAMPLE_MAX)
}

/// Use of each host region: lanes of two parts each, for source and target.
#[derive(Debug, Clone, Copy)]
struct RegionLayout {
    page: u64,
    /// Bytes of one part and of one request.
    part: u64,
    lanes: usize,
}

impl RegionLayout {
    fn new(comparison: &ComparisonRequest, host: u64) -> Option<Self> {
        let blocks = [comparison.source_block, comparison.target_block];
        if !blocks.iter().all(|block| block.is_power_of_two()) {
            return None;
        }
        let page = blocks.into_iter().fold(PAGE, u64::max);
        let lanes = (host / (2 * page)).min(LANES);
        let most = (host / (2 * lanes.max(1)) / page * page).min(REQUEST_MAX.max(page));
        let part = match comparison.coverage {
            Coverage::Full => most,
            Coverage::Sample { .. } => page,
        };
        (lanes > 0).then_some(Self { page, part, lanes: usize::try_from(lanes).ok()? })
    }
}

/// A stretch of the copy that is compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    offset: u64,
    length: u64,
}

/// The stretches to compare, in order, none twice.
#[derive(Debug)]
struct Stretches {
    length: u64,
    part: u64,
    /// Parts in all.
    parts: u64,
    /// Parts to compare, spread evenly.
    picks: u64,
    next: u64,
    random: Option<Random>,
}

impl Stretches {
    fn new(comparison: &ComparisonRequest, layout: &RegionLayout) -> Self {
        let (length, part) = (comparison.length, layout.part);
        let parts = length.div_ceil(part);
        let sample = sample_size(length);
        let (picks, random) = match comparison.coverage {
            Coverage::Full => (parts, None),
            Coverage::Sample { seed } => (sample.min(parts), Some(Random::new(seed))),
        };
        Self { length, part, parts, picks, next: 0, random }
    }

    /// Bytes of all picks; the last part, which may be short, is always one of them.
    fn bytes(&self) -> u64 {
        let cut = self.parts * self.part - self.length;
        (self.picks * self.part).saturating_sub(cut)
    }
}

impl Stretches {
    /// Makes the requests of one host region those of the next stretches; behind the last they need
    /// nothing.
    fn fill(
        &mut self,
        requests: &mut [Request],
        comparison: &ComparisonRequest,
        layout: &RegionLayout,
        region: RegionId,
    ) {
        for (lane, requests) in (0..).zip(requests.chunks_exact_mut(2)) {
            let stretch = self.next().unwrap_or(Stretch { offset: 0, length: 0 });
            requests.copy_from_slice(&pair(comparison, layout, region, lane, stretch));
        }
    }
}

impl Iterator for Stretches {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        if self.next >= self.picks {
            return None;
        }
        let bound = |pick: u64| {
            let wide = u128::from(self.parts) * u128::from(pick) / u128::from(self.picks);
            u64::try_from(wide).unwrap_or(u64::MAX)
        };
        let (start, end) = (bound(self.next), bound(self.next + 1));
        let index = match &mut self.random {
            _ if self.next == 0 => 0,
            _ if self.next + 1 == self.picks => self.parts - 1,
            Some(random) => start + random.below(end - start),
            None => start,
        };
        self.next += 1;
        let offset = index * self.part;
        Some(Stretch { offset, length: self.part.min(self.length - offset) })
    }
}

fn pair(
    comparison: &ComparisonRequest,
    layout: &RegionLayout,
    region: RegionId,
    lane: u64,
    stretch: Stretch,
) -> [Request; 2] {
    let ComparisonRequest { source_block, target_block, source_offset, target_offset, .. } =
        comparison;
    let read = |role, file, start: &u64, block: &u64, place| {
        let from = FilePlace { file, offset: start + stretch.offset, block: *block };
        let place = MemoryPlace::host(region, place);
        Request::new(role, Action::Read, from, place, stretch.length)
    };
    let place = 2 * lane * layout.part;
    let source = read(Role::Source, comparison.source, source_offset, source_block, place);
    let place = place + layout.part;
    let target = read(Role::Target, comparison.target, target_offset, target_block, place);
    [source, target]
}

#[cfg(test)]
mod tests;
