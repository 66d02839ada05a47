//! Maps of memory: the only place of this crate that talks to the system about addresses.
//!
//! A [`Map`] unmaps itself when dropped. Maps of device memory are not read or written here either.
//! [`Lent`] is memory of another owner, by a promise that only that owner can make.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use peerlane_units::Bytes;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A map of whole pages that this process owns alone, or memory that it was lent.
#[derive(Debug)]
pub(crate) struct Map {
    address: NonNull<c_void>,
    length: usize,
    backing: Backing,
}

/// The kind of memory behind a map.
#[derive(Debug, Clone)]
enum Backing {
    /// Private anonymous pages: ordinary memory.
    Anonymous,
    /// A shared map of a file; may be device memory.
    Shared,
    /// Memory of another owner, who is kept here.
    Lent(#[expect(dead_code, reason = "kept for its end")] LentOwner),
}

/// Keeps lent memory where it is.
#[derive(Clone)]
struct LentOwner(#[expect(dead_code, reason = "kept for its end")] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for LentOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

// SAFETY: a `Map` is the only owner of its pages, and neither mapping nor unmapping is tied to a thread;
// lent memory may be used from any thread by the promise of `Lent::new`.
unsafe impl Send for Map {}

// SAFETY: a shared `Map` gives its address and length; its bytes are only seen through `&mut`.
unsafe impl Sync for Map {}

/// Host memory of another owner that payload may be read into.
///
/// Clones are of the same memory. Its bytes are only ever stored to: by the kernel for requests of a ring
/// that owns [`crate::lent::region`], by [`Lent::store`], and by [`Lent::shift`], which alone loads them.
#[derive(Debug, Clone)]
pub struct Lent {
    address: NonNull<u8>,
    length: usize,
    owner: LentOwner,
}

// SAFETY: `Lent::new` asks for memory that any thread may store to, and the owner is `Send` and `Sync`.
unsafe impl Send for Lent {}

// SAFETY: as above; what several threads store at the same time is for the caller of `store` and `shift` to order:
// bytes without a type, of which none is invalid.
unsafe impl Sync for Lent {}

impl Lent {
    /// Takes `length` bytes at `address` for as long as `owner` is kept.
    ///
    /// # Safety
    /// Until `owner` is dropped, any thread and the kernel may load and store these bytes, which are host memory
    /// in one allocation, and no Rust reference to them is used.
    pub unsafe fn new(
        address: NonNull<u8>,
        length: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { address, length, owner: LentOwner(owner) }
    }

    /// Lends the first `length` bytes of an anonymous map, which is kept in the owner that comes back; `None` where
    /// it is another map, or a shorter one.
    pub(crate) fn of_map(mut map: Map, length: Bytes) -> Option<(Self, Arc<Map>)> {
        let length = map.bytes_mut().get(..usize::try_from(length.0).ok()?)?.len();
        let address = map.address().cast();
        let owner = Arc::new(map);
        let kept: Arc<dyn Any + Send + Sync> = Arc::clone(&owner) as _;
        // SAFETY: the map holds these pages until the owner is dropped, and it is given back only when
        // nobody else has the owner (`Lender::take`), so no reference to its bytes is made meanwhile.
        let lent = unsafe { Self::new(address, length, kept) };
        Some((lent, owner))
    }

    /// Bytes that were lent.
    pub fn length(&self) -> Bytes {
        Bytes(self.length as u64)
    }

    /// The address of the first byte, for rules of alignment.
    pub fn address(&self) -> usize {
        self.address.as_ptr().addr()
    }

    /// Moves `length` bytes from one offset to another, which may overlap; false if either range
    /// does not fit, and nothing is moved then.
    #[must_use]
    pub fn shift(&self, from: u64, to: u64, length: u64) -> bool {
        let fits = |at: u64| at.checked_add(length).is_some_and(|end| end <= self.length as u64);
        let (Ok(source), Ok(target), Ok(count)) =
            (usize::try_from(from), usize::try_from(to), usize::try_from(length))
        else {
            return false;
        };
        if !fits(from) || !fits(to) {
            return false;
        }
        let [source, target] = [source, target].map(|at| self.address.as_ptr().wrapping_add(at));
        // SAFETY: both ranges are within the memory that `Lent::new` was promised, which is there while `owner` is, and
        // no Rust reference to it is used; `copy` takes ranges that overlap.
        unsafe { ptr::copy(source, target, count) };
        true
    }

    /// The same memory as a map that a ring can own.
    pub(crate) fn map(&self) -> Map {
        let address = self.address.cast();
        Map { address, length: self.length, backing: Backing::Lent(self.owner.clone()) }
    }

    /// Stores bytes at an offset; false if they do not fit, and nothing is stored then.
    #[must_use]
    pub fn store(&self, offset: u64, bytes: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.length) {
            return false;
        }
        let place = self.address.as_ptr().wrapping_add(offset);
        // SAFETY: the place and as many bytes after it are within the memory that `Lent::new` was promised,
        // which is there while `owner` is; `bytes` is a Rust reference, so by that promise not of it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        true
    }
}

impl Map {
    /// Maps `length` bytes of private zeroed memory at a multiple of `alignment`.
    ///
    /// `length` and `alignment` are multiples of the page size, `alignment` a power of two.
    ///
    /// # Errors
    /// `EINVAL` for an empty length or one that does not fit; else the system's answer.
    pub(crate) fn anonymous(length: usize, alignment: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        if length == 0 {
            return Err(Errno::INVAL);
        }
        let slack = alignment.saturating_sub(page);
        let wide = length.checked_add(slack).ok_or(Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint lets the kernel choose an unused range, so no existing map is replaced.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), wide, protection, MapFlags::PRIVATE) }?;
        let head = start.addr().wrapping_neg() & (alignment - 1);
        let aligned = start.wrapping_byte_add(head);
        trim(start, head);
        trim(aligned.wrapping_byte_add(length), wide - head - length);
        Self::own(aligned, length, Backing::Anonymous)
    }

    /// Maps the first `length` bytes of a file, shared, for reading and writing by devices.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn shared(file: BorrowedFd<'_>, length: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint lets the kernel choose an unused range, so no existing map is replaced.
        // The pages are never dereferenced by this process: `bytes_mut` is empty for this backing.
        let start =
            unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        Self::own(start, length, Backing::Shared)
    }

    /// Maps the first `length` bytes of a file for reading by the kernel.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn read_only(file: BorrowedFd<'_>, length: usize) -> Result<Self, Errno> {
        // SAFETY: a null hint lets the kernel choose an unused range, so no existing map is replaced.
        // The pages are never dereferenced by this process, which would end if somebody cut the file:
        // `bytes_mut` is empty for this backing. The kernel answers `EFAULT` then.
        let start =
            unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Self::own(start, length, Backing::Shared)
    }

    fn own(address: *mut c_void, length: usize, backing: Backing) -> Result<Self, Errno> {
        let address = NonNull::new(address).ok_or(Errno::NOMEM)?;
        let map = Self { address, length, backing };
        map.keep_from_children();
        Ok(map)
    }

    /// Keeps the pages out of forked children: one that outlives this process must not hold memory that a
    /// device lends, and a copy on write would take pages away under a DMA.
    fn keep_from_children(&self) {
        // SAFETY: the range is a map of our own; `MADV_DONTFORK` changes nothing for this process.
        let _ = unsafe { madvise(self.address.as_ptr(), self.length, Advice::LinuxDontFork) };
    }

    /// Asks for huge pages; a refusal changes only speed and is not reported.
    pub(crate) fn prefer_huge_pages(&mut self) {
        if matches!(self.backing, Backing::Anonymous) {
            // SAFETY: the range is a map of our own, and `MADV_HUGEPAGE` does not change its content.
            let _ = unsafe { madvise(self.address.as_ptr(), self.length, Advice::LinuxHugepage) };
        }
    }

    /// Gives every page its memory now.
    ///
    /// # Errors
    /// The system's answer: `ENOMEM` or `EFAULT` without memory, `EINVAL` before Linux 5.14.
    pub(crate) fn populate(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is a map of our own, and `MADV_POPULATE_WRITE` does not change its content.
        unsafe { madvise(self.address.as_ptr(), self.length, Advice::LinuxPopulateWrite) }
    }

    /// Maps the pages of a range as faults on them would, without reading them.
    ///
    /// # Errors
    /// `EINVAL` for a range that does not begin on a page or is not within the map, and before Linux 5.14; else the
    /// system's answer: `EFAULT` for pages that are gone.
    pub(crate) fn fault_in(&mut self, offset: usize, length: usize) -> Result<(), Errno> {
        let is_within = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if !is_within || offset % rustix::param::page_size() != 0 {
            return Err(Errno::INVAL);
        }
        let start = self.address.as_ptr().wrapping_byte_add(offset);
        // SAFETY: the range is within a map of our own, and `MADV_POPULATE_READ` does not change its content.
        unsafe { madvise(start, length, Advice::LinuxPopulateRead) }
    }

    /// First byte of the map; page aligned unless it was lent.
    pub(crate) fn address(&self) -> NonNull<c_void> {
        self.address
    }

    /// The bytes of an anonymous map; empty for any other, which may be device memory.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if !matches!(self.backing, Backing::Anonymous) {
            return &mut [];
        }
        // SAFETY: the range is mapped readable and writable for as long as `self` lives, holds zeroed or
        // written bytes, is at most `isize::MAX` long since it is mapped, and `&mut self` excludes any
        // other reference. Devices that write to it by request of a ring do so only while the ring, which
        // owns the region, gives out no reference to it.
        unsafe { slice::from_raw_parts_mut(self.address.as_ptr().cast(), self.length) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if !matches!(self.backing, Backing::Lent(_)) {
            trim(self.address.as_ptr(), self.length);
        }
    }
}

/// Unmaps a range of whole pages of our own. The kernel can refuse only for want of memory to split a
/// map, and then the range stays mapped, which harms nothing but the address space.
fn trim(start: *mut c_void, length: usize) {
    if length > 0 {
        // SAFETY: the callers pass pages of a map of their own that nothing refers to any more.
        let _ = unsafe { munmap(start, length) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn fault_in_stops_at_map_end() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut whole = Map::read_only(file.as_fd(), 16384).unwrap();
        let behind = whole.address.as_ptr().wrapping_byte_add(8192);
        whole.length = 8192;
        assert_eq!(whole.fault_in(4096, 8192), Err(Errno::INVAL));
        assert_eq!(whole.fault_in(usize::MAX, 2), Err(Errno::INVAL));
        // Before Linux 5.14 nothing is.
        assert!(matches!(whole.fault_in(4096, 4096), Ok(()) | Err(Errno::INVAL)));
        trim(behind, 8192);
    }
}
