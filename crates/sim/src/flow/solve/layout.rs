//! A network laid out for sweeps: resources by rank, their inputs side by side, the legs of each input
//! side by side.
//!
//! Leaves out every value that changes from round to round.

use std::ops::Range;

use crate::flow::network::{Hop, NONE, Network};

/// A leg's visit to an input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    /// Which leg.
    pub leg: u32,
    /// Units of the resource for each byte of payload.
    pub cost: f64,
    /// Turns for each unit of the resource.
    pub turns: f64,
}

/// An input of a resource with the legs that come by it.
#[derive(Debug, Clone)]
pub(super) struct Arc {
    /// The resource whose buffer it is; [`NONE`] where each flow of the class has one to itself.
    pub port: u32,
    /// Positions in [`Layout::visits`].
    pub visits: Range<usize>,
}

/// A resource that is visited.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    /// Which resource.
    pub resource: usize,
    /// Positions in [`Layout::arcs`].
    pub arcs: Range<usize>,
}

/// Everything that a sweep walks over.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// Visited resources, lowest rank first.
    pub stops: Vec<Stop>,
    /// Their inputs.
    pub arcs: Vec<Arc>,
    /// The legs of those.
    pub visits: Vec<Visit>,
    /// What each leg holds until the others have passed.
    pub held: Vec<Option<u32>>,
    /// Whether each leg belongs to the second stage.
    pub is_second: Vec<bool>,
    /// The class of each leg.
    pub class_of: Vec<u32>,
    /// The legs of each class.
    pub legs_of: Vec<Range<usize>>,
}

/// One hop with its leg.
#[derive(Clone, Copy)]
struct Key {
    /// Rank, resource, port and, where the port is its own, leg: in this order sweeps meet them.
    order: u128,
    leg: u32,
    cost: f64,
    turn: f64,
}

impl Key {
    fn of(network: &Network, leg: u32, hop: &Hop) -> Self {
        let rank = network.resources[hop.resource as usize].rank;
        let own = if hop.port == NONE { leg } else { 0 };
        let order = [rank, hop.resource, hop.port, own]
            .iter()
            .fold(0, |order, &field| order << 32 | u128::from(field));
        Self { order, leg, cost: hop.cost, turn: hop.turn }
    }

    fn resource(&self) -> u32 {
        u32::try_from(self.order >> 64 & u128::from(u32::MAX)).unwrap_or(NONE)
    }

    fn port(&self) -> u32 {
        u32::try_from(self.order >> 32 & u128::from(u32::MAX)).unwrap_or(NONE)
    }
}

impl Layout {
    /// Lays out a network.
    pub(super) fn of(network: &Network) -> Self {
        let mut layout = Self::default();
        let mut keys = Vec::new();
        for (class, index) in network.classes.iter().zip(0..) {
            let first = layout.class_of.len();
            for (position, leg) in class.legs.iter().enumerate() {
                layout.is_second.push(class.second > 0 && position >= class.second);
                let number = u32::try_from(layout.class_of.len()).unwrap_or(u32::MAX);
                layout.class_of.push(index);
                let first = leg.first().map(|hop| hop.resource);
                layout.held.push(first.filter(|&first| network.resources[first as usize].is_held));
                keys.extend(leg.iter().map(|hop| Key::of(network, number, hop)));
            }
            layout.legs_of.push(first..layout.class_of.len());
        }
        // Stable, so that legs of one input stay in their order.
        keys.sort_by_key(|key| key.order);
        layout.take(&keys);
        layout
    }

    fn take(&mut self, keys: &[Key]) {
        for stop in keys.chunk_by(|a, b| a.resource() == b.resource()) {
            let first_arc = self.arcs.len();
            for arc in stop.chunk_by(|a, b| a.order == b.order) {
                let first_visit = self.visits.len();
                self.visits.extend(arc.iter().map(|key| Visit {
                    leg: key.leg,
                    cost: key.cost,
                    turns: key.turn.recip(),
                }));
                self.arcs.push(Arc { port: arc[0].port(), visits: first_visit..self.visits.len() });
            }
            let resource = stop[0].resource() as usize;
            self.stops.push(Stop { resource, arcs: first_arc..self.arcs.len() });
        }
    }
}
