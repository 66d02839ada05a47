//! Warm-up: runs until rates are stable.

use super::run::PacketRun;

/// First step: 20 us.
const FIRST_STEP: u64 = 20_000_000;
/// Rates of two steps in a row that differ by less are stable.
const STABLE_PER_MILLE: u64 = 10;

impl PacketRun<'_> {
    /// Runs until each flow has used all its slots, each leg moved as much in a step as in the step before, twice, and
    /// both legs of a relay moved as much as each other since half of the time. Returns the time, and `false` where
    /// that was not reached within `most` time or so many events.
    pub(super) fn warm_up(&mut self, most: u64, events: u64) -> (u64, bool) {
        let (mut time, mut step, mut agreed) = (0, FIRST_STEP, 0);
        let mut before: Option<Vec<u64>> = None;
        // Bytes that had arrived, back to half of the time that has passed.
        let mut known = vec![(0, self.arrived())];
        loop {
            time += step;
            self.engine.run_until(time);
            let now = self.arrived();
            let since = |from: &[u64]| now.iter().zip(from).map(|(now, from)| now - from).collect();
            let moved: Vec<u64> = since(&known[known.len() - 1].1);
            let half = known.iter().rposition(|(at, _)| *at <= time / 2).unwrap_or(0);
            let of_half: Vec<u64> = since(&known[half].1);
            known.drain(..half);
            known.push((time, now));
            let is_steady = before.as_ref().is_some_and(|before| self.agree(before, &moved));
            agreed = if is_steady { agreed + 1 } else { 0 };
            let are_used = self.engine.flows.iter().all(|flow| flow.completed >= flow.depth());
            if agreed >= 2 && are_used && self.are_joined(&of_half) {
                return (time, true);
            }
            if time >= most || self.engine.events >= events {
                return (time, false);
            }
            // Steps grow with the time passed, since the pace of the slowest flow is unknown.
            before = (step >= time / 8).then_some(moved);
            if before.is_none() {
                step *= 2;
            }
        }
    }

    fn arrived(&self) -> Vec<u64> {
        self.engine.legs.iter().map(|leg| leg.arrived).collect()
    }

    /// Returns true if each leg moved as much in one step as in the other.
    fn agree(&self, here: &[u64], there: &[u64]) -> bool {
        here.iter().zip(there).enumerate().all(|(leg, (&here, &there))| {
            here.abs_diff(there) <= self.tolerance(self.engine.legs[leg].flow, there)
        })
    }

    /// Returns true if both legs of each relay moved as much: neither fills nor empties slots any more.
    fn are_joined(&self, moved: &[u64]) -> bool {
        let legs = &self.engine.legs;
        (1..moved.len()).all(|leg| {
            legs[leg].flow != legs[leg - 1].flow
                || moved[leg].abs_diff(moved[leg - 1]) <= self.tolerance(legs[leg].flow, moved[leg])
        })
    }

    /// Returns the bytes by which two stable steps may differ: their share, trains at their edges, the slot in which
    /// the faster leg of a relay or a paced flow moves at once, and a standard deviation of a count of commands if
    /// latencies vary.
    fn tolerance(&self, flow: u32, moved: u64) -> u64 {
        let flow = &self.engine.flows[flow as usize];
        let edges = 2 * u64::from(self.packets) * 512;
        let request = u64::from(flow.request);
        let noise = u64::from(self.has_jitter) * request * (1 + (moved / request).isqrt());
        let slot = if flow.is_relay() || flow.is_paced() { request } else { 0 };
        moved * STABLE_PER_MILLE / 1000 + edges + slot + noise
    }
}
