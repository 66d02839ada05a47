//! Workloads that cannot be predicted, and advice.

use peerlane_fabric::Fabric;
use peerlane_results::{CaseSpec, Path};

use super::device_names::is_end;
use super::setting::SettingError;
use crate::flow::RatesError;
use crate::parameters::ParameterError;
use crate::tlp::TlpError;

/// Devices that a message names.
const MAX_NAMED: usize = 12;

/// A workload that cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// Parameters that are missing or make no machine.
    #[error("machine and parameters make no model")]
    Setting(#[from] SettingError),
    /// A case that the model or an engine refuses.
    #[error("case {case} cannot be predicted")]
    Case {
        /// The case.
        case: String,
        /// The cause.
        #[source]
        source: CaseError,
    },
}

/// A case that cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A flow that the machine cannot carry.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Pasted text that leaves out the speeds of the links above these functions.
    #[error("`link` is unknown for {}", few(.0))]
    LinkNotStated(Vec<String>),
    /// The flow engine.
    #[error(transparent)]
    Engine(#[from] RatesError),
    /// The TLP engine.
    #[error("packets cannot be simulated")]
    Tlp(#[from] TlpError),
}

/// A flow that cannot be modelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlowError {
    /// A name that the machine does not have.
    #[error("machine {machine} has no device named `{name}`")]
    NoSuchEnd {
        /// The machine.
        machine: String,
        /// The name as typed.
        name: String,
    },
    /// A port or a switch, which holds no data.
    #[error(
        "{name} of machine {machine} cannot be source or target: it passes data on and keeps none"
    )]
    NoEnd {
        /// The machine.
        machine: String,
        /// The name as typed.
        name: String,
    },
    /// Two ends between which nothing is moved by a device.
    #[error("nothing moves data from {from} to {to}")]
    NoInitiator {
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// A path that one core cannot move anything by.
    #[error(
        "one core copies from host to host by `host`, or maps by `host-mapped`, and not by `{path}`"
    )]
    NoCopy {
        /// The path.
        path: Path,
    },
    /// A peer-to-peer path without a memory of a device on it.
    #[error("no device lends memory between {from} and {to}")]
    NoMemory {
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// Host memory at one end of a peer-to-peer route.
    #[error(
        "{from} to {to}: p2p is not possible: it needs memory of a device, and one of the two is host memory"
    )]
    HostMemory {
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// A transport where it has no place.
    #[error("`{via}` cannot carry this transfer: {problem}")]
    Transport {
        /// The transport.
        via: String,
        /// The reason.
        problem: &'static str,
    },
    /// A stage without two drives in one machine around it.
    #[error(
        "stage {stage} is not modelled from {from} to {to}: it works between two drives of a machine"
    )]
    Stage {
        /// Name of the stage.
        stage: String,
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// A stage without the number that a prediction rests on.
    #[error("stage {stage} has no `rate`, which the model needs")]
    StageRate {
        /// Name of the stage.
        stage: String,
    },
    /// A path that ends at a network.
    #[error("between machines payload moves by `p2p` or `host`, and not by `{path}`")]
    NotBetweenMachines {
        /// The path.
        path: Path,
    },
    /// An end in another machine, without a network controller next to it.
    #[error("no network controller is in the machine of {near}")]
    NoNetwork {
        /// The end.
        near: String,
    },
    /// A block that a drive cannot carry.
    #[error("{name} has blocks of {size} bytes, and {block} is not a multiple of that")]
    Block {
        /// The drive.
        name: String,
        /// Its own blocks, in bytes.
        size: u64,
        /// The block as asked for, in bytes.
        block: u64,
    },
    /// A number that is missing.
    #[error("a parameter of the model cannot be used")]
    Setting(#[from] SettingError),
}

impl From<ParameterError> for FlowError {
    fn from(error: ParameterError) -> Self {
        Self::Setting(error.into())
    }
}

/// Joins names, and counts those beyond the first few.
fn few(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().map(String::as_str).take(MAX_NAMED).collect();
    let others = names.len() - named.len();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

impl PredictError {
    /// True when the machine has no such route, however it is asked for.
    pub fn is_not_possible(&self) -> bool {
        let Self::Case { source: CaseError::Flow(source), .. } = self else { return false };
        matches!(source, FlowError::HostMemory { .. } | FlowError::NoMemory { .. })
    }

    /// Advice for the person who asked.
    pub fn hint(&self, fabric: &Fabric) -> Option<String> {
        let source = match self {
            Self::Setting(source) => return source.hint(),
            Self::Case { source, .. } => source,
        };
        match source {
            CaseError::Flow(source) => flow_hint(source, fabric),
            CaseError::Tlp(TlpError::Account { .. }) => Some(
                "`--engine flow` predicts it without packets; please report this case".to_owned(),
            ),
            CaseError::LinkNotStated(below) => below.first().map(|name| {
                format!(
                    "`peerlane topo --machine WHAT --format toml > machine.toml`, then add \
                     `link = \"16GT/s x4\"` below `name = \"{name}\"`, and so on; or \
                     `--vary {name}.lanes=4 --vary {name}.generation=4`"
                )
            }),
            CaseError::Engine(_) | CaseError::Tlp(_) => None,
        }
    }

    /// The error of a case.
    pub(super) fn of_case(case: &CaseSpec, source: impl Into<CaseError>) -> Self {
        Self::Case { case: case.name.clone(), source: source.into() }
    }
}

/// Advice on a flow that cannot be modelled.
fn flow_hint(error: &FlowError, fabric: &Fabric) -> Option<String> {
    match error {
        FlowError::NoSuchEnd { .. } | FlowError::NoEnd { .. } => {
            let ends = fabric.functions.iter().filter(|function| is_end(function));
            let mut names: Vec<&str> = ends.map(|function| function.name.as_str()).collect();
            if let Some(beyond) = names.get_mut(MAX_NAMED) {
                *beyond = "...";
                names.truncate(MAX_NAMED + 1);
            }
            names.extend(["host", "null"]);
            Some(format!(
                "sources and targets are {}; `peerlane topo --machine` draws a machine",
                names.join(", ")
            ))
        }
        FlowError::NoMemory { .. } => Some(
            "name a memory between them (`via`), say in the machine file which drive lends one \
             (`cmb = \"64M\"`), or use the route `host`"
                .to_owned(),
        ),
        FlowError::HostMemory { .. } => Some("use the route `host`".to_owned()),
        FlowError::Block { size, .. } => Some(format!("a block is a multiple of {size} bytes")),
        FlowError::Setting(source) => source.hint(),
        FlowError::StageRate { stage } => Some(format!(
            "write its rate into the workload: `stage = {{ name = \"{stage}\", rate = \"12GB/s\" }}`"
        )),
        FlowError::NoNetwork { .. } => Some(
            "add a function of kind `nic` to the machine file, with `ethernet = \"12.5GB/s\"` for 100 Gbit/s"
                .to_owned(),
        ),
        FlowError::Transport { .. } | FlowError::NotBetweenMachines { .. } => None,
        FlowError::NoInitiator { .. } | FlowError::NoCopy { .. } | FlowError::Stage { .. } => None,
    }
}

impl From<ParameterError> for PredictError {
    fn from(error: ParameterError) -> Self {
        Self::Setting(error.into())
    }
}
