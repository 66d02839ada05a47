//! Names for what a device carries, for people. They decide nothing: whatever is not blank is content.

use std::ops::Range;

use super::signature::{self, Ends};
use super::survey::{BLOCK, SurveyError, Surveyor, is_blank};
use crate::endpoint::Live;

/// What is read of either end of a device for its names, in bytes.
const END: u64 = 8 << 20;

/// Names of what a device or a range of it carries, by its two ends; none where they are blank.
///
/// Content that nothing recognises is named by its offset: `first`, or what the ends show.
pub(super) fn carried(
    surveyor: &Surveyor<'_>,
    live: &Live,
    block: u64,
    range: Range<u64>,
    first: Option<u64>,
) -> Result<Vec<String>, SurveyError> {
    let size = range.end.saturating_sub(range.start);
    let length = size.min(END).next_multiple_of(block.max(1)).min(size);
    let tail_start = range.end - length;
    let opened = surveyor.open(live)?;
    let mut reader = surveyor.reader(&opened, block)?;
    let head = reader.bytes(range.start..range.start + length)?;
    let tail = reader.bytes(tail_start..range.end)?;
    let names = signature::describe(Ends { head: &head, tail: &tail, size });
    if !names.is_empty() {
        return Ok(names);
    }
    let in_end = |start: u64, bytes: &[u8]| {
        let step = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        let found = bytes.chunks(step).position(|block| !is_blank(block))?;
        Some(start + found as u64 * BLOCK)
    };
    let first = first.or_else(|| in_end(range.start, &head)).or_else(|| in_end(tail_start, &tail));
    Ok(first.map(unknown).into_iter().collect())
}

/// Content that has no name.
pub(super) fn unknown(first: u64) -> String {
    format!("content of an unknown kind, first at offset {first}")
}
