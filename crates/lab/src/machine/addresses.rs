//! Address of each function: bus, slot and function number, chosen here rather than by QEMU.

use std::collections::BTreeSet;

use peerlane_fabric::{Bdf, Fabric, Function, FunctionId, FunctionKind, Parent};

use super::PORTS_SLOT;
use crate::LabError;
use crate::network::NETWORK_SLOT;

/// Slots of the root bus that q35 has for itself: host bridge and LPC bridge.
const Q35_SLOTS: [u8; 2] = [0x00, 0x1f];
/// Slots of a bus.
const SLOTS: u8 = 32;
/// Functions of a slot.
const FUNCTIONS: u8 = 8;

/// The address of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionAddress {
    id: String,
    bus: String,
    slot: u8,
    function: u8,
    shares_slot: bool,
    /// Path from the root bus as the kernel's parameters write it: `00:02.0/00.0/01.0`.
    pub(super) path: String,
}

impl FunctionAddress {
    /// QEMU's name for the device and the bus below it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Bus and address as device options.
    pub(super) fn options(&self) -> String {
        let shared = if self.shares_slot { ",multifunction=on" } else { "" };
        format!("bus={},addr={:02x}.{:x}{shared}", self.bus, self.slot, self.function)
    }
}

/// QEMU's name of a host bridge's root bus.
pub(super) fn bridge_bus(index: usize) -> String {
    if index == 0 { "pcie.0".to_owned() } else { format!("bridge{index}") }
}

/// Slot of QEMU's additional host bridge `index` on bus 0; below the ports' slot.
///
/// At most 7 additional bridges are built, see [`bridge_bus_number`].
pub(super) fn bridge_slot(index: usize) -> u8 {
    PORTS_SLOT.saturating_sub(u8::try_from(index).unwrap_or(PORTS_SLOT))
}

/// Number of the root bus of host bridge `index`: as described, else spread evenly.
pub(super) fn bridge_bus_number(index: usize, machine: &Fabric) -> Result<u8, LabError> {
    const APART: usize = 0x20;
    if index == 0 {
        return Ok(0);
    }
    let described = machine.functions.iter().find_map(|function| match function.parent {
        Parent::Bridge(bridge) if bridge.0 == index => function.address.map(Bdf::bus),
        _ => None,
    });
    let spread = || u8::try_from(index * APART).ok();
    described.filter(|&bus| bus != 0).or_else(spread).ok_or_else(|| LabError::NotEmulated {
        machine: machine.name.clone(),
        function: machine.bridges[index].name.clone(),
        reason: "the lab spreads bus numbers over at most 8 host bridges".to_owned(),
    })
}

/// A place for every function, in the order of the machine.
pub(super) fn all(machine: &Fabric) -> Result<Vec<FunctionAddress>, LabError> {
    let mut places: Vec<FunctionAddress> = Vec::with_capacity(machine.functions.len());
    for (id, function) in machine.iter() {
        let (slot, number) = address(machine, id, &places)?;
        let (bus, base) = match function.parent {
            Parent::Bridge(bridge) => {
                let number = bridge_bus_number(bridge.0, machine)?;
                (bridge_bus(bridge.0), format!("{number:02x}:"))
            }
            Parent::Function(parent) => {
                let parent = &places[parent.0];
                (parent.id.clone(), format!("{}/", parent.path))
            }
        };
        let path = format!("{base}{slot:02x}.{number:x}");
        let id = format!("fn{}", id.0);
        places.push(FunctionAddress { id, bus, slot, function: number, shares_slot: false, path });
    }
    for index in 0..places.len() {
        let shares = places.iter().enumerate().any(|(other, place)| {
            other != index && place.bus == places[index].bus && place.slot == places[index].slot
        });
        places[index].shares_slot = shares && is_emulated(&machine.functions[index]);
    }
    Ok(places)
}

fn is_emulated(function: &Function) -> bool {
    function.kind != FunctionKind::Other || function.lab.is_ram_bar
}

/// Slot and function number: as described where that is free, else the next free.
fn address(
    machine: &Fabric,
    id: FunctionId,
    places: &[FunctionAddress],
) -> Result<(u8, u8), LabError> {
    let function = machine.function(id);
    let described = function.address.map(|address| (address.device(), address.function()));
    if !is_emulated(function) {
        return Ok(described.unwrap_or((0, 0)));
    }
    let taken: BTreeSet<(u8, u8)> = machine
        .iter()
        .zip(places)
        .filter(|((_, sibling), _)| sibling.parent == function.parent && is_emulated(sibling))
        .map(|(_, place)| (place.slot, place.function))
        .collect();
    let refuse = |reason: String| LabError::NotEmulated {
        machine: machine.name.clone(),
        function: function.name.clone(),
        reason,
    };
    let candidates: Vec<(u8, u8)> = match function.parent {
        Parent::Bridge(bridge) => {
            let reserved = |slot: &u8| {
                bridge.0 == 0
                    && (Q35_SLOTS.contains(slot)
                        || (bridge_slot(machine.bridges.len() - 1)..=NETWORK_SLOT).contains(slot))
            };
            if let Some((slot, number)) = described {
                if reserved(&slot) {
                    return Err(refuse(format!(
                        "slot {slot:02x} of the root bus is the lab's own"
                    )));
                }
                if taken.contains(&(slot, number)) {
                    return Err(refuse(format!("address {slot:02x}.{number} is taken")));
                }
                return Ok((slot, number));
            }
            // Slots that a later function is described to have stay free for it.
            let promised = |slot: &u8| {
                machine.functions.iter().any(|sibling| {
                    sibling.parent == function.parent
                        && sibling.address.is_some_and(|address| address.device() == *slot)
                })
            };
            let first = if bridge.0 == 0 { 2 } else { 0 };
            (first..SLOTS)
                .filter(|slot| !reserved(slot) && !promised(slot))
                .map(|s| (s, 0))
                .collect()
        }
        Parent::Function(parent) if machine.function(parent).kind == FunctionKind::UpstreamPort => {
            described.into_iter().chain((0..SLOTS).map(|slot| (slot, 0))).collect()
        }
        // A link leads to one slot (PCIe base specification 7.3.1): further functions share it.
        Parent::Function(_) => (0..FUNCTIONS).map(|number| (0, number)).collect(),
    };
    let is_free = |&(slot, number): &(u8, u8)| {
        // Without its own address a function gets a slot of its own where the bus has several.
        !taken.contains(&(slot, number)) && (number > 0 || !taken.iter().any(|t| t.0 == slot))
    };
    candidates.into_iter().find(is_free).ok_or_else(|| refuse("its bus is full".to_owned()))
}
