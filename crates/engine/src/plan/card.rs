//! Memory of FPGA cards that XRT hands out: what it is, and how the kernel at hand takes it.
//!
//! The driver `xocl` registers a card's window by itself (`devm_memremap_pages()`), and from Linux 5.3 on marks its
//! pages as peer-to-peer memory. A kernel with `CONFIG_PCI_P2PDMA` finds out whose such a page is from what lies
//! around its registration (`to_p2p_pgmap()` in drivers/pci/p2pdma.c), which only `pci_p2pdma_add_resource()` puts
//! there, and xocl does not call that. A kernel without the option never looks: drives take the pages as plain memory.
//! All of it was read, in `xocl/subdev/p2p.c` of XRT up to 2.25 and in Linux, and nothing run: docs/fpga.md.

use peerlane_fabric::{DriverBinding, Fabric, Function, FunctionId, Kernel, Memory};
use peerlane_memory::xrt;
use peerlane_results::{MemoryFacts, MemoryKind};

use super::candidates::{Via, memory_name};

/// Environment variable by which a card is taken on a kernel that may not survive it.
const ANYWAY: &str = "PEERLANE_XOCL_ANYWAY";

/// How a kernel takes pages of a card's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// As memory like any other, which is XRT's own way: nobody asks whether there is a route.
    AsPlain,
    /// As peer-to-peer memory of a provider that is not there.
    AsForeign,
    /// Whether it has the option is not to be seen.
    NotSeen,
    /// A description, of no particular kernel.
    NoKernel,
}

/// How this kernel takes them.
pub(crate) fn taken_by(kernel: &Kernel) -> Taken {
    match (kernel.has_p2pdma, &kernel.release) {
        (Some(false), _) => Taken::AsPlain,
        (Some(true), _) => Taken::AsForeign,
        (None, Some(_)) => Taken::NotSeen,
        (None, None) => Taken::NoKernel,
    }
}

/// Why a kernel should not be asked for requests with memory of a card; `None` where it may.
pub(crate) fn kernel_risk(kernel: &Kernel) -> Option<String> {
    let release = kernel.release.as_deref().unwrap_or("unknown");
    let with = match taken_by(kernel) {
        Taken::AsPlain | Taken::NoKernel => return None,
        Taken::AsForeign => format!("kernel {release} has CONFIG_PCI_P2PDMA"),
        Taken::NotSeen => {
            format!("whether kernel {release} has CONFIG_PCI_P2PDMA cannot be seen, and with it")
        }
    };
    Some(format!(
        "{with}: it would look for the owner of the card's window where xocl has put none, which may refuse the \
         route or bring the machine down"
    ))
}

/// The memory of an FPGA card that its maker's library hands out.
pub(super) fn memory(fabric: &Fabric, id: FunctionId) -> Option<Memory> {
    fabric.memory(id).filter(|memory| memory.kind == peerlane_fabric::MemoryKind::Fpga)
}

/// Whether the memory that was asked for is that of a card, and goes by XRT's own way.
pub(super) fn is_by_own_way(fabric: &Fabric, via: &Via) -> bool {
    let Via::Function(id) = *via else { return false };
    goes_by_own_way(fabric, id)
}

pub(crate) fn goes_by_own_way(fabric: &Fabric, id: FunctionId) -> bool {
    let is_card = fabric.function(id).p2pmem.is_none() && memory(fabric, id).is_some();
    is_card && taken_by(&fabric.kernel) == Taken::AsPlain
}

/// What is to be known of a card that goes by XRT's own way.
pub(super) fn own_way(fabric: &Fabric) -> String {
    let release = fabric.kernel.release.as_deref().unwrap_or("unknown");
    format!(
        "by XRT's own way: kernel {release} has no CONFIG_PCI_P2PDMA, so that drives take the card's window as plain \
         memory and nobody asks whether there is a route; where there is none, only the proof before a copy shows it; \
         not tried on a card"
    )
}

/// XRT's driver of cards, which lends their memory.
const DRIVER: &str = "xocl";

/// Whether drives reach a card by XRT's own way: its driver is bound and lends nothing by the kernel's own call.
pub(crate) fn is_lent_by_xrt(function: &Function) -> bool {
    function.driver.is_named(DRIVER) && function.p2pmem.is_none()
}

/// Why the driver of a card does not lend its memory, as only xocl does.
fn other_driver(driver: &DriverBinding) -> Option<String> {
    match driver {
        DriverBinding::Bound(name) if name == DRIVER => None,
        DriverBinding::Bound(name) => {
            Some(format!("its driver is {name}, not xocl, which lends the memory"))
        }
        DriverBinding::Unbound => {
            Some("it has no driver, and only xocl lends the memory".to_owned())
        }
        DriverBinding::Unknown => {
            Some("its driver is not known, and only xocl lends the memory".to_owned())
        }
    }
}

/// What the memory of a card is, and what stands against it as far as files tell.
pub(super) fn facts(
    fabric: &Fabric,
    id: FunctionId,
    function: &Function,
) -> Option<(MemoryFacts, Vec<String>)> {
    let facts = MemoryFacts {
        name: memory_name(function),
        kind: MemoryKind::P2pmem,
        address: function.address.map(|address| address.to_string()),
        size: memory(fabric, id)?.size,
        available: None,
    };
    let mut refusals = Vec::new();
    refusals.extend(other_driver(&function.driver));
    if function.fpga_p2p == Some(false) {
        refusals.push("the card does not lend its memory: p2p_enable is 0".to_owned());
    }
    let is_missing = |list: &Vec<String>| !list.iter().any(|name| name == xrt::LIBRARY);
    if fabric.libraries.as_ref().is_some_and(is_missing) {
        refusals.push(format!("there is no {} (XRT) to ask for it", xrt::LIBRARY));
    }
    if std::env::var_os(ANYWAY).is_none_or(|value| value.is_empty()) {
        refusals.extend(kernel_risk(&fabric.kernel).map(|risk| {
            format!(
                "{risk}; a kernel without it goes by XRT's own way, as Debian 13's 6.12 does, and {ANYWAY}=1 tries \
                 this one all the same"
            )
        }));
    }
    Some((facts, refusals))
}
