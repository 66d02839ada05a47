//! The table of NVRTC, filled when the library is opened, and a program that is being compiled.
//!
//! Names and types are those of `nvrtc.h` (CUDA 12). Nothing is linked.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ptr;

use super::{ImageKind, NvrtcError};
use crate::library::ffi::Library as Loaded;

/// Most architectures that a library may know.
const MOST_ARCHITECTURES: c_int = 256;

/// Most bytes of an image or a log that the library makes.
const MOST_BYTES: usize = 256 << 20;

macro_rules! table {
    ($($field:ident, $symbol:literal, ($($argument:ty),*);)*) => {
        struct Table {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Table {
            fn fill(library: &Loaded, name: &OsStr) -> Result<Self, NvrtcError> {
                $(
                    // SAFETY: the symbol has the type that `nvrtc.h` declares for it, and the pointer is kept no
                    // longer than the library, beside which it lies in `Library`.
                    let $field = unsafe { library.function($symbol) };
                    let $field = $field.ok_or_else(|| NvrtcError::symbol(name, $symbol))?;
                )*
                Ok(Self { $($field),* })
            }
        }
    };
}

table! {
    version, b"nvrtcVersion", (*mut c_int, *mut c_int);
    architecture_count, b"nvrtcGetNumSupportedArchs", (*mut c_int);
    architectures, b"nvrtcGetSupportedArchs", (*mut c_int);
    create, b"nvrtcCreateProgram", (*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char);
    destroy, b"nvrtcDestroyProgram", (*mut *mut c_void);
    compile, b"nvrtcCompileProgram", (*mut c_void, c_int, *const *const c_char);
    log_size, b"nvrtcGetProgramLogSize", (*mut c_void, *mut usize);
    log, b"nvrtcGetProgramLog", (*mut c_void, *mut c_char);
    ptx_size, b"nvrtcGetPTXSize", (*mut c_void, *mut usize);
    ptx, b"nvrtcGetPTX", (*mut c_void, *mut c_char);
    cubin_size, b"nvrtcGetCUBINSize", (*mut c_void, *mut usize);
    cubin, b"nvrtcGetCUBIN", (*mut c_void, *mut c_char);
}

/// The library, open.
pub(super) struct NvrtcLibrary {
    table: Table,
    /// Declared after the table, which points into it: fields drop in this order.
    _loaded: Loaded,
}

fn check(call: &'static str, code: c_int) -> Result<(), NvrtcError> {
    if code == 0 { Ok(()) } else { Err(NvrtcError::Call { call, code }) }
}

impl NvrtcLibrary {
    pub(super) fn open(name: &OsStr) -> Result<Self, NvrtcError> {
        let loaded = Loaded::open(name).map_err(|error| NvrtcError::library(name, &error))?;
        Ok(Self { table: Table::fill(&loaded, name)?, _loaded: loaded })
    }

    pub(super) fn version(&self) -> Result<(i32, i32), NvrtcError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two ints to locals.
        let code = unsafe { (self.table.version)(&raw mut major, &raw mut minor) };
        check("nvrtcVersion", code)?;
        Ok((major, minor))
    }

    /// The architectures that it makes machine code for: 90 is compute capability 9.0.
    pub(super) fn architectures(&self) -> Result<Vec<i32>, NvrtcError> {
        let mut count = 0;
        // SAFETY: writes one int to a local.
        let code = unsafe { (self.table.architecture_count)(&raw mut count) };
        check("nvrtcGetNumSupportedArchs", code)?;
        let count = usize::try_from(count.clamp(0, MOST_ARCHITECTURES)).unwrap_or(0);
        // Room for all that it may have, should it say a smaller number than it writes.
        let mut all = vec![0; 256];
        // SAFETY: writes as many ints as it said, which is at most what there is room for in any CUDA.
        check("nvrtcGetSupportedArchs", unsafe { (self.table.architectures)(all.as_mut_ptr()) })?;
        all.truncate(count);
        Ok(all)
    }
}

/// A program that is being compiled; destroyed when dropped.
pub(super) struct Program<'a> {
    library: &'a NvrtcLibrary,
    handle: *mut c_void,
}

/// Functions that say how long something is, and that write it.
type Read = (
    &'static str,
    unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
);

impl<'a> Program<'a> {
    pub(super) fn new(
        library: &'a NvrtcLibrary,
        source: &CStr,
        name: &CStr,
    ) -> Result<Self, NvrtcError> {
        let mut handle = ptr::null_mut();
        let (none, create) = (ptr::null(), library.table.create);
        // SAFETY: both texts end with a zero byte and are copied during the call; there are no headers; one handle is
        // written to a local.
        let code =
            unsafe { create(&raw mut handle, source.as_ptr(), name.as_ptr(), 0, none, none) };
        check("nvrtcCreateProgram", code)?;
        Ok(Self { library, handle })
    }

    pub(super) fn compile(&self, options: &[String]) -> Result<(), NvrtcError> {
        let options: Vec<CString> =
            options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let places: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(places.len()).unwrap_or(0);
        // SAFETY: the program was made and is not destroyed; as many texts as it is told live through the call.
        let code = unsafe { (self.library.table.compile)(self.handle, count, places.as_ptr()) };
        check("nvrtcCompileProgram", code)
    }

    /// The compiler's log.
    pub(super) fn log(&self) -> Result<String, NvrtcError> {
        let table = &self.library.table;
        let bytes = self.read(("nvrtcGetProgramLog", table.log_size, table.log))?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The compiled image.
    pub(super) fn image(&self, kind: ImageKind) -> Result<Vec<u8>, NvrtcError> {
        let table = &self.library.table;
        self.read(match kind {
            ImageKind::Cubin => ("nvrtcGetCUBIN", table.cubin_size, table.cubin),
            ImageKind::Ptx => ("nvrtcGetPTX", table.ptx_size, table.ptx),
        })
    }

    fn read(&self, (call, size_of, write): Read) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program was made and is not destroyed; one size is written to a local.
        check(call, unsafe { size_of(self.handle, &raw mut size) })?;
        if size > MOST_BYTES {
            return Err(NvrtcError::Call { call, code: 1 });
        }
        // One byte more, so that a text always ends with a zero byte.
        let mut bytes = vec![0_u8; size + 1];
        // SAFETY: as above; as many bytes are written as it said, for which there is room.
        check(call, unsafe { write(self.handle, bytes.as_mut_ptr().cast()) })?;
        bytes.truncate(size);
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new` and destroyed once, here.
        let _ = unsafe { (self.library.table.destroy)(&raw mut self.handle) };
    }
}
