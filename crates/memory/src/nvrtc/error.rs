//! Reasons why nothing was compiled, and advice on each.

use std::ffi::OsStr;

use super::MOST_WORDS;
use crate::LibraryError;

/// A reason why nothing was compiled, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// The library is not there, or is another one.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The driver is older than any compiler that is known here.
    #[error("the driver is of CUDA {major}.{minor}, and code is compiled for 11 and later")]
    OldDriver {
        /// Of the driver.
        major: i32,
        /// Of the driver.
        minor: i32,
    },
    /// The compiler makes nothing for such a GPU.
    #[error("this libnvrtc compiles nothing for GPUs of compute capability {major}.{minor}")]
    Gpu {
        /// Of the GPU.
        major: i32,
        /// Of the GPU.
        minor: i32,
    },
    /// A call failed.
    #[error("{call} failed: {} ({code})", name_of(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `nvrtcResult`.
        code: i32,
    },
    /// A zero byte in the source or its name: C would end the text there.
    #[error("the source has a zero byte")]
    ZeroByte,
    /// The source does not compile.
    #[error("NVRTC refuses the kernels: {words}")]
    Source {
        /// The compiler's message.
        words: String,
    },
}

impl NvrtcError {
    pub(super) fn library(name: &OsStr, error: &libloading::Error) -> Self {
        LibraryError::not_there(name, error).into()
    }

    pub(super) fn symbol(name: &OsStr, symbol: &[u8]) -> Self {
        LibraryError::no_function(name, symbol).into()
    }

    /// The same failure, with the compiler's message.
    pub(super) fn with_words(self, words: &str) -> Self {
        let words: String = words.trim().chars().take(MOST_WORDS).collect();
        Self::Source { words }
    }

    /// Returns whether the machine lacks something, so a retry is pointless.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Library(_) | Self::OldDriver { .. } | Self::Gpu { .. })
    }

    /// Advice on how to fix it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Library(LibraryError::NotThere { .. }) => Some(
                "install NVRTC of the driver's CUDA: `sudo apt install cuda-nvrtc-12-8`; or `pip install \
                 nvidia-cuda-nvrtc-cu12`, and name the folder of its libnvrtc.so.12 in LD_LIBRARY_PATH",
            ),
            Self::Library(LibraryError::NoFunction { .. }) => {
                Some("NVRTC of CUDA 11.2 or later is needed")
            }
            Self::OldDriver { .. } => Some("`nvidia-smi` shows the driver and its CUDA"),
            Self::Gpu { .. } => Some("an earlier CUDA may still know the GPU: `nvidia-smi -q`"),
            Self::Call { code: 7, .. } => Some(
                "libnvrtc-builtins of the same version lies next to libnvrtc; `ldconfig -p | grep nvrtc`",
            ),
            Self::Call { .. } | Self::ZeroByte | Self::Source { .. } => None,
        }
    }
}

/// Names of `nvrtcResult` (`nvrtc.h`).
fn name_of(code: i32) -> &'static str {
    match code {
        1 => "out of memory",
        2 => "program could not be created",
        3 => "invalid input",
        4 => "invalid program",
        5 => "invalid option",
        6 => "compilation error",
        7 => "its builtins cannot be opened",
        11 => "internal error",
        _ => "see nvrtcResult in nvrtc.h",
    }
}
