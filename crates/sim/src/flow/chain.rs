//! A leg under construction.
//!
//! Leaves out which resources it visits, which `build` decides. The one thing to know: a visit names the
//! buffer that its packets come from only if the leg has visited that, too.

use super::build::Built;
use super::network::{Class, Hop, NONE};

/// The visits of a leg so far.
pub(super) struct Chain {
    hops: Vec<Hop>,
    /// The buffer that the packets come from.
    pub(super) port: u32,
    /// Packets that come in a row.
    pub(super) in_row: f64,
    /// The share of the flow that it is.
    share: f64,
}

impl Chain {
    /// Nothing so far, of about so many visits, for a share of a flow.
    pub(super) fn new(visits: usize, share: f64) -> Self {
        Self { hops: Vec::with_capacity(visits), port: NONE, in_row: 1.0, share }
    }

    /// Adds a visit: a resource, what a turn is worth there, and its cost. One that would lead back in
    /// the order of sweeps begins a new leg, which waits for the first without holding anybody up.
    pub(super) fn push(&mut self, class: &mut Class, built: &Built, visit: (u32, f64, f64)) {
        let (resource, turn, cost) = visit;
        let rank = |resource: u32| built.network.resources[resource as usize].rank;
        if self.hops.last().is_some_and(|last| rank(last.resource) >= rank(resource)) {
            self.end(class);
        }
        let is_known = self.hops.iter().any(|before| before.resource == self.port);
        let port = if is_known { self.port } else { NONE };
        self.hops.push(Hop { resource, port, turn, cost, in_row: self.in_row });
    }

    /// Gives what there is to the class as a leg.
    pub(super) fn end(&mut self, class: &mut Class) {
        if self.share < 1.0 {
            class.shares.resize(class.legs.len(), 1.0);
            class.shares.push(self.share);
        }
        class.legs.push(std::mem::take(&mut self.hops));
    }
}
