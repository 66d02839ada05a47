//! The only place that loads code.

use std::ffi::OsStr;

/// A library that is loaded until this is dropped.
#[derive(Debug)]
pub(crate) struct Library(libloading::Library);

impl Library {
    /// Loads a library by file name or path.
    ///
    /// # Errors
    /// The loader's error.
    pub(crate) fn open(name: &OsStr) -> Result<Self, libloading::Error> {
        // SAFETY: what runs when a library is loaded is the library's own and touches nothing of this
        // process's state; the name is that of a maker's library, or of a file that the caller named instead.
        unsafe { libloading::Library::new(name) }.map(Self)
    }

    /// A function as a pointer of type `F`; `None` where the library has none of that name.
    ///
    /// # Safety
    /// `F` must be the type of the C function of that name; the pointer must not outlive the library.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &[u8]) -> Option<F> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { self.0.get::<F>(name) };
        found.ok().map(|symbol| *symbol)
    }
}
