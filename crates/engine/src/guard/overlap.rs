//! Source and target that are the same bytes, or that lie on one another.

use peerlane_results::Refusal;
use peerlane_units::Bytes;

use super::{System, Wanted, refuse};
use crate::endpoint::{Endpoint, Live, Node};

/// Refuses a copy onto its own source.
pub(super) fn check(system: &System, wanted: Wanted<'_>) -> Option<Refusal> {
    let (Some(source), Some(target)) = (&wanted.source.live, &wanted.target.live) else {
        return described(wanted);
    };
    let reason = match (source.node, target.node) {
        (Node::Block, Node::Block) => match (Extent::source(wanted)?, Extent::target(wanted)?) {
            (source, target) if source.disk == target.disk => source.overlap(&target)?,
            _ => stacked(system, wanted)?,
        },
        (Node::File { .. }, Node::File { .. }) if source.node == target.node => {
            format!("{} and {} are one file", wanted.source.facts.path, wanted.target.facts.path)
        }
        (Node::File { .. }, Node::Block) => backs(system, source, target)
            .unwrap_or_default()
            .then(|| format!("{} is a view of its own source", wanted.target.facts.path))
            .or_else(|| stacked(system, wanted))?,
        (Node::Block, Node::File { .. } | Node::NewFile) => stacked(system, wanted)?,
        _ => return None,
    };
    Some(refuse(reason, None))
}

/// On a machine that is only described, one name is one drive.
fn described(wanted: Wanted<'_>) -> Option<Refusal> {
    let path = &wanted.source.facts.path;
    let (source, target) = (wanted.asked.offset.0, wanted.asked.target_offset.0);
    let overlap = source.abs_diff(target) < wanted.length.0;
    (*path == wanted.target.facts.path && overlap)
        .then(|| refuse(format!("source and target overlap on {path}"), None))
}

/// A range of a disk.
struct Extent<'a> {
    disk: &'a str,
    start: u64,
    end: u64,
}

impl<'a> Extent<'a> {
    fn source(wanted: Wanted<'a>) -> Option<Self> {
        Self::of(wanted.source, wanted.asked.offset, wanted.length)
    }

    fn target(wanted: Wanted<'a>) -> Option<Self> {
        Self::of(wanted.target, wanted.asked.target_offset, wanted.length)
    }

    fn of(end: &'a Endpoint, offset: Bytes, length: Bytes) -> Option<Self> {
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

    fn overlap(&self, other: &Self) -> Option<String> {
        (self.start < other.end && other.start < self.end).then(|| {
            format!(
                "source and target overlap on {} from byte {} to {}",
                self.disk,
                self.start.max(other.start),
                self.end.min(other.end)
            )
        })
    }
}

/// One end lies on the device that the other end is.
fn stacked(system: &System, wanted: Wanted<'_>) -> Option<String> {
    let lies_on = |upper: &Endpoint, lower: &Endpoint| {
        let on = upper.live.as_ref()?.device.as_ref()?;
        let under = lower.live.as_ref().filter(|live| live.node == Node::Block)?;
        let name = &under.device.as_ref()?.name;
        system
            .ground(&on.name)
            .contains(name)
            .then(|| format!("{} lies on {}", upper.facts.path, lower.facts.path))
    };
    lies_on(wanted.source, wanted.target).or_else(|| lies_on(wanted.target, wanted.source))
}

/// Whether the target is a loop device over the source file.
fn backs(system: &System, source: &Live, target: &Live) -> Option<bool> {
    let name = &target.device.as_ref()?.name;
    let file = system.line(&format!("sys/class/block/{name}/loop/backing_file"))?;
    Some(source.path.as_os_str() == file.as_str())
}
