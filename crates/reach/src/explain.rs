//! The decision step by step, each with the kernel function that takes it.
//!
//! For a reader who wants to follow the kernel, or doubts the answer: [`decide`](crate::decide)
//! gives the verdict and the facts behind it. This gives every step, those that settled nothing
//! too.

use std::borrow::Cow;
use std::fmt;

use peerlane_fabric::{Acs, Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::{MapType, Walk, decide};
use crate::fact::{Fact, acs_bits};

const WALK: &str = "drivers/pci/p2pdma.c calc_map_type_and_dist()";
const REDIRECT: &str = "drivers/pci/p2pdma.c pci_bridge_has_acs_redir()";

/// One check of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplanationStep {
    /// The object of the check and the finding.
    pub finding: String,
    /// Kernel file and function, in Linux 7.2; empty where no kernel function is asked.
    pub source: Cow<'static, str>,
}

impl ExplanationStep {
    /// A check with its finding.
    pub fn new(finding: impl Into<String>, source: &'static str) -> Self {
        Self { finding: finding.into(), source: Cow::Borrowed(source) }
    }
}

impl fmt::Display for ExplanationStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.finding, self.source)
    }
}

/// Every step of the kernel's decision whether and how `initiator` reaches memory of `provider`.
///
/// The last one is the verdict of [`decide`](crate::decide).
///
/// # Panics
/// When an identifier comes from another fabric.
pub fn explain(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
) -> Vec<ExplanationStep> {
    let walk = Walk::new(fabric, provider, initiator);
    let reach = decide(fabric, provider, initiator);
    let mut steps = ways_up(fabric, &walk, provider, initiator);
    if walk.ancestor.is_some() {
        steps.extend(walk.tested().map(|id| redirection(fabric, id)));
        steps.push(ExplanationStep::new(sum_of_redirections(fabric, &walk), WALK));
    }
    let of_the_host_bridge = reach.facts.iter().filter(|fact| is_of_the_host_bridge(fact));
    steps.extend(
        of_the_host_bridge.map(|fact| ExplanationStep::new(fact.to_string(), fact.source())),
    );
    steps.push(ExplanationStep::new(verdict(&reach.map).to_owned(), WALK));
    steps
}

fn ways_up(
    fabric: &Fabric,
    walk: &Walk,
    provider: FunctionId,
    initiator: FunctionId,
) -> Vec<ExplanationStep> {
    let name = |id: FunctionId| fabric.function(id).name.as_str();
    let chain =
        |side: &[FunctionId]| side.iter().map(|&id| name(id)).collect::<Vec<_>>().join(" -> ");
    let bridge = |id| fabric.bridges[fabric.bridge_of(id).0].name.as_str();
    let upward = |what: &str, id: FunctionId, side: &[FunctionId]| ExplanationStep {
        finding: match (walk.ancestor, side) {
            (Some(_), []) => format!("up from the {what}: {} itself is where they meet", name(id)),
            (Some(_), _) => format!("up from the {what}: {}", chain(side)),
            (None, _) => format!("up from the {what}: {} -> {}", chain(side), bridge(id)),
        },
        source: Cow::Borrowed(WALK),
    };
    let met = match walk.ancestor {
        Some(ancestor) => format!(
            "the first function above both is {}: distance {}",
            name(ancestor),
            walk.distance
        ),
        None => format!(
            "no function is above both, so they meet in the root complex if at all: distance {}",
            walk.distance
        ),
    };
    vec![
        upward("provider", provider, &walk.provider_side),
        upward("initiator", initiator, &walk.initiator_side),
        ExplanationStep::new(met, WALK),
    ]
}

fn redirection(fabric: &Fabric, id: FunctionId) -> ExplanationStep {
    let function = fabric.function(id);
    let found = match function.acs {
        Acs::Absent => "no capability, so it does not redirect".to_owned(),
        Acs::NotRedirecting => "its redirect bits are clear: it does not redirect".to_owned(),
        Acs::Unknown => "unknown (not in this input)".to_owned(),
        Acs::Present { control } if control & Acs::REDIRECT != 0 => {
            format!("control {control:#06x}, {}: it redirects", acs_bits(control))
        }
        Acs::Present { control } => format!("control {control:#06x}: it does not redirect"),
    };
    ExplanationStep::new(format!("ACS of {}: {found}", function.name), REDIRECT)
}

fn sum_of_redirections(fabric: &Fabric, walk: &Walk) -> String {
    let acs = |id: FunctionId| fabric.function(id).acs;
    let redirects = |id: &FunctionId| acs(*id).redirects() == Some(true);
    let is_unknown = |id: &FunctionId| acs(*id).redirects().is_none();
    match (walk.tested().filter(redirects).count(), walk.tested().filter(is_unknown).count()) {
        (0, 0) => "no port on the path redirects: transactions turn below the root".to_owned(),
        (0, unknown) => format!("none is seen to redirect, {unknown} cannot be seen"),
        (1, _) => "1 port on the path redirects: transactions go up to the host bridge".to_owned(),
        (count, _) => {
            format!("{count} ports on the path redirect: transactions go up to the host bridge")
        }
    }
}

fn is_of_the_host_bridge(fact: &Fact) -> bool {
    !matches!(
        fact,
        Fact::SameFunction { .. }
            | Fact::CommonAncestor { .. }
            | Fact::SeparateRootPorts { .. }
            | Fact::OtherMachine { .. }
            | Fact::AcsRedirect { .. }
            | Fact::AcsUnknown { .. }
            | Fact::BridgesUnknown { .. }
    )
}

fn verdict(map: &MapType) -> &'static str {
    match map {
        MapType::BusAddress => {
            "PCI_P2PDMA_MAP_BUS_ADDR: the initiator is given the bus address of the memory"
        }
        MapType::ThroughHostBridge => {
            "PCI_P2PDMA_MAP_THRU_HOST_BRIDGE: the initiator is given an ordinary DMA address, and \
             the root complex forwards"
        }
        MapType::NotSupported => "PCI_P2PDMA_MAP_NOT_SUPPORTED: requests fail",
        MapType::Conditional => {
            "PCI_P2PDMA_MAP_THRU_HOST_BRIDGE with an AMD Zen or later, else \
             PCI_P2PDMA_MAP_NOT_SUPPORTED"
        }
        MapType::Unknown => "what could not be read would change the answer: a probe decides",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(acs: &str) -> Vec<String> {
        let fabric = peerlane_testing::machine(&format!(
            "cpu = {{ vendor = 'GenuineIntel', family = 6 }}
             root root-port
               up upstream-port acs = 'absent'
                 down-a downstream-port {acs}
                   a nvme acs = 'absent'
                 down-b downstream-port acs = 'absent'
                   b nvme acs = 'absent'"
        ));
        let id = |name| fabric.find(name).expect(name);
        explain(&fabric, id("b"), id("a")).iter().map(ExplanationStep::to_string).collect()
    }

    #[test]
    fn switch_turn_lists_every_function() {
        let steps = steps("acs = 'absent'").join("\n");
        insta::assert_snapshot!(steps, @r"
        up from the provider: b -> down-b -> up [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        up from the initiator: a -> down-a [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        the first function above both is up: distance 4 [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        ACS of b: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of down-b: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of up: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of a: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of down-a: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        no port on the path redirects: transactions turn below the root [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        PCI_P2PDMA_MAP_BUS_ADDR: the initiator is given the bus address of the memory [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        ");
    }

    #[test]
    fn clear_redirect_bits_hide_register() {
        let steps = steps("acs = 'not-redirecting'").join("\n");
        assert!(steps.contains("ACS of down-a: its redirect bits are clear"), "{steps}");
        assert!(steps.contains("no port on the path redirects"), "{steps}");
    }

    #[test]
    fn redirection_ends_at_host_bridge_refusal() {
        let steps = steps("acs = { control = 0x1d }").join("\n");
        insta::assert_snapshot!(steps, @r"
        up from the provider: b -> down-b -> up [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        up from the initiator: a -> down-a [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        the first function above both is up: distance 4 [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        ACS of b: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of down-b: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of up: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of a: no capability, so it does not redirect [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        ACS of down-a: control 0x001d, request redirect, completion redirect: it redirects [drivers/pci/p2pdma.c pci_bridge_has_acs_redir()]
        1 port on the path redirects: transactions go up to the host bridge [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        the CPU (GenuineIntel family 6) is not an AMD Zen or later [drivers/pci/p2pdma.c cpu_supports_p2pdma()]
        the identity of host bridge pci0000:00 is unknown [drivers/pci/p2pdma.c pci_host_bridge_dev()]
        what could not be read would change the answer: a probe decides [drivers/pci/p2pdma.c calc_map_type_and_dist()]
        ");
    }
}
