//! Reads an end by direct I/O, with a deadline for each request, before it is written.

use std::ops::{ControlFlow, Range};

use peerlane_results::MemoryKind;
use peerlane_units::{Bytes, Nanos};

use super::survey::{BLOCK, SurveyError};
use crate::endpoints::lane::Session;
use crate::endpoints::machine::Machine;
use crate::endpoints::open::Opened;
use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role};
use crate::io::ranges::RangeSet;
use crate::io::request::{EndOfFile, Request, RequestProgress, carry_out};
use crate::io::ring::{Action, FileId, RegionId, Ring as _};

/// Most bytes of one request, and of all that are read at a time.
const REQUEST_MAX: u64 = 1 << 20;
const ROOM: u64 = 16 << 20;
/// Requests at a time.
const DEPTH: usize = 64;

/// An end that is read by direct I/O, piece by piece.
pub(crate) struct EndReader<'a> {
    session: Session<'a>,
    file: FileId,
    /// Memory for one read, and its size.
    region: Option<(RegionId, u64)>,
    block: u64,
    clock: &'a dyn Clock,
    deadline: Nanos,
}

impl<'a> EndReader<'a> {
    /// Reads an open end, whose blocks have `block` bytes.
    pub(super) fn new(
        machine: &'a dyn Machine,
        opened: &Opened,
        block: u64,
        (clock, deadline): (&'a dyn Clock, Nanos),
    ) -> Result<Self, SurveyError> {
        let entries = u32::try_from(DEPTH).unwrap_or(u32::MAX);
        let mut session = Session::on(machine, entries, false, None)?;
        let file = session.attach_file(opened).map_err(SurveyError::Attach)?;
        let block = if opened.is_direct { block.max(1) } else { 1 };
        Ok(Self { session, file, region: None, block, clock, deadline })
    }

    /// Reads a range that lies within the end.
    pub(crate) fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>, SurveyError> {
        let mut all = Vec::new();
        let mut spans = RangeSet::new();
        let start = range.start / self.block * self.block;
        spans.insert(start..range.end);
        self.spans(&spans, |_, bytes| {
            all.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        all.drain(..all.len().min(usize::try_from(range.start - start).unwrap_or(usize::MAX)));
        Ok(all)
    }

    /// Reads a range that lies within the end; blocks that cannot be read count as zeroes.
    pub(crate) fn readable_bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>, SurveyError> {
        match self.bytes(range.clone()) {
            Err(SurveyError::Request(RequestError::Failed(_))) => {}
            read => return read,
        }
        let length = range.end - range.start;
        if length <= self.block {
            return Ok(vec![0; usize::try_from(length).unwrap_or(usize::MAX)]);
        }
        let unit = if length > BLOCK { self.block.max(BLOCK) } else { self.block };
        let mut all = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = ((start / unit + 1) * unit).min(range.end);
            all.extend(self.readable_bytes(start..end)?);
            start = end;
        }
        Ok(all)
    }

    /// Reads spans that begin at blocks, in order of offset, and shows them piece by piece.
    pub(crate) fn spans(
        &mut self,
        spans: &RangeSet,
        mut show: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), SurveyError> {
        let size = |piece: Range<u64>| piece.end - piece.start;
        let unit = self.block.max(BLOCK);
        let all = spans.iter().flat_map(pieces).map(|piece| size(piece).next_multiple_of(unit));
        let (region, most) = self.region(all.sum())?;
        let mut pieces = spans.iter().flat_map(pieces).peekable();
        while pieces.peek().is_some() {
            let mut room = most;
            let mut requests = Vec::with_capacity(DEPTH);
            while let Some(piece) = pieces.next_if(|piece| {
                requests.len() < DEPTH && size((*piece).clone()).next_multiple_of(unit) <= room
            }) {
                requests.push(self.request(&piece, region, most - room));
                room -= size(piece).next_multiple_of(unit);
            }
            carry_out(&mut self.session.ring, &mut requests, self.clock, self.deadline)?;
            let Some(bytes) = self.session.ring.host_bytes(region) else { return Ok(()) };
            for request in &requests {
                let start = usize::try_from(request.region_offset).unwrap_or(usize::MAX);
                let length = usize::try_from(request.need).unwrap_or(usize::MAX);
                if show(request.file_offset, &bytes[start..start + length]).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Memory for so many bytes, or for as many as are read at a time.
    fn region(&mut self, bytes: u64) -> Result<(RegionId, u64), SurveyError> {
        match self.region {
            Some((region, size)) if size >= bytes.min(ROOM) => Ok((region, size)),
            smaller => {
                let size = bytes.max(smaller.map_or(BLOCK, |(_, size)| 2 * size)).min(ROOM);
                let region = self.session.host(Bytes(size))?;
                Ok(*self.region.insert((region, size)))
            }
        }
    }

    fn request(&self, piece: &Range<u64>, region: RegionId, region_offset: u64) -> Request {
        let need = piece.end - piece.start;
        Request {
            role: Role::Target,
            action: Action::Read,
            file: self.file,
            file_offset: piece.start,
            region,
            region_offset,
            memory: MemoryKind::Host,
            need,
            ask: need.next_multiple_of(self.block),
            block: self.block,
            end: EndOfFile::Fails,
            progress: RequestProgress::default(),
        }
    }
}

/// A span in parts of one request.
fn pieces(span: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let step = usize::try_from(REQUEST_MAX).unwrap_or(usize::MAX);
    (span.start..span.end).step_by(step).map(move |at| at..(at + REQUEST_MAX).min(span.end))
}
