//! The table of libblkid, filled when the library is opened, and one probe.
//!
//! Names and types are those of `blkid.h` (util-linux 2.30 to 2.43). Nothing is linked.
//! Configuration files and caches belong to another interface of the library, which is not used.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::BlkidError;
use crate::LibraryError;
use crate::library::ffi::Library as Loaded;

/// Most bytes that are copied of a value. Labels are the longest, with some hundred bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// `BLKID_SUBLKS_LABEL`, `_UUID`, `_TYPE`, `_USAGE`, and `_BADCSUM`: a superblock with a wrong checksum counts.
const SUPERBLOCK_FLAGS: c_int = (1 << 1) | (1 << 3) | (1 << 5) | (1 << 7) | (1 << 10);

/// `BLKID_PARTS_FORCE_GPT`: a GPT counts without its protective MBR.
const PARTITION_FLAGS: c_int = 1 << 1;

macro_rules! table {
    (
        needed { $($field:ident, $symbol:literal, ($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($extra:ident, $extra_symbol:literal, ($($extra_argument:ty),*) -> $extra_result:ty;)* }
    ) => {
        struct Table {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $($extra: Option<unsafe extern "C" fn($($extra_argument),*) -> $extra_result>,)*
        }

        impl Table {
            fn fill(library: &Loaded, name: &OsStr) -> Result<Self, LibraryError> {
                $(
                    // SAFETY: the symbol has the type that `blkid.h` declares for it, and the pointer is kept no
                    // longer than the library, beside which it lies in `Library`.
                    let $field = unsafe { library.function($symbol) };
                    let $field = $field.ok_or_else(|| LibraryError::no_function(name, $symbol))?;
                )*
                $(
                    // SAFETY: as above.
                    let $extra = unsafe { library.function($extra_symbol) };
                )*
                Ok(Self { $($field,)* $($extra),* })
            }
        }
    };
}

table! {
    needed {
        version, b"blkid_get_library_version", (*mut *const c_char, *mut *const c_char) -> c_int;
        new_probe, b"blkid_new_probe", () -> *mut c_void;
        free_probe, b"blkid_free_probe", (*mut c_void);
        set_device, b"blkid_probe_set_device", (*mut c_void, c_int, i64, i64) -> c_int;
        enable_superblocks, b"blkid_probe_enable_superblocks", (*mut c_void, c_int) -> c_int;
        set_superblocks_flags, b"blkid_probe_set_superblocks_flags", (*mut c_void, c_int) -> c_int;
        enable_partitions, b"blkid_probe_enable_partitions", (*mut c_void, c_int) -> c_int;
        set_partitions_flags, b"blkid_probe_set_partitions_flags", (*mut c_void, c_int) -> c_int;
        do_probe, b"blkid_do_probe", (*mut c_void) -> c_int;
        lookup_value, b"blkid_probe_lookup_value",
            (*mut c_void, *const c_char, *mut *const c_char, *mut usize) -> c_int;
    }
    optional {
        set_sector_size, b"blkid_probe_set_sectorsize", (*mut c_void, c_uint) -> c_int;
    }
}

/// The library, open.
pub(super) struct BlkidLibrary {
    table: Table,
    /// Declared after the table, which points into it: fields drop in this order.
    _loaded: Loaded,
}

impl BlkidLibrary {
    pub(super) fn open(name: &OsStr) -> Result<Self, LibraryError> {
        let loaded = Loaded::open(name).map_err(|error| LibraryError::not_there(name, &error))?;
        Ok(Self { table: Table::fill(&loaded, name)?, _loaded: loaded })
    }

    /// The version as the library prints it, such as `2.38.1`; empty where it says none.
    pub(super) fn version(&self) -> String {
        let (mut version, mut date) = (ptr::null(), ptr::null());
        // SAFETY: writes two pointers to constants of the library to locals.
        unsafe { (self.table.version)(&raw mut version, &raw mut date) };
        if version.is_null() {
            return String::new();
        }
        // SAFETY: a text of the library that ends with a zero byte and lives as long as the library.
        unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned()
    }
}

/// The end of one step of probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// Something was recognised: its values can be looked up until the next step.
    Found,
    /// One prober failed; the next step goes on behind it.
    Failed,
    /// Every prober was asked.
    Done,
}

/// A probe over one file; freed when dropped.
pub(super) struct BlkidProbe<'a> {
    library: &'a BlkidLibrary,
    handle: *mut c_void,
    /// Keeps the file open as long as the probe.
    _file: BorrowedFd<'a>,
}

impl<'a> BlkidProbe<'a> {
    /// A probe for superblocks and partition tables over the first `size` bytes of a file.
    pub(super) fn new(
        library: &'a BlkidLibrary,
        file: BorrowedFd<'a>,
        size: i64,
        block: Option<u32>,
    ) -> Result<Self, BlkidError> {
        // SAFETY: takes nothing, and what it returns is freed by `drop`.
        let handle = unsafe { (library.table.new_probe)() };
        if handle.is_null() {
            return Err(BlkidError::Call { call: "blkid_new_probe" });
        }
        let probe = Self { library, handle, _file: file };
        probe.set_up(file, size, block)?;
        Ok(probe)
    }

    fn set_up(
        &self,
        file: BorrowedFd<'_>,
        size: i64,
        block: Option<u32>,
    ) -> Result<(), BlkidError> {
        let (table, handle) = (&self.library.table, self.handle);
        // SAFETY: the probe was made and is not freed; the descriptor is open as long as the probe.
        let code = unsafe { (table.set_device)(handle, file.as_raw_fd(), 0, size) };
        check("blkid_probe_set_device", code)?;
        if let Some((set, block)) = table.set_sector_size.zip(block) {
            // SAFETY: the probe was made and is not freed.
            check("blkid_probe_set_sectorsize", unsafe { set(handle, block) })?;
        }
        for (call, set, value) in [
            ("blkid_probe_enable_superblocks", table.enable_superblocks, 1),
            ("blkid_probe_set_superblocks_flags", table.set_superblocks_flags, SUPERBLOCK_FLAGS),
            ("blkid_probe_enable_partitions", table.enable_partitions, 1),
            ("blkid_probe_set_partitions_flags", table.set_partitions_flags, PARTITION_FLAGS),
        ] {
            // SAFETY: the probe was made and is not freed.
            check(call, unsafe { set(handle, value) })?;
        }
        Ok(())
    }

    /// Goes on to the next thing that is recognised.
    pub(super) fn step(&mut self) -> ProbeResult {
        // SAFETY: the probe was made and is not freed, and has a device.
        match unsafe { (self.library.table.do_probe)(self.handle) } {
            0 => ProbeResult::Found,
            1 => ProbeResult::Done,
            _ => ProbeResult::Failed,
        }
    }

    /// A value of the last step, up to its first zero byte; `None` where there is none of that name.
    pub(super) fn value(&self, name: &CStr) -> Option<Vec<u8>> {
        let (mut data, mut length) = (ptr::null(), 0);
        let look_up = self.library.table.lookup_value;
        // SAFETY: the probe was made and is not freed; the name ends with a zero byte; a pointer and a length are
        // written to locals.
        let code = unsafe { look_up(self.handle, name.as_ptr(), &raw mut data, &raw mut length) };
        if code != 0 || data.is_null() {
            return None;
        }
        let length = length.min(MAX_VALUE_BYTES);
        // SAFETY: the library says that so many bytes are there, which it keeps until the next call that changes the
        // probe; `self` is borrowed until they are copied.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        Some(bytes[..end].to_vec())
    }
}

impl Drop for BlkidProbe<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once, here.
        unsafe { (self.library.table.free_probe)(self.handle) };
    }
}

fn check(call: &'static str, code: c_int) -> Result<(), BlkidError> {
    if code == 0 { Ok(()) } else { Err(BlkidError::Call { call }) }
}
