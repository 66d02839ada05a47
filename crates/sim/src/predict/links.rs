//! Lanes and generation of a link, by the name of what hangs below it: `d0.lanes`, `d0.generation`; of links whose
//! speed the machine does not say `pcie.lanes` and `pcie.generation`.
//!
//! Leaves out links inside chips, between sockets, and Ethernets. The one thing to know: nothing else of the
//! machine changes with a link, so that a wider one may meet a drive that is no faster.

use peerlane_fabric::{Fabric, Function, FunctionId, Kind, LinkSpeed, Parent};

use crate::model::{Topology, Wire};
use crate::parameters::{Parameter, ParameterError, Parameters, Provenance};

/// Widths of links (PCIe base specification, "Link width").
const LANES: [u8; 7] = [1, 2, 4, 8, 12, 16, 32];
/// Megatransfers a second and lane by generation, from the first on (PCIe base specification, 1.0 to 6.0).
const GENERATIONS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];
/// What stands for any link in the name of a parameter.
const ANY: &str = "pcie";
/// How far a number may be from a whole one: powers of ratios round.
const EDGE: f64 = 1e-6;

/// What can be said of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Lanes,
    Generation,
}

/// The device or switch that a name is of, and what it says of the link above it.
fn parse(name: &str) -> Option<(&str, What)> {
    let lanes = name.strip_suffix(".lanes").map(|below| (below, What::Lanes));
    lanes.or_else(|| name.strip_suffix(".generation").map(|below| (below, What::Generation)))
}

/// The same of one link, and not of any.
fn of_one(name: &str) -> Option<(&str, What)> {
    parse(name).filter(|(below, _)| *below != ANY)
}

impl What {
    /// The link with another number of this.
    fn set(self, speed: LinkSpeed, number: f64) -> Option<LinkSpeed> {
        let is = |known: f64| (known - number).abs() < EDGE;
        match self {
            Self::Lanes => {
                let width = LANES.into_iter().find(|&width| is(f64::from(width)))?;
                Some(LinkSpeed { width, ..speed })
            }
            Self::Generation => {
                let mut known = (1_u32..).zip(GENERATIONS);
                let (_, megatransfers) = known.find(|&(number, _)| is(f64::from(number)))?;
                Some(LinkSpeed { megatransfers, ..speed })
            }
        }
    }

    /// The number that there is which is nearest to another.
    fn nearest(self, number: f64) -> f64 {
        let apart = |known: &f64| (known - number).abs();
        self.known().into_iter().min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or(number)
    }

    /// The number that a link has of this.
    fn of(self, speed: LinkSpeed) -> f64 {
        match self {
            Self::Lanes => f64::from(speed.width),
            Self::Generation => {
                let mut known = (1_u32..).zip(GENERATIONS);
                let found = known.find(|&(_, megatransfers)| megatransfers == speed.megatransfers);
                found.map_or(1.0, |(number, _)| f64::from(number))
            }
        }
    }

    /// All numbers that there are.
    fn known(self) -> Vec<f64> {
        match self {
            Self::Lanes => LANES.map(f64::from).to_vec(),
            Self::Generation => (1_u8..).zip(GENERATIONS).map(|(known, _)| known.into()).collect(),
        }
    }

    /// The link with the number of a parameter. Draws from its range lie between what there is.
    fn put(
        self,
        speed: LinkSpeed,
        parameter: &Parameter,
        number: f64,
    ) -> Result<LinkSpeed, ParameterError> {
        let number = if parameter.lo < parameter.hi { self.nearest(number) } else { number };
        self.set(speed, number).ok_or_else(|| ParameterError::Meaning {
            name: parameter.name.clone(),
            problem: self.problem(),
        })
    }

    fn problem(self) -> &'static str {
        match self {
            Self::Lanes => "a link has 1, 2, 4, 8, 12, 16 or 32 lanes",
            Self::Generation => "generations of links are 1 to 6",
        }
    }
}

/// Between which numbers a parameter of a link can be, and what to say of others; `None` if it is of none.
pub(super) fn bounds(name: &str) -> Option<(f64, f64, &'static str)> {
    let (_, what) = parse(name)?;
    let most = what.nearest(f64::from(u8::MAX));
    Some((what.nearest(0.0) - EDGE, most + EDGE, what.problem()))
}

/// Every number that a parameter of a link can be, as `--vary` takes them; `None` if it is of none.
pub(super) fn every(name: &str) -> Option<String> {
    let (_, what) = parse(name)?;
    Some(what.known().iter().map(f64::to_string).collect::<Vec<_>>().join(","))
}

/// The devices and switches with a link of PCIe above them.
pub fn linked(fabric: &Fabric) -> impl Iterator<Item = &Function> {
    links(fabric).map(|(_, function)| function)
}

/// The same with their positions. Ports are ends of links, and what hangs from a host bridge itself has none unless the
/// machine says one.
fn links(fabric: &Fabric) -> impl Iterator<Item = (FunctionId, &Function)> {
    fabric.iter().filter(|(id, function)| {
        let is_port = matches!(function.kind, Kind::RootPort | Kind::DownstreamPort);
        let is_below_port = matches!(function.parent, Parent::Function(_));
        !is_port && (is_below_port || fabric.speed_above(*id).is_some())
    })
}

/// How a machine says the speed of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    /// Neither of its ends says anything.
    Nothing,
    /// What it supports, and not what it trained to.
    Supported,
    /// What it trained to.
    Trained,
}

/// How a machine says the speed of the link above a function, and parameters do.
pub(super) fn said(fabric: &Fabric, parameters: &Parameters, id: FunctionId) -> Said {
    let function = fabric.function(id);
    let is_given = |what| parameters.position(&format!("{}.{what}", function.name)).is_ok();
    let is_trained = function.link.is_some_and(|link| link.current.is_some());
    if is_trained || is_given("lanes") && is_given("generation") {
        Said::Trained
    } else if fabric.speed_above(id).is_some() {
        Said::Supported
    } else {
        Said::Nothing
    }
}

/// Whether a machine has a link of whose speed nothing is known.
pub(super) fn has_unknown_link(fabric: &Fabric, parameters: &Parameters) -> bool {
    links(fabric).any(|(id, _)| said(fabric, parameters, id) == Said::Nothing)
}

/// Whether a name is one of the lanes or the generation of a link of the machine.
pub(super) fn is_of_link(name: &str, fabric: &Fabric) -> bool {
    of_one(name).is_some_and(|(below, _)| linked(fabric).any(|function| function.name == below))
}

/// The lanes or the generation of a link as a parameter, with what the machine has, so that a variant can have
/// another; `None` where the name is of no link.
pub(super) fn link_parameter(
    name: &str,
    fabric: &Fabric,
    parameters: &Parameters,
) -> Option<Parameter> {
    let (below, what) = of_one(name)?;
    let (id, _) = links(fabric).find(|(_, function)| function.name == below)?;
    let usual = || usual(parameters, &parameters.values()).ok();
    let value = what.of(fabric.speed_above(id).or_else(usual)?);
    Some(Parameter {
        name: name.to_owned(),
        value,
        lo: value,
        hi: value,
        datasheet: None,
        from: Provenance::Spec,
        rows: Vec::new(),
        source: format!("the description of {}", fabric.name),
    })
}

/// What links are taken for of which a machine says nothing.
///
/// # Errors
/// For a width or a generation that there is not.
pub(super) fn usual(parameters: &Parameters, numbers: &[f64]) -> Result<LinkSpeed, ParameterError> {
    let with = |speed, what: What, word| {
        let position = parameters.position(&format!("{ANY}.{word}"))?;
        match parameters.at(position) {
            Some(parameter) => what.put(speed, parameter, numbers[position]),
            None => Ok(speed),
        }
    };
    let slowest = LinkSpeed { megatransfers: GENERATIONS[0], width: LANES[0] };
    with(with(slowest, What::Lanes, "lanes")?, What::Generation, "generation")
}

/// Gives links the lanes and generations that parameters say.
///
/// # Errors
/// For a width or a generation that there is not.
pub(super) fn set(
    parameters: &Parameters,
    numbers: &[f64],
    topology: &mut Topology,
) -> Result<(), ParameterError> {
    for (parameter, &number) in parameters.iter().zip(numbers) {
        let Some((below, what)) = of_one(&parameter.name) else { continue };
        let above = topology.find(below).and_then(|node| topology.link_above(node));
        let Some(link) = above else { continue };
        let Wire { speed: Some(speed), mps, .. } = topology.link(link).wire else { continue };
        *topology.wire_mut(link) = Wire::pcie(what.put(speed, parameter, number)?, mps);
    }
    Ok(())
}
