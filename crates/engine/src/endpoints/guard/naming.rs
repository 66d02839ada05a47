//! Names of a device's content, for people. They decide nothing: whatever is not blank is content.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use peerlane_memory::blkid::{self, Blkid, DeviceEnds, END_BYTES};
use peerlane_units::Bytes;

use super::survey::{BLOCK, SurveyError, Surveyor, is_blank};
use crate::endpoints::Live;

/// Names of the content of a device or a range of it, by its two ends; none if they are blank.
///
/// Unrecognised content is named by its offset: `first`, or the first content at the ends.
pub(super) fn carried(
    surveyor: &Surveyor<'_>,
    live: &Live,
    block: u64,
    range: Range<u64>,
    first: Option<u64>,
) -> Result<Vec<String>, SurveyError> {
    let size = range.end.saturating_sub(range.start);
    let length = size.min(END_BYTES as u64).next_multiple_of(block.max(1)).min(size);
    let tail_start = range.end - length;
    let opened = surveyor.open(live)?;
    let mut reader = surveyor.reader(&opened, block)?;
    let head = reader.bytes(range.start..range.start + length)?;
    let tail = reader.bytes(tail_start..range.end)?;
    let ends = DeviceEnds::new(&head, &tail, Bytes(size));
    let limit = Duration::from(surveyor.deadline());
    let found = blkid::identify(library(), &ends, Bytes(block.max(1)), limit);
    if let Some(fault) = found.fault {
        tracing::warn!(%fault, "libblkid may not have named everything");
    }
    if !found.contents.is_empty() {
        return Ok(found.contents.iter().map(ToString::to_string).collect());
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

/// libblkid, if this machine has it.
fn library() -> Option<&'static Blkid> {
    static LIBRARY: OnceLock<Option<Blkid>> = OnceLock::new();
    let open = || Blkid::open().map_err(|error| tracing::info!(%error, "names are few")).ok();
    LIBRARY.get_or_init(open).as_ref()
}
