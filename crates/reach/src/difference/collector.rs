//! Changes as they are found, equal ones put together.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{
    ChangeEffect, ChangeKind, ComparedFunction, MachineChange, UncomparedFact, UncomparedReason,
};

/// A kind, an effect, and the values before and after.
type ChangeKey = (ChangeKind, ChangeEffect, Option<String>, Option<String>);

/// Changes and facts that could not be compared, as far as they were found.
#[derive(Debug, Default)]
pub(super) struct Collector {
    changes: Vec<MachineChange>,
    known_changes: HashMap<ChangeKey, usize>,
    uncompared: Vec<UncomparedFact>,
    known_uncompared: HashMap<(ChangeKind, UncomparedReason), usize>,
}

impl Collector {
    /// Notes a change of a fact, of a function or of the whole machine.
    pub(super) fn change(
        &mut self,
        (kind, effect): (ChangeKind, ChangeEffect),
        before: Option<String>,
        after: Option<String>,
        function: Option<ComparedFunction>,
    ) {
        let key = (kind, effect, before.clone(), after.clone());
        let next = self.changes.len();
        let at = *self.known_changes.entry(key).or_insert(next);
        if at == next {
            let functions = Vec::new();
            self.changes.push(MachineChange {
                kind,
                effect,
                before,
                after,
                functions,
                pairs: None,
            });
        }
        self.changes[at].functions.extend(function);
    }

    /// Notes a change that is not put together with others.
    pub(super) fn single(&mut self, change: MachineChange) {
        self.changes.push(change);
    }

    /// Notes a fact that could not be compared.
    pub(super) fn uncompared(
        &mut self,
        kind: ChangeKind,
        reason: UncomparedReason,
        function: Option<ComparedFunction>,
    ) {
        let at = self.uncompared_entry(kind, reason);
        self.uncompared[at].functions.extend(function);
    }

    /// Notes pairs whose decisions could not be compared.
    pub(super) fn uncompared_pairs(&mut self, reason: UncomparedReason, pairs: usize) {
        let at = self.uncompared_entry(ChangeKind::Verdict, reason);
        self.uncompared[at].pairs += pairs;
    }

    fn uncompared_entry(&mut self, kind: ChangeKind, reason: UncomparedReason) -> usize {
        let next = self.uncompared.len();
        let at = *self.known_uncompared.entry((kind, reason)).or_insert(next);
        if at == next {
            self.uncompared.push(UncomparedFact { kind, reason, functions: Vec::new(), pairs: 0 });
        }
        at
    }

    /// Compares a fact that either machine may not know; `judge` says words and effect of a change.
    pub(super) fn compare<T: PartialEq>(
        &mut self,
        kind: ChangeKind,
        (before, after): (Option<T>, Option<T>),
        function: Option<ComparedFunction>,
        judge: impl FnOnce(&T, &T) -> Judged,
    ) {
        let reason = match (&before, &after) {
            (Some(before), Some(after)) if before == after => return,
            (Some(before), Some(after)) => {
                let Judged { effect, before, after } = judge(before, after);
                self.change((kind, effect), before, after, function);
                return;
            }
            (None, Some(_)) => UncomparedReason::UnknownBefore,
            (Some(_), None) => UncomparedReason::UnknownAfter,
            (None, None) => UncomparedReason::UnknownInBoth,
        };
        self.uncompared(kind, reason, function);
    }

    /// Changes, worst first, and facts that could not be compared.
    pub(super) fn finish(mut self) -> (Vec<MachineChange>, Vec<UncomparedFact>) {
        let size = |change: &MachineChange| {
            change.pairs.as_ref().map_or(change.functions.len(), |pairs| pairs.count)
        };
        self.changes.sort_by_key(|change| (change.effect, change.kind, Reverse(size(change))));
        self.uncompared.sort_by_key(|fact| (fact.kind, fact.reason));
        (self.changes, self.uncompared)
    }
}

/// A change in words.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) effect: ChangeEffect,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Judged {
    pub(super) fn new(
        effect: ChangeEffect,
        before: impl Into<String>,
        after: impl Into<String>,
    ) -> Self {
        Self { effect, before: Some(before.into()), after: Some(after.into()) }
    }

    /// A change whose effect is unknown.
    pub(super) fn neutral(before: impl Into<String>, after: impl Into<String>) -> Self {
        Self::new(ChangeEffect::Neutral, before, after)
    }
}

impl ChangeEffect {
    /// Worse where a value fell, better where it rose.
    pub(super) fn of_growth<T: Ord>(before: &T, after: &T) -> Self {
        match after.cmp(before) {
            std::cmp::Ordering::Less => Self::Worse,
            std::cmp::Ordering::Equal => Self::Neutral,
            std::cmp::Ordering::Greater => Self::Better,
        }
    }
}
