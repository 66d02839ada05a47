//! Invariants of the bytes read to compare: every promised place is read, and nothing read differs.

use std::ops::Range;

use peerlane_results::{CompletedCopy, VerifyMode};

use super::attempt::{RunEnding, TargetVerdict};
use super::check::{TargetCase, holds};
use super::world::{SimTarget, World};
use crate::io::ranges::RangeSet;
use crate::transfer::verify::sample_size;

/// The smallest unit of a comparison, in bytes (`verify.rs`, `copy/claims.rs`).
const PAGE: u64 = 4096;
/// Bytes from the beginning of the copy, all of whose claims are checked (`copy/claims.rs`).
const HEAD: u64 = 128 << 10;
/// Ranges of a journal whose ends are looked at (`copy/claims.rs`).
const ENDS: usize = 128;

/// Pages of the copy, of a length in bytes.
#[derive(Debug, Clone, Copy)]
struct Pages {
    page: u64,
    length: u64,
}

impl Pages {
    /// Pages are as long as the largest block; a file without direct I/O has none.
    fn of(world: &World, target: &SimTarget) -> Self {
        let is_direct = target.file_system.is_none_or(|one| one.takes_direct);
        let block = if is_direct { target.shape.block } else { 1 };
        let page = PAGE.max(block).max(world.shape.source_block);
        Self { page, length: world.shape.length }
    }

    fn count(self) -> u64 {
        self.length.div_ceil(self.page)
    }

    fn range(self, number: u64) -> Range<u64> {
        number * self.page..((number + 1) * self.page).min(self.length)
    }

    /// Numbers of the pages that lie in a range as a whole.
    fn within(self, range: &Range<u64>) -> Range<u64> {
        let end = if range.end >= self.length { self.count() } else { range.end / self.page };
        range.start.div_ceil(self.page)..end
    }
}

pub(super) fn has_what_is_promised(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { world, target, verdict, .. } = case;
    let Some(CompletedCopy { verification, .. }) = &verdict.record else { return Ok(()) };
    let pages = Pages::of(world, target);
    let compared = verdict.figures.bytes_compared();
    if verification.bytes.0 != compared {
        let said = verification.bytes;
        return Err(format!("{said} are said to be compared, and {compared} bytes were read"));
    }
    match verification.mode {
        VerifyMode::None => Ok(()),
        VerifyMode::Full if compared == pages.length => Ok(()),
        VerifyMode::Full => Err(format!("{compared} of all bytes were compared")),
        VerifyMode::Sample => {
            let has = |page: u64| verdict.figures.is_compared(pages.range(page));
            if !has(0) || !has(pages.count() - 1) {
                return Err("the first or the last page is not in the sample".to_owned());
            }
            if verdict.before.is_empty() {
                has_each_stretch(pages, has)
            } else {
                has_both(pages, verdict, has)
            }
        }
    }
}

/// A page of every stretch, after a copy that moved nothing before.
fn has_each_stretch(pages: Pages, has: impl Fn(u64) -> bool) -> Result<(), String> {
    let picks = sample_size(pages.length).min(pages.count());
    let bound = |pick: u64| pages.count() * pick / picks;
    match (0..picks).find(|&pick| !(bound(pick)..bound(pick + 1)).any(&has)) {
        Some(pick) => Err(format!("no page of stretch {pick} is in the sample")),
        None => Ok(()),
    }
}

/// Pages that an earlier run moved, and pages of the rest. Chance may pick one twice: a third is
/// far below any real sample.
fn has_both(
    pages: Pages,
    verdict: &TargetVerdict,
    has: impl Fn(u64) -> bool,
) -> Result<(), String> {
    let mut rest = RangeSet::new();
    verdict.before.missing(0..pages.length).for_each(|range| rest.insert(range));
    for (ranges, what) in [(&verdict.before, "an earlier run"), (&rest, "this run")] {
        let whole = || ranges.iter().flat_map(|range| pages.within(&range));
        let wanted = (whole().count() as u64).min(sample_size(pages.length)).div_ceil(3);
        let found = whole().filter(|&page| has(page)).count() as u64;
        if found < wanted {
            return Err(format!("{found} pages of {what} are in the sample, not {wanted}"));
        }
    }
    Ok(())
}

/// Verification that passes has read no difference.
pub(super) fn what_is_compared_is_equal(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { world, target, verdict, .. } = case;
    if verdict.record.is_none() {
        return Ok(());
    }
    let pages = Pages { page: PAGE, length: world.shape.length };
    let is_missed = |page: &u64| {
        let range = pages.range(*page);
        verdict.figures.is_compared(range.clone())
            && !holds(world, target, &target.content.bytes, range)
    };
    match (0..pages.count()).find(is_missed) {
        Some(page) => {
            Err(format!("page {page} was compared and differs, and the copy is complete"))
        }
        None => Ok(()),
    }
}

/// The beginning, and both ends of the ranges, as far as they are whole pages.
pub(super) fn claims_are_looked_at(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { run, world, target, verdict, .. } = case;
    let is_ended = verdict.end.is_of_the_program();
    let goes_on = run.seen.is_begun && !is_ended && !matches!(verdict.end, RunEnding::Stopped);
    if !goes_on || verdict.before.is_empty() {
        return Ok(());
    }
    let is_of_plan = Pages::of(world, target);
    let page = is_of_plan.page.max(target.shape.block);
    let pages = Pages { page, ..is_of_plan };
    let whole: Vec<Range<u64>> = verdict
        .before
        .iter()
        .map(|range| pages.within(&range))
        .filter(|within| !within.is_empty())
        .collect();
    let ends = whole.iter().take(ENDS).flat_map(|within| [within.start, within.end - 1]);
    let head = whole.first().filter(|within| within.start == 0);
    let head = head.into_iter().flat_map(|within| 0..within.end.min(HEAD.div_ceil(page)));
    let is_passed_over = |one: &u64| !verdict.figures.is_looked_at(pages.range(*one));
    match ends.chain(head).find(is_passed_over) {
        Some(page) if whole.len() <= ENDS => {
            Err(format!("page {page}, which the journal claims, is not looked at"))
        }
        _ => Ok(()),
    }
}
