//! The TOML files of `sources/`, as they are written.

use std::collections::BTreeMap;

use peerlane_results::Path;
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters::{ParameterShape, Unit};

/// A document, or a set of figures held out from fitting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct SourceShape {
    pub(super) source: String,
    pub(super) title: String,
    pub(super) machine: String,
    pub(super) held_out: bool,
    /// Conditions under which the figures were taken.
    pub(super) settings: Vec<String>,
    /// Beginning of the names of parameters that cut payload into packets: `.mps`, `.completion`,
    /// and `.tunnel`, the header of a bridge in each Ethernet frame.
    pub(super) packets: String,
    pub(super) parameter: BTreeMap<String, ParameterShape>,
    pub(super) device: Vec<DeviceShape>,
    pub(super) scenario: BTreeMap<String, ScenarioShape>,
    pub(super) figure: Vec<FigureShape>,
}

/// `parameters.toml`, `holdout-curves.toml` or `predictions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SharedShape {
    pub(super) parameter: BTreeMap<String, ParameterShape>,
    pub(super) curve: Vec<CurveShape>,
    /// Day of the predictions.
    pub(super) date: String,
    pub(super) prediction: Vec<PredictionShape>,
}

/// Limits of the functions whose names begin alike, or of the root complex (`host-bridge`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct DeviceShape {
    /// Beginning of their names; all functions by default.
    pub(super) functions: String,
    /// An NVMe function that peers read and write, and that moves nothing itself.
    pub(super) is_memory: bool,
    pub(super) read: SideShape,
    pub(super) write: SideShape,
    /// Its own DMA engine, from host memory.
    pub(super) dma_in: SideShape,
    /// Parameter: the sum of the shares of both rates of a drive at most; 1 by default.
    pub(super) mixed: Option<String>,
}

/// Names of the parameters of one direction of a device; without one there is no limit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SideShape {
    pub(super) rate: Option<String>,
    /// Fixed time of each block.
    pub(super) start: Option<String>,
    /// Bytes requested and not yet answered, and the time of an answer.
    pub(super) in_flight: Option<(String, String)>,
}

/// Flows at the same time, stages of a program, or scenarios one after the other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct ScenarioShape {
    /// The machine; by default that of the source. So are packets, links and devices.
    pub(super) machine: Option<String>,
    pub(super) packets: Option<String>,
    pub(super) links: BTreeMap<String, String>,
    pub(super) device: Vec<DeviceShape>,
    pub(super) flows: Vec<FlowShape>,
    /// One queue for each output of switches and root complexes, instead of one for all.
    pub(super) separate_queues: bool,
    /// Parameters: fixed times of each block besides its transfers.
    pub(super) starts: Vec<String>,
    /// Parameter: share of the rate that is kept.
    pub(super) share: Option<String>,
    pub(super) stages: Vec<StageShape>,
    /// Parameter: exponent with which stages overlap; in full by default.
    pub(super) exponent: Option<String>,
    pub(super) run: Vec<StageShape>,
}

/// Transfers that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowShape {
    /// With `#` for the number of the transfer; of a target, moved on by `shift`, modulo `count`.
    pub(super) source: String,
    pub(super) target: String,
    pub(super) via: Option<String>,
    pub(super) path: Path,
    pub(super) block: Bytes,
    pub(super) depth: u32,
    /// 0 is 1.
    #[serde(default)]
    count: u8,
    #[serde(default)]
    shift: u8,
}

impl ScenarioShape {
    /// Each transfer by itself.
    pub(super) fn each(&self) -> Vec<FlowShape> {
        let numbered = |flow: &FlowShape| {
            let (count, shift) = (u16::from(flow.count.max(1)), u16::from(flow.shift));
            let text = |text: &str, number: u16| text.replace('#', &(number % count).to_string());
            let each = (0..count).map(|number| FlowShape {
                source: text(&flow.source, number),
                target: text(&flow.target, number + shift),
                ..flow.clone()
            });
            each.collect::<Vec<_>>()
        };
        self.flows.iter().flat_map(numbered).collect()
    }
}

/// A stage at the rate of a parameter or scenario; a part of a run, for the time of a parameter, or
/// of a block of a scenario.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StageShape {
    pub(super) name: String,
    pub(super) parameter: Option<String>,
    pub(super) scenario: Option<String>,
    /// Of a part.
    pub(super) times: u32,
}

/// The use of a figure, decided before the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureRole {
    /// Compared with a model that does not know it.
    Predicted,
    /// Decides a parameter.
    Fitted,
    /// Is a parameter.
    Input,
    /// A limit that the prediction must keep.
    Bound,
    /// Follows from the wiring, not from numbers.
    Structural,
    /// Not comparable, with a reason.
    Excluded,
}

/// Side of a stated bound that the model's value keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BoundSide {
    /// Not above the stated value.
    AtMost,
    /// Not below the stated value.
    AtLeast,
}

/// A figure that a document states.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FigureShape {
    pub(super) id: String,
    pub(super) says: String,
    pub(super) stated: Option<f64>,
    /// Both ends, where a range is stated.
    pub(super) range: Option<(f64, f64)>,
    /// A word of the document instead, and the model's for it.
    pub(super) stated_text: Option<String>,
    pub(super) means: Option<String>,
    pub(super) unit: Option<Unit>,
    /// Half a unit of the last printed digit.
    pub(super) precision: Option<f64>,
    /// Spread of repeats, as a share of the value.
    pub(super) spread: Option<f64>,
    pub(super) bound: Option<BoundSide>,
    pub(super) role: FigureRole,
    pub(super) reason: String,
    pub(super) metric: Option<MetricShape>,
    /// The nearest measurement of others, and its source.
    pub(super) nearest: Option<(f64, String)>,
}

/// The quantity of the model that is compared with a figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum MetricShape {
    /// Bytes a second of all flows.
    Rate(String),
    /// Rate of the first over that of the second.
    Ratio([String; 2]),
    /// One less the ratio.
    Loss([String; 2]),
    /// Fixed time of a parameter.
    Seconds(String),
    /// Time of a run.
    Run(String),
    /// Limiting resource of the slowest flow, or stage of the program.
    LimitedBy(String),
    /// Host-memory bytes for each byte, at most.
    HostBytes(String),
    /// Lowest rate, or ratio of two, over block sizes; the same of growth from one to the next.
    OverBlocks(Vec<String>, Vec<Bytes>),
    Growth(Vec<String>, Vec<Bytes>),
    /// Highest over lowest rate of flows, each alone.
    Spread(String),
    /// Page faults of so many bytes in such a window, besides those of starting up: parameters.
    Faults([String; 3]),
    /// The same, over those of starting up.
    FaultsRatio([String; 3]),
    /// Bytes a second of drives that fill one link.
    DrivesRate(DrivesShape),
    /// Lowest power of two as queue depth that fills the link, or the first beyond the highest.
    SaturatingDepth(DrivesShape),
}

/// Equal drives that read at once into one link (`devices::drive`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrivesShape {
    pub(super) drives: u32,
    pub(super) block: Bytes,
    /// Queue depth of each; of a saturating depth, the highest that is tried.
    pub(super) depth: u32,
    /// Parameter: seconds of one command, all of it or, with `rate`, besides its transfer.
    pub(super) latency: String,
    /// Parameter: rate of a transfer of each drive.
    pub(super) rate: Option<String>,
    /// Parameter: commands a second of all of them.
    pub(super) commands: String,
    /// Parameter: capacity of the link.
    pub(super) ceiling: String,
    /// Parameter: share of the ceiling at which the link counts as full.
    pub(super) full: String,
}

/// Rates by block size.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurveShape {
    pub(super) id: String,
    pub(super) says: String,
    pub(super) source: String,
    pub(super) unit: Unit,
    pub(super) precision: f64,
    /// Reason for the error that remains.
    pub(super) reason: String,
    /// Sets of sizes that a table is made of, in KiB, and all sizes with their rates.
    pub(super) calibrated: Vec<Vec<f64>>,
    pub(super) points: Vec<(f64, f64)>,
}

/// A case that has not been measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PredictionShape {
    pub(super) id: String,
    pub(super) says: String,
    /// Day of the prediction, where it is not the file's.
    pub(super) date: Option<String>,
    /// The document that provides devices and packets.
    pub(super) like: String,
    pub(super) scenario: ScenarioShape,
    /// The prediction of the page before this one, and the reason of the change.
    pub(super) changed: Option<(String, String)>,
}
