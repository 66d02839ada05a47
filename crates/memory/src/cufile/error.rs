//! Why cuFile does not serve, and what to do about it.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::Mode;
use crate::LibraryError;
use crate::cuda::CudaError;

/// Why cuFile does not serve: a value, with a way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CuFileError {
    /// The library is not there, or is another one.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The library cannot be told which way to take.
    #[error("this libcufile cannot be told to go {mode} only: it has no cuFileSetParameterBool")]
    NoParameters {
        /// The way.
        mode: Mode,
    },
    /// A part of this process has it open in another mode.
    #[error("cuFile is open here already: {open}")]
    OtherMode {
        /// That mode.
        open: Mode,
    },
    /// The last one who had it open does not get it closed.
    #[error("cuFile is still being closed")]
    StillClosing,
    /// Its driver is open and its fallback is on, though that was switched off.
    #[error("cuFile keeps its compatibility mode on, though it was switched off")]
    StillCompatible,
    /// A call failed.
    #[error("{call} failed: {} ({code})", name_of(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `CUfileOpError`.
        code: i32,
        /// `CUresult`, where the failure was CUDA's.
        cuda: i32,
    },
    /// The GPU could not be made current.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

impl CuFileError {
    pub(super) fn library(name: &OsStr, error: &libloading::Error) -> Self {
        LibraryError::not_there(name, error).into()
    }

    pub(super) fn symbol(name: &OsStr, symbol: &[u8]) -> Self {
        LibraryError::no_function(name, symbol).into()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Library(LibraryError::NotThere { .. }) => Some(
                "install GPUDirect Storage: `sudo apt install nvidia-gds`; or go through host memory: \
                 `--route host`, `--routes host` of a benchmark",
            ),
            Self::Library(LibraryError::NoFunction { .. }) | Self::NoParameters { .. } => Some(
                "install GPUDirect Storage of CUDA 12.8 or later: `sudo apt install nvidia-gds`",
            ),
            Self::StillCompatible => Some(
                "set \"allow_compat_mode\": false and \"force_compat_mode\": false in /etc/cufile.json, and \
                 unset CUFILE_FORCE_COMPAT_MODE",
            ),
            Self::Call { code, .. } => hint_of(*code),
            Self::Cuda(error) => error.hint(),
            Self::StillClosing => {
                Some("`sudo dmesg | grep -i nvidia` shows whether the driver hangs")
            }
            Self::OtherMode { .. } => Some("measure one route of cuFile at a time"),
        }
    }
}

/// Why bytes did not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IoFailure {
    /// The system's answer.
    #[error("{0}")]
    System(Errno),
    /// cuFile's own, `CUfileOpError`.
    #[error("cuFile: {} ({code})", name_of(*code))]
    CuFile {
        /// The number.
        code: i32,
    },
    /// A range beyond the memory, or one that no call can name.
    #[error("the range lies beyond the registered memory")]
    Range,
    /// The GPU could not be made current.
    #[error("the GPU's context cannot be used")]
    Context,
}

impl IoFailure {
    /// The system's word for it, or the nearest.
    pub fn errno(&self) -> Errno {
        match self {
            Self::System(errno) => *errno,
            Self::CuFile { code: 5007..=5009 | 5027 | 5034 | 5049 } => Errno::OPNOTSUPP,
            Self::CuFile { code: 5025 } => Errno::ACCESS,
            Self::CuFile { code: 5036 | 5043 } => Errno::NOMEM,
            Self::Range => Errno::INVAL,
            Self::CuFile { .. } | Self::Context => Errno::IO,
        }
    }
}

/// Names of `CUfileOpError` (cuFile API reference, "enum CUfileOpError").
fn name_of(code: i32) -> &'static str {
    match code {
        5001 => "the nvidia-fs driver is not loaded",
        5004 => "the nvidia-fs driver is of another version",
        5007 => "not supported on this platform",
        5008 => "not supported on this file",
        5009 => "not supported on this GPU",
        5010 => "the nvidia-fs driver refused",
        5011 => "the CUDA driver refused",
        5016 => "beyond the memory that may be pinned",
        5018 => "unsupported file type",
        5019 => "unsupported open flags",
        5020 => "the file is not open for direct I/O",
        5022 => "invalid argument",
        5023 => "memory already registered",
        5024 => "memory not registered",
        5025 => "permission denied",
        5027 => "file not registered",
        5028 => "file already registered",
        5030 => "internal error",
        5033 => "the nvidia-fs driver could not be set up",
        5034 => "switched off for this file by its settings",
        5036 => "GPU memory could not be pinned",
        5044 => "I/O error",
        5045 => "the buffer could not be registered",
        5048 => "error in the nvidia-fs driver",
        5049 => "only possible in compatibility mode, which is off",
        _ => "see CUfileOpError and cufile.log",
    }
}

fn hint_of(code: i32) -> Option<&'static str> {
    match code {
        5001 | 5004 | 5010 | 5033 | 5048 => Some(
            "`sudo modprobe nvidia_fs` loads it; `/usr/local/cuda/gds/tools/gdscheck -p` shows its state",
        ),
        5007..=5009 | 5049 => Some(
            "`peerlane doctor FILE gpu:N` says what stands in the way; `--route host`, or `--routes host` of a \
             benchmark, goes through host memory",
        ),
        5016 | 5036 | 5045 => Some(
            "take a smaller --block or --depth; \"max_device_pinned_mem_size_kb\" in /etc/cufile.json, and the \
             GPU's BAR1 (`nvidia-smi -q -d MEMORY`), bound it",
        ),
        5025 => Some("`ls -l /dev/nvidia-fs*` must let you in"),
        _ => None,
    }
}
