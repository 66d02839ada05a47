//! How long the range of a workload may be where nobody says it.

use std::path::Path;

use peerlane_bench::workload::Brief;
use peerlane_engine::endpoint::{Notation, RemoteName};
use peerlane_engine::measure::size_of;
use peerlane_fabric::{Bdf, Fabric};
use peerlane_results::WorkloadKind;
use peerlane_units::Bytes;

use crate::error::{Failure, Tried};

/// Bytes of a range where there is room.
const USUAL: Bytes = Bytes::mib(1024);
/// Ranges begin and end at multiples of this, so that every block size up to it fits.
const UNIT: Bytes = Bytes::kib(4);

/// The brief with a length: the usual one, or as much as every end holds.
pub(super) fn within(fabric: &Fabric, brief: Brief) -> Result<Brief, Failure> {
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
        // What is calibrated is read, whatever else.
        let is_read = brief.kind == WorkloadKind::Calibrate;
        // A file that is written grows, or is made.
        if is_target && !is_read && !is_device(typed) {
            continue;
        }
        let size = size_of(fabric, typed).map_err(|error| {
            let hint = error.hint();
            Tried::to(format!("look at {typed}"))(error).hint(hint)
        })?;
        let start = if is_target { brief.target_offset } else { None }.unwrap_or(brief.offset);
        let room = Bytes(size.0.saturating_sub(start.0) / ranges);
        if room < UNIT {
            return Err(too_short(typed, size, start, ranges));
        }
        length = length.min(room);
    }
    Ok(Brief { length: Some(length.round_down(UNIT)), ..brief })
}

/// What holds no range that the usual block sizes fit.
fn too_short(typed: &str, size: Bytes, start: Bytes, ranges: u64) -> Failure {
    let from = match start {
        Bytes::ZERO => String::new(),
        Bytes(start) => format!(" and is used from byte {start}"),
    };
    let needed = match ranges {
        1 => format!("a range is {} at least", UNIT.0),
        ranges => format!("{ranges} ranges of {} at least are needed", UNIT.0),
    };
    let hint = "name a drive or a larger file: `head -c 1G /dev/urandom >FILE` makes one";
    Failure::new(format!("{typed} has {} bytes{from}; {needed}", size.0)).hint(hint.to_owned())
}

fn is_device(typed: &str) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::metadata(Path::new(typed)) {
        Ok(found) => found.file_type().is_block_device(),
        // The PCI address of a drive, or one of another machine.
        Err(_) => typed.parse::<Bdf>().is_ok() || RemoteName::is_one(typed),
    }
}
