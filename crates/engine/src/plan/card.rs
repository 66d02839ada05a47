//! Memory of FPGA cards that XRT hands out; `reach` knows how a kernel takes it.

use peerlane_fabric::{DriverBinding, Fabric, Function, FunctionId, Memory};
use peerlane_memory::xrt;
use peerlane_reach::{CardPages, card_risk};
use peerlane_results::{MemoryFacts, MemoryKind};

use super::candidates::{Via, memory_name};

/// Environment variable by which a card is taken on a kernel that may not survive it.
const ANYWAY: &str = "PEERLANE_XOCL_ANYWAY";

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
    is_card && CardPages::new(&fabric.kernel) == CardPages::Plain
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
        refusals.extend(card_risk(&fabric.kernel).map(|risk| {
            format!(
                "{risk}; a kernel without it goes by XRT's own way, as Debian 13's 6.12 does, and {ANYWAY}=1 tries \
                 this one all the same"
            )
        }));
    }
    Some((facts, refusals))
}
