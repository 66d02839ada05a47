//! Random copies: their targets, sizes, tails and holes.

use peerlane_results::Tail;

use super::FaultKind;
use super::world::{CopySizes, TargetShape, index};
use crate::io::random::Random;
use crate::io::ranges::RangeSet;

pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[index(random.below(from.len() as u64))]
}

/// Targets of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    Drives(usize),
    File,
}

/// One of four copies goes to several drives, and one to a file.
pub(super) fn draw_onto(random: &mut Random, seed: u64) -> Onto {
    match seed % 4 {
        1 => Onto::File,
        3 if random.below(16) == 0 => Onto::Drives(5 + index(random.below(12))),
        3 => Onto::Drives(2 + index(random.below(3))),
        _ => Onto::Drives(1),
    }
}

pub(super) fn draw_shape(
    random: &mut Random,
    onto: Onto,
    kind: FaultKind,
) -> (CopySizes, Vec<TargetShape>) {
    let count = if let Onto::Drives(count) = onto { count } else { 1 };
    // Slots whose merged block is still to be written while further targets need one: rare by chance.
    let merges = kind == FaultKind::WriteStuck && count > 1 && random.below(2) == 0;
    let block = |random: &mut Random| match random.below(64) {
        0 => 64 << 10,
        1 | 2 => 16 << 10,
        number => [512, 4096][index(number % 2)],
    };
    let source_block = if merges { 512 } else { block(random) };
    let blocks: Vec<u64> = (0..count).map(|_| if merges { 4096 } else { block(random) }).collect();
    let larger: u64 = blocks.iter().fold(source_block, |larger, &block| larger.max(block));
    let mut first =
        pick(random, &[Tail::None, Tail::MergeInHost, Tail::MergeInSlot, Tail::MergeInHost]);
    if merges {
        first = Tail::MergeInSlot;
    }
    if onto == Onto::File && first != Tail::None {
        first = Tail::RoundUpAndCut;
    }
    let unit = match first {
        Tail::None => blocks[0],
        Tail::MergeInSlot => source_block,
        Tail::RoundUpAndCut | Tail::MergeInHost => 1,
    };
    // Holes below 64 KiB are moved like data.
    let is_long = random.below(4) == 0 || kind == FaultKind::SectorLost;
    let long = if is_long { random.below(8) << 16 } else { 0 };
    let is_coarse = larger > 4096;
    let request = larger * (1 + random.below(if is_coarse { 2 } else { 4 }));
    let slots = u32::try_from(1 + random.below(if merges { 2 } else { 6 })).unwrap_or(1);
    // Requests of one target that are given up must leave room for those of the others.
    let given_up = if count > 1 { slots } else { 0 };
    let entries = 4 + given_up + u32::try_from(random.below(12)).unwrap_or(0);
    let source_offset = source_block * random.below(4);
    let places = if onto == Onto::File { 1 } else { 4 };
    let offsets: Vec<u64> = blocks.iter().map(|block| block * random.below(places)).collect();
    let parts = if is_coarse { 6 } else { 20 };
    let length = (1 + long + random.below(parts * larger)).next_multiple_of(unit);
    if first == Tail::RoundUpAndCut && length % blocks[0] == 0 {
        first = Tail::None;
    }
    let mut tails = vec![first];
    tails.extend(blocks[1..].iter().map(|&block| draw_tail(random, [source_block, block], length)));
    let places = blocks.into_iter().zip(offsets).zip(tails);
    let places =
        places.map(|((block, offset), tail)| TargetShape { block, offset, tail }).collect();
    let block = larger;
    (CopySizes { source_block, block, request, slots, entries, source_offset, length }, places)
}

/// A tail that can write the end of a copy of this length.
fn draw_tail(random: &mut Random, [source, target]: [u64; 2], length: u64) -> Tail {
    let tails = [(Tail::None, target), (Tail::MergeInSlot, source), (Tail::MergeInHost, 1)];
    let fitting = tails.into_iter().filter(|(_, unit)| length % unit == 0);
    pick(random, &fitting.map(|(tail, _)| tail).collect::<Vec<_>>())
}

/// Whole blocks of the copy that are zero at the source.
pub(super) fn draw_holes(random: &mut Random, shape: &CopySizes) -> RangeSet {
    let mut holes = RangeSet::new();
    let block = if shape.length > 1 << 17 { 1 << 16 } else { shape.block };
    for number in 0..shape.length / block {
        if random.below(3) == 0 {
            holes.insert(number * block..(number + 1) * block);
        }
    }
    holes
}

/// Content of a target before the copy: this byte everywhere, or content of its own.
pub(super) fn content_before(
    random: &mut Random,
    shape: TargetShape,
    length: u64,
    blank: Option<u8>,
) -> Vec<u8> {
    let end = (shape.offset + length).next_multiple_of(shape.block);
    let mut before = vec![blank.unwrap_or(0); index(end + random.below(3) * shape.block)];
    if blank.is_none() {
        random.fill(&mut before);
    }
    before
}
