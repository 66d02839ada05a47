//! Errors of a copy.

use std::io;
use std::path::{Path, PathBuf};

use peerlane_memory::MemoryError;
use peerlane_memory::cufile::{FellBack, NoCounter};
use peerlane_results::{Refusal, Route};
use peerlane_units::Bytes;

use crate::io::failure::{RequestError, Stuck, hint_of_denial};
use crate::io::journal::{JournalDifference, JournalError};
use crate::io::ring::UringError;
use crate::plan::PlanError;
use crate::transfer::prove::{ProofCause, ProofFailure, TargetState};
use crate::transfer::relay::RelayError;
use crate::transfer::stages::StageError;
use crate::transfer::verify::VerifyError;

/// Failure of a copy.
///
/// A target file is under its name only after a copy that succeeded; a target device holds part of
/// the copy after anything but [`CopyError::NotPossible`], [`CopyError::Refused`] and
/// [`CopyError::Plan`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The route that was required is not possible here; nothing was changed.
    #[error("cannot copy by the requested route: {reason}")]
    NotPossible {
        /// Reason.
        reason: String,
        /// Advice.
        hint: Option<String>,
    },
    /// Something stands against the copy; nothing was changed.
    #[error("cannot copy: {}", reasons(.0))]
    Refused(Vec<Refusal>),
    /// The endpoints have changed since the copy was planned; nothing was written.
    #[error("cannot copy as it was planned")]
    Plan(#[from] PlanError),
    /// The content at the target is not that of the source.
    #[error(
        "content of {path} differs from byte {offset} on: {} at the source, {} at the target \
         ({pages} differing pages were found)",
        hex(expected),
        hex(found)
    )]
    Differs {
        /// The target.
        path: PathBuf,
        /// Offset in the target of the first byte that differs.
        offset: u64,
        /// From there to the last byte that differs in the same page.
        length: u64,
        /// Pages (4 KiB, or the larger block) that were seen to differ.
        pages: u64,
        /// Bytes at the source from there, 16 at most.
        expected: Vec<u8>,
        /// Bytes at the target from there, as many.
        found: Vec<u8>,
    },
    /// A wish to stop came from outside.
    #[error("interrupted after {done} of {total}")]
    Interrupted {
        /// Bytes at the target: all that the journal says, else those below this offset. Without a
        /// journal a target file is removed.
        done: Bytes,
        /// Bytes that were to be copied.
        total: Bytes,
        /// The journal by which the copy can go on.
        journal: Option<PathBuf>,
    },
    /// The copy stopped, and its journal names the ranges at the target: it can go on.
    #[error("copy stopped after {done} of {total}; {} keeps what is done", journal.display())]
    Kept {
        /// Cause.
        source: Box<CopyError>,
        /// Bytes that are at the target, flushed.
        done: Bytes,
        /// Bytes that were to be copied.
        total: Bytes,
        /// The journal by which the copy can go on.
        journal: PathBuf,
    },
    /// Something that decides the content is not as the journal says; nothing was changed.
    #[error("cannot resume: {}", list(differences))]
    Changed {
        /// The journal.
        journal: PathBuf,
        /// Differences from the journal.
        differences: Vec<JournalDifference>,
    },
    /// The source was changed while it was copied: the target may match no state that the source
    /// ever had.
    #[error("content of {} changed while it was copied", path.display())]
    SourceChanged {
        /// The source.
        path: PathBuf,
    },
    /// There is no journal to work with; nothing was copied.
    #[error("cannot keep account of the copy")]
    Journal(#[from] JournalError),
    /// A device does not answer. Its requests may still be carried out.
    #[error("{drive} does not answer: route {route}")]
    Stuck {
        /// The drive, or the path if the drive is unknown.
        drive: String,
        /// The route.
        route: Route,
        /// The request, its offset, and how long it was waited for.
        source: Stuck,
    },
    /// A device went away under the copy.
    #[error("{what} is gone: it was unplugged, or its driver unbound")]
    Gone {
        /// The device with its role: `source QEMU NVMe Ctrl a (/dev/nvme0n1)`.
        what: String,
        /// The request that showed it.
        source: Box<CopyError>,
    },
    /// Nothing is wrong with this target, but all of them stopped.
    #[error("the copy to all targets stopped: {reason}")]
    WithOthers {
        /// Reason, with its causes.
        reason: String,
    },
    /// A file or device could not be opened, made or finished.
    #[error("cannot {action} {path}")]
    File {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// Path of the file or device.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// No ring could be set up.
    #[error("cannot set up io_uring")]
    Ring(#[from] UringError),
    /// No host memory.
    #[error("cannot set up a bounce buffer")]
    Memory(#[from] MemoryError),
    /// Moving stopped.
    #[error("cannot copy {} to {}", from.display(), path.display())]
    Move {
        /// The source.
        from: PathBuf,
        /// The target.
        path: PathBuf,
        /// Failure of the relay.
        source: RelayError,
    },
    /// Stages cannot work, or their digests cannot be kept; nothing of this run was copied.
    #[error("cannot copy with these stages")]
    Stages(#[from] StageError),
    /// A stage failed on a chunk.
    #[error("stage {stage} failed{}", said.as_ref().map_or(String::new(), |said| format!(": {said}")))]
    StageFailed {
        /// The stage.
        stage: String,
        /// Its own words.
        said: Option<String>,
        /// The chunk.
        source: RelayError,
    },
    /// The program that does the work of the stages did not do it.
    #[error("cannot compute the work of the stages by {}: {reason}", program.display())]
    Twin {
        /// The program.
        program: PathBuf,
        /// Reason.
        reason: String,
    },
    /// A drive failed while a route was proved.
    #[error("cannot prove a route to {path}")]
    Proof {
        /// The target.
        path: PathBuf,
        /// Failure of the proof, and the state of the target's first block.
        source: Box<ProofFailure>,
    },
    /// cuFile took another way than the one that was required.
    #[error("cuFile took another path to or from {memory} than the required one")]
    CuFileFellBack {
        /// The memory.
        memory: String,
        /// Path of the source, if it has holes that this library reads through host memory.
        sparse: Option<String>,
        /// The way that cuFile took.
        source: FellBack,
    },
    /// A witness saw another route than the one that the copy took the payload by.
    #[error("the route {route} is contradicted by {looked_at}: {showed}")]
    Contradicted {
        /// The route.
        route: Route,
        /// The source of the evidence.
        looked_at: String,
        /// Content of the evidence.
        showed: String,
    },
    /// Nothing shows that cuFile took the way that was required.
    #[error("the route to or from {memory} is unknown")]
    CuFileNotCounted {
        /// The memory.
        memory: String,
        /// Reason why the counters do not tell.
        source: NoCounter,
    },
    /// Verification came to no answer.
    #[error("cannot check the content of {path}")]
    Check {
        /// The target.
        path: PathBuf,
        /// Failure of the comparison.
        source: VerifyError,
    },
}

impl CopyError {
    /// The journal by which the copy can go on.
    pub fn journal(&self) -> Option<&Path> {
        match self {
            Self::Interrupted { journal, .. } => journal.as_deref(),
            Self::Kept { journal, .. } => Some(journal),
            _ => None,
        }
    }

    /// Returns the error that stopped the copy, whether or not it can go on.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Kept { source, .. } => source,
            other => other,
        }
    }

    /// Returns advice. With a [`CopyError::journal`] the caller adds that the copy can go on.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotPossible { hint, .. } => hint.clone(),
            // `--force` is no help where something else stands in the way, too.
            Self::Refused(refusals) => {
                let is_final = refusals.iter().any(|refusal| !refusal.forceable);
                let serious = refusals.iter().filter(|refusal| refusal.forceable != is_final);
                serious.into_iter().find_map(|refusal| refusal.hint.clone())
            }
            Self::Plan(error) => error.hint(),
            Self::Differs { .. } => Some(
                "the route loses data or the source changed: `dmesg | tail` shows bus errors, \
                 `--route host` takes another route"
                    .to_owned(),
            ),
            Self::Interrupted { .. } | Self::WithOthers { .. } => None,
            Self::Kept { source, .. } => source.hint(),
            Self::Gone { source, .. } if super::gone::is_memory_gone(source) => source.hint(),
            Self::Gone { .. } => Some("`dmesg | tail` says why; put it back".to_owned()),
            Self::Changed { differences, .. }
                if differences.iter().any(JournalDifference::is_of_another_target) =>
            {
                Some(
                    "to start over, use `--force` without `--resume`, and name another file with \
                     `--journal`"
                        .to_owned(),
                )
            }
            Self::Changed { journal, .. } => Some(format!(
                "to start over, use `--force` without `--resume`; this replaces {}",
                journal.display()
            )),
            Self::SourceChanged { .. } => {
                Some("copy it while it is not written, or copy a snapshot".to_owned())
            }
            Self::Stages(error) => error.hint(),
            Self::Twin { program, .. } => Some(format!("`{} 0 < CHUNK > RESULT` tries it", program.display())),
            Self::Journal(error) => error.hint().map(str::to_owned),
            Self::Stuck { source, .. } => RequestError::from(*source).hint().map(str::to_owned),
            Self::File { source, path, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some(format!("move {} away; `--force` replaces it", path.display()))
            }
            Self::File { path, source, .. } => hint_of_denial(path, source),
            Self::Ring(error) => error.hint().map(str::to_owned),
            Self::Memory(error) => error.hint().map(str::to_owned),
            Self::Move { source: RelayError::Stopped { source, .. }, .. } => {
                source.hint().map(str::to_owned)
            }
            Self::Proof { path, source } if source.target == TargetState::NotRestored => {
                Some(format!("the first block of {} may hold a test pattern", path.display()))
            }
            Self::Proof { source, .. } => match &source.cause {
                ProofCause::Request(error) => error.hint().map(str::to_owned),
                _ => None,
            },
            Self::Check { source: VerifyError::Request(error), .. } => {
                error.hint().map(str::to_owned)
            }
            Self::Contradicted { .. } => Some(
                "`--route host --resume` finishes the copy through host memory; `peerlane doctor SOURCE TARGET` \
                 looks for the cause"
                    .to_owned(),
            ),
            Self::CuFileFellBack { sparse: Some(path), .. } => Some(format!(
                "{path} has holes, which cuFile reads through host memory from 1.19 on: `cp --sparse=never {path} FILE` \
                 makes a file without; `--route host` goes through host memory"
            )),
            Self::CuFileNotCounted { source, .. } => Some(source.hint().to_owned()),
            Self::CuFileFellBack { .. } => {
                Some("`cufile.log` says why; `--route host` goes through host memory".to_owned())
            }
            Self::Move { .. } | Self::StageFailed { .. } | Self::Check { .. } => None,
        }
    }
}

fn reasons(refusals: &[Refusal]) -> String {
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    reasons.join("; ")
}

fn list(differences: &[JournalDifference]) -> String {
    let words: Vec<String> = differences.iter().map(JournalDifference::to_string).collect();
    words.join("; ")
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}
