//! The table of cuFile, found by name.

use std::ffi::{OsStr, c_int, c_uint, c_void};

use super::super::CuFileError;
use super::super::counts::{BUFFER_WORDS, Version};
use super::check;
use crate::library::ffi::Library;

/// `CUfileError_t`, returned by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::cufile) struct CuFileStatus {
    pub(in crate::cufile) code: c_int,
    pub(in crate::cufile) cuda: c_int,
}

/// `CUfileDescr_t` of a file descriptor.
#[repr(C)]
pub(in crate::cufile) struct Descriptor {
    pub(in crate::cufile) kind: c_int,
    /// A union of a descriptor and a pointer.
    pub(in crate::cufile) handle: Handle,
    pub(in crate::cufile) operations: *const c_void,
}

#[repr(C)]
pub(in crate::cufile) union Handle {
    pub(in crate::cufile) descriptor: c_int,
    pub(in crate::cufile) _pointer: *mut c_void,
}

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
pub(in crate::cufile) const DESCRIPTOR: c_int = 1;

const _: () = assert!(size_of::<Descriptor>() == 24 && size_of::<CuFileStatus>() == 8);

/// `CUfileDrvProps_t`, which has been the same up to 1.20, with as much room again.
#[repr(C)]
#[derive(Default)]
pub(in crate::cufile) struct RawProperties {
    pub(in crate::cufile) major: c_uint,
    pub(in crate::cufile) minor: c_uint,
    poll_threshold_kib: usize,
    direct_kib: usize,
    status: c_uint,
    pub(in crate::cufile) control: c_uint,
    features: c_uint,
    cache_kib: c_uint,
    buffer_kib: c_uint,
    pub(in crate::cufile) pinned_kib: c_uint,
    batch: c_uint,
    batch_timeout_ms: c_uint,
    pub(in crate::cufile) room: [u64; 32],
}

/// Counters for each GPU come with this level.
const LEVEL: c_int = 3;

type Call = unsafe extern "C" fn() -> CuFileStatus;

/// The functions. Those with pointers are called by [`super::super::ffi`], which owns the memory
/// behind them.
pub(in crate::cufile) struct CuFileFunctions {
    open: Call,
    close: Call,
    properties: unsafe extern "C" fn(*mut RawProperties) -> CuFileStatus,
    pub(in crate::cufile) file_register:
        unsafe extern "C" fn(*mut *mut c_void, *mut Descriptor) -> CuFileStatus,
    pub(in crate::cufile) file_deregister: unsafe extern "C" fn(*mut c_void),
    pub(in crate::cufile) memory_register:
        unsafe extern "C" fn(*const c_void, usize, c_int) -> CuFileStatus,
    pub(in crate::cufile) memory_deregister: unsafe extern "C" fn(*const c_void) -> CuFileStatus,
    pub(in crate::cufile) read:
        unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64, i64) -> isize,
    pub(in crate::cufile) write:
        unsafe extern "C" fn(*mut c_void, *const c_void, usize, i64, i64) -> isize,
    version: Option<unsafe extern "C" fn(*mut c_int) -> CuFileStatus>,
    set_bool: Option<unsafe extern "C" fn(c_int, bool) -> CuFileStatus>,
    /// The value as a byte, whatever the library writes there.
    get_bool: Option<unsafe extern "C" fn(c_int, *mut u8) -> CuFileStatus>,
    p2p_flags: Option<unsafe extern "C" fn(c_int, *mut c_uint) -> CuFileStatus>,
    counters: Option<CuFileCounters>,
}

struct CuFileCounters {
    set_level: unsafe extern "C" fn(c_int) -> CuFileStatus,
    start: Call,
    read: unsafe extern "C" fn(*mut u64) -> CuFileStatus,
}

/// Finds functions by name.
struct Symbols<'a>(&'a Library, &'a OsStr);

impl Symbols<'_> {
    /// # Safety
    /// As [`Library::function`], by `cufile.h`.
    unsafe fn optional<T: Copy>(&self, name: &[u8]) -> Option<T> {
        // SAFETY: by the caller.
        unsafe { self.0.function(name) }
    }

    /// # Safety
    /// As [`Symbols::optional`].
    unsafe fn needed<T: Copy>(&self, name: &[u8]) -> Result<T, CuFileError> {
        // SAFETY: by the caller.
        let found = unsafe { self.optional(name) };
        found.ok_or_else(|| CuFileError::symbol(self.1, name))
    }
}

macro_rules! find {
    ($symbols:expr, $how:ident, $name:literal) => {{
        // SAFETY: the field that it is assigned to has the type of `cufile.h`, and lies beside the library.
        unsafe { $symbols.$how($name) }
    }};
}

impl CuFileFunctions {
    /// Finds all functions; `name` is the library's, for messages.
    ///
    /// # Errors
    /// [`CuFileError::Library`] where one is missing that 1.0 had.
    pub(in crate::cufile) fn fill(library: &Library, name: &OsStr) -> Result<Self, CuFileError> {
        let symbols = Symbols(library, name);
        let close: Option<Call> = find!(symbols, optional, b"cuFileDriverClose_v2");
        Ok(Self {
            open: find!(symbols, needed, b"cuFileDriverOpen")?,
            close: match close {
                Some(close) => close,
                None => find!(symbols, needed, b"cuFileDriverClose")?,
            },
            properties: find!(symbols, needed, b"cuFileDriverGetProperties")?,
            file_register: find!(symbols, needed, b"cuFileHandleRegister")?,
            file_deregister: find!(symbols, needed, b"cuFileHandleDeregister")?,
            memory_register: find!(symbols, needed, b"cuFileBufRegister")?,
            memory_deregister: find!(symbols, needed, b"cuFileBufDeregister")?,
            read: find!(symbols, needed, b"cuFileRead")?,
            write: find!(symbols, needed, b"cuFileWrite")?,
            version: find!(symbols, optional, b"cuFileGetVersion"),
            set_bool: find!(symbols, optional, b"cuFileSetParameterBool"),
            get_bool: find!(symbols, optional, b"cuFileGetParameterBool"),
            p2p_flags: find!(symbols, optional, b"cuFileDriverGetP2PFlags"),
            counters: Self::counters(&symbols),
        })
    }

    fn counters(symbols: &Symbols<'_>) -> Option<CuFileCounters> {
        Some(CuFileCounters {
            set_level: find!(symbols, optional, b"cuFileSetStatsLevel")?,
            start: find!(symbols, optional, b"cuFileStatsStart")?,
            read: find!(symbols, optional, b"cuFileGetStatsL3")?,
        })
    }

    /// Opens the driver.
    pub(in crate::cufile) fn open(&self) -> Result<(), CuFileError> {
        // SAFETY: takes nothing.
        check("cuFileDriverOpen", unsafe { (self.open)() })
    }

    /// Closes the driver. Nothing may be registered any more.
    pub(in crate::cufile) fn close(&self) {
        // SAFETY: takes nothing.
        let _ = unsafe { (self.close)() };
    }

    /// Reads the properties of the open driver.
    pub(in crate::cufile) fn properties(&self) -> Result<RawProperties, CuFileError> {
        let mut raw = RawProperties::default();
        // SAFETY: writes the structure of `cufile.h`, which begins a longer local.
        let status = unsafe { (self.properties)(&raw mut raw) };
        check("cuFileDriverGetProperties", status)?;
        Ok(raw)
    }

    /// Version of the library; `None` where it does not tell.
    pub(in crate::cufile) fn version(&self) -> Option<Version> {
        let version = self.version?;
        let mut number = 0;
        // SAFETY: writes a local.
        let status = unsafe { version(&raw mut number) };
        (status.code == 0 && number > 0).then_some(Version(number))
    }

    /// Sets a Boolean parameter; `None` where the library has no parameters.
    pub(in crate::cufile) fn set_bool(
        &self,
        parameter: c_int,
        value: bool,
    ) -> Option<CuFileStatus> {
        let set = self.set_bool?;
        // SAFETY: takes two values and no pointer.
        Some(unsafe { set(parameter, value) })
    }

    /// Reads a Boolean parameter; `None` where the library has no parameters.
    pub(in crate::cufile) fn get_bool(&self, parameter: c_int) -> Option<(CuFileStatus, bool)> {
        let get = self.get_bool?;
        let mut value = 0;
        // SAFETY: writes a `bool` of C, which is a byte, to a local of a byte.
        let status = unsafe { get(parameter, &raw mut value) };
        Some((status, value != 0))
    }

    /// P2P flags of a kind of storage, by its number. A driver that is not open is opened by this.
    pub(in crate::cufile) fn p2p_flags(&self, storage: c_int) -> Option<u32> {
        let read = self.p2p_flags?;
        let mut flags = 0;
        // SAFETY: writes an enumeration without negative numbers, which is an `unsigned int`, to a local.
        let status = unsafe { read(storage, &raw mut flags) };
        (status.code == 0).then_some(flags)
    }

    pub(in crate::cufile) fn has_counters(&self) -> bool {
        self.counters.is_some()
    }

    /// Chooses counters of each GPU; before the driver is opened.
    pub(in crate::cufile) fn choose_counters(&self) -> Option<CuFileStatus> {
        let counters = self.counters.as_ref()?;
        // SAFETY: takes a number.
        Some(unsafe { (counters.set_level)(LEVEL) })
    }

    /// Begins to count; the driver is open.
    pub(in crate::cufile) fn start_counters(&self) -> Option<CuFileStatus> {
        let counters = self.counters.as_ref()?;
        // SAFETY: takes nothing.
        Some(unsafe { (counters.start)() })
    }

    /// `CUfileStatsLevel3_t` as words.
    pub(in crate::cufile) fn read_counters(&self) -> Option<(CuFileStatus, Vec<u64>)> {
        let counters = self.counters.as_ref()?;
        let mut words = vec![0u64; BUFFER_WORDS];
        // SAFETY: writes the structure of `cufile.h`, 5112 bytes in 1.20, into an array of six times that; callers
        // do not ask a library of an unknown version.
        let status = unsafe { (counters.read)(words.as_mut_ptr()) };
        Some((status, words))
    }
}
