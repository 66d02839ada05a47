//! Result of comparing a target with its source or with a manifest.

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, VerifyMode, Warning};

/// Schema of [`VerifyRecord`].
pub const VERIFY_SCHEMA: &str = "peerlane.verify/1";

/// Result of comparing a target with its source or with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// [`VERIFY_SCHEMA`].
    pub schema: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// The target.
    pub target: EndpointFacts,
    /// Start of the comparison in the target.
    pub target_offset: Bytes,
    /// The content that it was compared with.
    pub against: Reference,
    /// Length of the compared range of that content.
    pub length: Bytes,
    /// Bytes compared, each counted once.
    pub bytes: Bytes,
    /// From the first request to the last comparison.
    pub elapsed_ns: Nanos,
    /// Differing blocks (4 KiB, or the larger of both ends) of a source, or chunks of a manifest.
    pub mismatches: u64,
    /// Bytes that the target has no room for: it ends before.
    pub missing: Bytes,
    /// Bytes of a target file behind the end of the content, where it is compared from its start.
    pub surplus: Bytes,
    /// Warnings that concern this comparison.
    pub warnings: Vec<Warning>,
}

/// Content that a target is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// A source, block by block.
    Source(Box<ComparedSource>),
    /// A manifest, chunk by chunk.
    Manifest(ComparedManifest),
}

/// A source that a target was compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedSource {
    /// The source.
    pub end: EndpointFacts,
    /// Start of the comparison in the source.
    pub offset: Bytes,
    /// A sample or everything.
    pub mode: VerifyMode,
    /// Time that a CPU spent comparing and hashing, while reads went on.
    pub comparing_ns: Nanos,
    /// Digests of the compared content.
    pub digest: Digest,
    /// The first difference in content.
    pub first: Option<Difference>,
}

/// A manifest that a target was compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedManifest {
    /// Path of the manifest.
    pub path: String,
    /// Stages that worked on a chunk before its digest was made.
    pub after: Vec<String>,
    /// Length of each chunk but the last.
    pub chunk: Bytes,
    /// Root that the manifest has: 32 hexadecimal digits.
    pub root: String,
    /// The first chunks that differ, 16 at most.
    pub differing: Vec<ChunkDifference>,
}

impl VerifyRecord {
    /// Returns whether no difference was found.
    pub fn is_equal(&self) -> bool {
        self.mismatches == 0 && self.missing == Bytes::ZERO && self.surplus == Bytes::ZERO
    }

    /// Bytes compared over elapsed time; a source was read as fast as its target.
    pub fn rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.bytes, self.elapsed_ns)
    }

    /// Bytes compared over the time that comparing and hashing took.
    pub fn comparing_rate(&self) -> Option<ByteRate> {
        match &self.against {
            Reference::Source(source) => ByteRate::mean(self.bytes, source.comparing_ns),
            Reference::Manifest(_) => None,
        }
    }
}

/// Digests of the compared content, in the order of offsets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Digest {
    /// Name of the algorithm: `xxh3-64`, with the seed zero.
    pub algorithm: String,
    /// Of the source, hexadecimal.
    pub source: String,
    /// Of the target, hexadecimal.
    pub target: String,
}

/// A difference between source and target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Offset in the source of the first byte that differs.
    pub source_offset: Bytes,
    /// Offset in the target of the same byte.
    pub target_offset: Bytes,
    /// From there to the last byte that differs in the same block.
    pub length: Bytes,
    /// Bytes of the source from there, 16 at most, hexadecimal.
    pub source_bytes: String,
    /// As many of the target.
    pub target_bytes: String,
}

/// A chunk that differs from the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkDifference {
    /// Offset in the copy.
    pub offset: Bytes,
    /// Its length.
    pub length: Bytes,
    /// Digest in the manifest.
    pub expected: String,
    /// Digest of the content.
    pub found: String,
}
