//! Two runs of a workload next to each other, on one machine or on each node of a cluster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Basis, Machine, Spread};

/// Schema of [`CompareRecord`].
pub const COMPARE_SCHEMA: &str = "peerlane.compare/1";

/// Two runs of a workload compared, node by node where they are of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareRecord {
    /// [`COMPARE_SCHEMA`].
    pub schema: String,
    /// One for each node of either run, those of the run before first; a single one without a name for
    /// runs of one machine.
    pub nodes: Vec<NodeComparison>,
    /// True when a case is certainly slower by more than the threshold. Each node has the confidence of
    /// its own comparison.
    pub has_regressed: bool,
}

impl CompareRecord {
    /// The record of these comparisons.
    pub fn new(nodes: Vec<NodeComparison>) -> Self {
        let compared = nodes.iter().filter_map(|node| node.comparison.as_ref());
        let has_regressed = compared.into_iter().any(|one| one.has_regressed);
        Self { schema: COMPARE_SCHEMA.to_owned(), nodes, has_regressed }
    }

    /// The comparison of two runs on one machine; `None` for runs of a cluster.
    pub fn only(&self) -> Option<&Comparison> {
        match self.nodes.as_slice() {
            [NodeComparison { node: None, comparison, .. }] => comparison.as_ref(),
            _ => None,
        }
    }
}

impl From<Comparison> for CompareRecord {
    fn from(comparison: Comparison) -> Self {
        let comparison = Some(comparison);
        Self::new(vec![NodeComparison { node: None, comparison, reasons: Vec::new() }])
    }
}

/// Comparison of two runs, case by case: the later one is faster, slower or the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The run that is compared with; the first of them where there were several.
    pub before: ComparedRun,
    /// The run that is judged; the first of them where there were several.
    pub after: ComparedRun,
    /// Number of records of each run, measured in turns.
    pub turns: u32,
    /// Tolerated loss of rate, as a share of the rate before: 0.05.
    pub threshold: f64,
    /// Confidence of all verdicts together: 0.95. Verdicts on two predictions come from the model
    /// and involve no chance.
    pub confidence: f64,
    /// Statistical method, in words.
    pub method: String,
    /// One for each case of either run, those of the run before first.
    pub cases: Vec<CaseComparison>,
    /// Other differences, which do not prevent a comparison: kernel, program, fabric.
    pub notes: Vec<String>,
    /// True when a case is certainly slower by more than the threshold.
    pub has_regressed: bool,
}

/// One node in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeComparison {
    /// Name of the node; null for runs of one machine.
    pub node: Option<String>,
    /// The comparison; `None` where a record is missing.
    pub comparison: Option<Comparison>,
    /// The reasons for having none: a node that is in one run only, that was lost, or whose task failed.
    pub reasons: Vec<String>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Name of the workload.
    pub name: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Origin of its figures: measured, emulated or predicted.
    pub basis: Basis,
    /// Start, in seconds since 1970-01-01 UTC; `None` for a prediction.
    pub started_s: Option<u64>,
}

/// One case in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseComparison {
    /// Name of the case.
    pub case: String,
    /// Rates before, in bytes a second.
    pub before: Option<Spread>,
    /// Rates after, in bytes a second.
    pub after: Option<Spread>,
    /// Geometric mean of the rates before, in bytes a second.
    pub before_geometric_mean: Option<f64>,
    /// Geometric mean of the rates after, in bytes a second.
    pub after_geometric_mean: Option<f64>,
    /// Geometric mean of the rates after over that before; below one is slower. Of several turns, the
    /// median of the turns' ratios and of the geometric means of every two of them (Hodges and Lehmann).
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio; all intervals of a comparison hold together with its confidence. `None`
    /// for two predictions.
    pub interval: Option<(f64, f64)>,
    /// The chance of a difference at least as large between equal cases, corrected for the number of cases.
    pub chance: Option<f64>,
    /// Verdict of the comparison on the case.
    pub verdict: Change,
    /// True when it is certainly slower by more than the threshold.
    pub has_regressed: bool,
    /// Reasons why it cannot be compared; empty where it can.
    pub reasons: Vec<Incomparable>,
}

impl CaseComparison {
    /// Rates before and after as shown next to the ratio.
    pub fn rates(&self) -> [Option<f64>; 2] {
        [self.before_geometric_mean, self.after_geometric_mean]
    }
}

/// Verdict of a comparison on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is certainly faster; of two predictions, faster by the model.
    Faster,
    /// It is certainly slower; of two predictions, slower by the model.
    Slower,
    /// No difference is certain; the interval says how large one could be.
    Same,
    /// The figures are not of the same thing.
    NotComparable,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::NotComparable => "not comparable",
        })
    }
}

/// Reasons why two cases cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Incomparable {
    /// The runs were on different machines.
    Machine {
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// One was measured, the other was not, or not on a real machine.
    Basis {
        /// Before.
        before: Basis,
        /// After.
        after: Basis,
    },
    /// The case asks for something else.
    Asked {
        /// Position of the flow; `None` for the case as a whole.
        flow: Option<u32>,
        /// Name of the setting: `block`, `depth`, `path`.
        setting: String,
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// Evidence contradicts the route of a run.
    Route {
        /// The run with such evidence.
        run: WhichRun,
    },
    /// The case is in one of the runs only.
    Missing {
        /// The run that lacks it.
        run: WhichRun,
    },
    /// There are too few figures to know how they spread.
    TooFew {
        /// Runs before.
        before: u32,
        /// Runs after.
        after: u32,
        /// Runs that are needed in each.
        needed: u32,
    },
    /// There are too few turns for any difference to be certain.
    TooFewTurns {
        /// Turns that there are.
        turns: u32,
        /// Turns that are needed for so many cases.
        needed: u32,
    },
    /// A turn began before the one before it was over.
    NotInTurns {
        /// Number of the turn, from 1.
        turn: u32,
    },
    /// One record is given twice.
    Twice {
        /// The run that it was given for.
        run: WhichRun,
    },
}

/// One of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhichRun {
    /// The run that is compared with.
    Before,
    /// The run that is judged.
    After,
}

impl fmt::Display for WhichRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine { before, after } => write!(f, "another machine: {before}, {after}"),
            Self::Basis { before, after } => write!(f, "{before}, {after}"),
            Self::Asked { flow: Some(flow), setting, before, after } => {
                write!(f, "another {setting} of flow {flow}: {before}, {after}")
            }
            Self::Asked { flow: None, setting, before, after } => {
                write!(f, "another {setting}: {before}, {after}")
            }
            Self::Route { run } => write!(f, "the route of the run {run} is contradicted"),
            Self::Missing { run } => write!(f, "not in the run {run}"),
            Self::TooFew { before, after, needed } => {
                write!(f, "{before} and {after} runs, where each needs {needed}")
            }
            Self::TooFewTurns { turns, needed } => {
                write!(f, "{turns} turns, where so many cases need {needed}")
            }
            Self::NotInTurns { turn } => {
                write!(f, "turn {turn} began before the one before it was over")
            }
            Self::Twice { run } => write!(f, "a record of the run {run} is given twice"),
        }
    }
}
