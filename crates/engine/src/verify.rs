//! Compares source and target after a copy, both read by host memory: another way than the copy's.
//!
//! All of it, or a sample: first and last page and one at a random place of every stretch between.
//! Memory in use does not grow with the length.

use peerlane_results::MemoryKind;
use peerlane_units::Nanos;

use crate::failure::{RequestError, Role};
use crate::random::Random;
use crate::request::{End, Progress, Request, carry_out};
use crate::ring::{Action, FileId, RegionId, Ring};
use crate::{Clock, Watch};

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

/// What to compare. Offsets, lengths and blocks are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// What it should be.
    pub source: FileId,
    /// What is looked at.
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
    /// How much of it.
    pub coverage: Coverage,
    /// Host memory: two pages or blocks at least; 32 MiB read at full speed.
    pub host: RegionId,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// How much is compared.
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

/// What a comparison showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Bytes compared, each counted once.
    pub bytes: u64,
    /// Pages (4 KiB, or the larger block) that differ.
    pub mismatches: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// A watch asked for the end before all was compared.
    pub interrupted: bool,
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

/// Why a comparison came to no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The blocks are no powers of two, or the host memory does not hold two pages.
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

/// Compares source and target.
///
/// # Errors
/// [`VerifyError`]; a difference is no error but a result.
pub fn verify<R: Ring>(
    ring: &mut R,
    comparison: &Comparison,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Verified, VerifyError> {
    let host = ring.host_bytes(comparison.host).map_or(0, |bytes| bytes.len() as u64);
    let layout = Layout::of(comparison, host).ok_or(VerifyError::Shape { length: host })?;
    let mut stretches = Stretches::of(comparison, &layout);
    let mut verified = Verified { bytes: 0, mismatches: 0, first: None, interrupted: false };
    let mut requests = Vec::with_capacity(layout.lanes * 2);
    loop {
        requests.clear();
        for lane in 0..layout.lanes {
            let Some(stretch) = stretches.next() else { break };
            requests.extend(pair(comparison, &layout, lane as u64, stretch));
        }
        if requests.is_empty() {
            return Ok(verified);
        }
        if watch.stop_requested() {
            verified.interrupted = true;
            return Ok(verified);
        }
        carry_out(ring, &mut requests, clock, comparison.deadline)?;
        let bytes = ring.host_bytes(comparison.host).ok_or(VerifyError::Shape { length: 0 })?;
        for pair in requests.chunks_exact(2) {
            compare(bytes, pair, comparison.source_offset, layout.page, &mut verified);
        }
    }
}

/// How the host memory is used: lanes of two parts each, for source and target.
#[derive(Debug, Clone, Copy)]
struct Layout {
    page: u64,
    /// Bytes of one part and of one request.
    part: u64,
    lanes: usize,
}

impl Layout {
    fn of(comparison: &Comparison, host: u64) -> Option<Self> {
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
    fn of(comparison: &Comparison, layout: &Layout) -> Self {
        let (length, part) = (comparison.length, layout.part);
        let parts = length.div_ceil(part);
        let sample = (SAMPLE_MIN + length / SAMPLE_STRETCH).min(SAMPLE_MAX);
        let (picks, random) = match comparison.coverage {
            Coverage::Full => (parts, None),
            Coverage::Sample { seed } => (sample.min(parts), Some(Random::new(seed))),
        };
        Self { length, part, parts, picks, next: 0, random }
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

fn pair(comparison: &Comparison, layout: &Layout, lane: u64, stretch: Stretch) -> [Request; 2] {
    let source = Request {
        role: Role::Source,
        action: Action::Read,
        file: comparison.source,
        file_offset: comparison.source_offset + stretch.offset,
        region: comparison.host,
        region_offset: 2 * lane * layout.part,
        memory: MemoryKind::Host,
        need: stretch.length,
        ask: stretch.length.next_multiple_of(comparison.source_block),
        block: comparison.source_block,
        end: End::Fails,
        progress: Progress::default(),
    };
    let target = Request {
        role: Role::Target,
        file: comparison.target,
        file_offset: comparison.target_offset + stretch.offset,
        region_offset: source.region_offset + layout.part,
        ask: stretch.length.next_multiple_of(comparison.target_block),
        block: comparison.target_block,
        ..source
    };
    [source, target]
}

/// Compares what a pair of requests has read.
fn compare(bytes: &[u8], pair: &[Request], source_offset: u64, page: u64, verified: &mut Verified) {
    let [source, target] = pair else { return };
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let part = |request: &Request| {
        let start = index(request.region_offset);
        &bytes[start..start + index(request.need)]
    };
    let (expected, found) = (part(source), part(target));
    verified.bytes += source.need;
    if expected == found {
        return;
    }
    let pages = expected.chunks(index(page)).zip(found.chunks(index(page)));
    for (number, (expected, found)) in pages.enumerate() {
        if expected == found {
            continue;
        }
        verified.mismatches += 1;
        if verified.first.is_none() {
            let offset = source.file_offset - source_offset + number as u64 * page;
            verified.first = Mismatch::between(expected, found, offset);
        }
    }
}

impl Mismatch {
    fn between(expected: &[u8], found: &[u8], offset: u64) -> Option<Self> {
        let differs = |index: &usize| expected[*index] != found[*index];
        let first = (0..expected.len()).find(differs)?;
        let last = (0..expected.len()).rfind(differs)?;
        let shown = first..expected.len().min(first + 16);
        Some(Self {
            offset: offset + first as u64,
            length: (last - first) as u64 + 1,
            source_bytes: expected[shown.clone()].to_vec(),
            target_bytes: found[shown].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
