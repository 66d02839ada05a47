//! One slot of a relay: a part of the copy that is read once, worked on, and written to each target.

use peerlane_results::MemoryKind;

use super::shape::{CopyPart, PartKind};
use super::{Targets, Transfer};
use crate::io::failure::Role;
use crate::io::request::{EndOfFile, Request, RequestProgress};
use crate::io::ring::{Action, FileId, RegionId};

/// A request of a part. One begins when none is left of an earlier kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartRequest {
    /// Reads the block of a target that payload is merged into.
    Merge(usize),
    /// Reads the source, over the merged bytes.
    Read,
    /// Works on the bytes read.
    Stage(u32),
    /// Writes to a target.
    Write(usize),
}

impl PartRequest {
    /// The target, or `None` for the source or a stage.
    pub(super) fn target(self) -> Option<usize> {
        match self {
            Self::Read | Self::Stage(_) => None,
            Self::Merge(target) | Self::Write(target) => Some(target),
        }
    }

    /// True when it writes the slot.
    pub(super) fn fills(self) -> bool {
        !matches!(self, Self::Write(_))
    }

    /// True if a drive is read for it.
    fn is_reading(self) -> bool {
        matches!(self, Self::Merge(_) | Self::Read)
    }

    fn is_beside(self, other: Self) -> bool {
        matches!((self, other), (Self::Write(_), Self::Write(_)))
    }
}

/// A part on its way.
#[derive(Debug, Default)]
pub(super) struct PartSlot {
    pub(super) part: Option<CopyPart>,
    /// Remaining requests, in the order of their beginnings.
    legs: Vec<(PartRequest, Request)>,
    /// Never used again: a device that did not answer may still write it, or read bytes from
    /// outside the copy out of it.
    pub(super) is_lost: bool,
}

impl PartSlot {
    pub(super) fn is_free(&self) -> bool {
        self.part.is_none() && !self.is_lost
    }

    /// True when payload is still on its way from the source.
    pub(super) fn is_reading(&self) -> bool {
        self.legs.first().is_some_and(|(leg, _)| leg.is_reading())
    }

    pub(super) fn request(&mut self, leg: PartRequest) -> Option<&mut Request> {
        self.legs.iter_mut().find(|(one, _)| *one == leg).map(|(_, request)| request)
    }

    /// The legs that may begin together when those before them are over.
    pub(super) fn front(&self) -> impl Iterator<Item = PartRequest> {
        let mut legs = self.legs.iter().map(|&(leg, _)| leg);
        let first = legs.next();
        let beside = legs.take_while(move |leg| first.is_some_and(|first| leg.is_beside(first)));
        first.into_iter().chain(beside)
    }

    pub(super) fn remove(&mut self, leg: PartRequest) {
        self.legs.retain(|(one, _)| *one != leg);
    }

    pub(super) fn clear(&mut self) {
        self.legs.clear();
    }

    /// True when nothing is left to do of the part.
    pub(super) fn is_over(&self) -> bool {
        self.part.is_some() && self.legs.is_empty()
    }

    /// Takes a part that is read and written to `wanted`; one that is merged has one target.
    pub(super) fn load(
        &mut self,
        index: usize,
        transfers: &[Transfer],
        part: CopyPart,
        wanted: Targets,
    ) {
        let request = |leg| (leg, request(index, transfers, part, leg));
        self.part = Some(part);
        if part.kind == PartKind::Merge {
            self.legs.extend(wanted.iter().map(|target| request(PartRequest::Merge(target))));
        }
        self.legs.push(request(PartRequest::Read));
        self.legs.extend((0..transfers[0].stages).map(|stage| request(PartRequest::Stage(stage))));
        self.legs.extend(wanted.iter().map(|target| request(PartRequest::Write(target))));
    }

    /// Takes a part of zeroes for one target, written out of `zeroes` unless the target makes them.
    pub(super) fn load_zeroes(
        &mut self,
        transfers: &[Transfer],
        target: usize,
        part: CopyPart,
        zeroes: RegionId,
    ) {
        let leg = PartRequest::Write(target);
        let request = Request {
            action: if part.kind == PartKind::Zero { Action::Zero } else { Action::Write },
            region: zeroes,
            region_offset: 0,
            memory: MemoryKind::Host,
            ..request(0, transfers, part, leg)
        };
        self.part = Some(part);
        self.legs.push((leg, request));
    }
}

fn request(index: usize, transfers: &[Transfer], part: CopyPart, leg: PartRequest) -> Request {
    let transfer = &transfers[leg.target().unwrap_or(0)];
    let (role, file, start, block) = match leg {
        PartRequest::Read => {
            (Role::Source, transfer.source, transfer.source_offset, transfer.source_block)
        }
        PartRequest::Stage(stage) => (Role::Source, FileId(stage), 0, 1),
        PartRequest::Merge(_) | PartRequest::Write(_) => {
            (Role::Target, transfer.target, transfer.target_offset, transfer.target_block)
        }
    };
    let ask = part.length.next_multiple_of(block);
    Request {
        role,
        action: match leg {
            PartRequest::Merge(_) | PartRequest::Read => Action::Read,
            PartRequest::Stage(_) => Action::Stage,
            PartRequest::Write(_) => Action::Write,
        },
        file,
        file_offset: start + part.offset,
        region: transfer.region,
        region_offset: index as u64 * transfer.slot_stride,
        memory: transfer.memory,
        // The source may end within its last block; what counts is the payload.
        need: if role == Role::Source { part.length } else { ask },
        ask,
        block,
        end: EndOfFile::Fails,
        progress: RequestProgress::default(),
    }
}
