//! Changes between two machines in words, as `peerlane topo diff` prints them.

use peerlane_fabric::{Fabric, FunctionId, pci_names};
use peerlane_reach::{
    ChangeKind, ChangedPairs, ComparedFunction, MachineChange, MachineDifference, MapType,
    UncomparedFact,
};
use peerlane_results::{
    TOPO_DIFF_SCHEMA, TopoChange, TopoDiffRecord, TopoFunction, TopoPairs, TopoUncompared,
};

/// Most functions that a sentence names.
const MOST_NAMES: usize = 3;
/// Most changes that the verdict names.
const MOST_PHRASES: usize = 3;

/// Compares two machines.
pub fn record(before: &Fabric, after: &Fabric) -> TopoDiffRecord {
    let found = MachineDifference::new(before, after);
    let words = Words { before, after };
    TopoDiffRecord {
        schema: TOPO_DIFF_SCHEMA.to_owned(),
        before: before.into(),
        after: after.into(),
        verdict: words.verdict(&found),
        matched: found.matching.both.len(),
        changes: found.changes.iter().map(|change| words.change(change)).collect(),
        uncompared: found.uncompared.iter().map(|fact| words.uncompared(fact)).collect(),
    }
}

/// The two machines, whose functions have names.
#[derive(Clone, Copy)]
struct Words<'a> {
    before: &'a Fabric,
    after: &'a Fabric,
}

impl Words<'_> {
    fn verdict(self, found: &MachineDifference) -> String {
        let (presence, facts): (Vec<_>, Vec<_>) =
            found.uncompared.iter().partition(|fact| is_presence(fact.kind));
        let (of_one_side, others): (Vec<_>, Vec<_>) =
            facts.into_iter().partition(|fact| fact.reason.is_of_one_side());
        let mut text = match found.changes.len() {
            0 if presence.is_empty() && of_one_side.is_empty() => "no change".to_owned(),
            0 => "no change in what both show".to_owned(),
            1 => "1 change: ".to_owned(),
            count => format!("{count} changes: "),
        };
        let phrases = found.changes.iter().take(MOST_PHRASES).map(|change| self.phrase(change));
        text += &phrases.collect::<Vec<_>>().join("; ");
        if found.changes.len() > MOST_PHRASES {
            text += &format!("; {} more", found.changes.len() - MOST_PHRASES);
        }
        if found.matching.both.is_empty() {
            text += "; the two machines have no function in common";
        }
        for fact in presence {
            let (count, state) = (counted(fact.functions.len(), "function"), state(fact.kind));
            let verb = if fact.functions.len() == 1 { "is" } else { "are" };
            text += &format!("; cannot tell whether {count} {verb} {state}");
        }
        if !of_one_side.is_empty() {
            let count = counted(of_one_side.len(), "fact");
            text += &format!("; cannot tell of {count} that one side does not show");
        }
        if !others.is_empty() {
            let count = counted(others.len(), "fact");
            text += &format!("; {count} could not be compared");
        }
        text
    }

    /// A change in a few words.
    fn phrase(self, change: &MachineChange) -> String {
        let fact = change.kind;
        let functions = &change.functions;
        match change.kind {
            ChangeKind::Verdict => change.pairs.as_ref().map_or_else(String::new, |pairs| {
                let (before, after) = (short(pairs.before), short(pairs.after));
                format!("{} {before} -> {after}", counted(pairs.count, "pair"))
            }),
            ChangeKind::Removed => format!("{} gone", self.names(&self.of_interest(functions))),
            ChangeKind::Added => format!("{} new", self.names(&self.of_interest(functions))),
            ChangeKind::Moved => format!("{} moved", self.names(functions)),
            ChangeKind::Renumbered => {
                format!("{} at another address", counted(functions.len(), "function"))
            }
            ChangeKind::AcsRedirection => {
                let after = change.after.as_deref().unwrap_or_default();
                format!("{fact} {after} at {}", counted(functions.len(), "function"))
            }
            _ if functions.is_empty() => format!("{fact} {}", values(change)),
            _ => format!("{fact} of {}", counted(functions.len(), "function")),
        }
    }

    /// A change in a sentence.
    fn sentence(self, change: &MachineChange) -> String {
        let names = || self.names(&change.functions);
        let (fact, values) = (change.kind, values(change));
        match change.kind {
            ChangeKind::Verdict => change.pairs.as_ref().map_or_else(String::new, |pairs| {
                let [before, after] = [pairs.before, pairs.after];
                let example = if pairs.count == 1 { "" } else { "e.g. " };
                let (initiator, provider) =
                    (self.function(pairs.initiator).name, self.function(pairs.provider).name);
                format!(
                    "{}: {before} -> {after}, {example}{initiator} -> {provider}",
                    counted(pairs.count, "pair")
                )
            }),
            ChangeKind::Removed => format!("gone: {}", self.branch(&change.functions)),
            ChangeKind::Added => format!("new: {}", self.branch(&change.functions)),
            ChangeKind::Moved => {
                let names: Vec<String> =
                    change.functions.iter().map(|&one| self.function(one).name).collect();
                format!("moved: {}, {values}", names.join(", "))
            }
            ChangeKind::Renumbered => {
                let first = change.functions.first().map(|&one| self.function(one).name);
                format!(
                    "addresses: {} renumbered, e.g. {} {values}",
                    counted(change.functions.len(), "function"),
                    first.unwrap_or_default()
                )
            }
            ChangeKind::AcsRedirection => format!("{fact} at {}: {values}", names()),
            ChangeKind::NvLink | ChangeKind::Xgmi => {
                format!("{fact} between {}: {values}", names())
            }
            ChangeKind::MemoryLent => format!("{fact} by {}: {values}", names()),
            _ if change.functions.is_empty() => format!("{fact}: {values}"),
            _ => format!("{fact} of {}: {values}", names()),
        }
    }

    fn change(self, change: &MachineChange) -> TopoChange {
        TopoChange {
            fact: change.kind,
            effect: change.effect,
            what: self.sentence(change),
            before: change.before.clone(),
            after: change.after.clone(),
            functions: self.functions(&change.functions),
            pairs: change.pairs.as_ref().map(|pairs| self.pairs(pairs)),
        }
    }

    fn pairs(self, pairs: &ChangedPairs) -> TopoPairs {
        TopoPairs {
            count: pairs.count,
            before: pairs.before,
            after: pairs.after,
            initiator: self.function(pairs.initiator),
            provider: self.function(pairs.provider),
            reasons: pairs.reasons.clone(),
        }
    }

    fn uncompared(self, found: &UncomparedFact) -> TopoUncompared {
        let (fact, reason) = (found.kind, found.reason);
        let object = match (found.pairs, found.functions.len()) {
            (0, 0) => String::new(),
            (0, _) => format!(" of {}", self.names(&found.functions)),
            (pairs, _) => format!(" of {}", counted(pairs, "pair")),
        };
        let what = if is_presence(found.kind) {
            let side = if found.kind == ChangeKind::Removed { "after" } else { "before" };
            let (state, functions) = (state(found.kind), self.branch(&found.functions));
            format!("{state} or cut off: {functions}; the list {side} is incomplete")
        } else {
            format!("{fact}{object}: {reason}")
        };
        TopoUncompared {
            fact,
            reason,
            what,
            functions: self.functions(&found.functions),
            pairs: found.pairs,
        }
    }

    fn functions(self, functions: &[ComparedFunction]) -> Vec<TopoFunction> {
        functions.iter().map(|&function| self.function(function)).collect()
    }

    fn function(self, function: ComparedFunction) -> TopoFunction {
        let place = |fabric: &Fabric, id: FunctionId| fabric.function(id).address_or_name();
        let name = match (function.before, function.after) {
            (_, Some(id)) => self.after.device_word(id),
            (Some(id), None) => self.before.device_word(id),
            (None, None) => String::new(),
        };
        TopoFunction {
            name,
            before: function.before.map(|id| place(self.before, id)),
            after: function.after.map(|id| place(self.after, id)),
        }
    }

    /// A function by its name, and its address where that says more.
    fn name(self, function: ComparedFunction) -> String {
        let TopoFunction { name, before, after } = self.function(function);
        match after.or(before) {
            Some(place) if !name.contains(&place) => format!("{name} ({place})"),
            _ => name,
        }
    }

    /// The first of some functions, and how many more there are.
    fn names(self, functions: &[ComparedFunction]) -> String {
        let first: Vec<String> =
            functions.iter().take(MOST_NAMES).map(|&one| self.name(one)).collect();
        match functions.len().saturating_sub(MOST_NAMES) {
            0 => first.join(", "),
            more => format!("{} and {}", first.join(", "), counted(more, "other")),
        }
    }

    /// Functions that move payload among one and those below it; the topmost where none does.
    fn of_interest(self, functions: &[ComparedFunction]) -> Vec<ComparedFunction> {
        let moves = |function: &&ComparedFunction| match (function.before, function.after) {
            (_, Some(id)) => self.after.moves_payload(id),
            (Some(id), None) => self.before.moves_payload(id),
            (None, None) => false,
        };
        let payload: Vec<ComparedFunction> = functions.iter().filter(moves).copied().collect();
        if payload.is_empty() { functions.iter().take(1).copied().collect() } else { payload }
    }

    /// A function with those below it.
    fn branch(self, functions: &[ComparedFunction]) -> String {
        let named = self.of_interest(functions);
        let mut text = self.names(&named);
        if let [one] = named[..] {
            text += &self.product(one).map(|name| format!(", {name}")).unwrap_or_default();
        }
        match functions.len() - named.len() {
            0 => text,
            more => format!("{text}, with {}", counted(more, "further function")),
        }
    }

    /// Maker and product of a function.
    fn product(self, function: ComparedFunction) -> Option<String> {
        match (function.before, function.after) {
            (_, Some(id)) => pci_names::look_up(self.after.function(id)),
            (Some(id), None) => pci_names::look_up(self.before.function(id)),
            (None, None) => None,
        }
    }
}

/// The values of a change.
fn values(change: &MachineChange) -> String {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{before} -> {after}"),
        (Some(before), None) => format!("no longer {before}"),
        (None, Some(after)) => format!("now {after}"),
        (None, None) => String::new(),
    }
}

fn counted(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Returns whether a function is there in both machines, or in one alone.
fn is_presence(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::Removed | ChangeKind::Added)
}

/// State of a function that one machine has alone.
fn state(kind: ChangeKind) -> &'static str {
    if kind == ChangeKind::Removed { "gone" } else { "new" }
}

fn short(map: MapType) -> &'static str {
    match map {
        MapType::BusAddress => "direct",
        MapType::ThroughHostBridge => "through the host bridge",
        MapType::NotSupported => "refused",
        MapType::Conditional => "by the CPU",
        MapType::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests;
