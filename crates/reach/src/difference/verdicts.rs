//! The kernel's decisions on pairs that both machines have, equal changes put together.
//!
//! Functions with the same way up are decided once (`matrix`), in both machines: those that share a group before and
//! one after are a class, and one pair of two classes stands for all of them.

use std::collections::HashMap;

use peerlane_fabric::{Fabric, FunctionId};

use super::collector::Collector;
use super::{
    ChangeEffect, ChangeKind, ChangedPairs, ComparedFunction, MachineChange, Matching,
    UncomparedReason,
};
use crate::Decisions;
use crate::decision::{MapType, Reach};
use crate::matrix::{Peers, grouped};

/// A function before and after.
type Matched = (FunctionId, FunctionId);
/// Functions that no decision of either machine tells apart.
type Class = Vec<Matched>;

/// Compares the decisions on every memory and initiator that both machines have.
pub(super) fn compare(
    found: &mut Collector,
    (before, after): (&Fabric, &Fabric),
    matching: &Matching,
) {
    let (memories, initiators) = classes((before, after), matching);
    let decisions = (Decisions::new(before), Decisions::new(after));
    let overlaps = overlaps(&memories, &initiators);
    let mut changed: Vec<ChangedPairs> = Vec::new();
    for (row, memories) in memories.iter().enumerate() {
        for (column, initiators) in initiators.iter().enumerate() {
            let same = overlaps.get(&(row, column)).copied().unwrap_or(0);
            let count = memories.len() * initiators.len() - same;
            let Some((provider, initiator)) = two_different(memories, initiators) else { continue };
            let one = decisions.0.decide(provider.0, initiator.0);
            let other = decisions.1.decide(provider.1, initiator.1);
            match unknown(one.map, other.map) {
                Some(reason) => found.uncompared_pairs(reason, count),
                None if one.map == other.map => {}
                None => add(&mut changed, (&one, &other), count, (provider, initiator)),
            }
        }
    }
    for pairs in changed {
        let effect = ChangeEffect::of_growth(&rank(pairs.before), &rank(pairs.after));
        found.single(MachineChange {
            kind: ChangeKind::Verdict,
            effect,
            before: None,
            after: None,
            functions: Vec::new(),
            pairs: Some(pairs),
        });
    }
}

/// Adds pairs to those that changed alike, or as the first of them.
fn add(
    changed: &mut Vec<ChangedPairs>,
    (before, after): (&Reach, &Reach),
    count: usize,
    (provider, initiator): (Matched, Matched),
) {
    let alike = |pairs: &&mut ChangedPairs| (pairs.before, pairs.after) == (before.map, after.map);
    if let Some(pairs) = changed.iter_mut().find(alike) {
        pairs.count += count;
        return;
    }
    let reasons_before = before.reasons();
    let is_new = |reason: &String| !reasons_before.contains(reason);
    changed.push(ChangedPairs {
        before: before.map,
        after: after.map,
        count,
        initiator: compared(initiator),
        provider: compared(provider),
        reasons: after.reasons().into_iter().filter(is_new).collect(),
    });
}

fn compared((before, after): Matched) -> ComparedFunction {
    ComparedFunction { before: Some(before), after: Some(after) }
}

/// The reason why two decisions cannot be compared, if there is one.
fn unknown(before: MapType, after: MapType) -> Option<UncomparedReason> {
    let is_known = |map| !matches!(map, MapType::Conditional | MapType::Unknown);
    match (is_known(before), is_known(after)) {
        (true, true) => None,
        (false, true) => Some(UncomparedReason::UnknownBefore),
        (true, false) => Some(UncomparedReason::UnknownAfter),
        (false, false) => Some(UncomparedReason::UnknownInBoth),
    }
}

/// Rank of a decision, by how far it lets peers go.
fn rank(map: MapType) -> u8 {
    match map {
        MapType::BusAddress => 2,
        MapType::ThroughHostBridge => 1,
        MapType::NotSupported | MapType::Conditional | MapType::Unknown => 0,
    }
}

/// The memories and the initiators that both machines have, by class.
fn classes((before, after): (&Fabric, &Fabric), matching: &Matching) -> (Vec<Class>, Vec<Class>) {
    let (rows, columns) = groups(before);
    let (rows_now, columns_now) = groups(after);
    let by_class = |ones: &HashMap<FunctionId, usize>, others: &HashMap<FunctionId, usize>| {
        let mut places: HashMap<(usize, usize), usize> = HashMap::new();
        let mut classes: Vec<Class> = Vec::new();
        for &(one, other) in &matching.both {
            let (Some(&group), Some(&group_now)) = (ones.get(&one), others.get(&other)) else {
                continue;
            };
            let next = classes.len();
            let place = *places.entry((group, group_now)).or_insert(next);
            if place == next {
                classes.push(Vec::new());
            }
            classes[place].push((one, other));
        }
        classes
    };
    (by_class(&rows, &rows_now), by_class(&columns, &columns_now))
}

/// The group of each memory and of each initiator of one machine.
fn groups(fabric: &Fabric) -> (HashMap<FunctionId, usize>, HashMap<FunctionId, usize>) {
    let memories: Vec<FunctionId> =
        fabric.memories().iter().map(|memory| memory.function).collect();
    let initiators: Vec<FunctionId> =
        fabric.iter().map(|(id, _)| id).filter(|&id| fabric.moves_payload(id)).collect();
    let (rows, columns) = grouped(fabric, &memories, &initiators);
    let numbered = |groups: Vec<Peers>| {
        let with_number = |(number, group): (usize, Peers)| {
            group.members.into_iter().map(move |member| (member, number))
        };
        groups.into_iter().enumerate().flat_map(with_number).collect()
    };
    (numbered(rows), numbered(columns))
}

/// Number of functions that are in a class of memories and in one of initiators.
fn overlaps(memories: &[Class], initiators: &[Class]) -> HashMap<(usize, usize), usize> {
    let mut row_of: HashMap<Matched, usize> = HashMap::new();
    for (row, class) in memories.iter().enumerate() {
        row_of.extend(class.iter().map(|&function| (function, row)));
    }
    let mut found = HashMap::new();
    for (column, class) in initiators.iter().enumerate() {
        for row in class.iter().filter_map(|function| row_of.get(function)) {
            *found.entry((*row, column)).or_insert(0) += 1;
        }
    }
    found
}

/// Two functions of two classes that are not the same one.
fn two_different(memories: &Class, initiators: &Class) -> Option<(Matched, Matched)> {
    let mut pairs = memories
        .iter()
        .take(2)
        .flat_map(|&memory| initiators.iter().take(2).map(move |&initiator| (memory, initiator)));
    pairs.find(|(memory, initiator)| memory != initiator)
}
