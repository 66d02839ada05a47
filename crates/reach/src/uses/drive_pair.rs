//! Two drives that exchange payload through memory of a third, or of one of them.

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, Origin};

use super::{JudgedPairs, PairGroup, Use, UseLeg};
use crate::{Decisions, Peers, Reach, RouteState, kernel_refusal};

/// Memory that a copy between two drives takes without being told: published pools of the kernel.
pub(super) struct Lenders<'a> {
    fabric: &'a Fabric,
    ids: Vec<FunctionId>,
    has_memories: bool,
}

impl<'a> Lenders<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let lends =
            |(_, one): &(FunctionId, &Function)| one.p2pmem.is_some_and(|pool| pool.published);
        let ids = fabric.iter().filter(lends).map(|(id, _)| id).collect();
        Self { fabric, ids, has_memories: !fabric.memories().is_empty() }
    }

    pub(super) fn all(&self) -> &[FunctionId] {
        &self.ids
    }

    /// The reason why there is no memory.
    fn absence(&self) -> (RouteState, String) {
        if self.fabric.origin == Origin::Text {
            let reason = "the text does not show which drives lend memory: `sudo peerlane capture -o \
                          machine.tar.zst`";
            return (RouteState::Unknown, reason.to_owned());
        }
        let has_buffer = |one: &&Function| one.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some());
        let drives = self.fabric.functions.iter().filter(|one| one.kind == FunctionKind::Nvme);
        let reason = match drives.into_iter().find(has_buffer) {
            Some(drive) => format!("{} has a memory buffer (CMB) that no peer gets", drive.name),
            None if !self.has_memories => "no drive here lends memory (CMB)".to_owned(),
            None => "no drive here lends memory (CMB); a copy takes that of a GPU or card where \
                     `--via` names it"
                .to_owned(),
        };
        (RouteState::Host, reason)
    }
}

/// Judges pairs of drives: the best memory that both reach counts.
pub(super) fn judge(
    fabric: &Fabric,
    decisions: &Decisions<'_>,
    lenders: &Lenders<'_>,
    group: PairGroup,
) -> JudgedPairs {
    let answer = |group, state, fact, legs| JudgedPairs {
        of_use: Use::DriveToDrive,
        group,
        state,
        facts: vec![fact],
        legs,
    };
    if let Some(refusal) = kernel_refusal(&fabric.kernel).filter(|_| !lenders.ids.is_empty()) {
        return answer(group, RouteState::Host, refusal, Vec::new());
    }
    let pair = group.example();
    let through = |&memory: &FunctionId| Through::new(decisions, memory, pair);
    let Some(best) = lenders.ids.iter().map(through).min_by_key(Through::rank) else {
        let (state, fact) = lenders.absence();
        return answer(group, state, fact, Vec::new());
    };
    let fact = format!("{}: {}", fabric.device_word(best.memory), best.worse().summary());
    let state = best.state();
    let legs = best.legs(decisions, &group);
    answer(group, state, fact, legs)
}

/// A memory between two drives.
struct Through {
    memory: FunctionId,
    reaches: [Reach; 2],
}

impl Through {
    fn new(decisions: &Decisions<'_>, memory: FunctionId, pair: (FunctionId, FunctionId)) -> Self {
        let reaches = [pair.0, pair.1].map(|drive| decisions.decide(memory, drive));
        Self { memory, reaches }
    }

    fn worse(&self) -> &Reach {
        let [one, other] = &self.reaches;
        if rank(one) >= rank(other) { one } else { other }
    }

    fn state(&self) -> RouteState {
        self.worse().map.into()
    }

    fn rank(&self) -> (RouteState, bool, u32) {
        let distance = self.reaches.iter().filter_map(|reach| reach.distance).sum();
        let (state, is_worse, _) = rank(self.worse());
        (state, is_worse, distance)
    }

    fn legs(self, decisions: &Decisions<'_>, group: &PairGroup) -> Vec<UseLeg> {
        let memory = Peers { members: vec![self.memory] };
        let sides = [group.providers().collect(), group.initiators().collect()];
        let ports = sides.map(|members| decisions.redirecting(&memory, &Peers { members }));
        let both = self.reaches.into_iter().zip(ports);
        both.map(|(kernel, ports)| UseLeg { kernel, redirecting: ports.into_iter().collect() })
            .collect()
    }
}

/// The order of decisions, the best first; of two equal ones the farther is the worse.
///
/// A redirected route is worse than a direct one, and a refused one that a parameter fixes is better than
/// one that nothing fixes.
fn rank(reach: &Reach) -> (RouteState, bool, Option<u32>) {
    let state = RouteState::from(reach.map);
    let is_redirected = !reach.redirecting.is_empty();
    let is_worse = if state == RouteState::Host { !is_redirected } else { is_redirected };
    (state, is_worse, reach.distance)
}
