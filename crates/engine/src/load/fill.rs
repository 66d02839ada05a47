//! A range of a file into memory of somebody else on a GPU: loaded in parts into memory of our own, copied within the GPU.
//!
//! Nobody else's memory is registered with a library, and no byte of it is touched that was not asked for. What our own
//! memory held is overwritten with zeroes before it goes back.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory, Foreign};
use peerlane_results::Route;
use peerlane_units::{Bytes, Nanos};

use super::{BLOCK, LoadError, LoadRings, Loader, room};
use crate::Clock;
use crate::desk::{Stopped, wait_until};
use crate::watch::ReadTools;

/// Memory of our own at most.
const PART: u64 = 64 << 20;
/// The least that is worth a try where the GPU has not more: others in this process may have nearly all of it.
const LEAST_PART: u64 = 1 << 20;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const NO_ROOM: i32 = 2;

/// Filled bytes by their way to the GPU. All of them are copied once more within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filled {
    /// Bytes from the beginning of the range on.
    pub bytes: Bytes,
    /// Bytes of them that came by cuFile, direct; none where its counters do not show that.
    pub direct: Bytes,
    /// Bytes of them that came through pinned host memory.
    pub through_host: Bytes,
    /// Bytes of them that came out of the page cache, and through pinned host memory.
    pub page_cache: Bytes,
    /// Set when a wish to stop came before the end.
    pub is_stopped: bool,
}

/// Fills memory with a range of a file that must not end before it and is as long as the memory at most. The file is
/// left open for direct I/O where it takes that; why bytes did not come directly is a notice.
///
/// All that was asked of the GPU before is waited for, so that nobody's work on the memory is still to come; there is
/// no deadline for that, nor for the copies within the GPU.
///
/// # Errors
/// [`LoadError`]; what the memory holds is not said then.
pub fn fill(
    file: &File,
    range: &Range<u64>,
    memory: &Foreign,
    ways: &LoadRings,
    tools: &mut ReadTools<'_>,
) -> Result<Filled, LoadError> {
    if range.is_empty() {
        return Ok(Filled::default());
    }
    // Dropped last: the caller's thread has its own GPU again.
    let _kept = memory.gpu().keep_context()?;
    memory.settle()?;
    let own = allocate(memory, room(range).0.min(PART))?;
    let mut loader = Loader::new(memory.gpu(), ways, tools.clock, tools.deadline);
    let filled = parts(file, range, memory, &own, &mut loader, tools);
    loader.release();
    drop(loader);
    give_back(own, tools);
    let filled = filled?;
    match ways.judge()? {
        Some(Err(none)) if filled.direct > Bytes::ZERO => {
            tools.watch.notice(&format!("the route into the GPU is unknown: {none}"));
            Ok(Filled { direct: Bytes::ZERO, ..filled })
        }
        _ => Ok(filled),
    }
}

/// Memory of our own on the same GPU, of whole blocks; less than asked for where there is not so much.
fn allocate(memory: &Foreign, most: u64) -> Result<Arc<DeviceMemory>, CudaError> {
    let mut length = most;
    loop {
        match memory.gpu().allocate(Bytes(length)) {
            Err(CudaError::Call { code: NO_ROOM, .. }) if length > LEAST_PART => {
                length = (length / 2).next_multiple_of(BLOCK).max(LEAST_PART);
            }
            done => return done,
        }
    }
}

fn parts(
    file: &File,
    range: &Range<u64>,
    memory: &Foreign,
    own: &Arc<DeviceMemory>,
    loader: &mut Loader<'_>,
    tools: &mut ReadTools<'_>,
) -> Result<Filled, LoadError> {
    let mut filled = Filled::default();
    let mut at = range.start;
    let mut is_told = false;
    while at < range.end {
        if tools.watch.stop_requested() {
            return Ok(Filled { is_stopped: true, ..filled });
        }
        // As much as whole blocks around it fit.
        let most = (at / BLOCK * BLOCK).saturating_add(own.length().0);
        let part = at..range.end.min(most);
        let loaded = loader.load(file, &part, own)?;
        let length = part.end - part.start;
        memory.take(at - range.start, (own, loaded.begin), length)?;
        let way = match (loaded.route, loaded.page_cache) {
            (Route::P2p, _) => &mut filled.direct,
            (Route::Host, false) => &mut filled.through_host,
            (Route::Host, true) => &mut filled.page_cache,
        };
        way.0 += length;
        filled.bytes.0 += length;
        if let Some(reason) = loaded.reason.filter(|_| !is_told) {
            is_told = true;
            tools.watch.notice(&format!("not directly into the GPU: {reason}"));
        }
        tools.watch.progress(filled.bytes, Bytes(range.end - range.start));
        at = part.end;
    }
    Ok(filled)
}

/// Frees memory of our own, with zeroes in it; memory that a hanging request has is neither cleared nor freed.
fn give_back(own: Arc<DeviceMemory>, tools: &mut ReadTools<'_>) {
    let why = if Arc::strong_count(&own) > 1 {
        "a request on it is still under way".to_owned()
    } else {
        match clear(&own, tools.clock, tools.deadline) {
            Ok(()) => return,
            Err(stopped) => stopped.to_string(),
        }
    };
    tools.watch.caution(&format!("memory of the GPU was not overwritten: {why}"));
}

fn clear(own: &Arc<DeviceMemory>, clock: &dyn Clock, deadline: Nanos) -> Result<(), Stopped> {
    let mut queue = own.gpu().queue()?;
    queue.fill(own, 0, own.length().0, 0)?;
    queue.close()?;
    wait_until((clock, deadline), || queue.is_over())
}
