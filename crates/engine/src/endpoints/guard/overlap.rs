//! Source and target that are the same bytes, or that lie on one another.

use peerlane_results::{Asked, EndpointKind, Refusal};
use peerlane_units::Bytes;

use super::backing::{ByteOwner, ResolvedEnd};
use super::{GuardSubject, refuse};
use crate::endpoints::{Endpoint, PathNode, strip_device_directory};
use crate::io::system::System;

/// Refuses a copy onto its own source.
pub(super) fn check(system: &System, wanted: GuardSubject<'_>) -> Option<Refusal> {
    same_bytes(system, wanted, "source and target")
}

/// A place that is read or written: an end, the offset in it and the length, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndSpan<'a> {
    pub(crate) end: &'a Endpoint,
    pub(crate) offset: Bytes,
    pub(crate) length: Bytes,
}

/// Refuses two places that are the same bytes, or lie on one another; `words` describe them.
pub(crate) fn between(
    system: &System,
    asked: &Asked,
    one: EndSpan<'_>,
    other: EndSpan<'_>,
    words: &str,
) -> Option<Refusal> {
    let (path, live) = (&one.end.facts.path, one.end.live.is_some());
    let is_file = |span: EndSpan<'_>| span.end.facts.kind == EndpointKind::File;
    if live && is_file(one) && is_file(other) && *path == other.end.facts.path {
        return Some(refuse(format!("{words} are one file: {path}"), None));
    }
    let asked = Asked { offset: one.offset, target_offset: other.offset, ..asked.clone() };
    // What begins first decides by its length whether the other lies within it.
    let start = |span: EndSpan<'_>| {
        let extent = DiskRange::new(span.end, span.offset, span.length);
        extent.map_or(span.offset.0, |extent| extent.start)
    };
    let length = if start(one) <= start(other) { one.length } else { other.length };
    let wanted = GuardSubject { asked: &asked, source: one.end, target: other.end, length };
    let wanted = if is_one_disk(system, wanted) || !live {
        wanted
    } else {
        GuardSubject { length: one.length.max(other.length), ..wanted }
    };
    same_bytes(system, wanted, words)
}

/// True when two ends, read from these offsets on, are the same bytes under two names or one.
pub(crate) fn is_one_place(system: &System, ends: [&Endpoint; 2], offsets: [Bytes; 2]) -> bool {
    let nodes = ends.map(|end| end.live.as_ref().map(|live| live.node));
    if let [Some(one @ PathNode::File { .. }), Some(other)] = nodes {
        return one == other && offsets[0] == offsets[1];
    }
    let extent = |at: usize| DiskRange::new(ends[at], offsets[at], Bytes::ZERO);
    let is_one = |(one, other): (DiskRange<'_>, DiskRange<'_>)| {
        system.is_same_disk(one.disk, other.disk) && one.start == other.start
    };
    extent(0).zip(extent(1)).is_some_and(is_one)
}

fn same_bytes(system: &System, wanted: GuardSubject<'_>, words: &str) -> Option<Refusal> {
    let (Some(source), Some(target)) = (&wanted.source.live, &wanted.target.live) else {
        return described(wanted, words);
    };
    if !is_one_disk(system, wanted) {
        if let Some(reason) = loops(system, wanted) {
            let hint = "detach the loop device or end the NVMe export between them, or choose another source or target";
            return Some(refuse(reason, Some(hint.to_owned())));
        }
    }
    let reason = match (source.node, target.node) {
        (PathNode::Block, PathNode::Block) => {
            match (DiskRange::source(wanted)?, DiskRange::target(wanted)?) {
                (source, target) if system.is_same_disk(source.disk, target.disk) => {
                    source.overlap(&target, words)?
                }
                _ => stacked(system, wanted)?,
            }
        }
        (PathNode::File { .. }, PathNode::File { .. }) if source.node == target.node => {
            let (one, other) = (&wanted.source.facts.path, &wanted.target.facts.path);
            let reason = format!("{one} and {other} are one file");
            return Some(refuse(reason, Some("name another file as the target".to_owned())));
        }
        (PathNode::File { .. } | PathNode::NewFile, PathNode::Block)
        | (PathNode::Block, PathNode::File { .. } | PathNode::NewFile) => stacked(system, wanted)?,
        _ => return None,
    };
    Some(refuse(reason, None))
}

/// On a machine that is only described, one name is one drive.
fn described(wanted: GuardSubject<'_>, words: &str) -> Option<Refusal> {
    let path = &wanted.source.facts.path;
    // A passthrough node and its block device, or two controllers, are several names of one namespace.
    let whole = |end: &Endpoint| {
        let device = end.facts.device.clone()?;
        let typed = strip_device_directory(&end.facts.path);
        let is_partition = typed.strip_prefix(&device).is_some_and(|rest| !rest.is_empty());
        (!is_partition).then_some(device)
    };
    let device = whole(wanted.source);
    let is_one =
        *path == wanted.target.facts.path || device.is_some() && device == whole(wanted.target);
    let (source, target) = (wanted.asked.offset.0, wanted.asked.target_offset.0);
    let overlap = source.abs_diff(target) < wanted.length.0;
    let target_path = &wanted.target.facts.path;
    let reason = match device.filter(|_| path != target_path) {
        Some(device) => {
            format!("{path} and {target_path} are one namespace, {device}: {words} overlap there")
        }
        None => format!("{words} overlap on {path}"),
    };
    (is_one && overlap).then(|| refuse(reason, None))
}

/// True when both ends are the same disk or parts of it, whose ranges say it all.
fn is_one_disk(system: &System, wanted: GuardSubject<'_>) -> bool {
    let is_block =
        |end: &Endpoint| end.live.as_ref().is_some_and(|live| live.node == PathNode::Block);
    is_block(wanted.source)
        && is_block(wanted.target)
        && match (DiskRange::source(wanted), DiskRange::target(wanted)) {
            (Some(one), Some(other)) => system.is_same_disk(one.disk, other.disk),
            (one, other) => one.is_none() && other.is_none(),
        }
}

/// A range of a disk.
struct DiskRange<'a> {
    disk: &'a str,
    start: u64,
    end: u64,
}

impl<'a> DiskRange<'a> {
    fn source(wanted: GuardSubject<'a>) -> Option<Self> {
        Self::new(wanted.source, wanted.asked.offset, wanted.length)
    }

    fn target(wanted: GuardSubject<'a>) -> Option<Self> {
        Self::new(wanted.target, wanted.asked.target_offset, wanted.length)
    }

    fn new(end: &'a Endpoint, offset: Bytes, length: Bytes) -> Option<Self> {
        let device = end.live.as_ref()?.device.as_ref()?;
        let (disk, first) = device
            .partition
            .as_ref()
            .map_or((&device.name, 0), |partition| (&partition.disk, partition.start.0));
        let start = first.saturating_add(offset.0);
        // A tail is written as a whole block, so the last block counts in full.
        let length = length.round_up(end.facts.block).unwrap_or(length);
        Some(Self { disk, start, end: start.saturating_add(length.0) })
    }

    fn overlap(&self, other: &Self, words: &str) -> Option<String> {
        (self.start < other.end && other.start < self.end).then(|| {
            let is_other = self.disk != other.disk;
            let also = is_other.then(|| format!(", the same namespace as {},", other.disk));
            format!(
                "{words} overlap on {}{} from byte {} to {}",
                self.disk,
                also.unwrap_or_default(),
                self.start.max(other.start),
                self.end.min(other.end)
            )
        })
    }
}

/// One end lies on the device that the other end is.
fn stacked(system: &System, wanted: GuardSubject<'_>) -> Option<String> {
    let lies_on = |upper: &Endpoint, lower: &Endpoint| {
        let on = upper.live.as_ref()?.device.as_ref()?;
        let under = lower.live.as_ref().filter(|live| live.node == PathNode::Block)?;
        let name = &under.device.as_ref()?.name;
        system
            .ground(&on.name)
            .contains(name)
            .then(|| format!("{} lies on {}", upper.facts.path, lower.facts.path))
    };
    lies_on(wanted.source, wanted.target).or_else(|| lies_on(wanted.target, wanted.source))
}

/// The same bytes by way of loop devices: two over one file, one over the other end, or one below
/// the file system that the other end lies on.
fn loops(system: &System, wanted: GuardSubject<'_>) -> Option<String> {
    let (Some(source), Some(target)) = (&wanted.source.live, &wanted.target.live) else {
        return None;
    };
    let both_blocks = source.node == PathNode::Block && target.node == PathNode::Block;
    let both_files = !(source.node == PathNode::Block || target.node == PathNode::Block);
    let (one, other) = (
        ResolvedEnd::from_endpoint(system, wanted.source)?,
        ResolvedEnd::from_endpoint(system, wanted.target)?,
    );
    let lies_on = |upper: &ResolvedEnd, lower: &ResolvedEnd| {
        lower.owner.as_ref().is_some_and(|owner| upper.below.contains(owner))
    };
    let (from, to) = (&wanted.source.facts.path, &wanted.target.facts.path);
    if lies_on(&one, &other) {
        return Some(format!("{from} lies on {to} through a loop device or NVMe export"));
    }
    if lies_on(&other, &one) {
        return Some(format!("{to} lies on {from} through a loop device or NVMe export"));
    }
    let (mine, yours) = (one.owner.as_ref()?, other.owner.as_ref()?);
    let is_disk = |owner: &ByteOwner| matches!(owner, ByteOwner::Disk(_));
    match (mine, yours) {
        _ if both_files => None,
        (ByteOwner::Unknown, owner) | (owner, ByteOwner::Unknown) if !is_disk(owner) => {
            Some(format!(
                "{from} and {to} may be the same bytes: what is behind a loop device or NVMe export cannot be told"
            ))
        }
        _ if mine != yours => None,
        _ if both_blocks => {
            let span = |seen: &ResolvedEnd, offset: Bytes, block: Bytes| {
                let start = seen.start.saturating_add(offset.0);
                let length = wanted.length.round_up(block).unwrap_or(wanted.length);
                (start, start.saturating_add(length.0))
            };
            let mine = span(&one, wanted.asked.offset, wanted.source.facts.block);
            let yours = span(&other, wanted.asked.target_offset, wanted.target.facts.block);
            (mine.0 < yours.1 && yours.0 < mine.1).then(|| {
                format!("{from} and {to} overlap: both show the same bytes of one file or drive")
            })
        }
        _ => Some(format!("{from} and {to} show the same file")),
    }
}
