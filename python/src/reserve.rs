//! The allocator of this module: a reserve for when the system has no memory left.
//!
//! Rust ends a process whose allocation fails. Requests in flight need some KiB until an error is
//! raised: those come out of the reserve. What needs more asks for [`headroom`] first.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::error::{ErrorDetails, ExceptionKind};

/// Bytes of the reserve. They are pages only once they are used.
const RESERVE_BYTES: usize = 1 << 20;
/// Bytes of one of its words.
const WORD_BYTES: usize = size_of::<AtomicU64>();

static MEMORY: [AtomicU64; RESERVE_BYTES / WORD_BYTES] =
    [const { AtomicU64::new(0) }; RESERVE_BYTES / WORD_BYTES];
static USE: Mutex<ReserveUse> = Mutex::new(ReserveUse { bytes: 0, blocks: 0 });

/// What is in use of the reserve; all of it is free again when its last block is.
struct ReserveUse {
    bytes: usize,
    blocks: usize,
}

/// The system's allocator, and the reserve behind it.
pub(crate) struct ReserveAllocator;

/// Tests that memory can be had before something needs it.
///
/// # Errors
/// When the system has less than that and the reserve.
pub(crate) fn headroom(what: &str, bytes: usize) -> Result<(), ErrorDetails> {
    let mut found = Vec::<u8>::new();
    // More than the reserve, which must not be what answers.
    let tried = found.try_reserve_exact(bytes.saturating_add(RESERVE_BYTES + 1));
    black_box(&found);
    tried.map_err(|_| {
        let words = format!("cannot have {bytes} bytes of memory to {what}");
        ErrorDetails::new(ExceptionKind::OutOfMemory, words)
            .hint(Some("ulimit -v, and memory.max of the control group, show the limits"))
    })
}

fn reserve() -> *mut u8 {
    MEMORY.as_ptr().cast_mut().cast()
}

fn is_of_reserve(pointer: *mut u8) -> bool {
    pointer.addr().wrapping_sub(reserve().addr()) < RESERVE_BYTES
}

/// A block of the reserve, or null.
fn take(layout: Layout) -> *mut u8 {
    let mut using = USE.lock().unwrap_or_else(PoisonError::into_inner);
    let next = reserve().wrapping_add(using.bytes);
    let begin = using.bytes + next.align_offset(layout.align());
    match begin.checked_add(layout.size()) {
        Some(end) if end <= RESERVE_BYTES => {
            *using = ReserveUse { bytes: end, blocks: using.blocks + 1 };
            reserve().wrapping_add(begin)
        }
        _ => ptr::null_mut(),
    }
}

fn give_back() {
    let mut using = USE.lock().unwrap_or_else(PoisonError::into_inner);
    using.blocks -= 1;
    if using.blocks == 0 {
        using.bytes = 0;
    }
}

// SAFETY: a block is either the system's, or a part of the reserve that no other block has, aligned as asked for,
// until the last block of the reserve was given back; nothing here unwinds.
unsafe impl GlobalAlloc for ReserveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract of this function, which is the same.
        let found = unsafe { System.alloc(layout) };
        if found.is_null() { take(layout) } else { found }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let found = unsafe { System.alloc_zeroed(layout) };
        if !found.is_null() {
            return found;
        }
        let found = take(layout);
        if !found.is_null() {
            // SAFETY: a block of the reserve has as many bytes, and atomics may be written by a pointer.
            unsafe { found.write_bytes(0, layout.size()) };
        }
        found
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_of_reserve(pointer) {
            give_back();
        } else {
            // SAFETY: what is not of the reserve is of the system, by this layout.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_of_reserve(pointer) {
            // SAFETY: as in `dealloc`; the caller keeps to the contract of the new size.
            let found = unsafe { System.realloc(pointer, layout, size) };
            if !found.is_null() {
                return found;
            }
        }
        // SAFETY: the caller has a size that is not 0 and, with this alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: its size is not 0.
        let found = unsafe { self.alloc(wanted) };
        if !found.is_null() {
            // SAFETY: both have as many bytes, and are different blocks.
            unsafe { ptr::copy_nonoverlapping(pointer, found, layout.size().min(size)) };
            // SAFETY: the old block is not used again.
            unsafe { self.dealloc(pointer, layout) };
        }
        found
    }
}
