//! Content of a target that neither an interrupted copy nor its source explains.
//!
//! A device that was blank, or that a person gave leave to overwrite, holds part of a copy now.
//! Only the copy wrote to it since if each block is one of these, sector by sector: blank; the
//! source's content at this place; a pattern of the proof at the copy's beginning; or old content
//! that was there when overwriting was permitted. Digests of blocks tell the old content at both
//! ends; between them any content counts as old, and so does the rest of a block that the copy has
//! written in part.

use std::ops::{ControlFlow, Range};

use super::{CopyError, CopyJob};
use crate::endpoints::guard::{self, BLOCK, DeviceSize, EndReader, SurveyError, Surveyor};
use crate::io::journal::EndDigests;
use crate::io::stamp::SECTOR;
use crate::transfer::prove;

/// Offset of the first block that nothing explains, among the blocks that a survey of the target
/// reads.
pub(super) fn unexplained(
    job: &CopyJob<'_>,
    surveyor: &Surveyor<'_>,
) -> Result<Option<u64>, CopyError> {
    find_unexplained(job, surveyor).map_err(|error| CopyError::File {
        action: "tell what is on",
        path: job.plan.target.path.clone().into(),
        source: std::io::Error::other(error),
    })
}

fn find_unexplained(
    job: &CopyJob<'_>,
    surveyor: &Surveyor<'_>,
) -> Result<Option<u64>, SurveyError> {
    let target = &job.plan.target;
    let device = DeviceSize { size: target.size.0, block: target.block.0 };
    let start = job.plan.asked.target_offset.0;
    let range = start..start.saturating_add(job.layout.length);
    let mut explainer = Explainer {
        source: surveyor.reader(&job.source.opened, job.plan.source.block.0)?,
        source_offset: job.layout.source_offset,
        overwritten: job.target.overwritten(),
        size: device.size,
        range: range.clone(),
    };
    let (spans, _) = guard::spans(device, &range);
    let mut found = Ok(None);
    surveyor.reader(job.target.place.opened(), device.block)?.spans(&spans, |at, bytes| {
        found = explainer.first_unexplained(at, bytes);
        if matches!(found, Ok(None)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    found
}

struct Explainer<'a> {
    source: EndReader<'a>,
    /// Offset of the copy in the source.
    source_offset: u64,
    overwritten: Option<EndDigests>,
    /// Size of the target.
    size: u64,
    /// The part of the target that the copy writes.
    range: Range<u64>,
}

impl Explainer<'_> {
    fn first_unexplained(&mut self, at: u64, bytes: &[u8]) -> Result<Option<u64>, SurveyError> {
        let step = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        let blocks = || (at..).step_by(step).zip(bytes.chunks(step));
        if blocks().all(|(_, block)| guard::is_blank(block)) {
            return Ok(None);
        }
        let within = at.max(self.range.start)..(at + bytes.len() as u64).min(self.range.end);
        let source = if within.is_empty() {
            Vec::new()
        } else {
            let from = |offset: u64| self.source_offset + (offset - self.range.start);
            self.source.readable_bytes(from(within.start)..from(within.end))?
        };
        let wanted = SourceRange { start: within.start, bytes: &source };
        let mut found =
            blocks().filter(|(offset, block)| !self.is_explained(*offset, block, &wanted));
        Ok(found.next().map(|(offset, _)| offset))
    }

    fn is_explained(&self, offset: u64, block: &[u8], wanted: &SourceRange<'_>) -> bool {
        if guard::is_blank(block) || self.is_old(offset, block) {
            return true;
        }
        let sectors = (offset..).step_by(SECTOR).zip(block.chunks(SECTOR));
        let found: Vec<_> = sectors.map(|(at, sector)| self.content(at, sector, wanted)).collect();
        let is_partly =
            found.iter().any(|one| matches!(one, SectorContent::Copied | SectorContent::Mixed));
        is_partly && self.overwritten.is_some()
            || found.iter().all(|one| matches!(one, SectorContent::Blank | SectorContent::Copied))
    }

    fn content(&self, at: u64, sector: &[u8], wanted: &SourceRange<'_>) -> SectorContent {
        let inside = self.inside(at, sector);
        if guard::is_blank(sector) {
            return if inside.is_empty() { SectorContent::Blank } else { SectorContent::Copied };
        }
        let wanted = wanted.at(at + inside.start as u64, inside.len());
        let is_whole = inside.len() == sector.len();
        let is_of_proof =
            || is_whole && self.is_in_proof(at) && prove::is_left_by_proof(sector, wanted);
        if inside.is_empty() || wanted != Some(&sector[inside.clone()]) && !is_of_proof() {
            return SectorContent::Other;
        }
        let around = [&sector[..inside.start], &sector[inside.end..]];
        if around.into_iter().all(guard::is_blank) {
            SectorContent::Copied
        } else {
            SectorContent::Mixed
        }
    }

    /// The bytes of a sector that the copy writes.
    fn inside(&self, at: u64, sector: &[u8]) -> Range<usize> {
        let within = |offset: u64| {
            let offset = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
            offset.min(sector.len())
        };
        within(self.range.start)..within(self.range.end)
    }

    /// True when a block is unchanged since overwriting was permitted.
    fn is_old(&self, offset: u64, block: &[u8]) -> bool {
        let known = |digests: &EndDigests| digests.is_unchanged(self.size, offset, block);
        self.overwritten.as_ref().is_some_and(|digests| known(digests).unwrap_or(true))
    }

    /// True when a proof of a route writes there.
    fn is_in_proof(&self, at: u64) -> bool {
        at.checked_sub(self.range.start).is_some_and(|at| at < prove::LENGTH_MAX.max(1 << 16))
    }
}

/// Content of a sector of the target.
#[derive(Debug, Clone, Copy)]
enum SectorContent {
    Blank,
    /// Bytes that the copy writes, or makes zero.
    Copied,
    /// The same, up to where the copy begins or ends, and something else.
    Mixed,
    Other,
}

/// Bytes of the source for a range of the target.
struct SourceRange<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl SourceRange<'_> {
    fn at(&self, at: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}
