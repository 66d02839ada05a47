//! A file of `sources/` as it is written.

use std::collections::BTreeMap;

use peerlane_results::Path;
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters::{ParameterShape, Unit};

/// A document, or a set of figures held out from fitting.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceShape {
    pub(super) source: String,
    pub(super) title: String,
    pub(super) machine: String,
    /// Whether it is none of the five documents.
    #[serde(default, rename = "held-out")]
    pub(super) held_out: bool,
    /// Under what conditions the figures were taken.
    #[serde(default)]
    pub(super) settings: Vec<String>,
    pub(super) packets: PacketsShape,
    #[serde(default)]
    pub(super) parameter: BTreeMap<String, ParameterShape>,
    #[serde(default)]
    pub(super) device: Vec<DeviceShape>,
    #[serde(default)]
    pub(super) scenario: BTreeMap<String, ScenarioShape>,
    #[serde(default)]
    pub(super) figure: Vec<FigureShape>,
}

/// A file of parameters only.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParametersShape {
    pub(super) parameter: BTreeMap<String, ParameterShape>,
}

/// Names of the parameters that say how payload is cut into packets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PacketsShape {
    pub(super) write: String,
    pub(super) completion: String,
    pub(super) request: String,
    pub(super) dllps: String,
}

/// What functions of a machine are to the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DeviceShape {
    /// How the names of the functions begin; `host-bridge` for the root complex.
    pub(super) functions: String,
    pub(super) role: DeviceRole,
    /// Out of it.
    #[serde(default)]
    pub(super) read: SideShape,
    /// Into it.
    #[serde(default)]
    pub(super) write: SideShape,
    /// Parameter: the most that the shares of both rates of a drive add up to; 1 where nothing is said.
    pub(super) mixed: Option<String>,
    /// Its own DMA engine, from host memory.
    #[serde(default)]
    pub(super) dma_in: SideShape,
    /// Its own DMA engine, to host memory.
    #[serde(default)]
    pub(super) dma_out: SideShape,
    /// Frames between two parts of a switch that is spread over Ethernet.
    pub(super) wire: Option<WireShape>,
}

/// What a function is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DeviceRole {
    /// Its own DMA engine moves payload.
    Drive,
    /// Payload is moved into it and out of it.
    Memory,
    /// PCIe over Ethernet.
    Ethernet,
    /// Forwards between peers.
    RootComplex,
}

/// Names of the parameters of one direction of a device; what is left out is no limit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SideShape {
    pub(super) rate: Option<String>,
    pub(super) start: Option<String>,
    pub(super) in_flight: Option<String>,
    pub(super) round_trip: Option<String>,
}

impl SideShape {
    /// Without what a peer waits for.
    pub(super) fn rate_only(&self) -> Self {
        Self { rate: self.rate.clone(), ..Self::default() }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireShape {
    pub(super) rate: String,
    pub(super) header: String,
    pub(super) tunnel: String,
}

/// What runs: flows, stages of a program, or scenarios one after the other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioShape {
    /// That of the file when left out.
    pub(super) machine: Option<String>,
    #[serde(default)]
    pub(super) flows: Vec<FlowShape>,
    /// Links other than in the machine file.
    #[serde(default)]
    pub(super) links: BTreeMap<String, String>,
    /// Devices other than in the file.
    #[serde(default)]
    pub(super) device: Vec<DeviceShape>,
    /// Parameters of what each block costs beside its legs.
    #[serde(default)]
    pub(super) starts: Vec<String>,
    /// Parameter of the share of the rate that is kept.
    pub(super) share: Option<String>,
    #[serde(default)]
    pub(super) stages: Vec<StageShape>,
    /// Parameter of how stages overlap; in full when left out.
    pub(super) exponent: Option<String>,
    #[serde(default)]
    pub(super) run: Vec<PartShape>,
}

/// One transfer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowShape {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) via: Option<String>,
    pub(super) path: Path,
    pub(super) block: Bytes,
    pub(super) depth: u32,
}

/// A stage of a program: the rate of a parameter or of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StageShape {
    pub(super) name: String,
    pub(super) rate: Option<String>,
    pub(super) scenario: Option<String>,
}

/// A part of a run: the block time of a scenario, or a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartShape {
    pub(super) scenario: Option<String>,
    pub(super) seconds: Option<String>,
    pub(super) times: u32,
}

/// How a figure is meant to be used, decided before the model runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Compared with a model that does not know it.
    Predicted,
    /// Decides a parameter.
    Fitted,
    /// Is a parameter.
    Input,
    /// A limit that the prediction must keep.
    Bound,
    /// Follows from who is connected to whom, not from numbers.
    Structural,
    /// Not comparable, with a reason.
    Excluded,
}

impl Role {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Input => "input",
            Self::Bound => "bound",
            Self::Structural => "structural",
            Self::Excluded => "excluded",
        }
    }
}

/// Which side of the prediction a bound is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Bound {
    AtMost,
    AtLeast,
}

/// A figure that a document states.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FigureShape {
    pub(super) id: String,
    /// What the document says.
    pub(super) says: String,
    pub(super) stated: Option<f64>,
    /// Both ends, where a range is stated.
    pub(super) range: Option<(f64, f64)>,
    /// The document's word, where a word is stated.
    pub(super) stated_text: Option<String>,
    /// The model's word for it.
    pub(super) means: Option<String>,
    pub(super) unit: Option<Unit>,
    /// Half a unit of the last digit that is printed.
    pub(super) precision: Option<f64>,
    /// Spread of repeats, as a share of the value.
    pub(super) spread: Option<f64>,
    pub(super) bound: Option<Bound>,
    pub(super) role: Role,
    pub(super) reason: String,
    pub(super) metric: Option<MetricShape>,
    pub(super) nearest: Option<NearestShape>,
}

/// The nearest rate that somebody measured elsewhere.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NearestShape {
    pub(super) value: f64,
    pub(super) source: String,
}

/// What is compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MetricShape {
    /// Bytes a second of all flows.
    Rate(String),
    /// Rate of the first over that of the second.
    Ratio([String; 2]),
    /// One less the ratio.
    Loss([String; 2]),
    /// Block time of the first less that of the second.
    ExtraSeconds([String; 2]),
    /// Time of a parameter.
    Seconds(String),
    /// Time of a run.
    Run(String),
    /// What holds the first flow, or the program.
    LimitedBy(String),
    /// Host-memory bytes for each byte, at most.
    HostBytes(String),
    /// Lowest ratio over block sizes.
    LeastRatio { scenarios: [String; 2], blocks: Vec<Bytes> },
    /// Lowest fall of the ratio from one block size to the next.
    LeastFall { scenarios: [String; 2], blocks: Vec<Bytes> },
    /// Lowest growth from one block size to the next.
    LeastGrowth { scenario: String, blocks: Vec<Bytes> },
    /// Highest over lowest rate of ordered pairs of functions, named by a beginning and a number.
    SpreadOverPairs { scenario: String, source: String, target: String, count: u32 },
    /// Page faults over those at the start.
    Faults(FaultsShape),
    /// Page faults.
    FaultCount(FaultsShape),
    /// Bytes a second of drives that fill one link.
    DrivesRate(DrivesShape),
    /// Commands in flight of each drive, a power of two, from which on the link is full; twice the most that
    /// is tried where it never is.
    SaturatingDepth(DrivesShape),
}

/// Drives that are alike and read at once into one link, by the law of `devices::drive`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DrivesShape {
    /// How many there are.
    pub(super) drives: u32,
    pub(super) block: Bytes,
    /// Commands in flight of each; of a saturating depth, the most that is tried.
    pub(super) depth: u32,
    /// Parameter: seconds of one command, all of it or, with `rate`, beside its transfer.
    pub(super) latency: String,
    /// Parameter: what each drive transfers.
    pub(super) rate: Option<String>,
    /// Parameter: commands a second of all of them.
    pub(super) commands: String,
    /// Parameter: what the link carries.
    pub(super) ceiling: String,
    /// Parameter: share of the ceiling at which the link counts as full.
    pub(super) full: String,
}

/// Parameters of page faults.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FaultsShape {
    pub(super) bytes: String,
    pub(super) window: String,
    pub(super) at_start: String,
}

/// A file of curves.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurvesShape {
    pub(super) curve: Vec<CurveShape>,
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
    /// Why a table says it no better.
    pub(super) reason: String,
    /// Sets of sizes that a table is made of, in KiB.
    pub(super) calibrated: Vec<Vec<f64>>,
    /// KiB and rate.
    pub(super) points: Vec<(f64, f64)>,
}
