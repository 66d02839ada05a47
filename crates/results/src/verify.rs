//! Result of one comparison of source and target.

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, VerifyMode, Warning};

/// Schema of [`VerifyRecord`].
pub const VERIFY_SCHEMA: &str = "peerlane.verify/1";

/// Result of one comparison of source and target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// [`VERIFY_SCHEMA`].
    pub schema: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Source.
    pub source: EndpointFacts,
    /// Target.
    pub target: EndpointFacts,
    /// Start of the comparison in the source.
    pub offset: Bytes,
    /// Start of the comparison in the target.
    pub target_offset: Bytes,
    /// Length of the compared range of the source.
    pub length: Bytes,
    /// A sample or everything.
    pub mode: VerifyMode,
    /// Bytes compared, each counted once.
    pub bytes: Bytes,
    /// From the first request to the last comparison.
    pub elapsed_ns: Nanos,
    /// Of it, time in which a CPU compared and hashed, while reads went on.
    pub comparing_ns: Nanos,
    /// Digests of what was compared.
    pub digest: Digest,
    /// Blocks (4 KiB, or the larger of both ends) that differ.
    pub mismatches: u64,
    /// The first difference in content.
    pub first: Option<Difference>,
    /// Bytes of the source for which the target has no room: it ends before.
    pub missing: Bytes,
    /// Bytes of a target file behind its source's end, where whole files were compared.
    pub surplus: Bytes,
    /// Warnings that concern this comparison.
    pub warnings: Vec<Warning>,
}

impl VerifyRecord {
    /// Returns whether no difference was found.
    pub fn is_equal(&self) -> bool {
        self.mismatches == 0 && self.missing == Bytes::ZERO && self.surplus == Bytes::ZERO
    }

    /// Bytes compared over elapsed time; each was read from both sides.
    pub fn rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.bytes, self.elapsed_ns)
    }

    /// Bytes compared over the time that comparing and hashing took.
    pub fn comparing_rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.bytes, self.comparing_ns)
    }
}

/// Digests of what was compared, in the order of offsets.
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

/// Schema of [`ManifestRecord`].
pub const MANIFEST_RECORD_SCHEMA: &str = "peerlane.verify-manifest/1";

/// The result of a comparison of one end with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestRecord {
    /// [`MANIFEST_RECORD_SCHEMA`].
    pub schema: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// The end.
    pub end: EndpointFacts,
    /// Start of the comparison in the end.
    pub offset: Bytes,
    /// Path of the manifest.
    pub manifest: String,
    /// Stages that worked on a chunk before its digest was made.
    pub after: Vec<String>,
    /// Length of the copy.
    pub length: Bytes,
    /// Length of each chunk but the last.
    pub chunk: Bytes,
    /// Bytes read, each counted once.
    pub bytes: Bytes,
    /// From the first request to the last digest.
    pub elapsed_ns: Nanos,
    /// Root that the manifest has: 32 hexadecimal digits.
    pub root: String,
    /// Chunks that differ.
    pub mismatches: u64,
    /// The first of them, 16 at most.
    pub differing: Vec<ChunkDifference>,
    /// Bytes for which the end has no room: it ends before.
    pub missing: Bytes,
    /// Bytes of a file behind the copy's end, where it is compared from its start.
    pub surplus: Bytes,
    /// Warnings that concern this comparison.
    pub warnings: Vec<Warning>,
}

impl ManifestRecord {
    /// Returns whether no difference was found.
    pub fn is_equal(&self) -> bool {
        self.mismatches == 0 && self.missing == Bytes::ZERO && self.surplus == Bytes::ZERO
    }

    /// Bytes read over elapsed time.
    pub fn rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.bytes, self.elapsed_ns)
    }
}

/// A chunk that is not what the manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkDifference {
    /// Offset in the copy.
    pub offset: Bytes,
    /// Its length.
    pub length: Bytes,
    /// Digest in the manifest.
    pub expected: String,
    /// Digest of what is there.
    pub found: String,
}
