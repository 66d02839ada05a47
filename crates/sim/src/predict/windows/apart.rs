//! Of which single flow packets and fluids say the most different rates, and how much of that a window can tell.
//!
//! Leaves out how far fluids have settled, and phases that last longer than a window. The one thing to know: the margin
//! of a rate follows from what the window saw of that flow.

use super::super::case::Set;
use super::Window;
use crate::model::{Arrival, FlowSpec};
use crate::tlp::FlowOutcome;
use crate::way::as_f64;

/// Standard errors within which a mean is what it should be by chance.
const ERRORS: f64 = 3.0;
/// Differences that are certain to be larger are told: `bench compare` lets a case be slower by as much.
pub(in crate::predict) const TOLD: f64 = 0.05;

/// A flow in a window, with both its rates.
#[derive(Debug, Clone)]
pub(in crate::predict) struct Apart {
    /// Its position in the case.
    pub(in crate::predict) flow: usize,
    /// What packets and fluids move of it, payload a nanosecond.
    pub(in crate::predict) packets: f64,
    pub(in crate::predict) fluids: f64,
    /// What the window cannot tell from no difference, as a share of what fluids move; `None` where rates still
    /// changed, so that nobody knows.
    pub(in crate::predict) margin: Option<f64>,
    /// What packets of all flows of the set move, less what fluids do, as a share of that.
    sums: f64,
    /// How many flows the set has, for how long and since when it is active, in nanoseconds.
    pub(in crate::predict) transfers: usize,
    pub(in crate::predict) time: f64,
    pub(in crate::predict) first: f64,
}

impl Apart {
    /// What packets move, less what fluids do, as a share of that.
    pub(in crate::predict) fn difference(&self) -> f64 {
        self.packets / self.fluids - 1.0
    }

    /// Whether a reader should be told: both are apart for certain, and by more than the sums of the set say already.
    pub(in crate::predict) fn is_told(&self) -> bool {
        let difference = self.difference();
        let least = difference.abs().min((difference - self.sums).abs());
        self.margin.is_some_and(|margin| least > margin + TOLD)
    }

    /// The one of two that differs more, of which one that is told goes first.
    pub(super) fn further(self, other: Self) -> Self {
        let by = |one: &Self| (one.is_told(), one.difference().abs());
        let ((is_told, difference), (is_other_told, of_other)) = (by(&self), by(&other));
        let order = is_told.cmp(&is_other_told).then(difference.total_cmp(&of_other));
        if order.is_lt() { other } else { self }
    }
}

/// The flow of a window whose rates are furthest apart; `None` where fluids have no rates.
pub(super) fn furthest(set: &Set, specs: &[FlowSpec], window: &Window) -> Option<Apart> {
    let Window { outcome, depths, fluids, trains, .. } = window;
    let time = super::super::nanos(outcome.measured.to_nanos());
    let packets = |one: &FlowOutcome| as_f64(one.bytes) / time;
    let sums = outcome.flows.iter().map(packets).sum::<f64>() / fluids.iter().sum::<f64>() - 1.0;
    let apart = |at: usize| {
        let (one, spec, fluids) = (&outcome.flows[at], &specs[at], fluids[at]);
        let margin = || margin(one, spec, depths[at], time) / (fluids * time);
        (fluids > 0.0).then(|| Apart {
            flow: set.members[at].0,
            packets: packets(one),
            fluids,
            margin: outcome.is_settled.then(|| margin() + trains),
            sums,
            transfers: set.members.len(),
            time: set.time,
            first: set.first,
        })
    };
    (0..set.members.len()).filter_map(apart).reduce(Apart::further)
}

/// By how many bytes what a window of so many nanoseconds counted of a flow may be off from what it moves in the long
/// run; `docs/model/tlp.md` derives it.
///
/// A closed flow has `q` commands under way at any time. With a mean time `L` of a command that is `q T / L` commands in
/// a time `T` (Little's law); that more or fewer were counted is due to those under way as it began and ended, and
/// less than one command it cannot tell. `L` is as sure as its standard error: those under way together may have waited
/// for the same, so that one in `q` counts as independent. Where no command ended, or a flow waits until it may begin
/// one, so that fewer may be under way, all that can be under way may lie at an edge.
pub(super) fn margin(one: &FlowOutcome, spec: &FlowSpec, depth: u32, time: f64) -> f64 {
    let (bytes, block, slots) = (as_f64(one.bytes), as_f64(spec.request), f64::from(depth));
    if one.latency.count() == 0 || spec.arrival != Arrival::Closed {
        return slots * block;
    }
    let mean = super::super::nanos(one.latency.mean().to_nanos());
    let edges = (slots * time / mean * block - bytes).abs().max(block);
    edges + ERRORS * one.latency.relative_error() * slots.sqrt() * bytes
}

#[cfg(test)]
mod tests {
    use peerlane_units::{ByteRate, Bytes};

    use super::*;
    use crate::model::NodeIndex;
    use crate::tlp::LatencyHistogram;

    const BLOCK: u64 = 1 << 17;

    fn spec() -> FlowSpec {
        let request = Bytes(BLOCK);
        FlowSpec { request, ..FlowSpec::write("w", NodeIndex(0), NodeIndex(1)) }
    }

    /// A flow that moved so many blocks, whose commands took so many microseconds.
    fn moved(blocks: u64, micros: impl IntoIterator<Item = u64>) -> FlowOutcome {
        let mut latency = LatencyHistogram::default();
        micros.into_iter().for_each(|micros| latency.record(micros * 1_000_000));
        FlowOutcome {
            bytes: Bytes(blocks * BLOCK),
            rate: ByteRate(0),
            latency,
            lost: 0,
            first_done: None,
            last_done: None,
        }
    }

    /// The margin of a window of a millisecond, in blocks.
    fn blocks(one: &FlowOutcome, spec: &FlowSpec, depth: u32) -> f64 {
        margin(one, spec, depth, 1e6) / BLOCK as f64
    }

    #[test]
    fn a_window_cannot_tell_less_than_a_block() {
        // Four at a time, of 40 us each: a hundred in a millisecond, which is what came.
        let even = moved(100, std::iter::repeat_n(40, 100));
        assert!((blocks(&even, &spec(), 4) - 1.0).abs() < 0.01);
    }

    #[test]
    fn commands_that_all_end_at_once_are_known_but_for_those_at_the_edges() {
        // Sixteen at a time, of 190 us each: 84 in a millisecond, of which 80 or 96 end in it.
        let together = moved(96, std::iter::repeat_n(190, 96));
        let found = blocks(&together, &spec(), 16);
        assert!((found - (96.0 - 16.0 * 1e3 / 190.0)).abs() < 0.5, "{found}");
    }

    #[test]
    fn times_that_vary_leave_three_standard_errors_of_as_many_rounds_as_there_were() {
        // Four at a time, of 20 or 60 us: half of the mean to either side, in 25 rounds.
        let varied = moved(100, [20, 60].into_iter().cycle().take(100));
        let expected = 1.0 + 3.0 * 0.5 / 25.0_f64.sqrt() * 100.0;
        assert!((blocks(&varied, &spec(), 4) / expected - 1.0).abs() < 0.02);
    }

    #[test]
    fn where_no_command_ends_and_of_paced_ones_all_that_is_under_way_is_uncertain() {
        assert!((blocks(&moved(0, []), &spec(), 16) - 16.0).abs() < 1e-9);
        let paced = FlowSpec { arrival: Arrival::Paced { rate: ByteRate(1) }, ..spec() };
        let even = moved(100, std::iter::repeat_n(40, 100));
        assert!((blocks(&even, &paced, 4) - 4.0).abs() < 1e-9);
    }

    fn apart(packets: f64, sums: f64, margin: Option<f64>) -> Apart {
        let (fluids, transfers, time, first) = (1.0, 2, 1e6, 0.0);
        Apart { flow: 0, packets, fluids, margin, sums, transfers, time, first }
    }

    #[test]
    fn only_what_is_certain_is_told() {
        assert!(apart(0.8, 0.0, Some(0.14)).is_told() && apart(1.2, 0.0, Some(0.14)).is_told());
        assert!(!apart(0.8, 0.0, Some(0.16)).is_told());
        assert!(!apart(0.96, 0.0, Some(0.0)).is_told());
        // Rates still changed.
        assert!(!apart(0.2, 0.0, None).is_told());
        // All of them are as much slower, or all but this one.
        assert!(!apart(0.8, -0.2, Some(0.01)).is_told());
        assert!(!apart(1.0, -0.2, Some(0.01)).is_told());
        assert!(apart(0.0, 0.0, Some(0.3)).is_told());
    }

    #[test]
    fn one_that_is_told_goes_before_one_that_may_differ_more() {
        let (told, unsure) = (apart(0.8, 0.0, Some(0.02)), apart(0.4, 0.0, None));
        for both in [[told.clone(), unsure.clone()], [unsure.clone(), told]] {
            let found = both.into_iter().reduce(Apart::further);
            assert_eq!(found.map(|one| one.packets), Some(0.8));
        }
        let found = apart(0.99, 0.0, Some(0.02)).further(unsure);
        assert!((found.packets - 0.4).abs() < 1e-9);
    }
}
