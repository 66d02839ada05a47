//! Errors of a measurement.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use peerlane_memory::MemoryError;
use peerlane_memory::cufile::{FellBack, NoCounter};
use peerlane_results::{Path, Refusal};
use peerlane_units::{Bytes, Nanos};

use super::scrub::ScrubFailure;
use crate::endpoints::{EndError, LaneError};
use crate::io::failure::{RequestError, differing};
use crate::io::ring::UringError;
use crate::plan::PlanError;
use crate::transfer::copy::CopyError;
use crate::transfer::prove::ProofFailure;
use crate::transfer::relay::RelayError;
use crate::transfer::stages::StageError;
use crate::transfer::verify::VerifyError;

/// A verb for [`LaneError::File`]: the failed use of a map.
pub(super) const MAP: &str = "fault in the map of";

/// Failure to measure a flow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// An end that cannot be used.
    #[error(transparent)]
    End(#[from] EndError),
    /// Ends or memory that make no sense together.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A pair of ends that nothing is moved between.
    #[error("cannot measure from `{from}` to `{to}`: {reason}")]
    Pair {
        /// Source as typed.
        from: String,
        /// Target as typed.
        to: String,
        /// Reason.
        reason: Cow<'static, str>,
    },
    /// The target is not among the drives and files that may be written; nothing was changed.
    #[error("cannot write to {path}: `--scratch` does not name it")]
    NotScratch {
        /// The target.
        path: String,
    },
    /// Range or block do not fit an end; nothing was changed.
    #[error("cannot measure {path}: {reason}")]
    Range {
        /// Path of the end.
        path: String,
        /// Reason.
        reason: String,
    },
    /// A source with a hole, which is on no drive; nothing was changed.
    #[error(
        "cannot measure {path}: it has a hole at byte {at}, within the range that would be read; no drive \
         is asked for a hole"
    )]
    Hole {
        /// The source.
        path: String,
        /// Offset of the first hole.
        at: u64,
    },
    /// Something stands against it; nothing was changed.
    #[error("cannot measure: {}", reasons(.0))]
    Refused(Vec<Refusal>),
    /// The route is not possible here.
    #[error("cannot measure by peer-to-peer: {reason}")]
    NotPossible {
        /// Reason.
        reason: String,
    },
    /// A route that two ends exclude, on any machine.
    #[error("cannot measure from `{from}` to `{to}` by {route}: {reason}")]
    NoRoute {
        /// Source as typed.
        from: String,
        /// Target as typed.
        to: String,
        /// The route.
        route: Path,
        /// Reason.
        reason: &'static str,
    },
    /// The machine is only described.
    #[error("machine {name} is described, not here: nothing can be measured on it")]
    NotHere {
        /// Its name.
        name: String,
    },
    /// A device could not be opened.
    #[error(transparent)]
    Open(Box<CopyError>),
    /// A file, a ring or memory could not be opened.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// No GPU by that name, and no library that could know one.
    #[error("machine {machine} has no {gpu}")]
    NoGpu {
        /// The machine.
        machine: String,
        /// Name of the GPU.
        gpu: String,
    },
    /// cuFile took another way than the one that was required.
    #[error("cuFile took another route to or from {memory} than the required one")]
    CuFileFellBack {
        /// The memory.
        memory: String,
        /// The way that cuFile took.
        source: FellBack,
    },
    /// Nothing shows that cuFile took the way that was required.
    #[error("the route to or from {memory} is unknown")]
    CuFileNotCounted {
        /// The memory.
        memory: String,
        /// Reason why the counters do not tell.
        source: NoCounter,
    },
    /// A copy by the GPU did not end in time.
    #[error("a copy by {gpu} did not end within {} s", deadline.0 / 1_000_000_000)]
    CopyEngine {
        /// Name of the GPU.
        gpu: String,
        /// Time that was waited.
        deadline: Nanos,
    },
    /// A request failed, and GPU or cuFile said why.
    #[error("{said}")]
    Said {
        /// Words of the GPU or of cuFile.
        said: String,
        /// The request.
        source: RequestError,
    },
    /// Every request succeeded and the content of a GPU's memory is other.
    #[error(
        "every request succeeded, but {memory} does not hold what was read: {}, \
         the first at byte {} of the range", differing(*mismatches, "block"), offset.0
    )]
    MemoryDiffers {
        /// The memory.
        memory: String,
        /// Blocks that differ.
        mismatches: u64,
        /// Offset in the range of the first.
        offset: Bytes,
    },
    /// The route is not proved.
    #[error(transparent)]
    Proof(#[from] Box<ProofFailure>),
    /// A stage cannot be set up.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The stage failed on a chunk.
    #[error("stage {stage} failed{}", said.as_ref().map_or(String::new(), |said| format!(": {said}")))]
    StageFailed {
        /// The stage.
        stage: String,
        /// Its own words.
        said: Option<String>,
        /// The chunk.
        source: RequestError,
    },
    /// A copy stopped.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Content could not be compared.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// Every request succeeded and the content at the target is other.
    #[error(
        "every request succeeded, but {path} does not hold what was written: {mismatches} of the \
         blocks differ, the first at byte {offset}"
    )]
    Differs {
        /// The target.
        path: String,
        /// Blocks that differ.
        mismatches: u64,
        /// Offset in the target of the first.
        offset: Bytes,
    },
    /// Device memory or a borrowed block is not as it was.
    #[error(transparent)]
    Scrub(#[from] Box<ScrubFailure>),
    /// Another flow of the case failed; this one has moved nothing.
    #[error("another transfer of the case failed")]
    WithOthers,
}

impl From<UringError> for MeasureError {
    fn from(error: UringError) -> Self {
        Self::Lane(error.into())
    }
}

impl From<MemoryError> for MeasureError {
    fn from(error: MemoryError) -> Self {
        Self::Lane(error.into())
    }
}

impl MeasureError {
    /// Returns a constructor of the error for a refused action on a file.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let failed = LaneError::file(action, path);
        move |source| failed(source).into()
    }

    /// Returns true when this machine cannot do it; nothing was changed.
    pub fn is_not_possible(&self) -> bool {
        match self {
            Self::NotPossible { .. } | Self::NoRoute { .. } | Self::NoGpu { .. } => true,
            Self::Lane(error) => error.is_not_possible(),
            _ => false,
        }
    }

    /// Returns the reason why a route is not possible, without the attempt.
    pub fn reason(&self) -> String {
        match self {
            Self::NotPossible { reason } => reason.clone(),
            Self::NoRoute { reason, .. } => (*reason).to_owned(),
            error => error.to_string(),
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End(error) => error.hint(),
            Self::Plan(source) => source.hint(),
            Self::NotScratch { path } => {
                Some(format!("`--scratch {path}` lets the benchmark overwrite its range"))
            }
            Self::Hole { path, .. } => Some(format!(
                "`cp --sparse=never {path} FILE` makes a file without holes; a source that `--scratch` \
                 names has its range filled, which overwrites it"
            )),
            Self::Lane(LaneError::File { source, .. })
                if source.kind() == io::ErrorKind::StorageFull =>
            {
                Some("make room, or measure less: `--length`".to_owned())
            }
            Self::Lane(LaneError::File { action: MAP, source, .. })
                if source.kind() == io::ErrorKind::InvalidInput =>
            {
                Some(
                    "`uname -r` says which kernel this is: maps are measured from Linux 5.14 on"
                        .to_owned(),
                )
            }
            Self::Refused(refusals) => refusals.iter().find_map(|one| one.hint.clone()),
            Self::NotPossible { .. } => {
                Some("`peerlane doctor` shows the obstacle; `--routes host`".to_owned())
            }
            Self::NoRoute { route: Path::P2p, .. } => Some("`--routes host`".to_owned()),
            Self::NoRoute { .. } => Some("`--routes p2p`".to_owned()),
            Self::Open(source) => source.hint(),
            Self::Lane(source) => source.hint(),
            Self::CuFileFellBack { .. } => Some(
                "cufile.log says why; `--routes host` measures the route through host memory"
                    .to_owned(),
            ),
            Self::CuFileNotCounted { source, .. } => Some(source.hint().to_owned()),
            Self::CopyEngine { .. } => Some(
                "`sudo dmesg | grep -i nvrm` and `nvidia-smi` show whether the GPU hangs"
                    .to_owned(),
            ),
            Self::Stage(source) => source.hint(),
            Self::Request(source) => source.hint().map(str::to_owned),
            _ => None,
        }
    }
}

fn reasons(refusals: &[Refusal]) -> String {
    refusals.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>().join("; ")
}
