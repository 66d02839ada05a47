//! Why there is no plan.

use peerlane_memory::provider::PROVIDERS;

use crate::endpoint::{EndError, EndpointError, NotationError};
use crate::stage::StageNameError;

/// Why there is no plan: what was asked for makes no sense here.
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
        /// What is wrong with it.
        source: NotationError,
    },
    /// Memory of a kind that payload cannot rest in.
    #[error(
        "cannot copy through `{typed}`: only {} are memories",
        PROVIDERS.usage(|_| true, "and")
    )]
    NotMemory {
        /// What was typed.
        typed: String,
    },
    /// Memory of a GPU between a source and several targets.
    #[error(
        "cannot copy to {count} targets through {via}: what is read once is written to all of them by the \
         kernel's queue, and requests with memory of a GPU go by another"
    )]
    GpuForMany {
        /// What was typed.
        via: String,
        /// How many.
        count: usize,
    },
    /// Memory between two ends of which one is memory itself.
    #[error("`--via {via}` makes no sense where an end is memory of a GPU")]
    ViaWithGpu {
        /// What was typed.
        via: String,
    },
    /// No GPU by that name.
    #[error("machine {machine} has no `{typed}`")]
    UnknownGpu {
        /// What was typed.
        typed: String,
        /// The machine.
        machine: String,
        /// The GPUs that it has.
        gpus: Vec<String>,
    },
    /// No file and no function of the machine is called that.
    #[error("machine {machine} has no device or file `{typed}`")]
    UnknownDevice {
        /// What was typed.
        typed: String,
        /// The machine.
        machine: String,
    },
    /// No function of the machine is called that, or it lends no memory.
    #[error("machine {machine} has no peer-to-peer memory `{typed}`")]
    UnknownMemory {
        /// What was typed.
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
        /// How many.
        count: usize,
        /// The most there may be.
        most: usize,
    },
    /// A count or size of zero.
    #[error("`{option} 0` moves nothing")]
    Zero {
        /// Which option.
        option: &'static str,
    },
}

impl PlanError {
    /// Whether the question makes sense, and the machine as it is has no answer to it.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::End(EndError::Endpoint { source: EndpointError::Unserved { .. }, .. }))
    }

    /// Returns whether an end is one that nothing can be copied from or to.
    pub fn is_of_an_end(&self) -> bool {
        matches!(self, Self::End(_) | Self::UnknownGpu { .. })
    }

    /// What to do about it.
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
