//! Reasons why a GPU cannot be used, and advice on each.

use std::ffi::OsStr;

use peerlane_fabric::Bdf;
use peerlane_units::Bytes;

use crate::LibraryError;

/// A reason why a GPU cannot be used, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The library is not there, or is another one.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A call of the driver API failed.
    #[error("{call} failed: {} ({code})", name_of(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `CUresult`.
        code: i32,
    },
    /// No GPU by that name.
    #[error("there is no {asked}: the driver shows {}", list(.shown))]
    NoSuchGpu {
        /// The name that was asked for.
        asked: String,
        /// The GPUs that there are, by PCI address.
        shown: Vec<String>,
    },
    /// The GPU's address cannot be read.
    #[error("the driver calls a GPU `{text}`, which is not a PCI address")]
    Address {
        /// Its own words.
        text: String,
    },
    /// Zero bytes, or more than an address holds.
    #[error("cannot take {length} of GPU memory: not addressable")]
    Length {
        /// Bytes asked for.
        length: Bytes,
    },
    /// A copy reaches beyond one of its ends.
    #[error("cannot copy {length} at {offset} of a memory of {size}")]
    Range {
        /// Start of the range, in bytes.
        offset: Bytes,
        /// Length of the range.
        length: Bytes,
        /// Size of the memory.
        size: Bytes,
    },
    /// A kernel of one GPU for memory of another.
    #[error("cannot run a kernel of GPU {kernel} on memory of GPU {memory}")]
    OtherGpu {
        /// The kernel's GPU.
        kernel: Bdf,
        /// The memory's.
        memory: Bdf,
    },
    /// A range that its owner gave for memory of a GPU, and that is not, or only in part.
    #[error("{length} at {address:#x} cannot be written on a GPU: {why}")]
    NotOfAGpu {
        /// Its address.
        address: u64,
        /// Its length.
        length: Bytes,
        /// The objection to it.
        why: &'static str,
    },
    /// Memory other than plain host memory, which a copy by the driver would touch with the CPU.
    #[error("cannot copy between a GPU and {kind:?} memory by the CPU")]
    NotPlain {
        /// Its kind.
        kind: crate::RegionKind,
    },
    /// This process was forked off one that had initialised CUDA.
    #[error("this process was forked after CUDA was initialised, and cannot use CUDA")]
    Forked,
    /// There is no host memory to copy through.
    #[error("cannot take host memory for a GPU")]
    Host(#[from] crate::MemoryError),
}

impl CudaError {
    pub(crate) fn library(name: &OsStr, error: &libloading::Error) -> Self {
        LibraryError::not_there(name, error).into()
    }

    pub(crate) fn symbol(name: &OsStr, symbol: &[u8]) -> Self {
        LibraryError::no_function(name, symbol).into()
    }

    /// Returns whether the machine lacks something, so a retry is pointless.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Library(_) | Self::NoSuchGpu { .. } => true,
            Self::Call { code, .. } => matches!(code, 34 | 46 | 100 | 101 | 800..=804),
            _ => false,
        }
    }

    /// Advice on how to fix it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Library(LibraryError::NotThere { .. }) => Some(
                "install NVIDIA's driver, whose user part brings libcuda.so.1: `ldconfig -p | grep libcuda`; \
                 a container needs `--gpus all`",
            ),
            Self::Library(LibraryError::NoFunction { .. }) => {
                Some("a driver of CUDA 11 or later is needed: `nvidia-smi`")
            }
            Self::NoSuchGpu { .. } => {
                Some("`nvidia-smi -L` lists them; CUDA_VISIBLE_DEVICES hides some")
            }
            Self::Call { code, .. } => hint_of(*code),
            Self::Host(error) => error.hint(),
            Self::Forked => Some(
                "start such processes with `spawn`: multiprocessing.set_start_method(\"spawn\")",
            ),
            Self::Address { .. }
            | Self::Length { .. }
            | Self::Range { .. }
            | Self::OtherGpu { .. }
            | Self::NotOfAGpu { .. }
            | Self::NotPlain { .. } => None,
        }
    }
}

fn list(gpus: &[String]) -> String {
    if gpus.is_empty() { "none".to_owned() } else { gpus.join(", ") }
}

/// Names of `CUresult` that a user may meet (`cuda.h`).
fn name_of(code: i32) -> &'static str {
    match code {
        1 => "invalid value",
        2 => "out of memory",
        3 => "not initialised",
        4 => "being shut down",
        34 => "a stub library, not the driver",
        46 => "device unavailable",
        100 => "no device",
        101 => "invalid device",
        200 => "invalid code",
        201 => "invalid context",
        209 => "the code is for another GPU",
        214 => "uncorrectable memory error",
        218 => "the code cannot be translated",
        222 => "the code is of a later CUDA than the driver",
        400 => "invalid handle",
        500 => "not found",
        600 => "not ready",
        700 => "illegal address",
        701 => "too much for a launch",
        712 => "host memory already registered",
        713 => "host memory not registered",
        719 => "launch failed",
        800 => "not permitted",
        801 => "not supported",
        802 => "system not ready",
        803 => "driver library and kernel module differ",
        999 => "unknown error",
        _ => "see CUresult in cuda.h",
    }
}

fn hint_of(code: i32) -> Option<&'static str> {
    match code {
        2 => Some(
            "take a smaller --block, --depth or --length, or end what holds the memory: `nvidia-smi`",
        ),
        34 => Some("LD_LIBRARY_PATH finds CUDA's stub before the driver: take `stubs` out of it"),
        46 => Some("another program has it alone: `nvidia-smi -q -d COMPUTE`"),
        100 | 101 => Some("`nvidia-smi -L` lists GPUs; CUDA_VISIBLE_DEVICES hides some"),
        3 | 800 | 999 => Some(
            "`ls -l /dev/nvidia*` shows whether the nodes are there and yours to open; \
             `sudo nvidia-modprobe -u -c=0` makes them; `sudo dmesg | grep -i nvrm` has the reason",
        ),
        209 | 218 | 222 => Some(
            "libnvrtc and the driver are of different CUDAs: take one of the driver's, which `nvidia-smi` shows",
        ),
        802 => Some("start the fabric manager: `sudo systemctl start nvidia-fabricmanager`"),
        803 => Some("the driver was updated under way: restart the machine, or reload its modules"),
        _ => None,
    }
}
