//! Length of the range of a workload that names none.

use std::path::Path;

use peerlane_engine::endpoints::{Notation, RemoteName};
use peerlane_engine::measure::{MeasureError, size_of};
use peerlane_fabric::{Bdf, Fabric};
use peerlane_results::WorkloadKind;
use peerlane_units::Bytes;

use crate::workload::Brief;

/// Bytes of a range where there is room.
const USUAL: Bytes = Bytes::mib(1024);
/// Ranges begin and end at multiples of this: every block size up to it fits.
const UNIT: Bytes = Bytes::kib(4);

/// Reasons why no length was found.
#[derive(Debug, thiserror::Error)]
pub enum LengthError {
    /// An end could not be looked at.
    #[error("cannot look at {end}")]
    End {
        /// The end as typed.
        end: String,
        /// The reason.
        #[source]
        source: Box<MeasureError>,
    },
    /// An end holds no range that the usual block sizes fit.
    #[error("{end} has {} bytes{}; {}", size.0, from(*start), needed(*ranges))]
    TooShort {
        /// The end as typed.
        end: String,
        /// Its size.
        size: Bytes,
        /// Start of the first range.
        start: Bytes,
        /// Number of ranges, one behind the other.
        ranges: u64,
    },
}

fn from(start: Bytes) -> String {
    match start {
        Bytes::ZERO => String::new(),
        Bytes(start) => format!(" and is used from byte {start}"),
    }
}

fn needed(ranges: u64) -> String {
    match ranges {
        1 => format!("a range is {} at least", UNIT.0),
        ranges => format!("{ranges} ranges of {} at least are needed", UNIT.0),
    }
}

impl LengthError {
    /// Advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End { source, .. } => source.hint(),
            Self::TooShort { .. } => Some(
                "name a drive or a larger file: `head -c 1G /dev/urandom >FILE` makes one"
                    .to_owned(),
            ),
        }
    }
}

/// Gives a brief without a length the usual one, or as much as every end holds.
///
/// # Errors
/// [`LengthError`] by the end that stands against it.
pub fn within(fabric: &Fabric, brief: Brief) -> Result<Brief, LengthError> {
    if brief.length.is_some() {
        return Ok(brief);
    }
    let drives = u64::try_from(brief.drives.len()).unwrap_or(u64::MAX);
    // A drive that is read and written holds the range that is read and, behind it, those written.
    let ranges = match brief.kind {
        WorkloadKind::Matrix => 2,
        WorkloadKind::Crowd => drives.max(2),
        _ => 1,
    };
    let mut length = USUAL;
    for typed in brief.source.iter().chain(&brief.target).chain(&brief.drives) {
        if !matches!(typed.parse(), Ok(Notation::Path(_))) {
            continue;
        }
        let is_written = brief.kind == WorkloadKind::Roundtrip && brief.drives.contains(typed);
        let is_target = brief.target.contains(typed)
            || is_written && !brief.source.is_empty() && !brief.source.contains(typed);
        // A file that is written grows, or is made.
        if is_target && !is_device(typed) {
            continue;
        }
        let size = size_of(fabric, typed)
            .map_err(|source| LengthError::End { end: typed.clone(), source: Box::new(source) })?;
        let start = if is_target { brief.target_offset } else { None }.unwrap_or(brief.offset);
        let room = Bytes(size.0.saturating_sub(start.0) / ranges);
        if room < UNIT {
            return Err(LengthError::TooShort { end: typed.clone(), size, start, ranges });
        }
        length = length.min(room);
    }
    Ok(Brief { length: Some(length.round_down(UNIT)), ..brief })
}

fn is_device(typed: &str) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::metadata(Path::new(typed)) {
        Ok(found) => found.file_type().is_block_device(),
        // The PCI address of a drive, or one of another machine.
        Err(_) => typed.parse::<Bdf>().is_ok() || RemoteName::is_one(typed),
    }
}
