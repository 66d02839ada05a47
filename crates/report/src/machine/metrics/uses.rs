//! The uses that the devices allow, by the route that payload takes.

use peerlane_fabric::Fabric;
use peerlane_reach::{RouteState, answers, judged_pairs};

use super::gauge::Gauge;

/// Every state, with its word. A state that no pair of a use has is 0, for alerts.
const STATES: [(RouteState, &str); 6] = [
    (RouteState::Direct, "direct"),
    (RouteState::Expected, "expected"),
    (RouteState::ViaCpu, "via-cpu"),
    (RouteState::Unknown, "unknown"),
    (RouteState::Host, "host"),
    (RouteState::Impossible, "no"),
];

/// Numbers of pairs by use and state.
pub(super) fn families(fabric: &Fabric) -> Vec<Gauge> {
    let mut pairs = Gauge::new(
        "peerlane_use_pairs",
        "Pairs of a use of peer-to-peer traffic, by the route that payload takes.",
    );
    let judged = judged_pairs(fabric);
    let answers = answers(fabric, &judged);
    let mut uses: Vec<_> = answers.iter().map(|answer| answer.of_use).collect();
    uses.dedup();
    for of_use in uses {
        for (state, word) in STATES {
            let found = answers.iter().find(|one| one.of_use == of_use && one.state == state);
            let count = found.map_or(0, |one| one.pairs);
            pairs.add(&[("use", of_use.name()), ("state", word)], Some(count));
        }
    }
    vec![pairs]
}
