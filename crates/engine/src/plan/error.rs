//! Errors of planning.

use peerlane_memory::provider::PROVIDERS;

use crate::endpoints::{EndError, EndpointError, NotationError};
use crate::io::stage::StageNameError;

/// Reason why there is no plan: the request makes no sense here.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// There is no such stage.
    #[error(transparent)]
    Stage(#[from] StageNameError),
    /// An end that cannot be used.
    #[error(transparent)]
    End(#[from] EndError),
    /// A text that names no memory.
    #[error("cannot understand `--via`")]
    Via {
        /// Fault of the text.
        source: NotationError,
    },
    /// Memory of a kind that payload cannot rest in.
    #[error(
        "cannot copy through `{typed}`: only {} are memories",
        PROVIDERS.usage(|_| true, "and")
    )]
    NotMemory {
        /// The text as typed.
        typed: String,
    },
    /// Memory of a GPU between a source and several targets.
    #[error(
        "cannot copy to {count} targets through {via}: what is read once is written to all of them by the \
         kernel's queue, and requests with memory of a GPU go by another"
    )]
    GpuForMany {
        /// The memory as typed.
        via: String,
        /// Number of targets.
        count: usize,
    },
    /// Memory between two ends, one of them memory itself.
    #[error("`--via {via}` makes no sense where source or target is memory of a GPU")]
    ViaWithGpu {
        /// The memory as typed.
        via: String,
    },
    /// No GPU by that name.
    #[error("machine {machine} has no `{typed}`")]
    UnknownGpu {
        /// The GPU as typed.
        typed: String,
        /// The machine.
        machine: String,
        /// The GPUs that it has.
        gpus: Vec<String>,
    },
    /// No file and no function of the machine is called that.
    #[error("machine {machine} has no device or file `{typed}`")]
    UnknownDevice {
        /// The name as typed.
        typed: String,
        /// The machine.
        machine: String,
    },
    /// No function of the machine is called that, or it lends no memory.
    #[error("machine {machine} has no peer-to-peer memory `{typed}`")]
    UnknownMemory {
        /// The memory as typed.
        typed: String,
        /// The machine.
        machine: String,
        /// The memories that it has.
        memories: Vec<String>,
    },
    /// Options that exclude each other.
    #[error("`--route {route}` and `--via {via}` exclude each other")]
    Contradiction {
        /// The route.
        route: peerlane_results::RouteChoice,
        /// The memory.
        via: String,
    },
    /// No target, or too many.
    #[error("cannot copy to {count} targets at once: there may be 1 to {most}")]
    Targets {
        /// Number of targets.
        count: usize,
        /// The most there may be.
        most: usize,
    },
    /// A count or size of zero.
    #[error("`{option} 0` moves nothing")]
    Zero {
        /// The option.
        option: &'static str,
    },
}

impl PlanError {
    /// True when the question makes sense, but the machine as it is has no answer to it.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::End(EndError::Endpoint { source: EndpointError::Unserved { .. }, .. }))
    }

    /// Returns whether an end is one that nothing can be copied from or to.
    pub fn is_of_an_end(&self) -> bool {
        matches!(self, Self::End(_) | Self::UnknownGpu { .. })
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End(error) => error.hint(),
            Self::UnknownGpu { gpus, .. } if gpus.is_empty() => {
                Some("`peerlane topo` shows the machine: no GPU of NVIDIA or AMD is in it".to_owned())
            }
            Self::UnknownGpu { gpus, .. } => Some(format!("its GPUs are {}", gpus.join(", "))),
            Self::GpuForMany { .. } => {
                Some("a copy for each target, or `--via cmb:NAME`".to_owned())
            }
            Self::UnknownDevice { .. } => {
                Some("`peerlane topo` shows the names of its devices".to_owned())
            }
            Self::UnknownMemory { memories, .. } if memories.is_empty() => {
                Some("`peerlane topo` shows the machine; a drive offers memory when it has a CMB and the kernel CONFIG_PCI_P2PDMA".to_owned())
            }
            Self::UnknownMemory { memories, .. } => {
                Some(format!("its memories are {}", memories.join(", ")))
            }
            _ => None,
        }
    }
}
