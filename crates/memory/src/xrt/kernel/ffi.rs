//! The C interface for kernels of `libxrt_coreutil.so.2`, and owners of its results.
//!
//! Signatures are those of `xrt/xrt_kernel.h`, `xrt/xrt_device.h` and `xrt/xrt_bo.h`, the same from XRT 2.13 to 2.25.
//! There is no call to end a run: the C interface has none (`xrt::run::abort` is C++ only). XRT
//! ends the process if a run is closed that is still at work, so a [`KernelRun`] without a known
//! end is never closed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::library::ffi::Library;
use crate::xrt::ffi::{Buffer, Handle, NoTable, XrtDevice, function};

type Status = unsafe extern "C" fn(Handle) -> c_int;

/// The functions for kernels.
#[derive(Debug)]
pub(in crate::xrt) struct KernelTable {
    image_id: unsafe extern "C" fn(Handle, *mut u8) -> c_int,
    kernel_open: unsafe extern "C" fn(Handle, *const u8, *const c_char) -> Handle,
    kernel_close: Status,
    group_id: unsafe extern "C" fn(Handle, c_int) -> c_int,
    part_allocate: unsafe extern "C" fn(Handle, usize, usize) -> Handle,
    part_free: Status,
    run_open: unsafe extern "C" fn(Handle) -> Handle,
    run_close: Status,
    run_set: unsafe extern "C" fn(Handle, c_int, ...) -> c_int,
    run_start: Status,
    run_state: unsafe extern "C" fn(Handle) -> c_uint,
}

impl KernelTable {
    /// Finds the functions, or names the first that is missing.
    pub(in crate::xrt) fn find(library: &Library) -> Result<Self, NoTable> {
        Ok(Self {
            // SAFETY: `int xrtDeviceGetXclbinUUID(xrtDeviceHandle, xuid_t out)`; `xuid_t` is 16 bytes by address.
            image_id: unsafe { function(library, "xrtDeviceGetXclbinUUID") }?,
            // SAFETY: `xrtKernelHandle xrtPLKernelOpen(xrtDeviceHandle, const xuid_t, const char *name)`.
            kernel_open: unsafe { function(library, "xrtPLKernelOpen") }?,
            // SAFETY: `int xrtKernelClose(xrtKernelHandle)`.
            kernel_close: unsafe { function(library, "xrtKernelClose") }?,
            // SAFETY: `int xrtKernelArgGroupId(xrtKernelHandle, int argno)`.
            group_id: unsafe { function(library, "xrtKernelArgGroupId") }?,
            // SAFETY: `xrtBufferHandle xrtBOSubAlloc(xrtBufferHandle parent, size_t size, size_t offset)`.
            part_allocate: unsafe { function(library, "xrtBOSubAlloc") }?,
            // SAFETY: `int xrtBOFree(xrtBufferHandle)`.
            part_free: unsafe { function(library, "xrtBOFree") }?,
            // SAFETY: `xrtRunHandle xrtRunOpen(xrtKernelHandle)`.
            run_open: unsafe { function(library, "xrtRunOpen") }?,
            // SAFETY: `int xrtRunClose(xrtRunHandle)`.
            run_close: unsafe { function(library, "xrtRunClose") }?,
            // SAFETY: `int xrtRunSetArg(xrtRunHandle, int index, ...)`, variadic here, too.
            run_set: unsafe { function(library, "xrtRunSetArg") }?,
            // SAFETY: `int xrtRunStart(xrtRunHandle)`.
            run_start: unsafe { function(library, "xrtRunStart") }?,
            // SAFETY: `enum ert_cmd_state xrtRunState(xrtRunHandle)`; the enumerators are 1 to 11 (`ert.h`).
            run_state: unsafe { function(library, "xrtRunState") }?,
        })
    }
}

/// `errno` of this thread as if nothing had failed: XRT sets it for some failures only.
fn forget_errno() {
    // SAFETY: takes nothing, and gives the address of this thread's own number.
    let number = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid while the thread lives, and no reference to the number exists.
    unsafe { number.write(0) };
}

/// The reason that XRT left, after [`forget_errno`].
fn reason() -> io::Error {
    match io::Error::last_os_error() {
        none if none.raw_os_error() == Some(0) => {
            io::Error::other("XRT names no reason here; it may have written one to standard error")
        }
        error => error,
    }
}

fn check(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(reason()) }
}

/// A kernel that is open on a card; closed when dropped.
#[derive(Debug)]
pub(super) struct OpenKernel {
    handle: NonNull<c_void>,
    device: Arc<XrtDevice>,
    table: KernelFunctions,
}

/// The table of a device, which is known to have one.
type KernelFunctions = Arc<KernelTable>;

// SAFETY: "A kernel handle is thread safe and can be shared between threads" (`xrt_kernel.h`).
unsafe impl Send for OpenKernel {}
// SAFETY: as above.
unsafe impl Sync for OpenKernel {}

impl OpenKernel {
    /// The number of the image that is on a card: zeroes for none.
    pub(super) fn image_id(device: &XrtDevice, table: &KernelTable) -> io::Result<[u8; 16]> {
        let mut id = [0; 16];
        forget_errno();
        // SAFETY: the device is open; 16 bytes are written to a local that has as many.
        check(unsafe { (table.image_id)(device.handle(), id.as_mut_ptr()) })?;
        Ok(id)
    }

    /// Opens a kernel of an image that is on the card.
    pub(super) fn open(
        device: &Arc<XrtDevice>,
        table: &KernelFunctions,
        image: &[u8; 16],
        name: &CStr,
    ) -> io::Result<Self> {
        forget_errno();
        // SAFETY: the device is open; the number has 16 bytes and the name ends with a zero byte, and both live through
        // the call.
        let handle = unsafe { (table.kernel_open)(device.handle(), image.as_ptr(), name.as_ptr()) };
        let handle = NonNull::new(handle).ok_or_else(reason)?;
        Ok(Self { handle, device: Arc::clone(device), table: Arc::clone(table) })
    }

    /// The memory group that an argument is connected to.
    pub(super) fn group(&self, argument: c_int) -> io::Result<u32> {
        forget_errno();
        // SAFETY: the kernel is open.
        let group = unsafe { (self.table.group_id)(self.handle.as_ptr(), argument) };
        u32::try_from(group).map_err(|_| reason())
    }

    pub(super) fn device(&self) -> &Arc<XrtDevice> {
        &self.device
    }
}

impl Drop for OpenKernel {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed once, here; every run of it holds an `Arc` of it.
        let _ = unsafe { (self.table.kernel_close)(self.handle.as_ptr()) };
    }
}

/// A part of a buffer, as a kernel gets it; freed when dropped, before the buffer.
#[derive(Debug)]
pub(super) struct SubBuffer {
    handle: NonNull<c_void>,
    table: KernelFunctions,
    buffer: Arc<Buffer>,
    offset: usize,
    size: usize,
}

// SAFETY: XRT looks handles up in tables of its own behind a lock, whichever thread asks.
unsafe impl Send for SubBuffer {}
// SAFETY: as above; no call changes the handle.
unsafe impl Sync for SubBuffer {}

impl SubBuffer {
    /// A part of a buffer; XRT refuses one that reaches beyond it.
    pub(super) fn allocate(
        table: &KernelFunctions,
        buffer: &Arc<Buffer>,
        offset: usize,
        size: usize,
    ) -> io::Result<Self> {
        forget_errno();
        // SAFETY: the buffer is allocated.
        let handle = unsafe { (table.part_allocate)(buffer.handle(), size, offset) };
        let handle = NonNull::new(handle).ok_or_else(reason)?;
        let (table, buffer) = (Arc::clone(table), Arc::clone(buffer));
        Ok(Self { handle, table, buffer, offset, size })
    }

    /// True for a part that begins there and has as many bytes or more.
    pub(super) fn serves(&self, buffer: &Arc<Buffer>, offset: usize, size: usize) -> bool {
        self.begins_at(buffer, offset) && self.size >= size
    }

    pub(super) fn begins_at(&self, buffer: &Arc<Buffer>, offset: usize) -> bool {
        Arc::ptr_eq(&self.buffer, buffer) && self.offset == offset
    }
}

impl Drop for SubBuffer {
    fn drop(&mut self) {
        // SAFETY: made by `allocate` and freed once, here. A run at work holds an `Arc` of it, so that there is none.
        let _ = unsafe { (self.table.part_free)(self.handle.as_ptr()) };
    }
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct FailedCall {
    pub(super) call: &'static str,
    pub(super) source: io::Error,
}

/// Adds the name of the failed call to an error.
fn failed_call(call: &'static str) -> impl Fn(io::Error) -> FailedCall {
    move |source| FailedCall { call, source }
}

/// A run object of a kernel, for one chunk at a time; closed when dropped, unless it has no known end.
#[derive(Debug)]
pub(super) struct KernelRun {
    handle: NonNull<c_void>,
    kernel: Arc<OpenKernel>,
    /// The part that the kernel works on.
    part: Option<Arc<SubBuffer>>,
}

// SAFETY: XRT looks handles up in tables of its own behind a lock; a run is used by one thread at a time.
unsafe impl Send for KernelRun {}

impl KernelRun {
    pub(super) fn open(kernel: &Arc<OpenKernel>) -> Result<Self, FailedCall> {
        forget_errno();
        // SAFETY: the kernel is open.
        let handle = unsafe { (kernel.table.run_open)(kernel.handle.as_ptr()) };
        let handle = NonNull::new(handle).ok_or_else(reason).map_err(failed_call("xrtRunOpen"))?;
        Ok(Self { handle, kernel: Arc::clone(kernel), part: None })
    }

    /// Starts the kernel on a part, which is held until [`KernelRun::ended`].
    pub(super) fn start(
        &mut self,
        part: &Arc<SubBuffer>,
        bytes: u64,
        offset: u64,
    ) -> Result<(), FailedCall> {
        let (table, run) = (Arc::clone(&self.kernel.table), self.handle.as_ptr());
        let set = failed_call("xrtRunSetArg");
        forget_errno();
        // SAFETY: the run is open and not at work. Argument 0 is connected to memory, so that XRT reads a buffer handle,
        // which is that of a part that is allocated.
        check(unsafe { (table.run_set)(run, 0, part.handle.as_ptr()) }).map_err(&set)?;
        for (index, word) in [(1, bytes), (2, offset)] {
            // SAFETY: as above; XRT reads one scalar of the image's type, for which 64 bits are passed.
            check(unsafe { (table.run_set)(run, index, word) }).map_err(&set)?;
        }
        // SAFETY: the run is open and not at work, and its arguments are set. The part is held until the end is known,
        // or for ever.
        check(unsafe { (table.run_start)(run) }).map_err(failed_call("xrtRunStart"))?;
        self.part = Some(Arc::clone(part));
        Ok(())
    }

    /// `enum ert_cmd_state` of the run.
    pub(super) fn state(&self) -> u32 {
        // SAFETY: the run is open.
        unsafe { (self.kernel.table.run_state)(self.handle.as_ptr()) }
    }

    /// Lets go of the part, when the state says that the kernel is done with it.
    pub(super) fn ended(&mut self) {
        self.part = None;
    }
}

impl Drop for KernelRun {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // The kernel may still work on it.
            mem::forget((part, Arc::clone(&self.kernel)));
            return;
        }
        // SAFETY: opened by `open` and closed once, here; it is not at work.
        let _ = unsafe { (self.kernel.table.run_close)(self.handle.as_ptr()) };
    }
}
