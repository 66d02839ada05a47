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

/// Plan of a copy from one source to several targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FanOutPlan {
    /// [`FAN_OUT_PLAN_SCHEMA`].
    pub schema: String,
    /// The route chosen for all of them; `None` where the one asked for is not possible.
    pub route: Option<Route>,
    /// The memory between the source and all of them.
    pub memory: Option<MemoryFacts>,
    /// Reason for this route; names the target that rules out another.
    pub reason: String,
    /// The plan for each target, with the common route, memory, reason and requests. What stands
    /// between two targets is a refusal of the later one.
    pub targets: Vec<Plan>,
}

/// Results of a copy with several targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FanOutRecord {
    /// [`FAN_OUT_SCHEMA`].
    pub schema: String,
    /// Payload that this run read of the source to write it: each byte once, whatever the number of
    /// targets, besides the tail of a target whose end is no whole block.
    pub read: Bytes,
    /// Outcome of each target, in the order in which they were named.
    pub targets: Vec<TargetOutcome>,
}

/// Outcome of one target: a record where it is complete, else a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetOutcome {
    /// The target as typed.
    pub target: String,
    /// The record of its copy: complete, verified as asked for, under its name.
    pub record: Option<CopyRecord>,
    /// The failure, where it is not complete.
    pub failure: Option<CopyFailure>,
}

/// Failure of the copy to one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyFailure {
    /// The error and its causes, outermost first.
    pub errors: Vec<String>,
    /// Advice for a person.
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

/// Results of several copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchRecord {
    /// [`BATCH_SCHEMA`].
    pub schema: String,
    /// One each, in the order of the jobs file.
    pub jobs: Vec<JobOutcome>,
}

/// Results of one copy of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutcome {
    /// The source as typed.
    pub source: String,
    /// Outcome of each target.
    pub targets: Vec<TargetOutcome>,
}
