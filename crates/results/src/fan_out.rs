//! One source and several targets, and several copies at once.
//!
//! A copy to one target has a [`Plan`] and a [`CopyRecord`]. A fan-out has one of each a target, as if
//! that target had been the only one, around what they share: the route and the slots. Nothing is
//! counted for a target that another target got; times and CPU are those of all of them together.

use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CopyRecord, MemoryFacts, Plan, Route};

/// Schema of [`FanOutPlan`].
pub const FAN_OUT_PLAN_SCHEMA: &str = "peerlane.fan-out-plan/1";
/// Schema of [`FanOutRecord`].
pub const FAN_OUT_SCHEMA: &str = "peerlane.fan-out/1";
/// Schema of [`BatchPlan`].
pub const BATCH_PLAN_SCHEMA: &str = "peerlane.batch-plan/1";
/// Schema of [`BatchRecord`].
pub const BATCH_SCHEMA: &str = "peerlane.batch/1";

/// What is going to happen to several targets of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FanOutPlan {
    /// [`FAN_OUT_PLAN_SCHEMA`].
    pub schema: String,
    /// The route chosen for all of them; `None` where the one asked for is not possible.
    pub route: Option<Route>,
    /// The memory between the source and all of them.
    pub memory: Option<MemoryFacts>,
    /// Why this route; names the target that stands in the way of another.
    pub reason: String,
    /// The plan for each target, with the common route, memory, reason and requests. What stands
    /// between two targets is a refusal of the later one.
    pub targets: Vec<Plan>,
}

/// What a copy with several targets did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FanOutRecord {
    /// [`FAN_OUT_SCHEMA`].
    pub schema: String,
    /// Payload that this run read of the source to write it: each byte once, whatever the number of
    /// targets, besides the tail of a target whose end is no whole block.
    pub read: Bytes,
    /// What became of each target, in the order in which they were named.
    pub targets: Vec<TargetOutcome>,
}

/// What became of one target: a record where it is complete, else a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetOutcome {
    /// The target as typed.
    pub target: String,
    /// The record of its copy: complete, verified as asked for, under its name.
    pub record: Option<CopyRecord>,
    /// Why it is not complete.
    pub failure: Option<CopyFailure>,
}

/// Why a target is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyFailure {
    /// What went wrong, and its causes, outermost first.
    pub errors: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The journal by which the copy can go on.
    pub journal: Option<String>,
    /// The exit status that a copy to this target alone would have ended with.
    pub exit: u8,
}

/// The plans of several copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchPlan {
    /// [`BATCH_PLAN_SCHEMA`].
    pub schema: String,
    /// One each, in the order of the jobs file.
    pub jobs: Vec<FanOutPlan>,
}

/// What several copies did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchRecord {
    /// [`BATCH_SCHEMA`].
    pub schema: String,
    /// One each, in the order of the jobs file.
    pub jobs: Vec<JobOutcome>,
}

/// What one copy of several did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutcome {
    /// The source as typed.
    pub source: String,
    /// What became of each target.
    pub targets: Vec<TargetOutcome>,
}
