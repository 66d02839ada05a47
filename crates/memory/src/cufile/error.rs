//! Reasons why cuFile cannot be used, and advice on each.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::fallback::Names;
use super::{Fallback, Mode, NoCounter};
use crate::LibraryError;
use crate::cuda::CudaError;

/// A reason why cuFile cannot be used, with advice.
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
        /// The mode that it is open in.
        open: Mode,
    },
    /// The last user has not closed it yet.
    #[error("cuFile is still being closed")]
    StillClosing,
    /// Its driver is open and lets payload go through host memory, though that was switched off.
    #[error("cuFile keeps {} on, though it was switched off", Names(on))]
    FallbacksOn {
        /// The switches that are on.
        on: Vec<Fallback>,
    },
    /// No counter would show the way that requests take.
    #[error(transparent)]
    NoCounter(#[from] NoCounter),
    /// A call failed.
    #[error("{call} failed: {} ({code})", name_of(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `CUfileOpError`.
        code: i32,
        /// `CUresult`, if the failure was CUDA's.
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

    /// Advice on how to fix it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Library(LibraryError::NotThere { .. }) => Some(
                "install GPUDirect Storage: `sudo apt install nvidia-gds`; or go through host memory: \
                 `--route host`, `--routes host` of a benchmark",
            ),
            Self::Library(LibraryError::NoFunction { .. }) | Self::NoParameters { .. } => Some(
                "install GPUDirect Storage of CUDA 12.8 or later: `sudo apt install nvidia-gds`",
            ),
            Self::FallbacksOn { on } => Some(hint_of_fallback(on.first().copied())),
            Self::NoCounter(none) => Some(none.hint()),
            Self::Call { code, .. } => hint_of(*code),
            Self::Cuda(error) => error.hint(),
            Self::StillClosing => {
                Some("`sudo dmesg | grep -i nvidia` shows whether the driver hangs")
            }
            Self::OtherMode { .. } => Some("measure one route of cuFile at a time"),
        }
    }
}

/// The reason why bytes did not move.
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

/// `CUfileOpError` (cuFile API reference, "enum CUfileOpError"): number, name there, and words.
pub(super) const ERRORS: [(i32, &str, &str); 25] = [
    (5001, "CU_FILE_DRIVER_NOT_INITIALIZED", "the nvidia-fs driver is not loaded"),
    (5004, "CU_FILE_DRIVER_VERSION_MISMATCH", "the nvidia-fs driver is of another version"),
    (5007, "CU_FILE_PLATFORM_NOT_SUPPORTED", "not supported on this platform"),
    (5008, "CU_FILE_IO_NOT_SUPPORTED", "not supported on this file"),
    (5009, "CU_FILE_DEVICE_NOT_SUPPORTED", "not supported on this GPU"),
    (5010, "CU_FILE_NVFS_DRIVER_ERROR", "the nvidia-fs driver refused"),
    (5011, "CU_FILE_CUDA_DRIVER_ERROR", "the CUDA driver refused"),
    (5016, "CU_FILE_INVALID_MAPPING_SIZE", "beyond the memory that may be pinned"),
    (5018, "CU_FILE_INVALID_FILE_TYPE", "unsupported file type"),
    (5019, "CU_FILE_INVALID_FILE_OPEN_FLAG", "unsupported open flags"),
    (5020, "CU_FILE_DIO_NOT_SET", "the file is not open for direct I/O"),
    (5022, "CU_FILE_INVALID_VALUE", "invalid argument"),
    (5023, "CU_FILE_MEMORY_ALREADY_REGISTERED", "memory already registered"),
    (5024, "CU_FILE_MEMORY_NOT_REGISTERED", "memory not registered"),
    (5025, "CU_FILE_PERMISSION_DENIED", "permission denied"),
    (5027, "CU_FILE_HANDLE_NOT_REGISTERED", "file not registered"),
    (5028, "CU_FILE_HANDLE_ALREADY_REGISTERED", "file already registered"),
    (5030, "CU_FILE_INTERNAL_ERROR", "internal error"),
    (5033, "CU_FILE_NVFS_SETUP_ERROR", "the nvidia-fs driver could not be set up"),
    (5034, "CU_FILE_IO_DISABLED", "switched off for this file by its settings"),
    (5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED", "GPU memory could not be pinned"),
    (5044, "CU_FILE_IO_ERROR", "I/O error"),
    (5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR", "the buffer could not be registered"),
    (5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", "error in the nvidia-fs driver"),
    (5049, "CU_FILE_BATCH_NOCOMPAT_ERROR", "only possible in compatibility mode, which is off"),
];

fn name_of(code: i32) -> &'static str {
    let known = ERRORS.iter().find(|(number, ..)| *number == code);
    known.map_or("see CUfileOpError and cufile.log", |(.., words)| words)
}

/// Advice on how to switch off a fallback.
fn hint_of_fallback(fallback: Option<Fallback>) -> &'static str {
    match fallback {
        Some(Fallback::PosixIo) => {
            "set \"vanilla_posix_io_mode\": false (\"posix_io_mode\" in 1.17 and 1.18) in /etc/cufile.json; cuFile \
             takes this mode by itself where NVIDIA's driver is missing, which cufile.log says"
        }
        Some(Fallback::FallbackIo) => "set \"gds_fallback_io\": false in /etc/cufile.json",
        Some(Fallback::AllowCompatible | Fallback::ForceCompatible) | None => {
            "set \"allow_compat_mode\": false and \"force_compat_mode\": false in /etc/cufile.json, and \
             unset CUFILE_FORCE_COMPAT_MODE"
        }
    }
}

fn hint_of(code: i32) -> Option<&'static str> {
    match code {
        5001 | 5004 | 5010 | 5033 | 5048 => Some(
            "`sudo modprobe nvidia_fs` loads it; `/usr/local/cuda/gds/tools/gdscheck -p` shows its state",
        ),
        5007..=5009 | 5049 => Some(
            "`peerlane doctor FILE gpu:N` shows the obstacle; `--route host`, or `--routes host` of a \
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
