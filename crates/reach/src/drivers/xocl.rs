//! The driver of Xilinx cards: the window of its memory for peers.
//!
//! The driver `xocl` registers a card's window by itself (`devm_memremap_pages()`), and from Linux
//! 5.3 on marks its pages as peer-to-peer memory. A kernel with `CONFIG_PCI_P2PDMA` finds the owner
//! of such a page by data around its registration (`to_p2p_pgmap()` in drivers/pci/p2pdma.c). Only
//! `pci_p2pdma_add_resource()` puts that data there, and xocl does not call it. A kernel without
//! the option never looks: drives take the pages as plain memory. All of this was read, in
//! `xocl/subdev/p2p.c` of XRT up to 2.25 and in Linux, and nothing was run: docs/fpga.md.

use peerlane_fabric::{Function, FunctionKind, Kernel};

use super::ends::DriverEnds;
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "xocl";
const SOURCE: &str = "XRT 2.25, xocl/subdev/p2p.c; XRT documentation, PCIe Peer-to-Peer";

/// Pages of a card's window as a kernel takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardPages {
    /// Memory like any other, which is XRT's own way: nothing checks that there is a route.
    Plain,
    /// Peer-to-peer memory of a provider that is not there.
    Foreign,
    /// It is unknown whether the kernel has `CONFIG_PCI_P2PDMA`.
    NotSeen,
    /// A description, of no particular kernel.
    NoKernel,
}

impl CardPages {
    /// Pages as this kernel takes them.
    pub fn new(kernel: &Kernel) -> Self {
        match (kernel.has_p2pdma, &kernel.release) {
            (Some(false), _) => Self::Plain,
            (Some(true), _) => Self::Foreign,
            (None, Some(_)) => Self::NotSeen,
            (None, None) => Self::NoKernel,
        }
    }
}

/// Returns the reason why a kernel should not be asked for requests with memory of a card; `None` where it
/// may.
pub fn card_risk(kernel: &Kernel) -> Option<String> {
    let release = kernel.release.as_deref().unwrap_or("unknown");
    let with = match CardPages::new(kernel) {
        CardPages::Plain | CardPages::NoKernel => return None,
        CardPages::Foreign => format!(
            "xocl cannot safely share card memory on a kernel with CONFIG_PCI_P2PDMA ({release})"
        ),
        CardPages::NotSeen => format!(
            "whether kernel {release} has CONFIG_PCI_P2PDMA is unknown, and with it xocl cannot safely share card memory"
        ),
    };
    Some(format!(
        "{with}: xocl does not register the card's window with P2PDMA; the kernel may refuse the transfer or crash"
    ))
}

/// Returns whether drives reach a card by XRT's own way: its driver is bound and lends nothing by the kernel's own
/// call.
pub fn is_lent_by_xrt(function: &Function) -> bool {
    function.driver.is_named(DRIVER) && function.p2pmem.is_none()
}

/// The rules for memory of a Xilinx card.
pub(super) fn rules(ends: &DriverEnds<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if !DriverEnds::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    // A kernel without P2PDMA is asked nothing.
    let asks = Some(CardPages::new(&ends.fabric.kernel) != CardPages::Plain);
    let switch = |answer, reason: String| {
        vec![DriverRule::new(DRIVER, "P2P BAR", asks, (answer, reason), SOURCE)]
    };
    match (provider.fpga_p2p, initiator.kind) {
        (Some(false), _) => {
            let reason = format!(
                "p2p_enable of {} is 0: `echo 1 | sudo tee /sys/bus/pci/devices/{}/p2p.*/p2p_enable`",
                ends.word(provider),
                provider.name
            );
            switch(DriverAnswer::Refused, reason)
        }
        (None, FunctionKind::Nvme) => {
            switch(DriverAnswer::Conditional, "whether p2p_enable is 1 is not shown".to_owned())
        }
        (Some(true), FunctionKind::Nvme) => vec![for_drives(ends)],
        (_, FunctionKind::Fpga) => {
            let reason = "one card imports the buffer of the other and copies it; whether the driver \
                          asks the kernel is unknown";
            let verdict = (DriverAnswer::Conditional, reason.to_owned());
            vec![DriverRule::new(DRIVER, "buffer import", None, verdict, SOURCE)]
        }
        _ => vec![ends.not_known()],
    }
}

/// The rule for a drive and a card that lends its memory.
fn for_drives(ends: &DriverEnds<'_>) -> DriverRule {
    let kernel = &ends.fabric.kernel;
    let is_own = is_lent_by_xrt(ends.provider());
    let (asks, answer, reason) = match (CardPages::new(kernel), card_risk(kernel)) {
        (CardPages::Plain, _) if is_own => {
            let reason = "p2p_enable is 1, and a kernel without CONFIG_PCI_P2PDMA takes its pages as plain \
                          memory and asks for no route: prove it";
            (Some(false), DriverAnswer::Conditional, reason.to_owned())
        }
        (CardPages::Foreign, Some(risk)) if is_own => (Some(true), DriverAnswer::Refused, risk),
        (CardPages::NotSeen, Some(risk)) if is_own => (Some(true), DriverAnswer::NotKnown, risk),
        _ => {
            let reason = format!("p2p_enable is 1, and drives take its pages; {}", ends.in_words());
            (Some(true), DriverAnswer::Possible, reason)
        }
    };
    DriverRule::new(DRIVER, "P2P BAR", asks, (answer, reason), SOURCE)
}
