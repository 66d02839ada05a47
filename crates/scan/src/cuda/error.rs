//! Errors of searches on a GPU.

use peerlane_engine::load::LoadError;
use peerlane_memory::cuda::CudaError;
use peerlane_memory::nvrtc::NvrtcError;
use peerlane_units::Nanos;

/// Reasons why a search on a GPU ended, or never began.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuScanError {
    /// The GPU, or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The compiler of its kernels.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The way of images to it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No image gets to it directly, and no other route was allowed.
    #[error(transparent)]
    NotDirect(LoadError),
    /// It does not get done.
    #[error("the GPU did not finish within {deadline}")]
    Stuck {
        /// The time that was allowed.
        deadline: Nanos,
    },
    /// A way to search that has no kernels.
    #[error("Donard's method is searched by the processor only")]
    Method,
    /// Its answer for an image is impossible.
    #[error("the GPU gave an answer that cannot be right: {what}")]
    Answer {
        /// The impossible answer.
        what: &'static str,
    },
}

impl GpuScanError {
    /// Host memory that a copy should have let go of.
    pub(super) const IN_USE: Self = Self::Answer { what: "host memory is still in use" };

    /// Returns whether the machine lacks something; a second try makes no sense then.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Cuda(error) => error.is_missing(),
            Self::Nvrtc(error) => error.is_missing(),
            Self::Load(error) => error.is_missing(),
            Self::NotDirect(_) => true,
            Self::Stuck { .. } | Self::Method | Self::Answer { .. } => false,
        }
    }

    /// Returns advice for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Cuda(error) => error.hint(),
            Self::Nvrtc(error) => error.hint(),
            Self::Load(error) | Self::NotDirect(error) => error.hint(),
            Self::Stuck { .. } => {
                Some("`nvidia-smi` and `sudo dmesg | grep -i nvrm` say how it is")
            }
            Self::Method => Some("leave `--on` out, or `--method`"),
            Self::Answer { .. } => Some("`--on cpu` searches without it"),
        }
    }
}
