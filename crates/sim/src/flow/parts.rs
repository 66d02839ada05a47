//! A network in parts that share nothing, each with its identical flows merged.
//!
//! Leaves out solving. The one thing to know: what happens in one part changes nothing in another, so
//! that parts are solved on their own, in any order, on any number of threads, with the same result.

use super::network::{Class, NONE, Network, Resource};

/// Resources and classes that are connected, each numbered from 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// For each class of the part, the first class of the whole that was merged into it.
    pub first: Vec<usize>,
    /// How many flows those have together.
    pub counts: Vec<u32>,
    /// The classes of the whole in their order, each with the class of the part that it was merged into.
    pub members: Vec<(usize, usize)>,
    /// For each resource of the part, its number in the whole.
    pub resources: Vec<usize>,
}

/// A network in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts<'a> {
    /// The whole.
    pub network: &'a Network,
    /// The parts, in order of their first class.
    pub parts: Vec<Part>,
    /// For each resource of the whole that a flow visits, its number in its part.
    number: Vec<u32>,
}

/// One of the parts, with what it is a part of.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    network: &'a Network,
    number: &'a [u32],
    /// The part.
    pub part: &'a Part,
}

impl<'a> View<'a> {
    /// A class of the part; the resources that it names are those of the whole.
    pub fn class(self, index: usize) -> &'a Class {
        &self.network.classes[self.part.first[index]]
    }

    /// All of those, in order.
    pub fn classes(self) -> impl Iterator<Item = &'a Class> + Clone {
        self.part.first.iter().map(move |&whole| &self.network.classes[whole])
    }

    /// The number in the part of a resource of the whole, which may be [`NONE`].
    pub fn local(self, resource: u32) -> u32 {
        self.number.get(resource as usize).copied().unwrap_or(NONE)
    }

    /// The resources of the part.
    pub fn resources(self) -> impl Iterator<Item = Resource> + 'a {
        self.part.resources.iter().map(|&whole| self.network.resources[whole])
    }
}

impl<'a> Parts<'a> {
    /// A network as its only part, with nothing merged.
    pub fn whole(network: &'a Network) -> Self {
        let classes = network.classes.len();
        let part = Part {
            first: (0..classes).collect(),
            counts: network.classes.iter().map(|class| class.count).collect(),
            members: (0..classes).map(|class| (class, class)).collect(),
            resources: (0..network.resources.len()).collect(),
        };
        Self { network, parts: vec![part], number: (0..).take(network.resources.len()).collect() }
    }

    /// Splits a network into as many parts as there are, and merges identical classes.
    pub fn of(network: &'a Network) -> Self {
        let mut sets = Sets::of(network);
        let mut part_of_set = vec![NONE; network.resources.len() + 1];
        let mut parts: Vec<Part> = Vec::new();
        let mut number = vec![NONE; network.resources.len()];
        let mut known = Known::new(network);
        for (index, class) in network.classes.iter().enumerate() {
            let first = class.resources().next();
            let set = first.map_or(network.resources.len(), |first| sets.find(first as usize));
            if part_of_set[set] == NONE {
                part_of_set[set] = u32::try_from(parts.len()).unwrap_or(NONE);
                // Mostly the first is all of it.
                parts.push(if parts.is_empty() { Part::for_all(network) } else { Part::default() });
            }
            let part = &mut parts[part_of_set[set] as usize];
            let at = known.class(index, part.first.len());
            if at == part.first.len() {
                part.take(index, class, &mut number);
            }
            part.counts[at] = part.counts[at].saturating_add(class.count);
            part.members.push((index, at));
        }
        Self { network, parts, number }
    }

    /// A part with what it is a part of.
    pub fn view(&'a self, part: &'a Part) -> View<'a> {
        View { network: self.network, number: &self.number, part }
    }
}

impl Part {
    /// Nothing so far, with room for a whole network.
    fn for_all(network: &Network) -> Self {
        let classes = network.classes.len();
        Self {
            first: Vec::with_capacity(classes),
            counts: Vec::with_capacity(classes),
            members: Vec::with_capacity(classes),
            resources: Vec::with_capacity(network.resources.len()),
        }
    }

    /// Adds a class that is like none before.
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

/// Classes that were met, by what they do: a table with open addresses, since it is read once for
/// each flow.
struct Known<'a> {
    network: &'a Network,
    slots: Vec<u32>,
    /// For each class of the whole, its class in its part.
    class: Vec<usize>,
}

impl<'a> Known<'a> {
    fn new(network: &'a Network) -> Self {
        let classes = network.classes.len();
        let slots = vec![NONE; (2 * classes).next_power_of_two()];
        Self { network, slots, class: vec![0; classes] }
    }

    /// The class in its part of one that does the same, or else the one that is offered.
    fn class(&mut self, index: usize, offered: usize) -> usize {
        let class = &self.network.classes[index];
        let mask = self.slots.len() - 1;
        let mut slot = usize::try_from(digest(class)).unwrap_or(0) & mask;
        loop {
            match self.slots[slot] {
                NONE => {
                    self.slots[slot] = u32::try_from(index).unwrap_or(NONE);
                    self.class[index] = offered;
                    return offered;
                }
                met if is_same(&self.network.classes[met as usize], class) => {
                    return self.class[met as usize];
                }
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

/// Whether flows of two classes do the same; how many there are does not count.
fn is_same(a: &Class, b: &Class) -> bool {
    a.demand == b.demand
        && a.second == b.second
        && a.legs == b.legs
        && a.batch == b.batch
        && a.priority == b.priority
}

/// A number that two classes hardly share unless they do the same.
fn digest(class: &Class) -> u64 {
    // Multiplication spreads to higher bits only, so that those come back down (Knuth, volume 3, 6.4).
    let mix = |sum: u64, value: u64| {
        let product = (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    };
    let mut sum = mix(0, class.demand.to_bits());
    // Ports and turns hardly differ where resources and costs do not.
    class.legs.iter().flatten().for_each(|hop| {
        sum = mix(sum, hop.cost.to_bits() ^ u64::from(hop.resource));
    });
    sum
}

/// Disjoint sets (Galler, Fischer, 1964) with paths halved.
struct Sets(Vec<usize>);

impl Sets {
    /// Resources that a class visits are of one set.
    fn of(network: &Network) -> Self {
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

    /// Joins a set with that of a resource, and says which they are then.
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
    use crate::flow::network::Hop;

    fn class(resource: u32, cost: f64, count: u32) -> Class {
        let hop = Hop { resource, port: NONE, quantum: 1.0, cost };
        Class { count, demand: 1.0, legs: vec![vec![hop]], ..Class::default() }
    }

    #[test]
    fn what_shares_nothing_is_apart_and_what_does_the_same_is_one() {
        let classes = vec![
            class(2, 1.0, 1),
            class(0, 1.0, 1),
            class(2, 1.0, 3),
            class(2, 1.5, 1),
            Class { priority: vec![(1, 0.1)], ..class(0, 1.0, 1) },
        ];
        let network = Network { resources: vec![Resource::default(); 3], classes };
        let parts = Parts::of(&network);
        let two = Part {
            first: vec![0, 3],
            counts: vec![4, 1],
            members: vec![(0, 0), (2, 0), (3, 1)],
            resources: vec![2],
        };
        let other = Part {
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
    fn what_only_goes_ahead_is_of_the_part_in_which_it_does() {
        let ahead = Class { count: 1, demand: 1.0, priority: vec![(1, 0.1)], ..Class::default() };
        let classes = vec![class(0, 1.0, 1), ahead, class(1, 1.0, 1)];
        let network = Network { resources: vec![Resource::default(); 2], classes };
        let parts = Parts::of(&network);
        let first: Vec<&[usize]> = parts.parts.iter().map(|part| part.first.as_slice()).collect();
        assert_eq!(first, [&[0][..], &[1, 2]]);
    }
}
