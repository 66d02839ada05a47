//! The path of packets between two functions: where they turn, and the slowest link on it.

use peerlane_fabric::gpu::VENDOR_INTEL;
use peerlane_fabric::{Fabric, FunctionId, FunctionKind, LinkSpeed, Parent, RootBus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::Walk;
use crate::{Reach, decide};

/// The path of packets between two functions; empty between two machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketPath {
    /// The place where packets turn; `None` where it is unknown.
    pub turn: Option<Turn>,
    /// The function in which they turn; `None` for the root complex and above it.
    pub turn_at: Option<FunctionId>,
    /// The distance class of `nvidia-smi topo -m`; `None` where it is unknown.
    pub class: Option<PathClass>,
    /// Hops as the kernel counts them, redirected or not; `None` where bridges on the way are unknown.
    pub distance: Option<u32>,
    /// The slowest link whose speed is known; `None` where no link is crossed, or none is known.
    pub slowest_link: Option<SlowestLink>,
    /// Functions on the path with a link above them whose speed is unknown.
    pub unknown_links: Vec<FunctionId>,
}

/// The place where packets between two functions turn from up to down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// Inside the function or device that both belong to.
    Device,
    /// In the switch, port or bridge above both.
    Switch,
    /// In the root complex.
    RootComplex,
    /// On the link between two sockets.
    SocketLink,
}

/// Distance classes in the words of `nvidia-smi topo -m` (its legend, driver 580).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathClass {
    /// The same device.
    X,
    /// At most one bridge or switch.
    Pix,
    /// Several switches, no host bridge.
    Pxb,
    /// One host bridge.
    Phb,
    /// Several host bridges of one memory node.
    Node,
    /// Several memory nodes.
    Sys,
}

impl PathClass {
    /// The word that `nvidia-smi` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::X => "X",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}

/// The slowest link on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowestLink {
    /// The function below it.
    pub function: FunctionId,
    /// Speed and width it trained to; the most that both ends support where that is unknown, or
    /// where a GPU may have slowed its link while idle.
    pub speed: LinkSpeed,
    /// It trained to less than both ends support.
    pub is_downgraded: bool,
}

impl PacketPath {
    /// The path between two functions of one fabric.
    ///
    /// # Panics
    /// When an identifier comes from another fabric.
    pub fn new(fabric: &Fabric, first: FunctionId, second: FunctionId) -> Self {
        if !fabric.are_in_one_machine(first, second) {
            return Self::default();
        }
        let reach = decide(fabric, second, first);
        let walk = Walk::new(fabric, second, first);
        let turn = turn(fabric, &walk, &reach, (first, second));
        let crossed = crossed_links(fabric, &walk, turn);
        let speed = |&id: &FunctionId| working_speed(fabric, id).map(|speed| (id, speed));
        let slowest = crossed
            .iter()
            .filter(|id| has_link(fabric, **id))
            .filter_map(speed)
            .min_by_key(|(_, speed)| speed.raw_rate());
        let is_unknown =
            |id: &FunctionId| has_link(fabric, *id) && fabric.speed_above(*id).is_none();
        Self {
            class: class(fabric, &walk, &reach, (first, second)),
            distance: (!lacks_bridges(&reach)).then_some(walk.distance),
            slowest_link: slowest.map(|(function, speed)| SlowestLink {
                function,
                speed,
                is_downgraded: fabric.is_downgraded(function) && !fabric.may_save_power(function),
            }),
            unknown_links: crossed.iter().copied().filter(is_unknown).collect(),
            turn_at: walk.ancestor.filter(|_| matches!(turn, Some(Turn::Device | Turn::Switch))),
            turn,
        }
    }
}

/// The speed of a link under load: a GPU lowers it while idle, and keeps the width.
fn working_speed(fabric: &Fabric, id: FunctionId) -> Option<LinkSpeed> {
    if fabric.is_downgraded(id) && fabric.may_save_power(id) {
        return fabric.trainable(id);
    }
    fabric.speed_above(id)
}

/// Returns whether bridges above an end are not listed.
fn lacks_bridges(reach: &Reach) -> bool {
    reach.needs.iter().any(|need| matches!(need, crate::Need::Bridges(_)))
}

fn turn(
    fabric: &Fabric,
    walk: &Walk,
    reach: &Reach,
    (first, second): (FunctionId, FunctionId),
) -> Option<Turn> {
    let is_redirected = !reach.redirecting.is_empty();
    match walk.ancestor {
        _ if lacks_bridges(reach) => None,
        Some(_) if first == second => Some(Turn::Device),
        Some(_) if is_redirected => Some(Turn::RootComplex),
        // An unread ACS register may redirect.
        Some(_) if !reach.needs.is_empty() => None,
        Some(_) if is_one_device(fabric, first, second) => Some(Turn::Device),
        Some(_) => Some(Turn::Switch),
        None => match nodes(fabric, first, second) {
            _ if share_root_bus(fabric, first, second) == Some(true) => Some(Turn::RootComplex),
            NumaNodes::Same => Some(Turn::RootComplex),
            NumaNodes::Different => Some(Turn::SocketLink),
            NumaNodes::Unknown => None,
        },
    }
}

fn class(
    fabric: &Fabric,
    walk: &Walk,
    reach: &Reach,
    (first, second): (FunctionId, FunctionId),
) -> Option<PathClass> {
    if lacks_bridges(reach) {
        return None;
    }
    if first == second {
        return Some(PathClass::X);
    }
    if let Some(ancestor) = walk.ancestor {
        let sides = walk.provider_side.iter().chain(&walk.initiator_side);
        let is_switch = |id: &FunctionId| fabric.function(*id).kind == FunctionKind::UpstreamPort;
        let below_ends = |id: &&FunctionId| **id != first && **id != second;
        let mut switches: Vec<FunctionId> =
            sides.filter(below_ends).copied().filter(is_switch).collect();
        switches.extend(is_switch(&ancestor).then_some(ancestor));
        switches.sort_unstable();
        switches.dedup();
        return Some(if switches.len() > 1 { PathClass::Pxb } else { PathClass::Pix });
    }
    let share_root_bus = share_root_bus(fabric, first, second);
    if share_root_bus == Some(true) {
        return Some(PathClass::Phb);
    }
    match nodes(fabric, first, second) {
        NumaNodes::Same => share_root_bus.map(|_| PathClass::Node),
        NumaNodes::Different => Some(PathClass::Sys),
        NumaNodes::Unknown => None,
    }
}

/// Returns whether two functions are below one root bus; `None` where the text lists neither the root port above one of
/// them nor its bus, as topology XML of NCCL does.
fn share_root_bus(fabric: &Fabric, first: FunctionId, second: FunctionId) -> Option<bool> {
    let bridge = fabric.bridge_of(first);
    if bridge != fabric.bridge_of(second) {
        return Some(false);
    }
    let is_placed = |id: FunctionId| {
        let top = fabric.upward(id).last().unwrap_or(id);
        fabric.function(top).address.is_some()
    };
    let is_whole = fabric.bridges[bridge.0].root_bus == RootBus::Whole;
    (is_whole || is_placed(first) && is_placed(second)).then_some(true)
}

/// The memory nodes of two functions, compared.
enum NumaNodes {
    Same,
    Different,
    Unknown,
}

fn nodes(fabric: &Fabric, first: FunctionId, second: FunctionId) -> NumaNodes {
    let node = |id: FunctionId| {
        fabric.function(id).numa_node.or(fabric.bridges[fabric.bridge_of(id).0].numa_node)
    };
    match (node(first), node(second)) {
        (Some(one), Some(other)) if one == other => NumaNodes::Same,
        (Some(_), Some(_)) => NumaNodes::Different,
        _ => NumaNodes::Unknown,
    }
}

/// Returns whether two functions have the same address, ignoring the function number.
fn is_one_device(fabric: &Fabric, first: FunctionId, second: FunctionId) -> bool {
    let place = |id: FunctionId| {
        let address = fabric.function(id).address?;
        Some((address.domain(), address.bus(), address.device()))
    };
    place(first).is_some() && place(first) == place(second)
}

/// The functions whose link upwards is crossed: all on the way except the one where packets turn.
fn crossed_links(fabric: &Fabric, walk: &Walk, turn: Option<Turn>) -> Vec<FunctionId> {
    let sides = walk.provider_side.iter().chain(&walk.initiator_side).copied();
    match turn {
        Some(Turn::Device) => Vec::new(),
        Some(Turn::RootComplex | Turn::SocketLink) => {
            // Redirected packets go on from the common port up to the root complex.
            let above = walk.ancestor.into_iter().flat_map(|id| fabric.upward(id).skip(1));
            sides.chain(above).collect()
        }
        Some(Turn::Switch) | None => sides.filter(|&id| Some(id) != walk.ancestor).collect(),
    }
}

/// Returns whether there is a link above a function: not inside a switch, a card, or the root complex.
fn has_link(fabric: &Fabric, id: FunctionId) -> bool {
    let function = fabric.function(id);
    match function.parent {
        Parent::Bridge(_) => false,
        Parent::Function(_) if is_inside_intel_card(fabric, id) => false,
        Parent::Function(port) => {
            function.link.is_some()
                || matches!(
                    fabric.function(port).kind,
                    FunctionKind::RootPort | FunctionKind::DownstreamPort
                )
        }
    }
}

/// Returns whether a function is a graphics processor below the switch on its own Intel card.
///
/// That link is not on any wire and reports 2.5 GT/s x1 whatever it carries; the card's upstream port
/// shows the real link (seen on Arc cards: 28 GB/s in intel/compute-runtime #935).
fn is_inside_intel_card(fabric: &Fabric, id: FunctionId) -> bool {
    let function = fabric.function(id);
    let is_reported = |speed: LinkSpeed| speed.megatransfers == 2_500 && speed.width == 1;
    let Parent::Function(port) = function.parent else { return false };
    let port = fabric.function(port);
    function.vendor == Some(VENDOR_INTEL)
        && port.vendor == Some(VENDOR_INTEL)
        && port.kind == FunctionKind::DownstreamPort
        && fabric.speed_above(id).is_some_and(is_reported)
}
