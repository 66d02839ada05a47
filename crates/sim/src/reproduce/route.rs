//! From a flow on a machine to legs, and from legs to what each of them takes of what.
//!
//! Leaves out the kernel's permission, which `fabric::reach` decides. The one thing to know: every link has
//! one resource for each direction, counted in wire bytes, so that flows that cross meet in it.

use std::collections::HashMap;

use peerlane_fabric::{Fabric, FunctionId, LinkSpeed};
use peerlane_results::Path;

use super::StudyError;
use super::scenario::Place;
use super::shape::{DeviceRole, DeviceShape, FlowShape, SideShape};
use crate::devices::link::{Carry, Packets, wire, wire_rate};
use crate::devices::memory::{InFlight, Port, port_rate};
use crate::devices::share::Demand;
use crate::devices::{ethernet, path};
use crate::parameters::Values;

/// Something that flows share.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// What it is, in the model's words: `drive`, `link`, `memory`, `engine`, `ethernet`, `root complex`.
    pub(super) kind: &'static str,
    pub(super) capacity: f64,
}

/// One DMA.
#[derive(Debug, Clone)]
pub(super) struct Leg {
    /// Seconds for each block.
    pub(super) start: f64,
    /// Position of a resource, and how much of it a byte takes.
    pub(super) takes: Vec<(usize, f64)>,
}

/// An end of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Host,
    At(FunctionId),
}

/// Turns flows into legs, and collects what they share.
pub(super) struct Router<'a> {
    place: &'a Place<'a>,
    values: &'a Values<'a>,
    packets: Packets,
    pub(super) resources: Vec<Resource>,
    known: HashMap<(&'static str, String), usize>,
}

impl<'a> Router<'a> {
    pub(super) fn new(place: &'a Place<'a>, values: &'a Values<'a>) -> Result<Self, StudyError> {
        let names = &place.source.packets;
        let packets = Packets {
            write: values.get(&names.write)?,
            completion: values.get(&names.completion)?,
            request: values.get(&names.request)?,
            dllps: values.loss(&names.dllps, 0.0)?,
        };
        Ok(Self { place, values, packets, resources: Vec::new(), known: HashMap::new() })
    }

    /// The legs of a flow, in order.
    pub(super) fn legs(&mut self, flow: &FlowShape) -> Result<Vec<Leg>, StudyError> {
        let source = self.end(&flow.source)?;
        let target = self.end(&flow.target)?;
        let between = match (flow.path, &flow.via) {
            (Path::P2p, None) => None,
            (Path::P2p, Some(via)) => Some(self.end(via)?),
            _ => Some(End::Host),
        };
        match between {
            None => Ok(vec![self.leg(source, target)?]),
            Some(middle) => Ok(vec![self.leg(source, middle)?, self.leg(middle, target)?]),
        }
    }

    fn end(&self, name: &str) -> Result<End, StudyError> {
        if name == "host" {
            return Ok(End::Host);
        }
        let found = self.place.fabric.find(name);
        found.map(End::At).ok_or_else(|| StudyError::NoSuchFunction {
            machine: self.place.fabric.name.clone(),
            name: name.to_owned(),
        })
    }

    /// One DMA from `from` to `to`: what starts it decides how it is carried, and a memory's own engine does
    /// not wait as a peer does.
    fn leg(&mut self, from: End, to: End) -> Result<Leg, StudyError> {
        let place = self.place;
        let mut leg = Leg { start: 0.0, takes: Vec::new() };
        let named = |end: End| match end {
            End::Host => None,
            End::At(id) => {
                let name = place.fabric.function(id).name.as_str();
                place.device(name).map(|device| (name, device))
            }
        };
        let (source, target) = (named(from), named(to));
        let is_drive = |end: Option<(&str, &DeviceShape)>| {
            end.is_some_and(|(_, device)| device.role == DeviceRole::Drive)
        };
        if let Some((name, device)) = source {
            if device.role == DeviceRole::Drive {
                self.side(&mut leg, "drive", name, "read", &device.read)?;
            } else if is_drive(target) {
                self.side(&mut leg, "memory", name, "read", &device.read)?;
            } else {
                self.side(&mut leg, "memory", name, "read", &device.read.rate_only())?;
                self.side(&mut leg, "engine", name, "out", &device.dma_out)?;
            }
        }
        if let Some((name, device)) = target {
            if device.role == DeviceRole::Drive {
                self.side(&mut leg, "drive", name, "write", &device.write)?;
            } else {
                self.side(&mut leg, "memory", name, "write", &device.write)?;
                if from == End::Host {
                    self.side(&mut leg, "engine", name, "in", &device.dma_in)?;
                }
            }
        }
        let is_pulled = !is_drive(source) && (from == End::Host || is_drive(target));
        self.way(&mut leg, from, to, if is_pulled { Carry::Pulled } else { Carry::Pushed })?;
        Ok(leg)
    }

    fn side(
        &mut self,
        leg: &mut Leg,
        kind: &'static str,
        name: &str,
        direction: &str,
        side: &SideShape,
    ) -> Result<(), StudyError> {
        let ceiling = |name: &Option<String>| {
            name.as_ref().map_or(Ok(f64::INFINITY), |name| self.values.ceiling(name))
        };
        let in_flight = match (&side.in_flight, &side.round_trip) {
            (Some(bytes), Some(time)) => {
                let (bytes, round_trip) =
                    (ceiling(&Some(bytes.clone()))?, self.values.loss(time, 0.0)?);
                bytes.is_finite().then_some(InFlight { bytes, round_trip })
            }
            _ => None,
        };
        let capacity = port_rate(Port { rate: ceiling(&side.rate)?, in_flight });
        if let Some(start) = &side.start {
            leg.start += self.values.loss(start, 0.0)?;
        }
        if capacity.is_finite() {
            self.take(leg, kind, format!("{name} {direction}"), capacity, 1.0);
        }
        Ok(())
    }

    /// Has reads and writes of one drive share its time, where there are both: `x_r / R + x_w / W <= mixed`.
    pub(super) fn share_media(&mut self, demands: &mut [Demand]) -> Result<(), StudyError> {
        let of = |name: &str, side| self.known.get(&("drive", format!("{name} {side}"))).copied();
        let drives = self.known.keys().filter(|(kind, _)| *kind == "drive");
        let mut both: Vec<([usize; 2], &str)> = drives
            .filter_map(|(_, name)| name.strip_suffix(" read"))
            .filter_map(|name| Some(([of(name, "read")?, of(name, "write")?], name)))
            .collect();
        both.sort_unstable();
        let mut media = Vec::with_capacity(both.len());
        for (sides, name) in both {
            let mixed = self.place.device(name).and_then(|device| device.mixed.as_ref());
            let capacity = mixed.map_or(Ok(1.0), |mixed| self.values.get(mixed))?;
            media.push((sides, Resource { kind: "drive", capacity }));
        }
        for (sides, medium) in media {
            for demand in demands.iter_mut() {
                let of_sides = demand.takes.iter().filter(|(taken, _)| sides.contains(taken));
                let time = of_sides.map(|&(taken, weight)| weight / self.resources[taken].capacity);
                let time: f64 = time.sum();
                if time > 0.0 {
                    demand.takes.push((self.resources.len(), time));
                }
            }
            self.resources.push(medium);
        }
        Ok(())
    }

    fn take(
        &mut self,
        leg: &mut Leg,
        kind: &'static str,
        name: String,
        capacity: f64,
        weight: f64,
    ) {
        let next = self.resources.len();
        let position = *self.known.entry((kind, name)).or_insert(next);
        if position == next {
            self.resources.push(Resource { kind, capacity });
        }
        leg.takes.push((position, weight));
    }

    /// Links up from one end and down to the other, what frames them, and the root complex at the top.
    fn way(&mut self, leg: &mut Leg, from: End, to: End, carry: Carry) -> Result<(), StudyError> {
        let place = self.place;
        let fabric: &Fabric = place.fabric;
        let above = |end: End| -> Vec<FunctionId> {
            match end {
                End::Host => Vec::new(),
                End::At(id) => fabric.upward(id).collect(),
            }
        };
        let (mut up, mut down) = (above(from), above(to));
        while let (Some(one), Some(other)) = (up.last(), down.last()) {
            if one != other {
                break;
            }
            up.pop();
            down.pop();
        }
        let cost = wire(carry, self.packets);
        for (list, forward, back) in [(&up, "up", "down"), (&down, "down", "up")] {
            for &id in list {
                let function = fabric.function(id);
                let Some(speed) = self.speed(id)? else { continue };
                let capacity = wire_rate(speed);
                let name = |direction| format!("{} {direction}", function.name);
                self.take(leg, "link", name(forward), capacity, cost.with);
                self.take(leg, "link", name(back), capacity, cost.against);
                self.frames(leg, &function.name, forward)?;
            }
        }
        let crosses = place.crosses_root(from_id(from), from_id(to));
        if let Some(device) = place.device("host-bridge").filter(|_| crosses) {
            let pushed = carry == Carry::Pushed;
            let (side, word) =
                if pushed { (&device.write, "peer writes") } else { (&device.read, "peer reads") };
            self.side(leg, "root complex", "host bridge", word, side)?;
        }
        Ok(())
    }

    fn speed(&self, id: FunctionId) -> Result<Option<LinkSpeed>, StudyError> {
        let function = self.place.fabric.function(id);
        match self.place.scenario.links.get(&function.name) {
            Some(text) => text.parse().map(Some).map_err(|_| StudyError::Link(text.clone())),
            None => Ok(self.place.fabric.speed_above(id)),
        }
    }

    fn frames(&mut self, leg: &mut Leg, name: &str, direction: &str) -> Result<(), StudyError> {
        let Some(DeviceShape { wire: Some(wire), .. }) = self.place.device(name) else {
            return Ok(());
        };
        let rate = self.values.ceiling(&wire.rate)?;
        let header = self.values.get(&wire.header)?;
        let tunnel = self.values.loss(&wire.tunnel, 0.0)?;
        let payload = ethernet::tlp_in_frame(rate, self.packets.write, header, tunnel);
        self.take(leg, "ethernet", format!("{name} {direction}"), payload, 1.0);
        Ok(())
    }

    /// The leg alone: its fixed time, its rate, and the resource that gives that rate.
    pub(super) fn alone(&self, leg: &Leg) -> (path::Leg, Option<usize>) {
        let lowest = leg
            .takes
            .iter()
            .filter(|&&(_, weight)| weight > 0.0)
            .map(|&(position, weight)| (self.resources[position].capacity / weight, position))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let rate = lowest.map_or(f64::INFINITY, |(rate, _)| rate);
        (path::Leg { start: leg.start, rate }, lowest.map(|(_, position)| position))
    }
}

fn from_id(end: End) -> Option<FunctionId> {
    match end {
        End::Host => None,
        End::At(id) => Some(id),
    }
}
