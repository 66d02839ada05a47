//! A network in parts that share nothing, each with its identical flows merged.
//!
//! Leaves out solving. Parts do not influence each other, so that they are solved in any order, on
//! any number of threads, with the same result.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::network::{Class, FlowNetwork, NONE, Resource};

/// Connected resources and classes, each numbered from 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NetworkPart {
    /// By class of the part, the first class of the whole in it.
    pub first: Vec<usize>,
    /// By class of the part, the number of flows.
    pub counts: Vec<u32>,
    /// Classes of the whole in order, each with its class of the part.
    pub members: Vec<(usize, usize)>,
    /// By resource of the part, its number in the whole.
    pub resources: Vec<usize>,
}

/// A network in parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parts<'a> {
    /// The whole.
    pub network: &'a FlowNetwork,
    /// The parts, in order of their first class.
    pub parts: Vec<NetworkPart>,
    /// By resource of the whole, its number in its part, or [`NONE`].
    number: Vec<u32>,
}

/// One part, and the whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartView<'a> {
    network: &'a FlowNetwork,
    number: &'a [u32],
    /// The part.
    pub part: &'a NetworkPart,
}

impl<'a> PartView<'a> {
    /// A class of the part, with resources of the whole.
    pub(crate) fn class(self, index: usize) -> &'a Class {
        &self.network.classes[self.part.first[index]]
    }

    /// All classes of the part, in order.
    pub(crate) fn classes(self) -> impl Iterator<Item = &'a Class> + Clone {
        self.part.first.iter().map(move |&whole| &self.network.classes[whole])
    }

    /// The number in the part of a resource of the whole, or [`NONE`].
    pub(crate) fn local(self, resource: u32) -> u32 {
        self.number.get(resource as usize).copied().unwrap_or(NONE)
    }

    /// The resources of the part.
    pub(crate) fn resources(self) -> impl Iterator<Item = Resource> + 'a {
        self.part.resources.iter().map(|&whole| self.network.resources[whole])
    }
}

impl<'a> Parts<'a> {
    /// The whole as one part, with nothing merged.
    pub(crate) fn whole(network: &'a FlowNetwork) -> Self {
        let classes = network.classes.len();
        let part = NetworkPart {
            first: (0..classes).collect(),
            counts: network.classes.iter().map(|class| class.count).collect(),
            members: (0..classes).map(|class| (class, class)).collect(),
            resources: (0..network.resources.len()).collect(),
        };
        Self { network, parts: vec![part], number: (0..).take(network.resources.len()).collect() }
    }

    /// Splits a network, and merges identical classes.
    pub(crate) fn new(network: &'a FlowNetwork) -> Self {
        let mut sets = Sets::new(network);
        let mut part_of_set = vec![NONE; network.resources.len() + 1];
        let mut parts: Vec<NetworkPart> = Vec::new();
        let mut number = vec![NONE; network.resources.len()];
        // Classes of the whole with the same digest, and the class in the part of each.
        let mut known: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
        for (index, class) in network.classes.iter().enumerate() {
            let first = class.resources().next();
            let set = first.map_or(network.resources.len(), |first| sets.find(first as usize));
            if part_of_set[set] == NONE {
                part_of_set[set] = u32::try_from(parts.len()).unwrap_or(NONE);
                parts.push(NetworkPart::default());
            }
            let part = &mut parts[part_of_set[set] as usize];
            let same = known.entry(digest(class)).or_default();
            let met = same.iter().find(|(met, _)| is_alike(&network.classes[*met], class));
            let at = met.map_or(part.first.len(), |&(_, at)| at);
            if at == part.first.len() {
                same.push((index, at));
                part.take(index, class, &mut number);
            }
            part.counts[at] = part.counts[at].saturating_add(class.count);
            part.members.push((index, at));
        }
        Self { network, parts, number }
    }

    /// The view of a part.
    pub(crate) fn view(&'a self, part: &'a NetworkPart) -> PartView<'a> {
        PartView { network: self.network, number: &self.number, part }
    }
}

impl NetworkPart {
    /// Adds a new class.
    fn take(&mut self, index: usize, class: &Class, number: &mut [u32]) {
        class.resources().for_each(|resource| {
            let at = &mut number[resource as usize];
            if *at == NONE {
                *at = u32::try_from(self.resources.len()).unwrap_or(NONE);
                self.resources.push(resource as usize);
            }
        });
        self.first.push(index);
        self.counts.push(0);
    }
}

/// A hash of what flows of a class do, their number left out; equal for equal classes.
fn digest(class: &Class) -> u64 {
    let mut hasher = DefaultHasher::new();
    class.demand.to_bits().hash(&mut hasher);
    for hop in class.legs.iter().flatten() {
        (hop.resource, hop.port, hop.cost.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

/// True if flows of two classes are alike; their number does not count.
fn is_alike(a: &Class, b: &Class) -> bool {
    a.demand == b.demand
        && a.legs == b.legs
        && a.batch == b.batch
        && a.priority == b.priority
        && a.stages == b.stages
}

/// Disjoint sets (Galler, Fischer, 1964) with paths halved.
struct Sets(Vec<usize>);

impl Sets {
    /// Joins the resources of each class.
    fn new(network: &FlowNetwork) -> Self {
        let mut sets = Self((0..network.resources.len()).collect());
        for class in &network.classes {
            let Some(first) = class.resources().next() else { continue };
            let mut set = sets.find(first as usize);
            class.resources().for_each(|resource| set = sets.join(set, resource as usize));
        }
        sets
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// Joins a set with that of a resource; returns the joined set.
    fn join(&mut self, set: usize, resource: usize) -> usize {
        // Most are of one set already.
        if self.0[resource] == set {
            return set;
        }
        let other = self.find(resource);
        // The lower number stays, so that the outcome does not depend on the order.
        let joined = set.min(other);
        self.0[set.max(other)] = joined;
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::network::ResourceVisit;

    fn class(resource: u32, cost: f64, count: u32) -> Class {
        let hop = ResourceVisit { resource, port: NONE, quantum: 1.0, cost };
        Class { count, demand: 1.0, legs: vec![vec![hop]], ..Class::default() }
    }

    #[test]
    fn parts_share_nothing() {
        let classes = vec![
            class(2, 1.0, 1),
            class(0, 1.0, 1),
            class(2, 1.0, 3),
            class(2, 1.5, 1),
            Class { priority: vec![(1, 0.1)], ..class(0, 1.0, 1) },
        ];
        let network = FlowNetwork { resources: vec![Resource::default(); 3], classes };
        let parts = Parts::new(&network);
        let two = NetworkPart {
            first: vec![0, 3],
            counts: vec![4, 1],
            members: vec![(0, 0), (2, 0), (3, 1)],
            resources: vec![2],
        };
        let other = NetworkPart {
            first: vec![1, 4],
            counts: vec![1, 1],
            members: vec![(1, 0), (4, 1)],
            resources: vec![0, 1],
        };
        assert_eq!(parts.parts, [two, other]);
        let view = parts.view(&parts.parts[1]);
        assert_eq!([view.local(0), view.local(1), view.local(NONE)], [0, 1, NONE]);
    }

    #[test]
    fn priority_traffic_joins_parts() {
        let ahead = Class { count: 1, demand: 1.0, priority: vec![(1, 0.1)], ..Class::default() };
        let classes = vec![class(0, 1.0, 1), ahead, class(1, 1.0, 1)];
        let network = FlowNetwork { resources: vec![Resource::default(); 2], classes };
        let parts = Parts::new(&network);
        let first: Vec<&[usize]> = parts.parts.iter().map(|part| part.first.as_slice()).collect();
        assert_eq!(first, [&[0][..], &[1, 2]]);
    }
}
