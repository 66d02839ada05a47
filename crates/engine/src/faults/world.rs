//! What outlives a run of the program: drives, content, journals, and what is wrong with them.

use std::ops::Range;

use peerlane_results::Tail;
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::Kind;
use crate::journal;
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::ring::Action;
use crate::ring::sim::{Cache, Lost, Mood, SimFault, SimFile};

/// A copy, its source and its targets.
#[derive(Debug)]
pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) random: Random,
    pub(super) shape: Shape,
    pub(super) source: SimFile,
    /// The source as it was made, and what of it is to be at each target.
    pub(super) full_source: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// The source is a file, which tells its holes.
    pub(super) is_file: bool,
    pub(super) targets: Vec<SimTarget>,
    /// Number of the target that has a fault of its own, where that is what is wrong.
    pub(super) broken: usize,
}

/// One target of the copy.
#[derive(Debug)]
pub(super) struct SimTarget {
    /// Offset of the copy on it, in bytes.
    pub(super) offset: u64,
    pub(super) tail: Tail,
    pub(super) file: SimFile,
    /// Its content before the copy.
    pub(super) before: Vec<u8>,
    /// The text on disk.
    pub(super) journal: Option<Vec<u8>>,
    /// A run reported it complete.
    pub(super) is_complete: bool,
}

impl SimTarget {
    fn draw(random: &mut Random, place: TargetShape, length: u64) -> Self {
        let TargetShape { block, offset, tail } = place;
        let end = (offset + length).next_multiple_of(block);
        let mut before = vec![0; index(end + random.below(3) * block)];
        random.fill(&mut before);
        let file = SimFile { cache: Some(Cache::over(&before)), ..drive(&before, block) };
        Self { offset, tail, file, before, journal: None, is_complete: false }
    }

    /// Its content as it would be after a loss of power now.
    pub(super) fn after_loss(&self, random: &mut Random) -> Vec<u8> {
        let mut file = self.file.clone();
        file.lose_power(random);
        file.bytes
    }

    /// Bytes that the journal claims.
    pub(super) fn claimed(&self) -> u64 {
        let journal = self.journal.as_deref().and_then(|text| journal::decode(text).ok());
        journal.map_or(0, |journal| journal.done.total())
    }
}

/// Sizes that all targets of a copy have in common, in bytes unless they say otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) source_block: u64,
    /// The largest block of any drive.
    pub(super) block: u64,
    pub(super) request: u64,
    pub(super) slots: u32,
    pub(super) entries: u32,
    pub(super) source_offset: u64,
    pub(super) length: u64,
}

/// Where a target begins, and how it ends.
#[derive(Debug, Clone, Copy)]
struct TargetShape {
    block: u64,
    offset: u64,
    tail: Tail,
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[index(random.below(from.len() as u64))]
}

fn drive(bytes: &[u8], block: u64) -> SimFile {
    SimFile {
        bytes: bytes.to_vec(),
        block,
        page_time: Nanos(1000),
        latency: Nanos(20_000),
        ..SimFile::default()
    }
}

impl World {
    pub(super) fn draw(kind: Kind, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = draw_count(&mut random, seed);
        let (shape, places) = draw_shape(&mut random, count);
        let is_file = random.below(2) == 0;
        let Shape { source_offset, length, .. } = shape;
        let mut full_source =
            vec![0; index((source_offset + length).next_multiple_of(shape.source_block))];
        random.fill(&mut full_source);
        if random.below(2) == 0 {
            for hole in draw_holes(&mut random, &shape).iter() {
                full_source[index(source_offset + hole.start)..index(source_offset + hole.end)]
                    .fill(0);
            }
        }
        if is_file && random.below(2) == 0 {
            // A file may end within a block.
            full_source.truncate(index(source_offset + length));
        }
        let payload = full_source[index(source_offset)..index(source_offset + length)].to_vec();
        let target = |place| SimTarget::draw(&mut random, place, length);
        let targets: Vec<SimTarget> = places.into_iter().map(target).collect();
        let broken = if count > 1 { index(random.below(count as u64)) } else { 0 };
        let source = drive(&full_source, shape.source_block);
        Self { kind, random, shape, source, full_source, payload, is_file, targets, broken }
    }

    /// The range that the copy may change of a target.
    pub(super) fn range(&self, target: &SimTarget) -> Range<usize> {
        index(target.offset)..index(target.offset + self.shape.length)
    }

    /// A sector of the copy's range at one end.
    fn sector(&mut self, start: u64) -> u64 {
        start + self.random.below(self.shape.length.max(1))
    }

    /// Puts the faults in place that are there from the start; a wish of the person is `None`.
    pub(super) fn break_things(&mut self) {
        let (source_offset, target_offset) =
            (self.shape.source_offset, self.targets[self.broken].offset);
        let errno = pick(&mut self.random, &[Errno::IO, Errno::NODATA]);
        let at_source = self.sector(source_offset);
        let at_target = self.sector(target_offset);
        let fault = |action, offset, errno| SimFault { action, offset, errno };
        let (source, target) = (&mut self.source, &mut self.targets[self.broken].file);
        match self.kind {
            Kind::ReadErrorOnce | Kind::ReadErrorStays => {
                source.faults.push(fault(Action::Read, at_source, Some(errno)));
            }
            Kind::WriteErrorOnce | Kind::WriteErrorStays => {
                target.faults.push(fault(Action::Write, at_target, Some(errno)));
                target.faults.push(fault(Action::Zero, at_target, Some(errno)));
            }
            Kind::TargetFull => {
                target.faults.push(fault(Action::Write, at_target, Some(Errno::NOSPC)));
                target.faults.push(fault(Action::Zero, at_target, Some(Errno::NOSPC)));
            }
            Kind::FlushError => target.faults.push(fault(Action::Flush, 0, Some(Errno::IO))),
            Kind::FlushStuck => target.faults.push(fault(Action::Flush, 0, None)),
            Kind::ReadStuck => source.faults.push(fault(Action::Read, at_source, None)),
            Kind::WriteStuck => target.faults.push(fault(Action::Write, at_target, None)),
            Kind::ReadsLost => source.lost = Lost::Reads,
            Kind::WritesLost => target.lost = Lost::Writes,
            Kind::WholeWritesLost => target.lost = Lost::WholeWrites,
            Kind::RouteRefused => {
                let refusal = pick(&mut self.random, &[Errno::INVAL, Errno::REMOTEIO]);
                let end = pick(&mut self.random, &[0, 1]);
                let file = if end == 0 { source } else { target };
                file.device_refusal = Some(refusal);
            }
            Kind::ZeroRefused => target.zero_refusal = Some(Errno::OPNOTSUPP),
            _ => {}
        }
    }

    /// Somebody replaces cables, drives and sectors.
    pub(super) fn repair(&mut self) {
        for target in &mut self.targets {
            if target.file.is_gone {
                target.file.lose_power(&mut self.random);
            }
        }
        let targets = self.targets.iter_mut().map(|target| &mut target.file);
        for file in targets.chain([&mut self.source]) {
            file.faults.clear();
            file.is_gone = false;
            file.lost = Lost::None;
            file.device_refusal = None;
        }
        self.source.bytes.clone_from(&self.full_source);
    }

    pub(super) fn mood(&self) -> Mood {
        match self.kind {
            Kind::None => Mood::default(),
            Kind::Difficult => Mood { short: 200, again: 100, early: 100 },
            _ => Mood { short: 40, again: 20, early: 100 },
        }
    }
}

/// Targets of a copy: one of four copies has several.
fn draw_count(random: &mut Random, seed: u64) -> usize {
    match seed % 4 {
        3 if random.below(16) == 0 => 5 + index(random.below(12)),
        3 => 2 + index(random.below(3)),
        _ => 1,
    }
}

fn draw_shape(random: &mut Random, count: usize) -> (Shape, Vec<TargetShape>) {
    let source_block = pick(random, &[512, 4096]);
    let blocks: Vec<u64> = (0..count).map(|_| pick(random, &[512, 4096])).collect();
    let larger: u64 = blocks.iter().fold(source_block, |larger, &block| larger.max(block));
    let first =
        pick(random, &[Tail::None, Tail::MergeInHost, Tail::MergeInSlot, Tail::MergeInHost]);
    let unit = match first {
        Tail::None => blocks[0],
        Tail::MergeInSlot => source_block,
        Tail::RoundUpAndCut | Tail::MergeInHost => 1,
    };
    // Holes below 64 KiB are moved like data.
    let long = if random.below(4) == 0 { random.below(8) << 16 } else { 0 };
    let request = larger * (1 + random.below(4));
    let slots = u32::try_from(1 + random.below(6)).unwrap_or(1);
    // Requests of one target that are given up must leave room for those of the others.
    let given_up = if count > 1 { slots } else { 0 };
    let entries = 4 + given_up + u32::try_from(random.below(12)).unwrap_or(0);
    let source_offset = source_block * random.below(4);
    let offsets: Vec<u64> = blocks.iter().map(|block| block * random.below(4)).collect();
    let length = (1 + long + random.below(20 * larger)).next_multiple_of(unit);
    let mut tails = vec![first];
    tails.extend(blocks[1..].iter().map(|&block| draw_tail(random, [source_block, block], length)));
    let places = blocks.into_iter().zip(offsets).zip(tails);
    let places =
        places.map(|((block, offset), tail)| TargetShape { block, offset, tail }).collect();
    let block = larger;
    (Shape { source_block, block, request, slots, entries, source_offset, length }, places)
}

/// A tail that can write the end of a copy of this length.
fn draw_tail(random: &mut Random, [source, target]: [u64; 2], length: u64) -> Tail {
    let tails = [(Tail::None, target), (Tail::MergeInSlot, source), (Tail::MergeInHost, 1)];
    let fitting = tails.into_iter().filter(|(_, unit)| length % unit == 0);
    pick(random, &fitting.map(|(tail, _)| tail).collect::<Vec<_>>())
}

/// Whole blocks of the copy that are zero at the source.
fn draw_holes(random: &mut Random, shape: &Shape) -> RangeSet {
    let mut holes = RangeSet::new();
    let block = if shape.length > 1 << 17 { 1 << 16 } else { shape.block };
    for number in 0..shape.length / block {
        if random.below(3) == 0 {
            holes.insert(number * block..(number + 1) * block);
        }
    }
    holes
}

/// What happens when an operation is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    PowerCut,
    SourceGone,
    TargetGone,
    MemoryGone,
    ReadsLost,
    WritesLost,
    SourceShrinks,
    Stop,
    Killed,
}

impl Event {
    /// What it does to the source.
    pub(super) fn strike_source(self, source: &mut SimFile) {
        match self {
            Self::SourceGone => source.is_gone = true,
            Self::MemoryGone => source.device_refusal = Some(Errno::FAULT),
            Self::ReadsLost => source.lost = Lost::Reads,
            Self::SourceShrinks => {
                let half = source.bytes.len() / 2 / index(source.block) * index(source.block);
                source.bytes.truncate(half);
            }
            _ => {}
        }
    }

    /// What it does to the target.
    pub(super) fn strike_target(self, target: &mut SimFile) {
        match self {
            Self::TargetGone => target.is_gone = true,
            Self::MemoryGone => target.device_refusal = Some(Errno::FAULT),
            Self::WritesLost => target.lost = Lost::Writes,
            _ => {}
        }
    }
}
