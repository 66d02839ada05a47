//! The table of the CUDA driver API, filled when the library is opened, and the calls that take no memory.
//!
//! Names and types are those of `cuda.h` (CUDA 12), which maps plain names to the `_v2` ones. Nothing is
//! linked: a machine without CUDA builds and runs this.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::CudaError;
use crate::library::ffi::Library;

/// `CUresult`.
pub(super) type Code = c_int;

macro_rules! table {
    ($($field:ident, $symbol:literal, ($($argument:ty),*);)*) => {
        /// The functions.
        pub(super) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Table {
            fn fill(library: &Library, name: &OsStr) -> Result<Self, CudaError> {
                $(
                    // SAFETY: the symbol has the type that `cuda.h` declares for it, and the pointer is kept
                    // no longer than the library, beside which it lies in `Driver`.
                    let $field = unsafe { library.function($symbol) };
                    let $field = $field.ok_or_else(|| CudaError::symbol(name, $symbol))?;
                )*
                Ok(Self { $($field),* })
            }
        }
    };
}

table! {
    init, b"cuInit", (c_uint);
    driver_version, b"cuDriverGetVersion", (*mut c_int);
    device_count, b"cuDeviceGetCount", (*mut c_int);
    device_get, b"cuDeviceGet", (*mut c_int, c_int);
    device_name, b"cuDeviceGetName", (*mut c_char, c_int, c_int);
    device_memory, b"cuDeviceTotalMem_v2", (*mut usize, c_int);
    device_attribute, b"cuDeviceGetAttribute", (*mut c_int, c_int, c_int);
    device_bus, b"cuDeviceGetPCIBusId", (*mut c_char, c_int, c_int);
    context_retain, b"cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int);
    context_release, b"cuDevicePrimaryCtxRelease_v2", (c_int);
    context_set, b"cuCtxSetCurrent", (*mut c_void);
    context_get, b"cuCtxGetCurrent", (*mut *mut c_void);
    context_synchronise, b"cuCtxSynchronize", ();
    peer_can, b"cuDeviceCanAccessPeer", (*mut c_int, c_int, c_int);
    peer_enable, b"cuCtxEnablePeerAccess", (*mut c_void, c_uint);
    peer_disable, b"cuCtxDisablePeerAccess", (*mut c_void);
    copy_between, b"cuMemcpyPeerAsync", (u64, *mut c_void, u64, *mut c_void, usize, *mut c_void);
    memory_info, b"cuMemGetInfo_v2", (*mut usize, *mut usize);
    memory_allocate, b"cuMemAlloc_v2", (*mut u64, usize);
    memory_free, b"cuMemFree_v2", (u64);
    host_register, b"cuMemHostRegister_v2", (*mut c_void, usize, c_uint);
    host_unregister, b"cuMemHostUnregister", (*mut c_void);
    copy_plain_to_device, b"cuMemcpyHtoD_v2", (u64, *const c_void, usize);
    copy_plain_to_host, b"cuMemcpyDtoH_v2", (*mut c_void, u64, usize);
    copy_to_device, b"cuMemcpyHtoDAsync_v2", (u64, *const c_void, usize, *mut c_void);
    copy_to_host, b"cuMemcpyDtoHAsync_v2", (*mut c_void, u64, usize, *mut c_void);
    copy_within, b"cuMemcpyDtoD_v2", (u64, u64, usize);
    pointer_attribute, b"cuPointerGetAttribute", (*mut c_void, c_int, u64);
    stream_create, b"cuStreamCreate", (*mut *mut c_void, c_uint);
    stream_destroy, b"cuStreamDestroy_v2", (*mut c_void);
    stream_wait, b"cuStreamWaitEvent", (*mut c_void, *mut c_void, c_uint);
    event_create, b"cuEventCreate", (*mut *mut c_void, c_uint);
    event_record, b"cuEventRecord", (*mut c_void, *mut c_void);
    event_query, b"cuEventQuery", (*mut c_void);
    event_destroy, b"cuEventDestroy_v2", (*mut c_void);
    event_elapsed, b"cuEventElapsedTime", (*mut f32, *mut c_void, *mut c_void);
    memory_fill, b"cuMemsetD8Async", (u64, c_uchar, usize, *mut c_void);
    module_load, b"cuModuleLoadData", (*mut *mut c_void, *const c_void);
    module_unload, b"cuModuleUnload", (*mut c_void);
    module_function, b"cuModuleGetFunction", (*mut *mut c_void, *mut c_void, *const c_char);
    launch, b"cuLaunchKernel", (*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void,
        *mut *mut c_void, *mut *mut c_void);
}

/// The driver library, open.
pub(super) struct Driver {
    pub(super) table: Table,
    pub(super) name: OsString,
    /// Declared after the table, which points into it: fields drop in this order.
    _library: Library,
}

/// `CUdevice`, as the driver numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CudaDevice(pub(super) c_int);

/// The primary context of a device, retained once and released when dropped.
pub(super) struct Context {
    driver: Arc<Driver>,
    device: CudaDevice,
    handle: *mut c_void,
}

// SAFETY: the driver API may be called from any thread (CUDA C Programming Guide, "Context"); the handle is
// only ever handed back to it.
unsafe impl Send for Context {}
// SAFETY: as above; a shared context is made current by as many threads as like.
unsafe impl Sync for Context {}

/// Turns the answer of a call into a result.
pub(super) fn check(call: &'static str, code: Code) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Call { call, code }) }
}

impl Driver {
    /// Opens the library and finds every function; initialises nothing.
    pub(super) fn open(name: &OsStr) -> Result<Self, CudaError> {
        let library = Library::open(name).map_err(|error| CudaError::library(name, &error))?;
        Ok(Self { table: Table::fill(&library, name)?, name: name.to_owned(), _library: library })
    }

    /// Initialises the driver; a second call does no harm.
    ///
    /// A child that `fork` made after that has no CUDA (CUDA C++ Programming Guide, "Initialization"), and calls would
    /// fail or hang there one by one.
    pub(super) fn init(&self) -> Result<(), CudaError> {
        /// The process that initialised a driver; 0 for none.
        static PROCESS: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id();
        match PROCESS.load(Ordering::Relaxed) {
            0 => {}
            process if process == own => {}
            _ => return Err(CudaError::Forked),
        }
        // SAFETY: takes flags, which must be zero, and no pointer.
        check("cuInit", unsafe { (self.table.init)(0) })?;
        PROCESS.store(own, Ordering::Relaxed);
        Ok(())
    }

    /// Version of the driver API: 12040 is 12.4.
    pub(super) fn version(&self) -> Result<i32, CudaError> {
        let mut version = 0;
        // SAFETY: writes one int to a local.
        check("cuDriverGetVersion", unsafe { (self.table.driver_version)(&raw mut version) })?;
        Ok(version)
    }

    /// Number of GPUs.
    pub(super) fn count(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: writes one int to a local.
        check("cuDeviceGetCount", unsafe { (self.table.device_count)(&raw mut count) })?;
        Ok(count)
    }

    pub(super) fn device(&self, ordinal: i32) -> Result<CudaDevice, CudaError> {
        let mut device = 0;
        // SAFETY: writes one int to a local; the driver checks the ordinal.
        check("cuDeviceGet", unsafe { (self.table.device_get)(&raw mut device, ordinal) })?;
        Ok(CudaDevice(device))
    }

    /// The name that the driver gives the device.
    pub(super) fn device_name(&self, device: CudaDevice) -> Result<String, CudaError> {
        let mut text: [c_char; 128] = [0; 128];
        // SAFETY: writes at most as many bytes as it is told that the array has.
        let code = unsafe { (self.table.device_name)(text.as_mut_ptr(), 128, device.0) };
        check("cuDeviceGetName", code)?;
        Ok(text_of(&text))
    }

    /// The PCI address as the driver prints it.
    pub(super) fn bus(&self, device: CudaDevice) -> Result<String, CudaError> {
        let mut text: [c_char; 32] = [0; 32];
        // SAFETY: writes at most as many bytes as it is told that the array has.
        let code = unsafe { (self.table.device_bus)(text.as_mut_ptr(), 32, device.0) };
        check("cuDeviceGetPCIBusId", code)?;
        Ok(text_of(&text))
    }

    /// Bytes of memory that the device has.
    pub(super) fn device_memory(&self, device: CudaDevice) -> Result<usize, CudaError> {
        let mut bytes = 0;
        // SAFETY: writes one size to a local.
        let code = unsafe { (self.table.device_memory)(&raw mut bytes, device.0) };
        check("cuDeviceTotalMem", code)?;
        Ok(bytes)
    }

    /// An attribute by its number in `CUdevice_attribute`.
    pub(super) fn attribute(&self, device: CudaDevice, attribute: c_int) -> Result<i32, CudaError> {
        let mut value = 0;
        // SAFETY: writes one int to a local.
        let code = unsafe { (self.table.device_attribute)(&raw mut value, attribute, device.0) };
        check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }
}

impl Context {
    /// Retains the primary context, which programs of this process share.
    pub(super) fn retain(driver: Arc<Driver>, device: CudaDevice) -> Result<Self, CudaError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle to a local.
        let code = unsafe { (driver.table.context_retain)(&raw mut handle, device.0) };
        check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Self { driver, device, handle })
    }

    /// Makes it the context of the calling thread, as every call on memory wants it.
    pub(super) fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the handle is of a context that is retained until `self` is dropped.
        check("cuCtxSetCurrent", unsafe { (self.driver.table.context_set)(self.handle) })
    }

    /// Bytes free, and bytes in all.
    pub(super) fn memory_info(&self) -> Result<(usize, usize), CudaError> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes to locals.
        let code = unsafe { (self.driver.table.memory_info)(&raw mut free, &raw mut total) };
        check("cuMemGetInfo", code)?;
        Ok((free, total))
    }

    /// The driver's handle of the context.
    pub(super) fn handle(&self) -> *mut c_void {
        self.handle
    }

    pub(super) fn table(&self) -> &Table {
        &self.driver.table
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(super) fn shared_driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `retain` and released once, here; everything made in it holds it.
        let _ = unsafe { (self.driver.table.context_release)(self.device.0) };
    }
}

fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|&byte| byte.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}
