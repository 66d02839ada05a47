//! The table of cuFile, and the owners of what its calls register.
//!
//! Names, types and layouts are those of `cufile.h` (cuFile API reference, CUDA 13). Functions that came later
//! than 1.0 are optional: parameters and counters.

use std::ffi::{OsStr, OsString, c_int, c_uint, c_void};
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use peerlane_units::Bytes;
use rustix::io::Errno;

use super::counts::{Counts, WORDS};
use super::{CuFileError, IoFailure, Mode, Span};
use crate::cuda::DeviceMemory;
use crate::library::ffi::Library;

/// `CUfileError_t`, returned by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    code: c_int,
    cuda: c_int,
}

/// `CUfileDescr_t` of a file descriptor.
#[repr(C)]
struct Descriptor {
    kind: c_int,
    /// A union of a descriptor and a pointer.
    handle: Handle,
    operations: *const c_void,
}

#[repr(C)]
union Handle {
    descriptor: c_int,
    _pointer: *mut c_void,
}

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const DESCRIPTOR: c_int = 1;

const _: () = assert!(size_of::<Descriptor>() == 24 && size_of::<Status>() == 8);

/// `CUfileDrvProps_t`, with room for what later versions append.
#[repr(C)]
#[derive(Default)]
struct RawProperties {
    major: c_uint,
    minor: c_uint,
    poll_threshold_kib: usize,
    direct_kib: usize,
    status: c_uint,
    control: c_uint,
    features: c_uint,
    cache_kib: c_uint,
    buffer_kib: c_uint,
    pinned_kib: c_uint,
    room: [u64; 32],
}

/// Bit of `CU_FILE_ALLOW_COMPAT_MODE` in `dcontrolflags`.
const ALLOW_COMPATIBLE: c_uint = 1 << 1;
/// `CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE`, `CUFILE_PARAM_FORCE_COMPAT_MODE`, `CUFILE_PARAM_USE_PCIP2PDMA`.
const PARAMETERS: [c_int; 3] = [1, 2, 7];
/// Counters for each GPU come with this level.
const LEVEL: c_int = 3;

type Call = unsafe extern "C" fn() -> Status;

/// The functions.
struct Table {
    open: Call,
    close: Call,
    properties: unsafe extern "C" fn(*mut RawProperties) -> Status,
    file_register: unsafe extern "C" fn(*mut *mut c_void, *mut Descriptor) -> Status,
    file_deregister: unsafe extern "C" fn(*mut c_void),
    memory_register: unsafe extern "C" fn(*const c_void, usize, c_int) -> Status,
    memory_deregister: unsafe extern "C" fn(*const c_void) -> Status,
    read: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64, i64) -> isize,
    write: unsafe extern "C" fn(*mut c_void, *const c_void, usize, i64, i64) -> isize,
    set_bool: Option<unsafe extern "C" fn(c_int, bool) -> Status>,
    counters: Option<Counters>,
}

struct Counters {
    set_level: unsafe extern "C" fn(c_int) -> Status,
    start: Call,
    read: unsafe extern "C" fn(*mut u64) -> Status,
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

impl Table {
    fn fill(library: &Library, name: &OsStr) -> Result<Self, CuFileError> {
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
            set_bool: find!(symbols, optional, b"cuFileSetParameterBool"),
            counters: Self::counters(&symbols),
        })
    }

    fn counters(symbols: &Symbols<'_>) -> Option<Counters> {
        Some(Counters {
            set_level: find!(symbols, optional, b"cuFileSetStatsLevel")?,
            start: find!(symbols, optional, b"cuFileStatsStart")?,
            read: find!(symbols, optional, b"cuFileGetStatsL3")?,
        })
    }
}

fn check(call: &'static str, status: Status) -> Result<(), CuFileError> {
    match status.code {
        0 => Ok(()),
        code => Err(CuFileError::Call { call, code, cuda: status.cuda }),
    }
}

/// cuFile, open in one mode; closed when the last user is gone.
pub struct Session {
    table: Table,
    name: OsString,
    mode: Mode,
    has_counters: bool,
    _library: Library,
}

/// Sessions that are open or being closed, by library: settings are the process's.
static OPEN: Mutex<Vec<(OsString, Weak<Session>)>> = Mutex::new(Vec::new());
/// Is told when one was closed.
static CLOSED: Condvar = Condvar::new();
/// The longest wait for that.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// What the driver says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Version of nvidia-fs, zero without it.
    pub nvidia_fs: (u32, u32),
    /// Whether it may fall back to host memory.
    pub allows_compatible: bool,
    /// Most bytes of GPU memory that may be registered.
    pub pinned: Bytes,
}

impl Session {
    pub(super) fn open(name: &OsStr, mode: Mode) -> Result<Arc<Self>, CuFileError> {
        let is_closing = |open: &mut Vec<(OsString, Weak<Self>)>| {
            open.iter().any(|(own, one)| own == name && one.strong_count() == 0)
        };
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = CLOSED.wait_timeout_while(open, CLOSE_WAIT, is_closing);
        let (mut open, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(CuFileError::StillClosing);
        }
        let same = open.iter().filter(|(own, _)| own == name).find_map(|(_, one)| one.upgrade());
        if let Some(session) = same {
            drop(open);
            let open = session.mode;
            return if open == mode { Ok(session) } else { Err(CuFileError::OtherMode { open }) };
        }
        let library = Library::open(name).map_err(|error| CuFileError::library(name, &error))?;
        let table = Table::fill(&library, name)?;
        configure(&table, mode)?;
        let has_counters = table.counters.as_ref().is_some_and(Counters::choose_level);
        // SAFETY: takes nothing; the settings come before it, as it wants them.
        check("cuFileDriverOpen", unsafe { (table.open)() })?;
        let mut session =
            Self { table, name: name.to_owned(), mode, has_counters, _library: library };
        session.has_counters &= session.table.counters.as_ref().is_some_and(Counters::begin);
        let session = Arc::new(session);
        open.push((name.to_owned(), Arc::downgrade(&session)));
        // Dropping the session takes the lock again.
        drop(open);
        if mode != Mode::Compatible && session.properties()?.allows_compatible {
            return Err(CuFileError::StillCompatible);
        }
        Ok(session)
    }

    /// The way that it was opened for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What the driver says of itself.
    ///
    /// # Errors
    /// What it answered.
    pub fn properties(&self) -> Result<Properties, CuFileError> {
        let mut raw = RawProperties::default();
        // SAFETY: writes the structure of `cufile.h`, which begins a longer local.
        let status = unsafe { (self.table.properties)(&raw mut raw) };
        check("cuFileDriverGetProperties", status)?;
        Ok(Properties {
            nvidia_fs: (raw.major, raw.minor),
            allows_compatible: raw.control & ALLOW_COMPATIBLE != 0,
            pinned: Bytes(u64::from(raw.pinned_kib) << 10),
        })
    }

    /// Requests by the way that they took, of all GPUs; `None` where the library does not count.
    pub fn counts(&self) -> Option<Counts> {
        let counters = self.table.counters.as_ref().filter(|_| self.has_counters)?;
        let mut words = vec![0u64; WORDS];
        // SAFETY: writes the structure of `cufile.h`, of 5000 bytes, into an array of more than six times that.
        let status = unsafe { (counters.read)(words.as_mut_ptr()) };
        (status.code == 0).then(|| Counts::of(&words))
    }

    /// Registers memory of a GPU, which it holds until the registration is gone.
    ///
    /// # Errors
    /// [`CuFileError::Call`] where the GPU or its window does not allow it.
    pub fn memory(self: &Arc<Self>, memory: Arc<DeviceMemory>) -> Result<Memory, CuFileError> {
        let base = memory.address() as *const c_void;
        let length = usize::try_from(memory.length().0).unwrap_or(usize::MAX);
        memory.gpu().make_current()?;
        // SAFETY: the range was allocated by the driver in the current context, and is freed only when the
        // registration that holds it is gone.
        let status = unsafe { (self.table.memory_register)(base, length, 0) };
        check("cuFileBufRegister", status)?;
        Ok(Memory { session: Arc::clone(self), memory })
    }

    /// Reads from the file into the memory; returns the bytes that moved when they have.
    ///
    /// # Errors
    /// [`IoFailure`] by what it answered.
    pub fn read(&self, span: &Span<'_>) -> Result<u64, IoFailure> {
        let (base, length, file_offset, offset) = arguments(span)?;
        // SAFETY: file and memory are registered with this library, and borrowed until it returns; the range
        // lies within the memory by `Span::check`.
        let moved = unsafe {
            (self.table.read)(span.file.handle, base.cast_mut(), length, file_offset, offset)
        };
        result(moved)
    }

    /// Writes the memory to the file; returns the bytes that moved when they have.
    ///
    /// # Errors
    /// [`IoFailure`] by what it answered.
    pub fn write(&self, span: &Span<'_>) -> Result<u64, IoFailure> {
        let (base, length, file_offset, offset) = arguments(span)?;
        // SAFETY: as in `read`.
        let moved =
            unsafe { (self.table.write)(span.file.handle, base, length, file_offset, offset) };
        result(moved)
    }
}

/// Base, length, offset in the file and in the memory; the GPU is the thread's.
fn arguments(span: &Span<'_>) -> Result<(*const c_void, usize, i64, i64), IoFailure> {
    span.check()?;
    span.memory.memory.gpu().make_current().map_err(|_| IoFailure::Context)?;
    let number = |value: u64| i64::try_from(value).map_err(|_| IoFailure::Range);
    let length = usize::try_from(span.length).map_err(|_| IoFailure::Range)?;
    let base = span.memory.memory.address() as *const c_void;
    Ok((base, length, number(span.file_offset)?, number(span.memory_offset)?))
}

/// -1 is the system's answer in `errno`; anything below is cuFile's own, negated.
fn result(moved: isize) -> Result<u64, IoFailure> {
    match moved {
        0.. => Ok(moved.unsigned_abs() as u64),
        -1 => {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            Err(IoFailure::System(Errno::from_raw_os_error(errno)))
        }
        code => {
            let code = i32::try_from(code.saturating_neg()).unwrap_or(i32::MAX);
            Err(IoFailure::CuFile { code })
        }
    }
}

/// Switches every other way off; before the driver is opened, as it wants that.
fn configure(table: &Table, mode: Mode) -> Result<(), CuFileError> {
    let Some(set) = table.set_bool else {
        // Older than P2PDMA; what its settings file allows is looked at once the driver is open.
        return match mode {
            Mode::NvidiaFs => Ok(()),
            mode => Err(CuFileError::NoParameters { mode }),
        };
    };
    let is_compatible = mode == Mode::Compatible;
    let values = [is_compatible, is_compatible, mode == Mode::P2pdma];
    for (parameter, value) in PARAMETERS.into_iter().zip(values) {
        // SAFETY: takes two values and no pointer.
        check("cuFileSetParameterBool", unsafe { set(parameter, value) })?;
    }
    Ok(())
}

impl Counters {
    fn choose_level(&self) -> bool {
        // SAFETY: takes a number.
        let status = unsafe { (self.set_level)(LEVEL) };
        status.code == 0
    }

    fn begin(&self) -> bool {
        // SAFETY: takes nothing.
        let status = unsafe { (self.start)() };
        status.code == 0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: every file and memory that is registered holds the session, so that there is none now.
        let _ = unsafe { (self.table.close)() };
        open.retain(|(own, one)| *own != self.name || one.strong_count() > 0);
        CLOSED.notify_all();
    }
}

/// A file that is registered with cuFile.
pub struct OpenFile {
    handle: *mut c_void,
    session: Arc<Session>,
    /// Closed after it was deregistered.
    _file: File,
}

// SAFETY: cuFile's calls are thread-safe (cuFile API reference); the handle is only handed back to them.
unsafe impl Send for OpenFile {}
// SAFETY: as above.
unsafe impl Sync for OpenFile {}

impl OpenFile {
    pub(super) fn register(session: &Arc<Session>, file: File) -> Result<Self, CuFileError> {
        let mut handle = std::ptr::null_mut();
        let mut descriptor = Descriptor {
            kind: DESCRIPTOR,
            handle: Handle { _pointer: std::ptr::null_mut() },
            operations: std::ptr::null(),
        };
        descriptor.handle.descriptor = file.as_raw_fd();
        let register = session.table.file_register;
        // SAFETY: the descriptor is of an open file, which stays open until it is deregistered; the handle is
        // written to a local.
        let status = unsafe { register(&raw mut handle, &raw mut descriptor) };
        check("cuFileHandleRegister", status)?;
        Ok(Self { handle, session: Arc::clone(session), _file: file })
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: registered by `register` and deregistered once, here; a request under way borrows it.
        unsafe { (self.session.table.file_deregister)(self.handle) };
    }
}

/// Memory of a GPU that is registered with cuFile.
pub struct Memory {
    session: Arc<Session>,
    /// Freed, if by nobody else, after it was deregistered.
    memory: Arc<DeviceMemory>,
}

impl Memory {
    /// Size in bytes.
    pub fn length(&self) -> Bytes {
        self.memory.length()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let base = self.memory.address() as *const c_void;
        let _ = self.memory.gpu().make_current();
        // SAFETY: registered by `Session::memory` and deregistered once, here; a request under way borrows it.
        let _ = unsafe { (self.session.table.memory_deregister)(base) };
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("library", &self.name).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("session", &self.session).finish_non_exhaustive()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("memory", &self.memory).finish_non_exhaustive()
    }
}
