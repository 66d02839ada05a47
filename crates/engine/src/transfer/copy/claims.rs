//! Checks that the target still holds the ranges that the journal claims, before a copy goes on by
//! it.
//!
//! Nothing tells when a device was written to in between, so samples of these ranges are compared
//! with the source, by host memory: the beginning, which has the marks of file systems, both ends
//! of the ranges, and blocks at random places. All other content of a target must be explained
//! (`foreign`). This only reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use peerlane_results::Refusal;

use super::compare::OpenPair;
use super::{CopyError, CopyJob, Tools, foreign, twin};
use crate::endpoints::PathNode;
use crate::endpoints::guard::Surveyor;
use crate::io::random::Random;
use crate::io::ranges::RangeSet;
use crate::transfer::verify::{ComparisonRequest, Coverage};

/// Bytes from the beginning of the copy that are always compared, as far as they are done.
const HEAD: u64 = 128 << 10;
/// The smallest unit that is compared, in bytes, unless a block is larger.
pub(super) const PAGE: u64 = 4096;
/// Ranges whose ends are compared, and random blocks next to them.
const PICKS: u64 = 128;
/// Bytes that either of these may come to; blocks are large on some drives.
const PICKED_MAX: u64 = 1 << 20;

impl CopyJob<'_> {
    /// Refuses a target that was written to since its journal; `held` stands unless the source explains it.
    pub(super) fn check_claims(
        &mut self,
        held: Vec<Refusal>,
        tools: &mut Tools<'_>,
    ) -> Result<(), CopyError> {
        let unit = self.layout.block.max(PAGE).next_power_of_two();
        let pieces = picks(self.target.recorder.done(), self.layout.length, unit, tools.seed);
        let pair = OpenPair {
            machine: self.machine,
            plan: self.plan,
            layout: self.layout,
            source: &self.source.opened,
            target: self.target.place.opened(),
        };
        if self.stages.changes_content() {
            return self.check_claims_by_twin(&pair, &pieces, tools);
        }
        if !pair.is_equal(&pieces, tools)? {
            return Err(CopyError::Refused(vec![self.written_to()]));
        }
        let is_device =
            self.ends.target.live.as_ref().is_some_and(|one| one.node == PathNode::Block);
        if is_device && !held.is_empty() {
            let surveyor = Surveyor::on(self.machine, tools.clock, tools.deadline);
            if let Some(offset) = foreign::unexplained(self, &surveyor)? {
                return Err(CopyError::Refused(self.with_place(held, offset)));
            }
        }
        Ok(())
    }

    /// The same for a target that is to differ from its source.
    fn check_claims_by_twin(
        &self,
        pair: &OpenPair<'_>,
        pieces: &[Range<u64>],
        tools: &mut Tools<'_>,
    ) -> Result<(), CopyError> {
        if tools.options.stages.twin.is_none() {
            tools.watch.caution(
                "the target is not compared with its journal: a stage changed its content; `--stage-twin` compares it",
            );
            return Ok(());
        }
        match twin::compare_before(pair, pieces, tools)? {
            true => Ok(()),
            false => Err(CopyError::Refused(vec![self.written_to()])),
        }
    }

    /// The refusals that stand, and the offset of the content that they are about.
    fn with_place(&self, mut held: Vec<Refusal>, offset: u64) -> Vec<Refusal> {
        if let Some(first) = held.first_mut() {
            let _ = write!(
                first.reason,
                "; what is at {offset} is neither of this copy nor of its source"
            );
        }
        held
    }

    fn written_to(&self) -> Refusal {
        let (source, target) = (&self.plan.source.path, &self.plan.target.path);
        let journal = self.target.keeper.as_ref().map(|keeper| keeper.path().display().to_string());
        // A file tells when it was written to, and its journal knows.
        let or_source = match self.source.live.node {
            PathNode::Block => format!(", or {source} was"),
            PathNode::File { .. } | PathNode::NewFile => String::new(),
        };
        Refusal {
            reason: format!(
                "what the journal {} says is done is not there: {target} was written to \
                 since{or_source}",
                journal.unwrap_or_default()
            ),
            hint: Some("`--force` without `--resume` starts over".to_owned()),
            forceable: false,
        }
    }
}

/// A comparison of one piece of the copy; pieces begin at blocks.
pub(super) fn part_of(whole: &ComparisonRequest, piece: &Range<u64>) -> ComparisonRequest {
    ComparisonRequest {
        source_offset: whole.source_offset + piece.start,
        target_offset: whole.target_offset + piece.start,
        length: piece.end - piece.start,
        coverage: Coverage::Full,
        ..*whole
    }
}

/// Picks samples of the ranges done, in order and without repeats. They are whole units, except a
/// last one that the copy cuts short.
fn picks(done: &RangeSet, length: u64, unit: u64, seed: u64) -> Vec<Range<u64>> {
    let whole = whole_units(done, length, unit);
    let most = (PICKED_MAX / unit).clamp(4, PICKS);
    let mut chosen = random_units(&whole, most, seed);
    let step = (whole.len() as u64).div_ceil(most).max(1);
    let every = usize::try_from(step).unwrap_or(usize::MAX);
    for units in whole.iter().step_by(every).chain(whole.last()) {
        chosen.extend([units.start, units.end - 1]);
    }
    let head = whole.first().filter(|units| units.start == 0);
    chosen.extend(head.into_iter().flat_map(|units| 0..units.end.min(HEAD.div_ceil(unit))));
    pieces(&chosen, length, unit)
}

/// `count` of these units at random, or fewer if some coincide.
pub(super) fn random_units(whole: &[Range<u64>], count: u64, seed: u64) -> BTreeSet<u64> {
    let total: u64 = whole.iter().map(|units| units.end - units.start).sum();
    let mut random = Random::new(seed);
    let nth = |mut number: u64| {
        for units in whole {
            let here = units.end - units.start;
            if number < here {
                return Some(units.start + number);
            }
            number -= here;
        }
        None
    };
    (0..count).filter_map(|_| nth(random.below(total))).collect()
}

/// The units that lie in these ranges as a whole.
pub(super) fn whole_units(ranges: &RangeSet, length: u64, unit: u64) -> Vec<Range<u64>> {
    let units = ranges.iter().map(|range| {
        let end = if range.end >= length { length.div_ceil(unit) } else { range.end / unit };
        range.start.div_ceil(unit)..end
    });
    units.filter(|units| !units.is_empty()).collect()
}

/// Units as ranges of the copy.
pub(super) fn pieces(units: &BTreeSet<u64>, length: u64, unit: u64) -> Vec<Range<u64>> {
    units.iter().map(|&number| number * unit..((number + 1) * unit).min(length)).collect()
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
