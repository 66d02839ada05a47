//! Errors of a kernel that a user wrote.

use crate::cuda::CudaError;
use crate::nvrtc::NvrtcError;

/// Error of a kernel that a user wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkKernelError {
    /// The source does not compile, or there is no compiler for it.
    #[error("cannot compile {file}")]
    Compile {
        /// The file.
        file: String,
        /// NVRTC's answer.
        source: NvrtcError,
    },
    /// The source compiles, and has no kernel of that name.
    #[error("{file} has no kernel {kernel}")]
    NoKernel {
        /// The file.
        file: String,
        /// The name.
        kernel: String,
    },
    /// The kernel takes other arguments, or is not `extern "C"`.
    #[error("kernel {kernel} of {file} is declared differently: {words}")]
    Signature {
        /// The file.
        file: String,
        /// The name.
        kernel: String,
        /// The compiler's words.
        words: String,
    },
    /// The driver refuses the code.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

impl ChunkKernelError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Compile { source, .. } => source.hint().map(str::to_owned),
            Self::NoKernel { kernel, .. } | Self::Signature { kernel, .. } => Some(format!(
                "declare it as `extern \"C\" __global__ void {kernel}(unsigned char *chunk, unsigned long long bytes, \
                 unsigned long long offset)`"
            )),
            Self::Cuda(error) => error.hint().map(str::to_owned),
        }
    }
}
