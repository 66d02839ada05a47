//! Steps of a proof, and their failures.

use std::fmt;

use crate::io::failure::RequestError;

/// A step of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofStep {
    /// The target is read into the memory; nothing is written. It comes first, since the zeroes
    /// that clear the memory afterwards come from the target.
    ProbeTarget,
    /// The source is read into the memory; nothing is written.
    ProbeSource,
    /// The target's bytes are kept in host memory.
    KeepTarget,
    /// The complement of the expected bytes is written to the target by host memory.
    WriteComplement,
    /// The complement is read from the target into the memory.
    FillMemory,
    /// A pattern is written to the target by host memory.
    WritePattern,
    /// The pattern is read from the target into the memory.
    PatternIntoMemory,
    /// Something else is written to the target by host memory.
    WriteOther,
    /// The pattern is written from the memory to the target.
    PatternOutOfMemory,
    /// The target is read by host memory: it holds the pattern.
    ReadPattern,
    /// The source is read by host memory.
    ReadSource,
    /// The source is read into the memory.
    SourceIntoMemory,
    /// The source's bytes are written from the memory to the target.
    SourceOutOfMemory,
    /// The target is read by host memory: it equals the source.
    ReadTarget,
    /// The target's bytes behind the payload are written back.
    KeepRest,
}

impl fmt::Display for ProofStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ProbeSource => "reading the source into the memory",
            Self::ProbeTarget => "reading the target into the memory",
            Self::KeepTarget => "reading the target's first block into host memory",
            Self::WriteComplement => "writing the complement to the target by host memory",
            Self::FillMemory => "reading the complement into the memory",
            Self::WritePattern => "writing a pattern to the target by host memory",
            Self::PatternIntoMemory => "reading the pattern into the memory",
            Self::WriteOther => "writing another pattern to the target by host memory",
            Self::PatternOutOfMemory => "writing the pattern from the memory to the target",
            Self::ReadPattern => "reading the pattern back by host memory",
            Self::ReadSource => "reading the source by host memory",
            Self::SourceIntoMemory => "reading the source into the memory after the pattern",
            Self::SourceOutOfMemory => "writing the source's data from the memory to the target",
            Self::ReadTarget => "reading the source's data back by host memory",
            Self::KeepRest => "writing back what lies behind the payload",
        })
    }
}

/// One of the two ways through the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofLeg {
    /// From a drive into the memory.
    IntoMemory,
    /// From the memory to the target.
    OutOfMemory,
}

/// A step of a proof that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot prove the route, {step}")]
pub struct ProofFailure {
    /// Step that failed.
    pub step: ProofStep,
    /// Cause.
    #[source]
    pub cause: ProofCause,
    /// State of the target's first block.
    pub target: TargetState,
}

/// Reason why a step of a proof failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofCause {
    /// A request came to no good end.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Every request succeeded and the data are not there.
    #[error(
        "every request succeeded, but {}: the word at byte {offset} is {found:#018x}, not \
         {expected:#018x}", lost(*leg)
    )]
    Differs {
        /// Offset in the block of the first word that differs.
        offset: u64,
        /// The word as read, little-endian.
        found: u64,
        /// The expected word.
        expected: u64,
        /// Place of the loss; `None` if that cannot be told.
        leg: Option<ProofLeg>,
    },
    /// The lengths do not add up, or `host` is not host memory of the length that is needed.
    #[error("a proof of {length} bytes does not fit its blocks or its memory")]
    Shape {
        /// Length of the proof.
        length: u64,
    },
}

fn lost(leg: Option<ProofLeg>) -> &'static str {
    match leg {
        Some(ProofLeg::IntoMemory) => "the data did not arrive in the memory",
        Some(ProofLeg::OutOfMemory) => "the data did not arrive from the memory at the target",
        None => "the data did not arrive, on which leg is unknown",
    }
}

/// State of the target's first block after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// Nothing was written to it.
    Untouched,
    /// Its bytes were written back.
    Restored,
    /// Its bytes could not be written back: it may hold a test pattern.
    NotRestored,
}
