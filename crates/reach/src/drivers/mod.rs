//! The rules that drivers follow by themselves, apart from the kernel's decision, one file a driver.
//!
//! A driver may refuse a pair that the kernel would permit, and some never ask the kernel. Each
//! rule names its source with a version. Without a public source, the answer is
//! [`DriverAnswer::NotKnown`].

mod amdgpu;
mod ends;
mod environment;
mod gpu_link;
mod guest;
mod nature;
mod nvidia;
mod nvme;
mod rdma;
mod vfio;
mod xe;
mod xocl;

#[cfg(test)]
mod tests;

use std::fmt;

use peerlane_fabric::{Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use amdgpu::needs_translation;
pub(crate) use ends::is_held_by_vfio;
use ends::{DriverEnds, DriverMemory};
use environment::emulated_chipset;
pub use environment::environment_notes;
pub use gpu_link::{GpuLinkKind, GpuLinkState, gpu_link};
pub use guest::{GuestVerdict, guest};
pub use nature::nature;
pub use nvidia::{
    missing_registry_keys, multipath_refuses, nvidia_fs_question, nvidia_fs_refusal, udev_refusal,
};
pub(crate) use rdma::{carries_nvme, imports_memory, without_rdma};
pub use xocl::{CardPages, card_risk, is_lent_by_xrt};

use crate::{Reach, decide};

/// A driver's own rule for one direction, by one mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverRule {
    /// The driver, `amdgpu`; `none` where no driver is bound.
    pub driver: String,
    /// The mechanism, `peer access`.
    pub mechanism: String,
    /// The mechanism asks the kernel (`pci_p2pdma_distance`, `pci_p2pdma_map_type`); `None`
    /// where that is unknown.
    pub asks_kernel: Option<bool>,
    /// The driver's answer.
    pub answer: DriverAnswer,
    /// The fact that decides, and a command that shows it: one sentence.
    pub reason: String,
    /// File or document of the rule, with its version.
    pub source: String,
}

/// The answer of a driver; where it asks the kernel, the kernel's decision comes on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverAnswer {
    /// The driver goes along.
    Possible,
    /// The driver goes along unless an unlikely fact holds, which the reason names with a command.
    Expected,
    /// The driver refuses, or has no such mechanism.
    Refused,
    /// Something that is not seen here decides.
    Conditional,
    /// Nothing public says.
    NotKnown,
}

impl fmt::Display for DriverAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Possible => "possible",
            Self::Expected => "expected",
            Self::Refused => "refused",
            Self::Conditional => "depends",
            Self::NotKnown => "unknown",
        })
    }
}

impl DriverRule {
    fn new(
        driver: &str,
        mechanism: &str,
        asks_kernel: Option<bool>,
        verdict: (DriverAnswer, String),
        source: &str,
    ) -> Self {
        Self {
            driver: driver.to_owned(),
            mechanism: mechanism.to_owned(),
            asks_kernel,
            answer: verdict.0,
            reason: verdict.1,
            source: source.to_owned(),
        }
    }

    fn silent(name: &str) -> Self {
        let reason = format!(
            "{name} does not answer: its registers read as ones, so it has fallen off the bus or sleeps (D3cold)"
        );
        let verdict = (DriverAnswer::Conditional, reason);
        Self::new(
            "any",
            "any",
            None,
            verdict,
            "PCIe 6.0 section 2.3.2, completions of configuration reads",
        )
    }

    fn unbound(name: &str) -> Self {
        let reason = format!("no driver is bound to {name}, so nothing lends or uses memory there");
        let verdict = (DriverAnswer::Refused, reason);
        Self::new("none", "any", None, verdict, "Linux 7.2, drivers/base/dd.c")
    }
}

/// Returns the rules of the drivers for `initiator` as it reads or writes memory of `provider`.
///
/// The rules are alternatives, one for each mechanism. The list is empty where `provider` has no
/// memory that peers could use, e.g. network controllers and plain drives.
pub fn rules(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> Vec<DriverRule> {
    let decision = decide(fabric, provider, initiator);
    rules_by(fabric, (provider, initiator), &decision)
}

/// As [`rules`], by a decision of the kernel that is known.
pub(crate) fn rules_by(
    fabric: &Fabric,
    ends: (FunctionId, FunctionId),
    decision: &Reach,
) -> Vec<DriverRule> {
    let ends = DriverEnds::new(fabric, ends, decision);
    let (Some(memory), true) = (ends.memory(), ends.is_of_two_devices()) else {
        return Vec::new();
    };
    if let Some(name) = ends.silent() {
        return vec![DriverRule::silent(&name)];
    }
    if let Some(name) = ends.unbound() {
        return vec![DriverRule::unbound(&name)];
    }
    if ends.is_owner_held_by_vfio() {
        return vec![vfio::lends(&ends)];
    }
    if ends.is_initiator_held_by_vfio() {
        return vec![vfio::takes(&ends)];
    }
    let mut rules = match memory {
        DriverMemory::Nvidia => nvidia::rules(&ends),
        DriverMemory::Amd => amdgpu::rules(&ends),
        DriverMemory::Intel => xe::rules(&ends),
        DriverMemory::Drive => nvme::rules(&ends),
        DriverMemory::Xilinx => xocl::rules(&ends),
        DriverMemory::Other => vec![ends.not_known()],
    };
    ends.qualify(&mut rules);
    rules
}
