//! The way to memory of FPGA cards; `reach` knows how a kernel takes it.

use peerlane_fabric::{Fabric, FunctionId, MemoryKind};
use peerlane_reach::{CardPages, card_risk};

use super::candidates::Via;

/// Environment variable that permits a card on a kernel that may not survive it.
const ANYWAY: &str = "PEERLANE_XOCL_ANYWAY";

/// True when the memory that was asked for is that of a card, and goes by XRT's own way.
pub(super) fn is_by_own_way(fabric: &Fabric, via: &Via) -> bool {
    let Via::Function(id) = *via else { return false };
    goes_by_own_way(fabric, id)
}

pub(crate) fn goes_by_own_way(fabric: &Fabric, id: FunctionId) -> bool {
    let is_card = fabric.memory(id).is_some_and(|memory| memory.kind == MemoryKind::Fpga);
    is_card && CardPages::new(&fabric.kernel) == CardPages::Plain
}

/// Describes the risk of a card that goes by XRT's own way.
pub(super) fn own_way(fabric: &Fabric) -> String {
    let release = fabric.kernel.release.as_deref().unwrap_or("unknown");
    format!(
        "by XRT's own path: kernel {release} has no CONFIG_PCI_P2PDMA, so drives treat the card's window as plain \
         memory and nothing checks that there is a route; where there is none, only the proof before a copy shows it; \
         not tested on a card"
    )
}

/// The danger of taking a card on this kernel, unless a person took it on.
pub(super) fn risk(fabric: &Fabric) -> Option<String> {
    let is_taken = std::env::var_os(ANYWAY).is_some_and(|value| !value.is_empty());
    let risk = card_risk(&fabric.kernel).filter(|_| !is_taken)?;
    Some(format!(
        "{risk}; on a kernel without CONFIG_PCI_P2PDMA (Debian 13's 6.12) XRT's own path is used; {ANYWAY}=1 tries \
         this kernel anyway"
    ))
}
