//! The resource that limits each class.

use super::{EDGE, NONE, ROUND_TRIP, Solver};

/// Delays below this share of a round trip limit nobody.
const COUNTS: f64 = 0.1;

/// The strongest cut of each leg in a sweep: its factor and the resource; empty while nobody asks.
#[derive(Debug, Default)]
pub(super) struct Cuts(Vec<(f64, u32)>);

impl Cuts {
    /// Notes the cut of a leg.
    pub(super) fn note(&mut self, leg: u32, factor: f64, resource: u32) {
        if let Some(strongest) = self.0.get_mut(leg as usize) {
            if factor < strongest.0 {
                *strongest = (factor, resource);
            }
        }
    }

    /// The resource that cut a leg.
    fn get(&self, leg: usize) -> Option<u32> {
        let &(factor, resource) = self.0.get(leg)?;
        (factor <= 1.0 - EDGE).then_some(resource)
    }
}

impl Solver {
    /// The resource that limits each class, by one more sweep.
    pub(super) fn limits(&mut self) -> Vec<Option<u32>> {
        self.cuts = Cuts(vec![(1.0, NONE); self.rate.len()]);
        self.sweep();
        let limits = (0..self.counts.len()).map(|class| self.limit_of(class)).collect();
        self.cuts = Cuts::default();
        limits
    }

    /// The resource that cut the slowest leg of a class or, where that is only full because of what is in front of it,
    /// the one in front.
    fn limit_of(&self, class: usize) -> Option<u32> {
        let slowest = self.slowest_cut(class, |_| true)?;
        let mut at = self.cuts.get(slowest)?;
        if self.layout.pool[slowest] == Some(at) {
            let stage = &self.layout.stage;
            let waits = |leg: usize| {
                let is_same = stage[leg] == stage[slowest];
                leg != slowest && is_same && self.layout.holder[leg] == NONE
            };
            let later = || self.cuts.get(self.slowest_cut(class, waits)?);
            at = self.longest_delay(slowest).or_else(later).unwrap_or(at);
        }
        for _ in 0..self.resources.len() {
            let resource = at as usize;
            let is_open = self.effective[resource] >= self.capacity[resource];
            let next = self.acceptance[resource].output;
            if is_open && self.delay[resource] <= 0.0 || next == NONE {
                break;
            }
            at = next;
        }
        Some(at)
    }

    /// The slowest leg of a class that some resource cut.
    fn slowest_cut(&self, class: usize, counts: impl Fn(usize) -> bool) -> Option<usize> {
        let legs = self.layout.legs_of[class].clone();
        let cut = legs.filter(|&leg| self.cuts.get(leg).is_some() && counts(leg));
        cut.min_by(|&a, &b| self.rate[a].total_cmp(&self.rate[b]))
    }

    /// The buffer that delays the answers of a pool-holding leg most, where that counts.
    fn longest_delay(&self, holder: usize) -> Option<u32> {
        let buffers = self.layout.queued.iter().filter(|(leg, _)| *leg as usize == holder);
        let delays = buffers.map(|&(_, buffer)| (self.delay[buffer as usize], buffer));
        let longest = delays.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (longest.0 > ROUND_TRIP * COUNTS).then_some(longest.1)
    }
}
