//! Whether what a journal says is done is still at the target, before a copy goes on by it.
//!
//! Nothing tells when a device was written to in between, so samples of what is done are compared with
//! the source, by host memory: the beginning, where file systems have their marks, both ends of its
//! ranges, and blocks at random places. What a target carries besides is no content of the copy unless
//! the source has the same bytes there. This only reads; a few MiB at most of each end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use peerlane_memory::host;
use peerlane_results::Refusal;
use peerlane_units::Bytes;

use super::attempt::block;
use super::{CopyError, Job, Tools};
use crate::endpoint::Node;
use crate::guard::{self, signature};
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::ring::{Ring, Uring};
use crate::verify::{Comparison, Coverage, Digests, VerifyError, verify};

/// Bytes from the beginning of the copy that are always compared, as far as they are done.
const HEAD: u64 = 128 << 10;
/// The smallest unit that is compared, in bytes, unless a block is larger.
pub(super) const PAGE: u64 = 4096;
/// Ranges whose ends are compared, and random blocks beside them.
const PICKS: u64 = 128;
/// Bytes that either of these may come to; blocks are large on some drives.
const PICKED_MAX: u64 = 1 << 20;
/// Host memory for each end.
const ROOM: Bytes = Bytes::kib(256);
/// Requests at once of one comparison: two ends, two halves.
const ENTRIES: u32 = 128;
/// Bytes that explain a mark of the target only together.
const SECTOR: usize = 512;

impl Job<'_> {
    /// Refuses a target that was written to since its journal; `held` stands unless the source explains it.
    pub(super) fn check_claims(
        &mut self,
        held: Vec<Refusal>,
        tools: &mut Tools<'_>,
    ) -> Result<(), CopyError> {
        let unit = self.layout.block.max(PAGE).next_power_of_two();
        let pieces = picks(self.recorder.done(), self.layout.length, unit, tools.seed);
        if !self.are_there(&pieces, tools)? {
            return Err(CopyError::Refused(vec![self.written_to()]));
        }
        let has_foreign = self.ends.target.live.as_ref().is_some_and(|one| one.node == Node::Block)
            && !held.is_empty()
            && self.has_foreign().map_err(|source| CopyError::File {
                action: "compare the ends of",
                path: self.plan.target.path.clone().into(),
                source,
            })?;
        if has_foreign { Err(CopyError::Refused(held)) } else { Ok(()) }
    }

    fn written_to(&self) -> Refusal {
        let (source, target) = (&self.plan.source.path, &self.plan.target.path);
        let journal = self.keeper.as_ref().map(|keeper| keeper.path().display().to_string());
        // A file tells when it was written to, and its journal knows.
        let or_source = match self.source_live.node {
            Node::Block => format!(", or {source} was"),
            Node::File { .. } | Node::NewFile => String::new(),
        };
        Refusal {
            reason: format!(
                "what the journal {} says is done is not there: {target} was written to \
                 since{or_source}",
                journal.unwrap_or_default()
            ),
            hint: Some("`--force` without `--resume` begins anew".to_owned()),
            forceable: false,
        }
    }

    fn are_there(&self, pieces: &[Range<u64>], tools: &mut Tools<'_>) -> Result<bool, CopyError> {
        if pieces.is_empty() {
            return Ok(true);
        }
        let mut ring = Uring::new(ENTRIES)?;
        let mut attach = |file: &File, path: &str| {
            file.try_clone()
                .and_then(|file| ring.attach_file(file))
                .map_err(|source| CopyError::File { action: "attach", path: path.into(), source })
        };
        let (plan, target) = (self.plan, self.target.opened());
        let files = [
            attach(&self.source.file, &plan.source.path)?,
            attach(&target.file, &plan.target.path)?,
        ];
        let room = ROOM.0.max(2 * self.layout.block);
        let hosts = [
            ring.attach_region(host::allocate(Bytes(room))?),
            ring.attach_region(host::allocate(Bytes(room))?),
        ];
        let whole = Comparison {
            source: files[0],
            target: files[1],
            source_offset: plan.asked.offset.0,
            target_offset: plan.asked.target_offset.0,
            length: self.layout.length,
            source_block: block(self.source.is_direct, &plan.source),
            target_block: block(target.is_direct, &plan.target),
            coverage: Coverage::Full,
            hosts,
            digests: Digests::Left,
            deadline: tools.deadline,
        };
        let failed = |source: VerifyError| CopyError::Check {
            path: plan.target.path.clone().into(),
            source,
        };
        for piece in pieces {
            let part = part_of(&whole, piece);
            let verified = verify(&mut ring, &part, tools.clock, &mut ()).map_err(failed)?;
            if verified.first.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the target carries a mark that the source does not have at the same place.
    fn has_foreign(&self) -> io::Result<bool> {
        let Some(target) = &self.ends.target.live else { return Ok(true) };
        let size = self.ends.target.facts.size.0;
        let (mut head, mut tail) = guard::read_ends(target.guarded_path(), size)?;
        let source = File::open(self.source_live.guarded_path())?;
        let tail_at = size.saturating_sub(tail.len() as u64);
        for (at, bytes) in [(0, &mut head), (tail_at, &mut tail)] {
            self.clear_what_is_copied(&source, at, bytes)?;
        }
        // What was read must not stay in the page cache beside direct writes.
        let _ = rustix::fs::fadvise(&source, 0, None, rustix::fs::Advice::DontNeed);
        Ok(!signature::identify(signature::Ends { head: &head, tail: &tail, size }).is_empty())
    }

    /// Makes those sectors of the target zero that the source has alike: a copy takes nothing there.
    fn clear_what_is_copied(&self, source: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (start, length) = (self.plan.asked.target_offset.0, self.layout.length);
        for (sector, found) in (at..).step_by(SECTOR).zip(bytes.chunks_mut(SECTOR)) {
            let is_within = sector >= start && sector + found.len() as u64 <= start + length;
            if !is_within {
                continue;
            }
            let mut wanted = vec![0; found.len()];
            source.read_exact_at(&mut wanted, self.layout.source_offset + sector - start)?;
            if wanted == found {
                found.fill(0);
            }
        }
        Ok(())
    }
}

/// A comparison of one piece of the copy; pieces begin at blocks.
pub(super) fn part_of(whole: &Comparison, piece: &Range<u64>) -> Comparison {
    Comparison {
        source_offset: whole.source_offset + piece.start,
        target_offset: whole.target_offset + piece.start,
        length: piece.end - piece.start,
        coverage: Coverage::Full,
        ..*whole
    }
}

/// What to compare of what is done, in order, nothing twice: whole units, the last one of a copy as it
/// is.
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

/// `count` units at random places of what is there, or fewer where they coincide.
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
