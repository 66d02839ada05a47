//! Lanes and generation of a link, by the name of what hangs below it: `d0.lanes`, `d0.generation`.
//!
//! Leaves out links inside chips, between sockets, and Ethernets. The one thing to know: nothing else of the
//! machine changes with a link, so that a wider one may meet a drive that is no faster.

use peerlane_fabric::{Fabric, Function, Kind, LinkSpeed, Parent};

use crate::model::{self, Topology, Wire};
use crate::parameters::{Parameter, ParameterError, Parameters, Provenance};

/// Widths of links (PCIe base specification, "Link width").
const LANES: [u8; 7] = [1, 2, 4, 8, 12, 16, 32];
/// Megatransfers a second and lane by generation, from the first on (PCIe base specification, 1.0 to 6.0).
const GENERATIONS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];
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
    fabric.functions.iter().filter(|function| speed_above(function).is_some())
}

/// The link above a device or switch. Ports are ends of links.
fn speed_above(function: &Function) -> Option<LinkSpeed> {
    if matches!(function.kind, Kind::RootPort | Kind::DownstreamPort) {
        return None;
    }
    let is_on_chip = matches!(function.parent, Parent::Bridge(_));
    let usual = (!is_on_chip).then(|| model::Parameters::default().link);
    function.link.and_then(|link| link.speed()).or(usual)
}

/// Whether a name is one of the lanes or the generation of a link of the machine.
pub(super) fn is_of_link(name: &str, fabric: &Fabric) -> bool {
    parse(name).is_some_and(|(below, _)| linked(fabric).any(|function| function.name == below))
}

/// The lanes or the generation of a link as a parameter, with what the machine has, so that a variant can have
/// another; `None` where the name is of no link.
pub fn link_parameter(name: &str, fabric: &Fabric) -> Option<Parameter> {
    let (below, what) = parse(name)?;
    let value = what.of(speed_above(linked(fabric).find(|function| function.name == below)?)?);
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
        let Some((below, what)) = parse(&parameter.name) else { continue };
        let above = topology.find(below).and_then(|node| topology.link_above(node));
        let Some(link) = above else { continue };
        let Wire { speed: Some(speed), mps, .. } = topology.link(link).wire else { continue };
        // Draws from a range lie between what there is.
        let number = if parameter.lo < parameter.hi { what.nearest(number) } else { number };
        let speed = what.set(speed, number).ok_or_else(|| ParameterError::Meaning {
            name: parameter.name.clone(),
            problem: what.problem(),
        })?;
        *topology.wire_mut(link) = Wire::pcie(speed, mps);
    }
    Ok(())
}
