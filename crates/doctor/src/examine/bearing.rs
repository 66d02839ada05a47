//! The pairs that an obstacle bears on, counted.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::FunctionId;
use peerlane_reach::{JudgedPairs, Use};
use peerlane_results as results;

/// The pairs that an obstacle bears on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BearsOn {
    /// Every pair of these uses.
    Uses(Vec<Use>),
    /// Every pair of these uses with one of these functions at an end.
    Functions(Vec<Use>, BTreeSet<FunctionId>),
    /// So many pairs of each use.
    Counted(BTreeMap<Use, usize>),
}

impl BearsOn {
    /// Every pair of every use.
    pub(super) fn everything() -> Self {
        Self::Uses(Use::ALL.to_vec())
    }

    /// Every pair with one of these functions at an end.
    pub(super) fn functions(functions: impl IntoIterator<Item = FunctionId>) -> Self {
        Self::Functions(Use::ALL.to_vec(), functions.into_iter().collect())
    }

    /// The uses among those of the machine, and the number of their pairs.
    pub(super) fn count(&self, judged: &[JudgedPairs]) -> (Vec<results::Use>, u64) {
        let by_use = self.by_use(judged);
        let pairs: usize = by_use.values().sum();
        (by_use.into_keys().collect(), pairs as u64)
    }

    fn by_use(&self, judged: &[JudgedPairs]) -> BTreeMap<Use, usize> {
        if let Self::Counted(counted) = self {
            return counted.clone();
        }
        let mut found = BTreeMap::new();
        for pairs in judged {
            let count = match self {
                Self::Uses(uses) if uses.contains(&pairs.of_use) => pairs.group.count,
                Self::Functions(uses, functions) if uses.contains(&pairs.of_use) => {
                    pairs.group.count_with(functions)
                }
                _ => 0,
            };
            if count > 0 {
                *found.entry(pairs.of_use).or_insert(0) += count;
            }
        }
        found
    }

    /// The pairs of both.
    pub(super) fn with(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Functions(mut uses, mut functions), Self::Functions(more_uses, more)) => {
                add(&mut uses, more_uses);
                functions.extend(more);
                Self::Functions(uses, functions)
            }
            (Self::Uses(mut uses), Self::Uses(more)) => {
                add(&mut uses, more);
                Self::Uses(uses)
            }
            (one, _) => one,
        }
    }
}

fn add(uses: &mut Vec<Use>, more: &[Use]) {
    for one in more {
        if !uses.contains(one) {
            uses.push(*one);
        }
    }
}
