//! Functions in groups, and the kernel's decisions between groups: exact for every pair, in a size that
//! grows with the functions and not with their pairs.
//!
//! The first answer that lists the groups of a memory and of an initiator is theirs. Answers on pairs that
//! meet at a port come before those of the ports above it, and these before those of the root complex. So
//! one answer for all groups of a machine stands behind the few that differ.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peerlane_fabric::{BridgeId, Fabric, FunctionId, Parent};

use crate::decision::{Condition, MapType, Tri, cpu_conditions};
use crate::decisions::{BridgeTrust, Decisions, MatrixCell};
use crate::matrix::{Joint, UpwardPath, UpwardPaths};
use crate::open_fact::GroupNeed;

/// The memories and initiators of a fabric in groups, with the kernel's decisions between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachGroups {
    /// The groups, in the order of their first function.
    pub groups: Vec<ReachGroup>,
    /// The decisions; the first that lists the groups of a pair is the pair's.
    pub answers: Vec<GroupAnswer>,
}

/// Functions with one path up and the same answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachGroup {
    /// Functions with memory, in the order of the fabric.
    pub memories: Vec<FunctionId>,
    /// Functions that move payload, in the order of the fabric.
    pub initiators: Vec<FunctionId>,
}

/// The kernel's decision on the pairs of some groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAnswer {
    /// The answer is about each function and its own memory; any other is about two different functions.
    pub is_itself: bool,
    /// Groups of the memories, by position.
    pub memories: Vec<usize>,
    /// Groups of the initiators, by position.
    pub initiators: Vec<usize>,
    /// The decision.
    pub map: MapType,
    /// Hops; `None` where the kernel refuses, or where bridges on the way are unknown.
    pub distance: Option<u32>,
    /// Functions on the paths of these pairs that redirect to the root complex.
    pub redirecting: BTreeSet<FunctionId>,
    /// Functions on the paths of these pairs with unread ACS registers that decide.
    pub unread: BTreeSet<FunctionId>,
    /// The outcomes of [`MapType::Conditional`]; empty otherwise.
    pub conditions: Vec<Condition>,
    /// The facts that [`MapType::Unknown`] lacks; empty otherwise.
    pub needs: Vec<GroupNeed>,
}

impl ReachGroup {
    /// Functions that have memory and move payload.
    fn both(&self) -> impl Iterator<Item = FunctionId> + '_ {
        let moves = |id: &FunctionId| self.initiators.binary_search(id).is_ok();
        self.memories.iter().copied().filter(moves)
    }

    fn count(&self) -> usize {
        self.memories.len() + self.initiators.len() - self.both().count()
    }
}

impl ReachGroups {
    /// Groups the memories and initiators of a fabric.
    pub fn new(fabric: &Fabric) -> Self {
        let mut is_memory = vec![false; fabric.functions.len()];
        fabric.memories().iter().for_each(|memory| is_memory[memory.function.0] = true);
        let is_end = |id: &FunctionId| is_memory[id.0] || fabric.moves_payload(*id);
        let ends: Vec<FunctionId> = fabric.iter().map(|(id, _)| id).filter(is_end).collect();
        let paths = UpwardPaths::new(fabric, ends.iter().copied());
        let mut numbers: HashMap<UpwardPath, usize> = HashMap::new();
        let (mut groups, mut upward) = (Vec::<ReachGroup>::new(), Vec::new());
        for id in ends {
            let path = paths.path(id);
            let number = *numbers.entry(path).or_insert(groups.len());
            if number == groups.len() {
                groups.push(ReachGroup::default());
                upward.push(path);
            }
            groups[number].memories.extend(is_memory[id.0].then_some(id));
            groups[number].initiators.extend(fabric.moves_payload(id).then_some(id));
        }
        let decisions = Decisions::new(fabric);
        let mut writer =
            AnswerWriter { decisions: &decisions, groups: &groups, answers: Vec::new() };
        writer.on_itself(&upward);
        writer.on_pairs(&upward);
        let answers = writer.answers;
        Self { groups, answers }
    }
}

/// Groups with the same answers towards all others that meet them at a place.
#[derive(Debug, Clone)]
struct Class<K> {
    key: K,
    /// The branch below the place that holds all of them, if one does: they meet each other further down.
    branch: Option<Branch>,
    groups: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// A group of one function.
    Group(usize),
    /// A port on the way.
    Port(FunctionId),
    /// A root bus.
    Bus(BridgeId),
}

/// The facts about the path up to a port that decide there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathKey {
    /// Functions below the port.
    hops: u32,
    /// A function below the port redirects.
    redirect: Tri,
}

/// The facts about the path up to the root complex that decide there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RootKey {
    /// Functions below the root complex.
    hops: u32,
    trust: BridgeTrust,
}

/// The decision on the pairs of two classes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClassAnswer {
    cell: MatrixCell,
    /// A function on the way redirects; `No` for pairs that meet at the root complex.
    redirect: Tri,
    needs: Vec<GroupNeed>,
}

/// Groups of memories and groups of initiators.
type Block = (Vec<usize>, Vec<usize>);

/// Adds groups to those of the same key.
fn add<K: PartialEq>(classes: &mut Vec<Class<K>>, class: Class<K>) {
    match classes.iter_mut().find(|one| one.key == class.key) {
        Some(one) => {
            one.branch = one.branch.filter(|_| one.branch == class.branch);
            one.groups.extend(class.groups);
        }
        None => classes.push(class),
    }
}

/// Builds the answers between groups.
struct AnswerWriter<'a> {
    decisions: &'a Decisions<'a>,
    groups: &'a [ReachGroup],
    answers: Vec<GroupAnswer>,
}

impl AnswerWriter<'_> {
    /// Answers on each function and its own memory.
    fn on_itself(&mut self, upward: &[UpwardPath]) {
        let mut classes: Vec<Class<(Tri, BridgeTrust)>> = Vec::new();
        for (number, (path, group)) in upward.iter().zip(self.groups).enumerate() {
            let Some(id) = group.both().next() else { continue };
            let key = (path.own, self.decisions.trust(self.decisions.bridge(id)));
            add(&mut classes, Class { key, branch: None, groups: vec![number] });
        }
        for Class { key: (redirect, trust), groups, .. } in classes {
            let answer = self.below_root(redirect, trust, 0);
            let own = groups.iter().flat_map(|&number| self.groups[number].both()).collect();
            self.push(true, (groups.clone(), groups), answer, own);
        }
    }

    /// Answers on pairs of different functions, from the leaves to the root complex.
    fn on_pairs(&mut self, upward: &[UpwardPath]) {
        let fabric = self.decisions.fabric;
        let mut at_ports: Vec<Vec<Class<PathKey>>> = vec![Vec::new(); fabric.functions.len()];
        let mut at_buses: Vec<Vec<Class<PathKey>>> = vec![Vec::new(); fabric.bridges.len()];
        for (number, (path, group)) in upward.iter().zip(self.groups).enumerate() {
            let place = match path.joint {
                Joint::Bridge(bridge) => &mut at_buses[bridge.0],
                Joint::Function(id) | Joint::Itself(id) => &mut at_ports[id.0],
            };
            let branch = (group.count() == 1).then_some(Branch::Group(number));
            let key = PathKey { hops: path.hops(), redirect: path.redirects() };
            add(place, Class { key, branch, groups: vec![number] });
        }
        // Parents precede children.
        for index in (0..fabric.functions.len()).rev() {
            let id = FunctionId(index);
            let classes = std::mem::take(&mut at_ports[index]);
            self.at_port(id, &classes);
            let above = match fabric.function(id).parent {
                Parent::Bridge(bridge) => &mut at_buses[bridge.0],
                Parent::Function(port) => &mut at_ports[port.0],
            };
            for Class { key, groups, .. } in classes {
                let redirect = key.redirect.max(self.decisions.redirects(id));
                let key = PathKey { hops: key.hops + 1, redirect };
                add(above, Class { key, branch: Some(Branch::Port(id)), groups });
            }
        }
        self.at_root(at_buses);
    }

    /// Answers on pairs that meet at a port.
    fn at_port(&mut self, port: FunctionId, classes: &[Class<PathKey>]) {
        let own = self.decisions.redirects(port);
        let trust = self.decisions.trust(self.decisions.bridge(port));
        let answer = |one: PathKey, other: PathKey| {
            let redirect = own.max(one.redirect).max(other.redirect);
            self.below_root(redirect, trust, one.hops + other.hops)
        };
        for (block, answer) in self.blocks(classes, answer) {
            let is_plain = answer.redirect == Tri::No;
            let passed = if is_plain { BTreeSet::new() } else { self.passed(&block, port) };
            self.push(false, block, answer, passed);
        }
    }

    /// Answers on pairs that meet at the root complex, and on those of different machines.
    fn at_root(&mut self, at_buses: Vec<Vec<Class<PathKey>>>) {
        let mut machines: BTreeMap<usize, Vec<Class<RootKey>>> = BTreeMap::new();
        for (index, at_bus) in at_buses.into_iter().enumerate().filter(|(_, all)| !all.is_empty()) {
            let trust = self.decisions.trust(BridgeId(index));
            let mut classes = Vec::new();
            for Class { key, branch, groups } in at_bus {
                let key = RootKey { hops: key.hops, trust };
                add(&mut classes, Class { key, branch, groups });
            }
            let within = self.blocks(&classes, |one, other| self.across_root((one, other), true));
            let across = self.blocks(&classes, |one, other| self.across_root((one, other), false));
            // Answers that hold towards other root buses, too, are left to those of the machine.
            let bus = (within != across).then_some(Branch::Bus(BridgeId(index)));
            if bus.is_some() {
                self.push_all(within);
            }
            let machine = machines.entry(trust.machine).or_default();
            classes.into_iter().for_each(|class| {
                add(machine, Class { branch: bus.or(class.branch), ..class });
            });
        }
        for classes in machines.values() {
            self.push_all(self.blocks(classes, |one, other| self.across_root((one, other), false)));
        }
        if machines.len() > 1 {
            let with = |has: fn(&ReachGroup) -> bool| {
                (0..self.groups.len()).filter(|&number| has(&self.groups[number])).collect()
            };
            let cell = MatrixCell { map: MapType::NotSupported, distance: None };
            let answer = ClassAnswer { cell, redirect: Tri::No, needs: Vec::new() };
            self.push_all(vec![((with(has_memories), with(has_initiators)), answer)]);
        }
    }

    /// The decision on functions that meet below the root complex.
    fn below_root(&self, redirect: Tri, trust: BridgeTrust, hops: u32) -> ClassAnswer {
        let cell = self.decisions.below_root(redirect, trust, hops);
        let needs = match (cell.map, redirect) {
            (MapType::Unknown, Tri::Unknown) => vec![GroupNeed::Acs],
            (MapType::Unknown, _) => self.trust_needs(trust.within, trust.within),
            _ => Vec::new(),
        };
        ClassAnswer { cell, redirect, needs }
    }

    /// The decision on functions that meet at the root complex, below one root bus or two.
    fn across_root(&self, (one, other): (RootKey, RootKey), is_one: bool) -> ClassAnswer {
        let trusts = (one.trust, other.trust);
        let cell = self.decisions.across_root(trusts, is_one, one.hops + other.hops);
        let needs = match cell.map {
            MapType::Unknown if trusts.0.is_assumed || trusts.1.is_assumed => needs_of(
                (trusts.0.is_assumed, GroupNeed::MemoryBridges),
                (trusts.1.is_assumed, GroupNeed::InitiatorBridges),
            ),
            MapType::Unknown if is_one => self.trust_needs(trusts.0.within, trusts.1.within),
            MapType::Unknown => self.trust_needs(trusts.0.across, trusts.1.across),
            _ => Vec::new(),
        };
        ClassAnswer { cell, redirect: Tri::No, needs }
    }

    /// The facts about host bridges and CPU that are unknown.
    fn trust_needs(&self, memory: Tri, initiator: Tri) -> Vec<GroupNeed> {
        let mut needs = needs_of(
            (memory == Tri::Unknown, GroupNeed::MemoryHostBridge),
            (initiator == Tri::Unknown, GroupNeed::InitiatorHostBridge),
        );
        needs.extend((self.decisions.cpu == Tri::Unknown).then_some(GroupNeed::Cpu));
        needs
    }

    /// The pairs of classes that meet at a place, equal answers put together.
    fn blocks<K: Copy>(
        &self,
        classes: &[Class<K>],
        answer: impl Fn(K, K) -> ClassAnswer,
    ) -> Vec<(Block, ClassAnswer)> {
        let with = |has: fn(&ReachGroup) -> bool| -> Vec<Vec<usize>> {
            let of = |class: &Class<K>| {
                class.groups.iter().copied().filter(|&number| has(&self.groups[number])).collect()
            };
            classes.iter().map(of).collect()
        };
        let (memories, initiators) = (with(has_memories), with(has_initiators));
        let numbers = |all: &[Vec<usize>]| -> Vec<usize> {
            (0..all.len()).filter(|&number| !all[number].is_empty()).collect()
        };
        let columns = numbers(&initiators);
        let mut found: Vec<(Block, ClassAnswer)> = Vec::new();
        for row in numbers(&memories) {
            let mut by_answer: Vec<(Vec<usize>, ClassAnswer)> = Vec::new();
            for &column in &columns {
                let (one, other) = (&classes[row], &classes[column]);
                if one.branch.is_some() && one.branch == other.branch {
                    continue;
                }
                let answer = answer(one.key, other.key);
                match by_answer.iter_mut().find(|(_, known)| *known == answer) {
                    Some((columns, _)) => columns.push(column),
                    None => by_answer.push((vec![column], answer)),
                }
            }
            for (columns, answer) in by_answer {
                let is_equal = |(block, known): &&mut (Block, ClassAnswer)| {
                    block.1 == columns && *known == answer
                };
                match found.iter_mut().find(is_equal) {
                    Some((block, _)) => block.0.push(row),
                    None => found.push(((vec![row], columns), answer)),
                }
            }
        }
        let groups = |all: &[Vec<usize>], numbers: Vec<usize>| {
            let mut groups: Vec<usize> =
                numbers.into_iter().flat_map(|number| all[number].iter().copied()).collect();
            groups.sort_unstable();
            groups
        };
        found
            .into_iter()
            .map(|((rows, columns), answer)| {
                ((groups(&memories, rows), groups(&initiators, columns)), answer)
            })
            .collect()
    }

    /// Functions on the paths of a block's pairs up to the port where they meet.
    fn passed(&self, (memories, initiators): &Block, port: FunctionId) -> BTreeSet<FunctionId> {
        let memories = memories.iter().flat_map(|&number| &self.groups[number].memories);
        let initiators = initiators.iter().flat_map(|&number| &self.groups[number].initiators);
        let below = |&id| self.decisions.fabric.upward(id).take_while(|&above| above != port);
        memories.chain(initiators).flat_map(below).chain([port]).collect()
    }

    fn push_all(&mut self, blocks: Vec<(Block, ClassAnswer)>) {
        for (block, answer) in blocks {
            self.push(false, block, answer, BTreeSet::new());
        }
    }

    /// Adds an answer; `passed`: the functions on its paths.
    fn push(
        &mut self,
        is_itself: bool,
        (memories, initiators): Block,
        ClassAnswer { cell, redirect, needs }: ClassAnswer,
        passed: BTreeSet<FunctionId>,
    ) {
        let which = |wanted: Tri| -> BTreeSet<FunctionId> {
            let is_one = |id: &FunctionId| self.decisions.redirects(*id) == wanted;
            passed.iter().copied().filter(|id| redirect == wanted && is_one(id)).collect()
        };
        let is_conditional = cell.map == MapType::Conditional;
        self.answers.push(GroupAnswer {
            is_itself,
            memories,
            initiators,
            map: cell.map,
            distance: cell.distance,
            redirecting: which(Tri::Yes),
            unread: which(Tri::Unknown),
            conditions: if is_conditional { cpu_conditions() } else { Vec::new() },
            needs,
        });
    }
}

fn has_memories(group: &ReachGroup) -> bool {
    !group.memories.is_empty()
}

fn has_initiators(group: &ReachGroup) -> bool {
    !group.initiators.is_empty()
}

/// The needs of two ends that hold.
fn needs_of(memory: (bool, GroupNeed), initiator: (bool, GroupNeed)) -> Vec<GroupNeed> {
    [memory, initiator].into_iter().filter(|(holds, _)| *holds).map(|(_, need)| need).collect()
}
