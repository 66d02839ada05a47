//! The answer for each use: states, how many pairs have them, and why.

use std::collections::BTreeMap;

use peerlane_fabric::Fabric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JudgedPairs, Use};
use crate::RouteState;

/// Most facts in an answer, of those that mechanisms have.
const MAX_FACTS: usize = 4;

/// Pairs of a use that have one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UseAnswer {
    /// The use.
    #[serde(rename = "use")]
    pub of_use: Use,
    /// The route that payload takes.
    pub state: RouteState,
    /// Number of pairs that have it.
    pub pairs: u64,
    /// Number of all pairs of the use.
    pub of: u64,
    /// The facts that decide for most of them.
    pub because: String,
    /// One of them, by the words for it in commands.
    pub example: [String; 2],
}

/// The answers, use by use, the best state first.
pub fn answers(fabric: &Fabric, judged: &[JudgedPairs]) -> Vec<UseAnswer> {
    let mut by_state: BTreeMap<(Use, RouteState), Vec<&JudgedPairs>> = BTreeMap::new();
    for pairs in judged {
        by_state.entry((pairs.of_use, pairs.state)).or_default().push(pairs);
    }
    let count = |one: &JudgedPairs| one.group.count as u64;
    let all = |of_use: Use| judged.iter().filter(|one| one.of_use == of_use).map(count).sum();
    let answer = |((of_use, state), pairs): ((Use, RouteState), Vec<&JudgedPairs>)| {
        let most = pairs.iter().rev().max_by_key(|one| one.group.count)?;
        let (memory, initiator) = most.group.example();
        Some(UseAnswer {
            of_use,
            state,
            pairs: pairs.iter().map(|one| count(one)).sum(),
            of: all(of_use),
            because: most.facts[..most.facts.len().min(MAX_FACTS)].join("; "),
            example: [initiator, memory].map(|id| fabric.device_word(id)),
        })
    };
    by_state.into_iter().filter_map(answer).collect()
}
