//! Speeds of links: as the machine has them, or by parameters such as `d0.lanes` and `d0.generation`, named for the device
//! or switch below the link.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, LinkSpeed, Parent};

use super::table::{self, ANY_LINK, GENERATIONS, LANES, Used};
use crate::model::{Topology, Wire, place};
use crate::parameters::{ParameterError, Parameters};

/// Megatransfers a second and lane by generation, from the first on (PCIe base specification, 1.0 to 6.0).
const MEGATRANSFERS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

/// The link above a device, and if the name is of its lanes; `None` for a name of no link.
fn parse(name: &str) -> Option<(&str, bool)> {
    let (row, below) = table::find(name)?;
    (row.used == Used::Link).then(|| (below, name.ends_with(".lanes")))
}

/// Returns the position of the listed value nearest to a number: draws lie between values that exist.
fn nearest(all: &[f64], number: f64) -> usize {
    let apart = |at: &usize| (all[*at] - number).abs();
    (0..all.len()).min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or(0)
}

/// Returns a speed with other lanes, or of another generation.
fn changed(speed: LinkSpeed, is_lanes: bool, number: f64) -> LinkSpeed {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 32")]
    if is_lanes {
        LinkSpeed { width: LANES[nearest(LANES, number)] as u8, ..speed }
    } else {
        LinkSpeed { megatransfers: MEGATRANSFERS[nearest(GENERATIONS, number)], ..speed }
    }
}

/// The speed of links that a machine says nothing of.
///
/// # Errors
/// When a parameter is missing.
pub(super) fn usual(parameters: &Parameters, numbers: &[f64]) -> Result<LinkSpeed, ParameterError> {
    let mut speed = LinkSpeed { megatransfers: MEGATRANSFERS[0], width: 1 };
    for (key, is_lanes) in [("lanes", true), ("generation", false)] {
        let number = numbers[parameters.position(&format!("{ANY_LINK}.{key}"))?];
        speed = changed(speed, is_lanes, number);
    }
    Ok(speed)
}

/// Gives links the lanes and generations of parameters.
pub(super) fn set(parameters: &Parameters, numbers: &[f64], topology: &mut Topology) {
    for (parameter, &number) in parameters.iter().zip(numbers) {
        let Some((below, is_lanes)) = parse(&parameter.name) else { continue };
        let above = topology.find(below).and_then(|node| topology.link_above(node));
        let Some(link) = above else { continue };
        let Wire { speed: Some(speed), mps, .. } = topology.link(link).wire else { continue };
        *topology.wire_mut(link) = Wire::pcie(changed(speed, is_lanes, number), mps);
    }
}

/// The value of a parameter of a link as the machine has it; `None` for a name of no link.
pub(super) fn value(name: &str, fabric: &Fabric, parameters: &Parameters) -> Option<f64> {
    let (below, is_lanes) = parse(name)?;
    let (id, _) = with_link(fabric).find(|(_, function)| function.name == below)?;
    let usual = || usual(parameters, &parameters.values()).ok();
    let speed = fabric.speed_above(id).or_else(usual)?;
    if is_lanes {
        return Some(f64::from(speed.width));
    }
    let generation = MEGATRANSFERS.iter().position(|&known| known == speed.megatransfers);
    Some(GENERATIONS[generation.unwrap_or(0)])
}

/// Devices and switches with a link of PCIe above them.
pub fn linked(fabric: &Fabric) -> impl Iterator<Item = &Function> {
    with_link(fabric).map(|(_, function)| function)
}

/// The same with their positions. Ports are ends of links, and a function at a host bridge has none unless the machine
/// says one.
fn with_link(fabric: &Fabric) -> impl Iterator<Item = (FunctionId, &Function)> {
    fabric.iter().filter(|(id, function)| {
        let is_port =
            matches!(function.kind, FunctionKind::RootPort | FunctionKind::DownstreamPort);
        let is_below_port = matches!(function.parent, Parent::Function(_));
        !is_port && (is_below_port || fabric.speed_above(*id).is_some())
    })
}

/// Knowledge of the speed of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpeedKnown {
    /// Neither of its ends says anything.
    No,
    /// The most that both ends support.
    Supported,
    /// The speed that it trained to, or that parameters give.
    Trained,
}

/// Returns how well the speed of the link above a function is known.
pub(super) fn known(fabric: &Fabric, parameters: &Parameters, id: FunctionId) -> SpeedKnown {
    let function = fabric.function(id);
    let is_given = |key| parameters.position(&format!("{}.{key}", function.name)).is_ok();
    let is_trained = function.link.is_some_and(|link| link.current.is_some());
    if is_trained || is_given("lanes") && is_given("generation") {
        SpeedKnown::Trained
    } else if fabric.speed_above(id).is_some() {
        SpeedKnown::Supported
    } else {
        SpeedKnown::No
    }
}

/// True if a machine has a link of unknown speed.
pub(super) fn has_unknown(fabric: &Fabric, parameters: &Parameters) -> bool {
    with_link(fabric).any(|(id, _)| known(fabric, parameters, id) == SpeedKnown::No)
}

/// Links between sockets of a machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sockets {
    /// True if there is a link.
    pub(super) has_two: bool,
    /// True if neither end of one states its rate.
    pub(super) has_unstated: bool,
}

/// Looks for links between sockets: between any two memory nodes of one machine.
pub(super) fn sockets(fabric: &Fabric) -> Sockets {
    let mut is_stated: BTreeMap<_, bool> = BTreeMap::new();
    for bridge in &fabric.bridges {
        *is_stated.entry(place(bridge)).or_default() |= bridge.socket_link.is_some();
    }
    // Nodes of each machine, and those of them that state nothing.
    let mut machines: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for ((machine, _), is_stated) in is_stated {
        let counts = machines.entry(machine).or_default();
        counts.0 += 1;
        counts.1 += usize::from(!is_stated);
    }
    Sockets {
        has_two: machines.values().any(|counts| counts.0 > 1),
        has_unstated: machines.values().any(|counts| counts.1 > 1),
    }
}
