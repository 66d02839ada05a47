//! NVRTC: CUDA's compiler as a library, opened when the program runs.
//!
//! The interface: [`Nvrtc::load`] opens the library that fits a driver; [`Nvrtc::compile`] makes an [`Image`] of a
//! source, which [`crate::cuda::Gpu::module`] loads.
//!
//! Where the library knows the GPU it makes machine code for it, which any driver of the same CUDA
//! loads; else it makes PTX, which the driver translates and which must not be of a later CUDA than
//! the driver.

mod error;
#[allow(unsafe_code)]
mod ffi;

use std::ffi::{CString, OsStr};
use std::fmt;
use std::path::Path;

pub use error::NvrtcError;
use ffi::{NvrtcLibrary, Program};

/// Names of the library by the major version of CUDA; no later one than the driver's is tried.
const LIBRARIES: [(i32, &str); 3] =
    [(13, "libnvrtc.so.13"), (12, "libnvrtc.so.12"), (11, "libnvrtc.so.11.2")];

/// Most characters of the compiler's message in an error.
const MOST_WORDS: usize = 4096;

/// The compiler.
pub struct Nvrtc {
    library: NvrtcLibrary,
    version: (i32, i32),
}

/// Format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// Machine code of one compute capability.
    Cubin,
    /// Code that the driver translates.
    Ptx,
}

/// Code for a GPU, made by NVRTC.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    kind: ImageKind,
    /// With a zero byte behind it.
    bytes: Vec<u8>,
}

impl Image {
    /// Its format.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The code, and a zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Nvrtc {
    /// Opens the library of the CUDA that a driver is of, or of the next earlier one.
    ///
    /// # Errors
    /// [`NvrtcError`], by the missing part; of several the first that was tried.
    pub fn load(driver: (i32, i32)) -> Result<Self, NvrtcError> {
        let mut first = None;
        for (_, name) in LIBRARIES.iter().filter(|(major, _)| *major <= driver.0) {
            match Self::open(OsStr::new(name)) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(NvrtcError::OldDriver { major: driver.0, minor: driver.1 }))
    }

    /// The same with a library that is named.
    ///
    /// # Errors
    /// As [`Nvrtc::load`].
    pub fn load_from(library: &Path) -> Result<Self, NvrtcError> {
        Self::open(library.as_os_str())
    }

    fn open(name: &OsStr) -> Result<Self, NvrtcError> {
        let library = NvrtcLibrary::open(name)?;
        let version = library.version()?;
        Ok(Self { library, version })
    }

    /// Its version, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a source for GPUs of a compute capability. No operations are fused, so sums
    /// equal those of a CPU.
    ///
    /// # Errors
    /// [`NvrtcError::ZeroByte`] for a source or name with a zero byte, [`NvrtcError::Source`] with
    /// the compiler's words, [`NvrtcError::Gpu`] for a GPU from before its time.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        compute: (i32, i32),
    ) -> Result<Image, NvrtcError> {
        let wanted = compute.0 * 10 + compute.1;
        let known = self.library.architectures()?;
        let kind = if known.contains(&wanted) { ImageKind::Cubin } else { ImageKind::Ptx };
        let below = known.iter().copied().filter(|known| *known <= wanted).max();
        let architecture = below.ok_or(NvrtcError::Gpu { major: compute.0, minor: compute.1 })?;
        self.compile_as(source, name, kind, architecture)
    }

    /// The same for one architecture (90 is compute capability 9.0) and kind of code, whichever is there.
    ///
    /// # Errors
    /// As [`Nvrtc::compile`].
    pub fn compile_as(
        &self,
        source: &str,
        name: &str,
        kind: ImageKind,
        architecture: i32,
    ) -> Result<Image, NvrtcError> {
        let prefix = if kind == ImageKind::Cubin { "sm" } else { "compute" };
        let options =
            [format!("--gpu-architecture={prefix}_{architecture}"), "--fmad=false".into()];
        let text = |text| CString::new(text).map_err(|_| NvrtcError::ZeroByte);
        let (source, name) = (text(source)?, text(name)?);
        let program = Program::new(&self.library, &source, &name)?;
        if let Err(error) = program.compile(&options) {
            let words = program.log()?;
            return Err(if words.trim().is_empty() { error } else { error.with_words(&words) });
        }
        let mut bytes = program.image(kind)?;
        bytes.push(0);
        Ok(Image { kind, bytes })
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc").field("version", &self.version).finish_non_exhaustive()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("kind", &self.kind).field("bytes", &self.bytes.len()).finish()
    }
}
