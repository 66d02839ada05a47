//! The end of a copy that is not a whole block of the target, merged in host memory.

use peerlane_results::MemoryKind;

use super::{RelayError, ShapeFault, Transfer};
use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role};
use crate::io::request::{EndOfFile, FilePlace, MemoryPlace, Request, RequestProgress, carry_out};
use crate::io::ring::{Action, FileId, RegionId, Ring};

/// Writes the tail that a relay with [`MergeInHost`](peerlane_results::Tail::MergeInHost) left
/// over: reads the target's last block and the source's into host memory, puts the payload over the
/// first, writes it. Returns the bytes of payload, zero if the copy ends on a block.
///
/// With stages it is the last chunk, and they work on it here.
///
/// `host` holds the target's blocks of the payload, and the source's: two blocks of the source and twice
/// the payload in whole target blocks are always enough. A target file that ends within its last
/// block is written up to the block's end; its owner cuts it back.
///
/// # Errors
/// [`RelayError`]; the transfer's deadline holds for each request.
pub fn merge_in_host<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    host: RegionId,
    clock: &dyn Clock,
) -> Result<u64, RelayError> {
    transfer.check(ring.region_length(transfer.region)).map_err(RelayError::Shape)?;
    let body = transfer.body();
    let tail = transfer.length - body;
    if tail == 0 {
        return Ok(0);
    }
    let reads = reads(transfer, host, body);
    let region_length = ring.region_length(host).unwrap_or(0);
    let stride = reads[1].region_offset + reads[1].ask;
    if stride > region_length {
        return Err(RelayError::Shape(ShapeFault::Slots { slots: 1, stride, region_length }));
    }
    let skipped = transfer.source_offset + body - reads[1].file_offset;
    merge(ring, transfer, reads, TailPayload { skipped, length: tail }, clock).map_err(
        |source| {
            let mut moved = Box::new(super::Moved::nothing());
            moved.written.insert(0..body);
            RelayError::Stopped { source, moved }
        },
    )?;
    Ok(tail)
}

/// Place of the payload in the bytes read of the source.
#[derive(Debug, Clone, Copy)]
struct TailPayload {
    skipped: u64,
    length: u64,
}

fn reads(transfer: &Transfer, host: RegionId, body: u64) -> [Request; 2] {
    let payload_start = transfer.source_offset + body;
    let payload_end = transfer.source_offset + transfer.length;
    let block = transfer.source_block;
    let span = (transfer.length - body).next_multiple_of(transfer.target_block);
    let start = payload_start / block * block;
    let target = Request {
        role: Role::Target,
        action: Action::Read,
        file: transfer.target,
        file_offset: transfer.target_offset + body,
        region: host,
        region_offset: 0,
        memory: MemoryKind::Host,
        need: span,
        ask: span,
        block: transfer.target_block,
        end: EndOfFile::IsFine,
        progress: RequestProgress::default(),
    };
    let source = Request {
        role: Role::Source,
        file: transfer.source,
        file_offset: start,
        // Direct I/O wants the address aligned as the offset is.
        region_offset: span.next_multiple_of(block),
        need: payload_end - start,
        ask: payload_end.next_multiple_of(block) - start,
        block,
        end: EndOfFile::Fails,
        ..target
    };
    [target, source]
}

/// Has each stage work on the payload.
fn work_on<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    host: RegionId,
    region_offset: u64,
    length: u64,
    clock: &dyn Clock,
) -> Result<(), RequestError> {
    for number in 0..transfer.stages {
        let file = FilePlace { file: FileId(number), offset: transfer.body(), block: 1 };
        let place = MemoryPlace::host(host, region_offset);
        let mut work = [Request::new(Role::Source, Action::Stage, file, place, length)];
        carry_out(ring, &mut work, clock, transfer.deadline)
            .map_err(|source| RequestError::Stage { number, source: Box::new(source) })?;
    }
    Ok(())
}

fn merge<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    mut reads: [Request; 2],
    payload: TailPayload,
    clock: &dyn Clock,
) -> Result<(), RequestError> {
    carry_out(ring, &mut reads, clock, transfer.deadline)?;
    let [target, source] = reads;
    let start = source.region_offset + payload.skipped;
    work_on(ring, transfer, source.region, start, payload.length, clock)?;
    let no_bytes = || RequestError::Ring(std::io::Error::other("the region is not host memory"));
    let bytes = ring.host_bytes(target.region).ok_or_else(no_bytes)?;
    let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    // A target file that ends here has nothing behind its end.
    bytes[index(target.moved())..index(target.need)].fill(0);
    let start = index(start);
    bytes.copy_within(start..start + index(payload.length), 0);
    let mut write = [Request {
        action: Action::Write,
        end: EndOfFile::Fails,
        progress: RequestProgress::default(),
        ..target
    }];
    carry_out(ring, &mut write, clock, transfer.deadline)
}
