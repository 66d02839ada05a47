//! Changes between two machines.

use peerlane_reach::{ChangeEffect, ChangeKind, MapType, UncomparedReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Machine;

/// Schema of [`TopoDiffRecord`].
pub const TOPO_DIFF_SCHEMA: &str = "peerlane.topo-diff/1";

/// Changes from one machine to another, or of one machine over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoDiffRecord {
    /// [`TOPO_DIFF_SCHEMA`].
    pub schema: String,
    /// The machine before.
    pub before: Machine,
    /// The machine after.
    pub after: Machine,
    /// The answer in one sentence.
    pub verdict: String,
    /// Number of functions that both machines have.
    pub matched: usize,
    /// The changes, worst first; equal ones are one.
    pub changes: Vec<TopoChange>,
    /// Facts that could not be compared, and so are no changes.
    pub uncompared: Vec<TopoUncompared>,
}

impl TopoDiffRecord {
    /// Returns whether nothing changed. A fact that one machine alone shows may have changed; one that
    /// neither shows is not asked for.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && !self.uncompared.iter().any(|fact| fact.reason.is_of_one_side())
    }
}

/// A change of one fact, on every function on which it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoChange {
    /// The fact.
    pub fact: ChangeKind,
    /// The effect on peer-to-peer traffic.
    pub effect: ChangeEffect,
    /// The change in a sentence.
    pub what: String,
    /// The value before, in words; null where there was none.
    pub before: Option<String>,
    /// The value after, in words; null where there is none.
    pub after: Option<String>,
    /// The functions; none for a fact of the whole machine, and for pairs.
    pub functions: Vec<TopoFunction>,
    /// The pairs whose verdict changed; null for other facts.
    pub pairs: Option<TopoPairs>,
}

/// A function of one machine or of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoFunction {
    /// The word for it in commands, in the machine after where it is there: `gpu:0`, `nvme2`.
    pub name: String,
    /// Address before, or name where it has no address; null where it was not there.
    pub before: Option<String>,
    /// Address after, or name where it has no address; null where it is not there.
    pub after: Option<String>,
}

/// Pairs whose verdict changed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoPairs {
    /// Number of pairs of an initiator and a memory.
    pub count: usize,
    /// The kernel's decision before.
    pub before: MapType,
    /// The kernel's decision after.
    pub after: MapType,
    /// Initiator of one of them.
    pub initiator: TopoFunction,
    /// Provider of that pair.
    pub provider: TopoFunction,
    /// Facts that decide that pair after and did not before, in words.
    pub reasons: Vec<String>,
}

/// A fact that could not be compared, on every function on which it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoUncompared {
    /// The fact.
    pub fact: ChangeKind,
    /// The reason.
    pub reason: UncomparedReason,
    /// Both in a sentence.
    pub what: String,
    /// The functions; none for a fact of the whole machine, and for pairs.
    pub functions: Vec<TopoFunction>,
    /// Number of pairs; 0 for other facts than the verdict.
    pub pairs: usize,
}
