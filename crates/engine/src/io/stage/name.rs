//! Notation of a stage, and the memory that it reaches.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_results::{MemoryFacts, MemoryKind};

/// A stage, as a person types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageName {
    /// `digest`.
    Digest,
    /// `cuda:FILE.cu:KERNEL`: a kernel of a GPU.
    Cuda {
        /// Source of the kernel, in CUDA C++.
        file: PathBuf,
        /// Name of the kernel in it.
        kernel: String,
    },
    /// `xrt:FILE.xclbin:KERNEL`: a kernel of an FPGA card.
    Xrt {
        /// Image of the card.
        file: PathBuf,
        /// Name of the kernel in it.
        kernel: String,
    },
    /// `outside:PORT`: a process outside of this machine, behind a character device.
    Outside(PathBuf),
}

/// Error of a stage's notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{typed} is not a stage: digest, cuda:FILE.cu:KERNEL and xrt:FILE.xclbin:KERNEL are")]
pub struct StageNameError {
    /// The notation that was read.
    pub typed: String,
}

impl FromStr for StageName {
    type Err = StageNameError;

    fn from_str(typed: &str) -> Result<Self, StageNameError> {
        let none = || StageNameError { typed: typed.to_owned() };
        if typed == "digest" {
            return Ok(Self::Digest);
        }
        let (kind, rest) = typed.split_once(':').ok_or_else(none)?;
        if kind == "outside" && !rest.is_empty() {
            return Ok(Self::Outside(rest.into()));
        }
        let (file, kernel) = rest.rsplit_once(':').ok_or_else(none)?;
        if file.is_empty() || kernel.is_empty() {
            return Err(none());
        }
        let (file, kernel) = (PathBuf::from(file), kernel.to_owned());
        match kind {
            "cuda" => Ok(Self::Cuda { file, kernel }),
            "xrt" => Ok(Self::Xrt { file, kernel }),
            _ => Err(none()),
        }
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest => f.write_str("digest"),
            Self::Cuda { file, kernel } => write!(f, "cuda:{}:{kernel}", file.display()),
            Self::Xrt { file, kernel } => write!(f, "xrt:{}:{kernel}", file.display()),
            Self::Outside(port) => write!(f, "outside:{}", port.display()),
        }
    }
}

impl StageName {
    /// True if it may change a chunk.
    pub(crate) fn changes_content(&self) -> bool {
        *self != Self::Digest
    }

    /// The image of a card that it needs, and its kernel.
    pub(crate) fn card_image(&self) -> Option<(&Path, &str)> {
        match self {
            Self::Xrt { file, kernel } => Some((file, kernel)),
            _ => None,
        }
    }

    /// True if it can work in a memory; `in_gpu` for slots in a GPU, also with host memory before them.
    pub(crate) fn reaches(&self, memory: &MemoryFacts, in_gpu: bool) -> bool {
        let provider = PROVIDERS.split(&memory.name).map(|(provider, _)| provider.kind());
        let is_card = provider == Some(ProviderKind::Card);
        match self {
            Self::Digest => in_gpu || memory.kind == MemoryKind::Host,
            Self::Cuda { .. } => in_gpu,
            Self::Xrt { .. } => is_card,
            Self::Outside(_) => memory.kind == MemoryKind::P2pmem && !is_card,
        }
    }

    /// Reason why it cannot work in a memory; `None` if it can.
    pub(crate) fn not_reached(&self, memory: &MemoryFacts, in_gpu: bool) -> Option<String> {
        let reason = || {
            format!("stage {self} does not reach {}: it works on {}", memory.name, self.wanted())
        };
        (!self.reaches(memory, in_gpu)).then(reason)
    }

    /// The memory that would do, in words.
    fn wanted(&self) -> &'static str {
        match self {
            Self::Digest => "host memory or memory of a GPU",
            Self::Cuda { .. } => "memory of a GPU",
            Self::Xrt { .. } => "memory of an FPGA card",
            Self::Outside(_) => "memory that a drive or card lends",
        }
    }

    /// The options that choose such a memory.
    pub(crate) fn way_out(&self) -> &'static str {
        match self {
            Self::Digest => "`--route host` or `--via gpu:0`",
            Self::Cuda { .. } => "`--via gpu:0`",
            Self::Xrt { .. } => "`--via fpga:0000:04:00.1`",
            Self::Outside(_) => "`--via card`",
        }
    }

    /// Such memory as an end of a transfer, as it is typed.
    pub(crate) fn memory_example(&self) -> &'static str {
        match self {
            Self::Digest => "`host` or `gpu:0`",
            Self::Cuda { .. } => "`gpu:0`",
            Self::Xrt { .. } => "`fpga:0000:04:00.1`",
            Self::Outside(_) => "`cmb:NAME`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_is_read_and_written() {
        for typed in ["digest", "cuda:dir/a:b.cu:invert", "xrt:a.xclbin:k", "outside:/dev/vport0p1"]
        {
            let name: StageName = typed.parse().unwrap();
            assert_eq!(name.to_string(), typed);
        }
        for typed in ["", "digests", "cuda:a.cu", "cuda::k", "cuda:a.cu:", "xyz:a:b", "outside:"] {
            assert_eq!(typed.parse::<StageName>(), Err(StageNameError { typed: typed.into() }));
        }
    }
}
