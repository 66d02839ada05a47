//! The answer for each use: states, how many pairs have them, and why.

use std::collections::BTreeMap;

use peerlane_fabric::FunctionId;

use super::{JudgedPairs, Use};
use crate::RouteState;

/// Pairs of a use that have one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseAnswer {
    /// The use.
    pub of_use: Use,
    /// The way that payload takes.
    pub state: RouteState,
    /// Number of pairs that have it.
    pub pairs: usize,
    /// Number of all pairs of the use.
    pub of: usize,
    /// The facts that decide for most of them, each a sentence.
    pub because: Vec<String>,
    /// One of them: the owner of the memory, and the initiator.
    pub example: (FunctionId, FunctionId),
}

/// The answers, use by use, the best state first.
pub fn answers(judged: &[JudgedPairs]) -> Vec<UseAnswer> {
    let mut by_state: BTreeMap<(Use, RouteState), Vec<&JudgedPairs>> = BTreeMap::new();
    for pairs in judged {
        by_state.entry((pairs.of_use, pairs.state)).or_default().push(pairs);
    }
    let all = |of_use: Use| {
        judged.iter().filter(|one| one.of_use == of_use).map(|one| one.group.count).sum()
    };
    let answer = |((of_use, state), pairs): ((Use, RouteState), Vec<&JudgedPairs>)| {
        let most = pairs.iter().rev().max_by_key(|one| one.group.count)?;
        Some(UseAnswer {
            of_use,
            state,
            pairs: pairs.iter().map(|one| one.group.count).sum(),
            of: all(of_use),
            because: most.facts.clone(),
            example: most.group.example(),
        })
    };
    by_state.into_iter().filter_map(answer).collect()
}
