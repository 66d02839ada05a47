//! Why nothing is searched on a GPU.

use peerlane_engine::load::LoadError;
use peerlane_memory::cuda::CudaError;
use peerlane_memory::nvrtc::NvrtcError;
use peerlane_units::Nanos;

/// Why a search on a GPU ended, or never began.
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
    /// What is looked for is nothing that its kernels know.
    #[error("a GPU looks for pictures by normalised cross-correlation only")]
    NoPicture,
    /// It does not get done.
    #[error("the GPU did not finish within {deadline}")]
    Stuck {
        /// How long it was waited for.
        deadline: Nanos,
    },
    /// What it said of an image cannot be.
    #[error("the GPU answered what cannot be: {what}")]
    Answer {
        /// What.
        what: &'static str,
    },
}

impl GpuScanError {
    /// Whether the machine lacks something, so that trying again makes no sense.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Cuda(error) => error.is_missing(),
            Self::Nvrtc(error) => error.is_missing(),
            Self::Load(error) => error.is_missing(),
            Self::NoPicture | Self::Stuck { .. } | Self::Answer { .. } => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Cuda(error) => error.hint(),
            Self::Nvrtc(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Stuck { .. } => {
                Some("`nvidia-smi` and `sudo dmesg | grep -i nvrm` say how it is")
            }
            Self::NoPicture | Self::Answer { .. } => Some("`--on cpu` searches without it"),
        }
    }
}
