//! Proof of stores between two GPUs.

use peerlane_units::ByteRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Proof of stores between two GPUs, in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairProof {
    /// The first stores in memory of the second.
    pub forward: DirectionProof,
    /// The second stores in memory of the first.
    pub backward: DirectionProof,
}

impl PairProof {
    /// The worse of both results.
    pub fn result(&self) -> ProofResult {
        self.forward.result.max(self.backward.result)
    }

    /// Returns whether every block arrived without host memory.
    pub fn is_proved(&self) -> bool {
        self.result() == ProofResult::Proved
    }
}

/// Stores of one GPU in memory of the other, read back by the owner's copy engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionProof {
    /// The result.
    pub result: ProofResult,
    /// Blocks of 4 KiB that were stored, by all methods.
    pub blocks: u64,
    /// Those that did not arrive.
    pub missing: u64,
    /// The rate of the fastest method, of the longest run.
    pub bytes_per_second: ByteRate,
    /// Each method by itself.
    pub methods: Vec<MethodProof>,
}

/// The stores of one method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MethodProof {
    /// The method.
    pub method: ProofMethod,
    /// Blocks of 4 KiB that were stored.
    pub blocks: u64,
    /// Those that did not arrive.
    pub missing: u64,
    /// The rate of the longest run.
    pub bytes_per_second: ByteRate,
}

/// Result of a proof; the worst is the greatest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ProofResult {
    /// Every block arrived.
    Proved,
    /// The driver grants no access: its copies go through host memory.
    Staged,
    /// Blocks did not arrive.
    Refuted,
}

/// Methods of storing in memory of another GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofMethod {
    /// Stores of a kernel.
    KernelStores,
    /// Its copy engine.
    CopyEngine,
}
