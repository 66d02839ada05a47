//! Every memory against every initiator. Functions that the kernel cannot tell apart share a cell.
//!
//! The kernel's decision for a pair depends only on the ports above both, so functions with the same
//! path up share a row or a column. A thousand drives below one switch are one cell.

use std::collections::{BTreeSet, HashMap};

use peerlane_fabric::{BridgeId, Fabric, FunctionId, Parent};

use crate::decision::Tri;
use crate::decisions::{Decisions, MatrixCell};

/// Level of detail of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row and a column each for every function.
    Each,
    /// Functions with the same path up share a row or a column.
    Grouped,
}

/// Functions that share a row or a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// The functions, in the order of the fabric; at least one.
    pub members: Vec<FunctionId>,
}

/// Every memory against every initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The memories; rows.
    pub memories: Vec<Peers>,
    /// The initiators; columns.
    pub initiators: Vec<Peers>,
    /// The decisions, by row and column: each between any two different functions of both. Where both hold one
    /// and the same function alone, its decision for that one.
    pub cells: Vec<Vec<MatrixCell>>,
}

impl Matrix {
    /// Decides every memory of a fabric against every function that moves payload.
    pub fn new(fabric: &Fabric, detail: Detail) -> Self {
        let memories: Vec<_> = fabric.memories().iter().map(|memory| memory.function).collect();
        let initiators: Vec<_> =
            fabric.iter().map(|(id, _)| id).filter(|&id| fabric.moves_payload(id)).collect();
        let (memories, initiators) = match detail {
            Detail::Each => (each(&memories), each(&initiators)),
            Detail::Grouped => grouped(fabric, &memories, &initiators),
        };
        let decisions = Decisions::new(fabric);
        let cell = |row, column| cell(&decisions, row, column);
        let cells = memories
            .iter()
            .map(|row| initiators.iter().map(|column| cell(row, column)).collect())
            .collect();
        Self { memories, initiators, cells }
    }
}

fn each(ids: &[FunctionId]) -> Vec<Peers> {
    ids.iter().map(|&id| Peers { members: vec![id] }).collect()
}

/// Groups of memories and of initiators that the kernel cannot tell apart.
pub(crate) fn grouped(
    fabric: &Fabric,
    memories: &[FunctionId],
    initiators: &[FunctionId],
) -> (Vec<Peers>, Vec<Peers>) {
    let paths = UpwardPaths::new(fabric, memories.iter().chain(initiators).copied());
    (paths.groups(memories), paths.groups(initiators))
}

/// Two functions of a row and a column that are not the same one, if there are any.
fn representatives(row: &Peers, column: &Peers) -> Option<(FunctionId, FunctionId)> {
    let mut pairs = row.members.iter().take(2).flat_map(|&memory| {
        column.members.iter().take(2).map(move |&initiator| (memory, initiator))
    });
    pairs.find(|(one, other)| one != other)
}

impl Decisions<'_> {
    /// The ports that redirect for any pair of a row and a column: each member's own ports are passed once.
    pub fn redirecting(&self, row: &Peers, column: &Peers) -> BTreeSet<FunctionId> {
        let Some((one, other)) = representatives(row, column) else { return BTreeSet::new() };
        let memories = row.members.iter().map(|&memory| (memory, other));
        let initiators = column.members.iter().map(|&initiator| (one, initiator));
        memories
            .chain(initiators)
            .filter(|(memory, initiator)| memory != initiator)
            .flat_map(|(memory, initiator)| self.decide(memory, initiator).redirecting)
            .collect()
    }
}

fn cell(decisions: &Decisions<'_>, row: &Peers, column: &Peers) -> MatrixCell {
    let alone = (row.members[0], column.members[0]);
    let (memory, initiator) = representatives(row, column).unwrap_or(alone);
    decisions.outcome(memory, initiator)
}

/// The part of the path up from a function that bears on a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct UpwardPath {
    /// The joint of its path with those of others.
    pub(crate) joint: Joint,
    /// ACS redirection of the port above it, when nothing else hangs from that port.
    port: Option<Tri>,
    /// Its own ACS redirection.
    pub(crate) own: Tri,
}

/// The lowest place that paths of other functions pass, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Joint {
    /// A root bus.
    Bridge(BridgeId),
    /// A port or bridge.
    Function(FunctionId),
    /// The function itself: others hang from it.
    Itself(FunctionId),
}

impl UpwardPath {
    /// Functions below the joint.
    pub(crate) fn hops(&self) -> u32 {
        match self.joint {
            Joint::Itself(_) => 0,
            Joint::Bridge(_) | Joint::Function(_) => 1 + u32::from(self.port.is_some()),
        }
    }

    /// Returns whether a function below the joint redirects.
    pub(crate) fn redirects(&self) -> Tri {
        match self.joint {
            Joint::Itself(_) => Tri::No,
            Joint::Bridge(_) | Joint::Function(_) => self.own.max(self.port.unwrap_or(Tri::No)),
        }
    }
}

/// The paths up from some functions of a fabric.
pub(crate) struct UpwardPaths<'a> {
    fabric: &'a Fabric,
    /// Number of the functions in question at or below each function.
    below: Vec<usize>,
}

impl<'a> UpwardPaths<'a> {
    pub(crate) fn new(fabric: &'a Fabric, functions: impl Iterator<Item = FunctionId>) -> Self {
        let mut below = vec![0; fabric.functions.len()];
        for id in functions {
            // A function that is both memory and initiator counts once.
            below[id.0] = 1;
        }
        // Parents precede children.
        for (index, function) in fabric.functions.iter().enumerate().rev() {
            if let Parent::Function(FunctionId(parent)) = function.parent {
                below[parent] += below[index];
            }
        }
        Self { fabric, below }
    }

    fn groups(&self, ids: &[FunctionId]) -> Vec<Peers> {
        let mut places: HashMap<UpwardPath, usize> = HashMap::new();
        let mut groups: Vec<Peers> = Vec::new();
        for &id in ids {
            let place = *places.entry(self.path(id)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.members.push(id),
                None => groups.push(Peers { members: vec![id] }),
            }
        }
        groups
    }

    /// The path up from one of the functions in question.
    pub(crate) fn path(&self, id: FunctionId) -> UpwardPath {
        let function = self.fabric.function(id);
        let own = function.acs.redirects().into();
        let joint = |parent| match parent {
            Parent::Bridge(bridge) => Joint::Bridge(bridge),
            Parent::Function(port) => Joint::Function(port),
        };
        let (joint, port) = match function.parent {
            // Others of the functions in question hang from it.
            _ if self.below[id.0] > 1 => (Joint::Itself(id), None),
            Parent::Function(port) if self.below[port.0] == 1 => {
                let port = self.fabric.function(port);
                (joint(port.parent), Some(port.acs.redirects().into()))
            }
            parent => (joint(parent), None),
        };
        UpwardPath { joint, port, own }
    }
}
