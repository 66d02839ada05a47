//! Owners of cuFile's sessions, registered files and registered memory.

use std::ffi::{OsStr, OsString, c_void};
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use peerlane_units::Bytes;
use rustix::io::Errno;

use super::abi::{INVALID_VALUE, StatsLayout, parameter};
use super::counts::{Counted, CounterMark, Counts, NoCounter, Version, layout_of};
use super::fallback::Fallback;
use super::p2p::{P2pFlags, Storage};
use super::table::{CuFileFunctions, CuFileStatus, DESCRIPTOR, Descriptor, Handle, check};
use super::{CuFileError, IoFailure, Mode, TransferSpan};
use crate::cuda::DeviceMemory;
use crate::library::ffi::Library;

/// cuFile, open in one mode; closed when the last user is gone.
pub struct CuFileSession {
    table: CuFileFunctions,
    name: OsString,
    mode: Mode,
    version: Option<Version>,
    /// Layout of the counters, if they count.
    layout: Result<&'static StatsLayout, NoCounter>,
    /// Requests that were begun and have not failed.
    begun: AtomicU64,
    /// Requests that moved bytes.
    moved: AtomicU64,
    _library: Library,
}

/// Sessions that are open or being closed, by library: settings are the process's.
static OPEN: Mutex<Vec<(OsString, Weak<CuFileSession>)>> = Mutex::new(Vec::new());
/// Is told when one was closed.
static CLOSED: Condvar = Condvar::new();
/// The longest wait for that.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Properties that the driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Version of nvidia-fs, zero without it.
    pub nvidia_fs: (u32, u32),
    /// Most bytes of GPU memory that may be registered.
    pub pinned: Bytes,
}

impl CuFileSession {
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
        let table = CuFileFunctions::fill(&library, name)?;
        let version = table.version();
        configure(&table, mode)?;
        let layout = choose_counters(&table, version);
        table.open()?;
        let layout = layout.and_then(|layout| start_counters(&table).map(|()| layout));
        let session = Arc::new(Self {
            table,
            name: name.to_owned(),
            mode,
            version,
            layout,
            begun: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            _library: library,
        });
        open.push((name.to_owned(), Arc::downgrade(&session)));
        // Dropping the session takes the lock again.
        drop(open);
        if mode != Mode::Compatible {
            session.refuse_fallbacks()?;
        }
        Ok(session)
    }

    /// The way that it was opened for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Reads the properties of the driver.
    ///
    /// # Errors
    /// The library's error.
    pub fn properties(&self) -> Result<Properties, CuFileError> {
        let raw = self.table.properties()?;
        Ok(Properties {
            nvidia_fs: (raw.major, raw.minor),
            pinned: Bytes(u64::from(raw.pinned_kib) << 10),
        })
    }

    /// Version of the library; `None` where it does not tell.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Switches for payload through host memory that are on, by the open driver.
    ///
    /// # Errors
    /// The library's error.
    pub fn fallbacks(&self) -> Result<Vec<Fallback>, CuFileError> {
        let control = self.table.properties()?.control;
        let mut on = Vec::new();
        for fallback in Fallback::ALL {
            let is_shown = fallback.control_bit().is_some_and(|bit| control & 1 << bit != 0);
            if is_shown || self.is_set(fallback.parameter())? {
                on.push(fallback);
            }
        }
        Ok(on)
    }

    /// Returns whether a Boolean parameter is on; one that the library lacks counts as off.
    fn is_set(&self, parameter: i32) -> Result<bool, CuFileError> {
        match self.table.get_bool(parameter) {
            None => Ok(false),
            Some((status, _)) if status.code == INVALID_VALUE => Ok(false),
            Some((status, value)) => check("cuFileGetParameterBool", status).map(|()| value),
        }
    }

    fn refuse_fallbacks(&self) -> Result<(), CuFileError> {
        let on = self.fallbacks()?;
        if on.is_empty() { Ok(()) } else { Err(CuFileError::FallbacksOn { on }) }
    }

    /// Direct ways that are switched on, by kind of storage; empty where the library does not tell (before 1.16).
    pub fn p2p_flags(&self) -> Vec<(Storage, P2pFlags)> {
        let flags = |kind: Storage| Some((kind, P2pFlags(self.table.p2p_flags(kind.number())?)));
        Storage::ALL.into_iter().filter_map(flags).collect()
    }

    /// Counters of all GPUs now, to be compared with later ones by [`CuFileSession::since`].
    pub fn mark(&self) -> CounterMark {
        let counts = self.counts();
        // After the counters: a request under way counts as one before the mark.
        CounterMark { counts, requests: self.begun.load(Ordering::SeqCst) }
    }

    /// Requests since then by the way that they took, of all GPUs.
    ///
    /// # Errors
    /// [`NoCounter`] where the library does not count, or counted fewer than this session made.
    pub fn since(&self, mark: &CounterMark) -> Counted {
        let before = mark.counts?;
        // Before the counters: all of these are in them.
        let made = self.moved.load(Ordering::SeqCst).saturating_sub(mark.requests);
        self.counts()?.since(&before, made)
    }

    fn counts(&self) -> Counted {
        let layout = self.layout?;
        let (status, words) = self.table.read_counters().ok_or(NoCounter::Absent)?;
        match status.code {
            0 => Ok(Counts::read(&words, layout)),
            code => Err(NoCounter::Refused { call: "cuFileGetStatsL3", code }),
        }
    }

    /// Registers memory of a GPU, which it holds until the registration is gone.
    ///
    /// # Errors
    /// [`CuFileError::Call`] where the GPU or its window does not allow it.
    pub fn memory(
        self: &Arc<Self>,
        memory: Arc<DeviceMemory>,
    ) -> Result<RegisteredMemory, CuFileError> {
        let base = memory.address() as *const c_void;
        let length = usize::try_from(memory.length().0).unwrap_or(usize::MAX);
        memory.gpu().make_current()?;
        // SAFETY: the range was allocated by the driver in the current context, and is freed only when the
        // registration that holds it is gone.
        let status = unsafe { (self.table.memory_register)(base, length, 0) };
        check("cuFileBufRegister", status)?;
        Ok(RegisteredMemory { session: Arc::clone(self), memory })
    }

    /// Reads from the file into the memory; returns the bytes that moved when they have.
    ///
    /// # Errors
    /// [`IoFailure`] by the library's answer.
    pub fn read(&self, span: &TransferSpan<'_>) -> Result<u64, IoFailure> {
        let (base, length, file_offset, offset) = arguments(span)?;
        self.request(|| {
            let (file, base) = (span.file.handle, base.cast_mut());
            // SAFETY: file and memory are registered with this library, and borrowed until it returns; the range
            // lies within the memory by `Span::check`.
            result(unsafe { (self.table.read)(file, base, length, file_offset, offset) })
        })
    }

    /// Writes the memory to the file; returns the bytes that moved when they have.
    ///
    /// # Errors
    /// [`IoFailure`] by the library's answer.
    pub fn write(&self, span: &TransferSpan<'_>) -> Result<u64, IoFailure> {
        let (base, length, file_offset, offset) = arguments(span)?;
        self.request(|| {
            let file = span.file.handle;
            // SAFETY: as in `read`.
            result(unsafe { (self.table.write)(file, base, length, file_offset, offset) })
        })
    }

    /// Makes a request and counts it, by its outcome.
    fn request(&self, make: impl FnOnce() -> Result<u64, IoFailure>) -> Result<u64, IoFailure> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let done = make();
        match done {
            Ok(1..) => self.moved.fetch_add(1, Ordering::SeqCst),
            Ok(0) | Err(_) => self.begun.fetch_sub(1, Ordering::SeqCst),
        };
        done
    }
}

/// Base, length, offset in the file and in the memory; the GPU is the thread's.
fn arguments(span: &TransferSpan<'_>) -> Result<(*const c_void, usize, i64, i64), IoFailure> {
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

/// Switches every other way off. The library wants that before its driver is opened.
fn configure(table: &CuFileFunctions, mode: Mode) -> Result<(), CuFileError> {
    let is_compatible = mode == Mode::Compatible;
    for (number, value) in [
        (parameter::ALLOW_COMPATIBLE, is_compatible),
        (parameter::FORCE_COMPATIBLE, is_compatible),
        (parameter::USE_P2PDMA, mode == Mode::P2pdma),
        (parameter::POSIX_IO, false),
        (parameter::FALLBACK_IO, false),
    ] {
        let Some(status) = table.set_bool(number, value) else {
            // Older than P2PDMA; what its settings file allows is read once the driver is open.
            return match mode {
                Mode::NvidiaFs => Ok(()),
                mode => Err(CuFileError::NoParameters { mode }),
            };
        };
        let came_later = matches!(number, parameter::POSIX_IO | parameter::FALLBACK_IO);
        if !(came_later && status.code == INVALID_VALUE) {
            check("cuFileSetParameterBool", status)?;
        }
    }
    Ok(())
}

/// Chooses counters of a known layout; before the driver is opened.
fn choose_counters(
    table: &CuFileFunctions,
    version: Option<Version>,
) -> Result<&'static StatsLayout, NoCounter> {
    if !table.has_counters() {
        return Err(NoCounter::Absent);
    }
    let layout = layout_of(version)?;
    accepted("cuFileSetStatsLevel", table.choose_counters()).map(|()| layout)
}

fn start_counters(table: &CuFileFunctions) -> Result<(), NoCounter> {
    accepted("cuFileStatsStart", table.start_counters())
}

fn accepted(call: &'static str, status: Option<CuFileStatus>) -> Result<(), NoCounter> {
    match status.map(|status| status.code) {
        None => Err(NoCounter::Absent),
        Some(0) => Ok(()),
        Some(code) => Err(NoCounter::Refused { call, code }),
    }
}

impl Drop for CuFileSession {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Every file and memory that is registered holds the session, so that there is none now.
        self.table.close();
        open.retain(|(own, one)| *own != self.name || one.strong_count() > 0);
        CLOSED.notify_all();
    }
}

/// A file that is registered with cuFile.
pub struct OpenFile {
    handle: *mut c_void,
    session: Arc<CuFileSession>,
    /// Closed after it was deregistered.
    _file: File,
}

// SAFETY: cuFile's calls are thread-safe (cuFile API reference); the handle is only handed back to them.
unsafe impl Send for OpenFile {}
// SAFETY: as above.
unsafe impl Sync for OpenFile {}

impl OpenFile {
    pub(super) fn register(session: &Arc<CuFileSession>, file: File) -> Result<Self, CuFileError> {
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
pub struct RegisteredMemory {
    session: Arc<CuFileSession>,
    /// Dropped after it was deregistered; freed then, unless it has another owner.
    memory: Arc<DeviceMemory>,
}

impl RegisteredMemory {
    /// Size in bytes.
    pub fn length(&self) -> Bytes {
        self.memory.length()
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        let base = self.memory.address() as *const c_void;
        let _ = self.memory.gpu().make_current();
        // SAFETY: registered by `Session::memory` and deregistered once, here; a request under way borrows it.
        let _ = unsafe { (self.session.table.memory_deregister)(base) };
    }
}

impl fmt::Debug for CuFileSession {
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

impl fmt::Debug for RegisteredMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("memory", &self.memory).finish_non_exhaustive()
    }
}
