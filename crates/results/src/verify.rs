//! What one comparison of source and target showed.

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, VerifyMode, Warning};

/// Schema of [`VerifyRecord`].
pub const VERIFY_SCHEMA: &str = "peerlane.verify/1";

/// What one comparison of source and target showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// [`VERIFY_SCHEMA`].
    pub schema: String,
    /// Where it ran.
    pub machine: Machine,
    /// Source.
    pub source: EndpointFacts,
    /// Target.
    pub target: EndpointFacts,
    /// Where it began in the source.
    pub offset: Bytes,
    /// Where it began in the target.
    pub target_offset: Bytes,
    /// How much of the source was to be at the target.
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
    /// What a reader should know.
    pub warnings: Vec<Warning>,
}

impl VerifyRecord {
    /// Whether no difference was found.
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
    /// Which: `xxh3-64`, with the seed zero.
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
