//! The C interface of `libxrt_coreutil.so.2`: the calls that are needed, and owners of their
//! results.
//!
//! The library exports the same functions with the same arguments from XRT 2.13 to 2.25 (`xrt/xrt_device.h`,
//! `xrt/xrt_bo.h`), so one table serves all. A [`Buffer`] keeps its [`XrtDevice`] open, which keeps
//! the library loaded: XRT ends the process if handles are left open at its exit.

use std::any::Any;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::XrtRefusal;
use super::kernel::ffi::KernelTable;
use crate::library::ffi::Library;
use crate::region::MapKeeper;

/// `XCL_BO_FLAGS_P2P` of `xrt_mem.h`: the buffer is mapped through the card's window.
const FLAG_P2P: u64 = 1 << 30;

pub(super) type Handle = *mut c_void;
type OpenByBdf = unsafe extern "C" fn(*const c_char) -> Handle;
type Close = unsafe extern "C" fn(Handle) -> c_int;
type LoadFile = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
type Alloc = unsafe extern "C" fn(Handle, usize, u64, u32) -> Handle;
type Free = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle) -> usize;
type MapBuffer = unsafe extern "C" fn(Handle) -> *mut c_void;
type Version = unsafe extern "C" fn() -> c_uint;

/// The functions of the library.
#[derive(Debug)]
pub(super) struct XrtFunctions {
    open_by_bdf: OpenByBdf,
    close: Close,
    load_file: LoadFile,
    alloc: Alloc,
    free: Free,
    size: Size,
    map: MapBuffer,
    /// From XRT 2.25 on.
    version: Option<Version>,
    /// The functions for kernels, or the first that the library lacks.
    kernels: Result<Arc<KernelTable>, &'static str>,
    name: String,
    /// The library of the functions; unloaded after they are gone.
    _library: Library,
}

/// The reason why there is no table.
#[derive(Debug)]
pub(super) enum NoTable {
    /// The loader's words.
    Library(String),
    /// A function that is not in it.
    Function(&'static str),
}

impl XrtFunctions {
    /// Loads the library by file name or path.
    pub(super) fn load(name: &OsStr) -> Result<Arc<Self>, NoTable> {
        let library = Library::open(name).map_err(|error| NoTable::Library(error.to_string()))?;
        let table = Self {
            // SAFETY: `xrtDeviceHandle xrtDeviceOpenByBDF(const char* bdf)`.
            open_by_bdf: unsafe { function(&library, "xrtDeviceOpenByBDF") }?,
            // SAFETY: `int xrtDeviceClose(xrtDeviceHandle)`.
            close: unsafe { function(&library, "xrtDeviceClose") }?,
            // SAFETY: `int xrtDeviceLoadXclbinFile(xrtDeviceHandle, const char*)`.
            load_file: unsafe { function(&library, "xrtDeviceLoadXclbinFile") }?,
            // SAFETY: `xrtBufferHandle xrtBOAlloc(xrtDeviceHandle, size_t, uint64_t, uint32_t)`.
            alloc: unsafe { function(&library, "xrtBOAlloc") }?,
            // SAFETY: `int xrtBOFree(xrtBufferHandle)`.
            free: unsafe { function(&library, "xrtBOFree") }?,
            // SAFETY: `size_t xrtBOSize(xrtBufferHandle)`.
            size: unsafe { function(&library, "xrtBOSize") }?,
            // SAFETY: `void* xrtBOMap(xrtBufferHandle)`.
            map: unsafe { function(&library, "xrtBOMap") }?,
            // SAFETY: `unsigned int xrtVersionCode()`.
            version: unsafe { function(&library, "xrtVersionCode") }.ok(),
            kernels: match KernelTable::find(&library) {
                Ok(table) => Ok(Arc::new(table)),
                Err(NoTable::Function(function)) => Err(function),
                Err(other) => return Err(other),
            },
            name: name.to_string_lossy().into_owned(),
            _library: library,
        };
        Ok(Arc::new(table))
    }

    /// Returns whether the library reports its version, as it does from 2.25 on.
    pub(super) fn says_version(&self) -> bool {
        self.version.is_some()
    }

    /// The version code, from 2.25 on.
    pub(super) fn version(&self) -> Option<u32> {
        // SAFETY: the function takes nothing and the library is loaded.
        self.version.map(|version| unsafe { version() })
    }
}

/// A function of the library as a pointer of type `F`.
///
/// # Safety
/// `F` must be the type of the C function of that name; the pointer must not outlive the library.
pub(super) unsafe fn function<F: Copy>(
    library: &Library,
    name: &'static str,
) -> Result<F, NoTable> {
    // SAFETY: by the caller.
    let found = unsafe { library.function(name.as_bytes()) };
    found.ok_or(NoTable::Function(name))
}

/// An open card.
#[derive(Debug)]
pub(super) struct XrtDevice {
    handle: NonNull<c_void>,
    address: String,
    table: Arc<XrtFunctions>,
}

// SAFETY: XRT looks handles up in tables of its own behind a lock, whichever thread asks.
unsafe impl Send for XrtDevice {}
// SAFETY: as above; no call changes the handle.
unsafe impl Sync for XrtDevice {}

impl XrtDevice {
    /// Opens a card by the address of its user function.
    pub(super) fn open(table: &Arc<XrtFunctions>, bdf: &CStr) -> io::Result<Arc<Self>> {
        // SAFETY: the address is a NUL-terminated string that lives through the call.
        let handle = unsafe { (table.open_by_bdf)(bdf.as_ptr()) };
        let handle = NonNull::new(handle).ok_or_else(io::Error::last_os_error)?;
        let address = bdf.to_string_lossy().into_owned();
        Ok(Arc::new(Self { handle, address, table: Arc::clone(table) }))
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.as_ptr()
    }

    /// The address of its user function.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The library's functions for kernels.
    pub(super) fn kernels(&self) -> Result<&Arc<KernelTable>, XrtRefusal> {
        let (name, kernels) = (&self.table.name, self.table.kernels.as_ref());
        kernels.map_err(|function| XrtRefusal::Function { name: name.clone(), function })
    }

    /// Loads an xclbin file.
    pub(super) fn load(&self, file: &CStr) -> io::Result<()> {
        // SAFETY: the device is open and the path a NUL-terminated string that lives through the call.
        let status = unsafe { (self.table.load_file)(self.handle.as_ptr(), file.as_ptr()) };
        if status == 0 { Ok(()) } else { Err(error_of(status)) }
    }
}

impl Drop for XrtDevice {
    fn drop(&mut self) {
        // SAFETY: the device is open, and nothing of it is left: buffers keep it from being dropped.
        // A refusal leaves it open until the process ends; there is nobody to tell.
        let _ = unsafe { (self.table.close)(self.handle.as_ptr()) };
    }
}

/// Memory of a card, mapped through its window.
#[derive(Debug)]
pub(crate) struct Buffer {
    handle: NonNull<c_void>,
    address: NonNull<c_void>,
    group: u32,
    device: Arc<XrtDevice>,
}

// SAFETY: as for the device; the map belongs to the process and to no thread.
unsafe impl Send for Buffer {}
// SAFETY: as above; no call changes the handle, and the map is never dereferenced.
unsafe impl Sync for Buffer {}

/// The call that refused a buffer.
#[derive(Debug)]
pub(super) enum NoBuffer {
    Alloc(io::Error),
    Map(io::Error),
    Short(usize),
}

impl Buffer {
    /// Allocates and maps memory of a group.
    pub(super) fn allocate(
        device: &Arc<XrtDevice>,
        length: usize,
        group: u32,
    ) -> Result<Self, NoBuffer> {
        let table = &device.table;
        // SAFETY: the device is open.
        let handle = unsafe { (table.alloc)(device.handle.as_ptr(), length, FLAG_P2P, group) };
        let no_buffer = || NoBuffer::Alloc(io::Error::last_os_error());
        let handle = NonNull::new(handle).ok_or_else(no_buffer)?;
        // From here on the buffer is freed on every way out; `address` is not used before it is set.
        let (address, device) = (NonNull::dangling(), Arc::clone(device));
        let mut buffer = Self { handle, address, group, device };
        let table = &buffer.device.table;
        // SAFETY: the buffer is allocated.
        let size = unsafe { (table.size)(handle.as_ptr()) };
        if size < length {
            return Err(NoBuffer::Short(size));
        }
        // SAFETY: the buffer is allocated. The map is never dereferenced by this process.
        let address = unsafe { (table.map)(handle.as_ptr()) };
        let no_map = || NoBuffer::Map(io::Error::last_os_error());
        buffer.address = NonNull::new(address).ok_or_else(no_map)?;
        Ok(buffer)
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.as_ptr()
    }

    /// The memory group that it was allocated in.
    pub(super) fn group(&self) -> u32 {
        self.group
    }

    pub(super) fn device(&self) -> &Arc<XrtDevice> {
        &self.device
    }
}

impl MapKeeper for Buffer {
    fn address(&self) -> NonNull<c_void> {
        self.address
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer is allocated, its device is open, and no request is on its map any more:
        // the owner of the region sees to that. A kernel at work on it holds an `Arc` of it. Freeing unmaps it.
        let _ = unsafe { (self.device.table.free)(self.handle.as_ptr()) };
    }
}

/// XRT returns a negative or positive error number, or -1 with the number in `errno`.
fn error_of(status: c_int) -> io::Error {
    match status {
        -1 => io::Error::last_os_error(),
        other => io::Error::from_raw_os_error(other.saturating_abs()),
    }
}

/// Bytes of the map that registers are read through: the smallest page that Linux has, or a part of a larger one.
const PAGE: usize = 4096;

/// Reads registers of 32 bits through the window that a file of sysfs stands for (`resourceN`). `page` is where the
/// map begins, `at` are offsets in it.
pub(super) fn registers<const N: usize>(
    window: &File,
    page: u64,
    at: [usize; N],
) -> io::Result<[u32; N]> {
    if at.iter().any(|&at| at % 4 != 0 || at + 4 > PAGE) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let length = window.metadata()?.len();
    if page.checked_add(PAGE as u64).is_none_or(|end| end > length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the kernel chooses a place that nothing of this process uses.
    let map =
        unsafe { mmap(ptr::null_mut(), PAGE, ProtFlags::READ, MapFlags::SHARED, window, page) }?;
    // SAFETY: each offset lies within the map and is a multiple of four, and a map begins at a page. What is there is
    // a register, or bytes of a file, which others may change at any time: hence volatile, and no reference.
    let words = at.map(|at| unsafe { map.cast::<u32>().wrapping_byte_add(at).read_volatile() });
    // SAFETY: the map is this function's own, and nothing refers to it any more.
    unsafe { munmap(map, PAGE) }?;
    // PCIe devices have the lowest byte first.
    Ok(words.map(u32::from_le))
}
