//! Invariants of a copy's counts: each figure of a record against those of the simulation.

use peerlane_units::Bytes;

use super::FaultKind;
use super::check::{RunCase, TargetCase};
use super::figures::ByteOrigin;
use super::world::CopySizes;

pub(super) fn each_count_is_right(case: &TargetCase<'_>) -> Result<(), String> {
    let Some(record) = &case.verdict.record else { return Ok(()) };
    let of = case.verdict.figures.bytes_by_origin();
    let (device, host) = (of(ByteOrigin::DeviceMemory), of(ByteOrigin::HostMemory));
    let (zeroed, written) = (of(ByteOrigin::Zeroed), of(ByteOrigin::ZeroWritten));
    let (content, routes) = (&record.content, record.bytes_by_route);
    let counts = [
        ("payload", content.data, device + host),
        ("payload by P2P", routes.p2p, device),
        ("payload by host memory", routes.host, host),
        ("zeroed by the drive", content.zeroed_by_device, zeroed),
        ("zeroes written", content.zeroes_written, written),
    ];
    for (what, Bytes(said), counted) in counts {
        if said != counted {
            return Err(format!("{what}: {said} bytes are said, and {counted} were moved"));
        }
    }
    let Bytes(before) = content.before;
    let claimed = case.verdict.before.total();
    if before > claimed {
        return Err(format!(
            "{before} bytes are said to be of an earlier run, which left {claimed}"
        ));
    }
    // Only a file that is made for the copy is a hole where nothing was written.
    let is_drive = case.target.file_system.is_none();
    if is_drive && content.holes.0 != zeroed + written {
        return Err(format!("{} are holes of a drive, which made {zeroed} zero", content.holes));
    }
    Ok(())
}

/// Once for all targets. A tail behind the last block that all have in common is read for each, and
/// bytes in slots of a memory that went away are read again.
pub(super) fn the_source_is_read_once(run: &RunCase<'_>) -> Result<(), String> {
    let RunCase { world, verdicts, seen, .. } = run;
    let Bytes(read) = seen.read;
    let CopySizes { block, request, slots, .. } = world.shape;
    let figures = &seen.source_figures;
    let tails = block * verdicts.len() as u64;
    let is_complete = verdicts.iter().any(|verdict| verdict.record.is_some());
    // Parts that nobody wants any more are read and not counted.
    let is_too_little = is_complete && figures.bytes_read() > read + tails;
    if read > figures.read || is_too_little {
        let (each, all) = (figures.bytes_read(), figures.read);
        return Err(format!(
            "{read} bytes of the source are said to be read, and {all} were, {each} different ones"
        ));
    }
    let lost = if world.kind == FaultKind::MemoryGone { u64::from(slots) * request } else { 0 };
    let again = tails - block + lost;
    for record in verdicts.iter().filter_map(|verdict| verdict.record.as_ref()) {
        let Bytes(data) = record.content.data;
        let is_too_little = read + block <= data;
        let is_too_much = read > data + again && record.content.before == Bytes::ZERO;
        if is_too_little || is_too_much {
            return Err(format!("{read} bytes of the source are read, and a target takes {data}"));
        }
    }
    Ok(())
}
