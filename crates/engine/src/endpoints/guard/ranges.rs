//! Offsets, lengths, alignment and room: arithmetic on sizes, and the free space of a file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use peerlane_results::{Asked, EndpointFacts, EndpointKind, Refusal};
use peerlane_units::Bytes;

use super::{GuardSubject, refuse};
use crate::endpoints::{Endpoint, PathNode};
use crate::io::journal::is_partial_of;

/// Bytes to copy: the length asked for, else all from the offset; zero when the offset is beyond
/// the end, which [`check`] refuses.
pub(crate) fn length_of(asked: &Asked, source: &EndpointFacts) -> Bytes {
    asked.length.unwrap_or(Bytes(source.size.0.saturating_sub(asked.offset.0)))
}

pub(super) fn check(wanted: GuardSubject<'_>) -> Vec<Refusal> {
    let GuardSubject { asked, source, target, length } = wanted;
    let mut refusals = Vec::new();
    refusals.extend(aligned("--offset", asked.offset, &source.facts));
    refusals.extend(inside_source(asked, &source.facts, length));
    match target.facts.kind {
        EndpointKind::BlockDevice | EndpointKind::Passthrough => {
            refusals.extend(aligned("--target-offset", asked.target_offset, &target.facts));
            refusals.extend(fits_device(asked, &target.facts, length));
        }
        EndpointKind::File => {
            refusals.extend(whole_file(asked, &target.facts));
            refusals.extend(fits_file_system(target, needed(source, length)));
        }
        // It keeps nothing that has to fit anything.
        EndpointKind::Gpu => {}
    }
    refusals
}

fn aligned(option: &str, offset: Bytes, end: &EndpointFacts) -> Option<Refusal> {
    if offset.is_multiple_of(end.block) {
        return None;
    }
    let below = offset.round_down(end.block);
    let above = offset.round_up(end.block)?;
    Some(refuse(
        format!(
            "`{option} {}` is not a multiple of the block size of {}, {} bytes",
            offset.0, end.path, end.block.0
        ),
        Some(format!("use `{option} {}` or `{option} {}`", below.0, above.0)),
    ))
}

fn inside_source(asked: &Asked, source: &EndpointFacts, length: Bytes) -> Option<Refusal> {
    if asked.offset > source.size {
        return Some(refuse(
            format!(
                "`--offset {}` is beyond the end of {}, which has {} bytes",
                asked.offset.0, source.path, source.size.0
            ),
            None,
        ));
    }
    let rest = Bytes(source.size.0 - asked.offset.0);
    (length > rest).then(|| {
        refuse(
            format!(
                "{} has only {} from offset {}, not {}",
                source.path,
                in_words(rest, length),
                asked.offset.0,
                in_words(length, rest)
            ),
            Some(format!("use `--length {}`", rest.0)),
        )
    })
}

fn fits_device(asked: &Asked, target: &EndpointFacts, length: Bytes) -> Option<Refusal> {
    let room = Bytes(target.size.0.saturating_sub(asked.target_offset.0));
    (length > room).then(|| {
        refuse(
            format!(
                "{} has room for only {} from offset {}, not for {}",
                target.path,
                in_words(room, length),
                asked.target_offset.0,
                in_words(length, room)
            ),
            (room > Bytes::ZERO).then(|| format!("use `--length {}` for a part", room.0)),
        )
    })
}

/// A size in words; in bytes if the words would not tell it from another size.
fn in_words(size: Bytes, other: Bytes) -> String {
    let is_told_apart = size.to_string() != other.to_string();
    if is_told_apart { size.to_string() } else { format!("{} bytes", size.0) }
}

/// A file appears under its name only when it is complete, so it is always written as a whole.
fn whole_file(asked: &Asked, target: &EndpointFacts) -> Option<Refusal> {
    (asked.target_offset > Bytes::ZERO).then(|| {
        refuse(
            format!("{} is a file, and a file is written as a whole", target.path),
            Some("leave out `--target-offset`".to_owned()),
        )
    })
}

/// Bytes that the target takes: of a file with holes, its data.
fn needed(source: &Endpoint, length: Bytes) -> Bytes {
    let file = source.live.as_ref().filter(|live| live.node != PathNode::Block);
    let allocated = file.and_then(|live| fs::metadata(&live.path).ok());
    // Blocks of 512 bytes whatever the file system (stat(2)).
    allocated.map_or(length, |facts| length.min(Bytes(facts.blocks().saturating_mul(512))))
}

/// Space that unfinished copies onto this name take: one that goes on has it already, one that begins
/// anew gives it back first.
fn unfinished(target: &Path) -> Bytes {
    let entries = target.parent().and_then(|directory| fs::read_dir(directory).ok());
    let is_one = |entry: &fs::DirEntry| is_partial_of(target, &entry.file_name());
    let sizes = entries.into_iter().flatten().flatten().filter(is_one).filter_map(|entry| {
        let facts = entry.metadata().ok()?;
        Some(facts.blocks().saturating_mul(512))
    });
    Bytes(sizes.fold(0, u64::saturating_add))
}

/// An existing file keeps its space until the new one takes its name.
fn fits_file_system(target: &Endpoint, length: Bytes) -> Option<Refusal> {
    let directory = target.live.as_ref()?.path.parent()?;
    let system = rustix::fs::statvfs(directory).ok()?;
    if system.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Some(refuse(
            format!("the file system of {} is mounted read-only", target.facts.path),
            Some(format!("mount -o remount,rw {}", directory.display())),
        ));
    }
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let free = Bytes(free.saturating_add(unfinished(&target.live.as_ref()?.path).0));
    (length > free).then(|| {
        refuse(
            format!(
                "the file system of {} has {} free, and {} are to be copied",
                target.facts.path, free, length
            ),
            None,
        )
    })
}
