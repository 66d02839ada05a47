//! Reads a file or block device into memory that the caller owns, round the page cache.
//!
//! Blocks that lie in that memory as direct I/O wants them are read to where they belong; at another alignment, to the
//! next place within the range that it takes, and moved from there. The rest (a beginning or an end that is not a whole
//! block, and all of 64 KiB and less that are not whole blocks in their place) is read into host memory and stored from
//! there; [`Reading`] says how much went which way. Nothing is written or kept, and no bytes before or after the range
//! that was asked for are changed.
//!
//! Memory of a GPU is filled by [`Reader::read_into_gpu`], in the ways of [`crate::transfer::load`].

mod error;
mod gpu;
mod pieces;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_memory::{Lent, lent};
use peerlane_units::{Bytes, Nanos};
use rustix::fs::{AtFlags, StatxFlags};

pub use error::ReadError;

pub use crate::io::watch::ReadTools;

use crate::endpoints::lane::Session;
use crate::endpoints::open::{Opened, open_end};
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out, carry_until};
use crate::io::ring::{Action, AnyRing, FileId, RegionId, Ring, Staged};
use crate::io::system::System;
use crate::io::trace::Traced;
use crate::io::watch::Phase;
use pieces::{PieceRoute, ReadPiece, ReadPieces};

/// Requests in flight at most.
const DEPTH: usize = 16;
/// Room of the ring.
const ENTRIES: u32 = 32;
/// The most that one request reads.
const REQUEST_MAX: u64 = 1 << 20;

/// Bytes read, by the way that they took to their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes read; fewer than there is room for only if the file ends.
    pub bytes: Bytes,
    /// Bytes of them that the drive's DMA put where they are.
    pub direct: Bytes,
    /// Bytes of them that the drive's DMA put next to their place in the caller's memory, and the
    /// CPU moved there.
    pub shifted: Bytes,
    /// Bytes of them that came through host memory of our own and were stored by the CPU.
    pub copied: Bytes,
    /// Bytes of them that came out of the page cache, if the file takes no direct I/O.
    pub page_cache: Bytes,
}

/// A file or block device, open for reading.
#[derive(Debug)]
pub struct Reader {
    opened: Opened,
    path: PathBuf,
    size: Bytes,
    rules: Rules,
}

/// Limits for requests to a file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rules {
    /// Unit of offsets and lengths.
    block: u64,
    /// Unit of addresses.
    alignment: u64,
    /// The most of one request; a multiple of the block.
    request: u64,
    is_direct: bool,
}

impl Reader {
    /// Opens a file or device, named like the source of a copy.
    ///
    /// # Errors
    /// [`ReadError`] when it is not there, not readable, or no source of payload.
    pub fn open(fabric: &Fabric, typed: &str, deadline: Nanos) -> Result<Self, ReadError> {
        let system = System::at(Path::new("/"));
        let (end, opened) = open_end(&system, fabric, typed, Role::Source, deadline)?;
        let path = end.live.map_or_else(PathBuf::new, |live| live.path);
        let block = if opened.is_direct { end.facts.block.0.max(1) } else { 1 };
        let request = end.facts.request_host.0.min(REQUEST_MAX);
        let rules = Rules {
            block,
            alignment: if opened.is_direct { alignment(&opened.file).unwrap_or(block) } else { 1 },
            request: (request / block * block).max(block),
            is_direct: opened.is_direct,
        };
        Ok(Self { opened, path, size: end.facts.size, rules })
    }

    /// Absolute path, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when reads go round the page cache.
    pub fn is_direct(&self) -> bool {
        self.rules.is_direct
    }

    /// Unit of offsets that needs no host memory of our own, in bytes.
    pub fn block(&self) -> Bytes {
        Bytes(self.rules.block)
    }

    /// Returns the size to be read: of a file as it is now, of a device as it was when it was
    /// opened.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn size(&self) -> Result<Bytes, ReadError> {
        let facts = self.opened.file.metadata().map_err(|error| self.failed("look at", error))?;
        Ok(if facts.is_file() { Bytes(facts.len()) } else { self.size })
    }

    /// Fills memory from an offset of the file, up to its end.
    ///
    /// # Errors
    /// [`ReadError`]; the content of the memory is undefined then.
    pub fn read_into(
        &self,
        offset: Bytes,
        memory: &Lent,
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ReadError> {
        self.read_ranges(&[(offset, memory)], tools)
    }

    /// Fills several memories, each from an offset of the file up to its end, as one read.
    ///
    /// # Errors
    /// [`ReadError`]; the content of the memories is undefined then.
    pub fn read_ranges(
        &self,
        ranges: &[(Bytes, &Lent)],
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ReadError> {
        let size = self.size()?.0;
        let lengths: Vec<u64> = ranges
            .iter()
            .map(|(offset, memory)| size.saturating_sub(offset.0).min(memory.length().0))
            .collect();
        let total = lengths.iter().sum();
        tools.watch.phase(Phase::Move);
        tools.watch.begin(Bytes::ZERO, Bytes(total));
        if total == 0 {
            return Ok(Reading::default());
        }
        let mut session = Session::new(ENTRIES, [], None)?;
        let attached = session.attach_file(&self.opened);
        let file = attached.map_err(|error| self.failed("attach", error))?;
        let places: Vec<ReadPlace<'_>> = ranges
            .iter()
            .zip(lengths)
            .map(|(&(offset, memory), length)| ReadPlace {
                memory,
                region: session.ring.attach_region(lent::region(memory)),
                pieces: ReadPieces::new(self.rules, offset.0, length, memory.address() as u64),
            })
            .collect();
        let room = places.iter().map(|place| place.pieces.room()).max().unwrap_or_default();
        let slots = Vec::new();
        let work = ActiveRead { rules: self.rules, file, places: &places, room, total, slots };
        work.run(&mut session, tools).map_err(|error| self.named(error))
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> ReadError {
        ReadError::File { action, path: self.path.clone(), source }
    }

    /// Says which file it was.
    fn named(&self, error: ReadError) -> ReadError {
        match error {
            ReadError::Request { source, .. } => {
                ReadError::Request { path: self.path.clone(), source }
            }
            other => other,
        }
    }
}

/// Returns the alignment of addresses for direct I/O, if the kernel tells it (Linux 6.1).
fn alignment(file: &File) -> Option<u64> {
    let facts = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_told = facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    Some(u64::from(facts.stx_dio_mem_align)).filter(|align| is_told && align.is_power_of_two())
}

/// One range of a read, and the caller's memory for it.
struct ReadPlace<'a> {
    memory: &'a Lent,
    region: RegionId,
    pieces: ReadPieces,
}

/// A read under way: pieces in slots, each used again when its piece is where it belongs.
struct ActiveRead<'a> {
    rules: Rules,
    file: FileId,
    places: &'a [ReadPlace<'a>],
    /// Bytes of host memory that a slot may need.
    room: u64,
    total: u64,
    slots: Vec<ReadSlot<'a>>,
}

/// A piece and the place that it belongs to.
type PlacedPiece<'a> = (&'a ReadPlace<'a>, ReadPiece);

/// A place for one request.
#[derive(Clone, Copy, Default)]
struct ReadSlot<'a> {
    piece: Option<PlacedPiece<'a>>,
    /// Host memory of its own, from the first piece on that needs it.
    host: Option<RegionId>,
}

impl<'a> ActiveRead<'a> {
    fn run(
        mut self,
        session: &mut Session<'_>,
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ReadError> {
        let places = self.places;
        let mut pieces =
            places.iter().flat_map(|place| place.pieces.clone().map(move |piece| (place, piece)));
        let mut requests = Vec::with_capacity(DEPTH);
        for piece in pieces.by_ref().take(DEPTH) {
            self.slots.push(ReadSlot::default());
            let index = self.slots.len() - 1;
            requests.push(self.fill(index, piece, session)?);
        }
        let mut reading = Reading::default();
        for index in (0..self.slots.len()).cycle() {
            let Some(piece) = self.slots[index].piece else { break };
            if tools.watch.stop_requested() {
                carry_out(&mut session.ring, &mut requests, tools.clock, tools.deadline)?;
                return Err(ReadError::Interrupted {
                    done: reading.bytes,
                    total: Bytes(self.total),
                });
            }
            carry_until(
                &mut session.ring,
                &mut requests,
                index..index + 1,
                tools.clock,
                tools.deadline,
            )?;
            self.settle(index, piece, &mut session.ring, &mut reading)?;
            tools.watch.progress(reading.bytes, Bytes(self.total));
            self.slots[index].piece = None;
            if let Some(piece) = pieces.next() {
                requests[index] = self.fill(index, piece, session)?;
            }
        }
        Ok(reading)
    }

    /// The request for a piece in a slot.
    fn fill(
        &mut self,
        index: usize,
        (place, piece): PlacedPiece<'a>,
        session: &mut Session<'_>,
    ) -> Result<Request, ReadError> {
        let slot = &mut self.slots[index];
        slot.piece = Some((place, piece));
        let (region, region_offset) = match (piece.way, slot.host) {
            (PieceRoute::InPlace, _) => (place.region, piece.place),
            (PieceRoute::Shifted(shift), _) => (place.region, piece.place + shift),
            (PieceRoute::Copied, Some(host)) => (host, 0),
            (PieceRoute::Copied, None) => {
                let host = session.host(Bytes(self.room))?;
                slot.host = Some(host);
                (host, 0)
            }
        };
        let from = FilePlace { file: self.file, offset: piece.offset, block: self.rules.block };
        let to = MemoryPlace::host(region, region_offset);
        Ok(Request::new(Role::Source, Action::Read, from, to, piece.need))
    }

    /// Moves the bytes read to their place, and counts them.
    fn settle(
        &self,
        index: usize,
        (place, piece): PlacedPiece<'_>,
        ring: &mut Traced<Staged<AnyRing>>,
        reading: &mut Reading,
    ) -> Result<(), ReadError> {
        let (memory, length) = (place.memory, piece.length());
        reading.bytes.0 += length;
        let (way, is_there) = match (piece.way, self.rules.is_direct) {
            (PieceRoute::InPlace, true) => (&mut reading.direct, true),
            (PieceRoute::InPlace, false) => (&mut reading.page_cache, true),
            (PieceRoute::Shifted(shift), _) => {
                let is_there = memory.shift(piece.place + shift, piece.place, length);
                (&mut reading.shifted, is_there)
            }
            (PieceRoute::Copied, _) => {
                (&mut reading.copied, self.store(index, piece, ring, memory))
            }
        };
        way.0 += length;
        if is_there { Ok(()) } else { Err(ReadError::Misplaced) }
    }

    /// Stores a piece from a slot's own memory; false if it is not within the caller's.
    fn store(
        &self,
        index: usize,
        piece: ReadPiece,
        ring: &mut Traced<Staged<AnyRing>>,
        memory: &Lent,
    ) -> bool {
        let (Ok(from), Ok(to)) = (usize::try_from(piece.skip), usize::try_from(piece.need)) else {
            return false;
        };
        self.slots[index]
            .host
            .and_then(|host| ring.host_bytes(host)?.get(from..to))
            .is_some_and(|bytes| memory.store(piece.place, bytes))
    }
}
