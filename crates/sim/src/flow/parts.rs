//! A network in parts that share nothing, each with its identical flows merged.
//!
//! Leaves out solving. The one thing to know: what happens in one part changes nothing in another, so
//! that parts are solved on their own, in any order, on any number of threads, with the same result.

use std::collections::HashMap;

use super::network::{Class, NONE, Network};

/// Resources and classes that are connected, as a network of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// The part, numbered from 0.
    pub network: Network,
    /// For each class of the part, the classes of the whole that were merged into it.
    pub classes: Vec<Vec<usize>>,
    /// For each resource of the part, its number in the whole.
    pub resources: Vec<usize>,
}

/// Splits a network into parts, in order of their first class.
pub fn split(network: &Network) -> Vec<Part> {
    let mut sets = Sets::new(network.resources.len());
    for class in &network.classes {
        let ahead = class.ahead.iter().map(|&(resource, _)| resource as usize);
        let hops = class.legs.iter().flatten().map(|hop| hop.resource as usize);
        let mut resources = hops.chain(ahead);
        let Some(first) = resources.next() else { continue };
        resources.for_each(|resource| sets.join(first, resource));
    }
    let mut part_of_set = HashMap::new();
    let mut builders: Vec<Builder> = Vec::new();
    // Where a resource went in its part.
    let mut number = vec![NONE; network.resources.len()];
    for (index, class) in network.classes.iter().enumerate() {
        let first = class.legs.iter().flatten().next();
        let set = first.map_or(usize::MAX, |hop| sets.find(hop.resource as usize));
        let part = *part_of_set.entry(set).or_insert_with(|| {
            builders.push(Builder::default());
            builders.len() - 1
        });
        builders[part].take(network, index, class, &mut number);
    }
    builders.into_iter().map(|builder| builder.part).collect()
}

#[derive(Default)]
struct Builder {
    part: Part,
    /// Classes of the part by what they do.
    known: HashMap<Vec<u64>, usize>,
    key: Vec<u64>,
}

impl Builder {
    fn take(&mut self, network: &Network, index: usize, class: &Class, number: &mut [u32]) {
        let mut class = class.clone();
        for hop in class.legs.iter_mut().flatten() {
            hop.resource = self.resource(network, hop.resource, number);
            if hop.port != NONE {
                hop.port = self.resource(network, hop.port, number);
            }
        }
        for (resource, _) in &mut class.ahead {
            *resource = self.resource(network, *resource, number);
        }
        let classes = &mut self.part.network.classes;
        write_key(&class, &mut self.key);
        let at = match self.known.get(&self.key) {
            Some(&at) => at,
            None => {
                self.known.insert(self.key.clone(), classes.len());
                self.part.classes.push(Vec::new());
                classes.push(Class { count: 0, ..class });
                classes.len() - 1
            }
        };
        classes[at].count = classes[at].count.saturating_add(network.classes[index].count);
        self.part.classes[at].push(index);
    }

    fn resource(&mut self, network: &Network, resource: u32, number: &mut [u32]) -> u32 {
        let at = &mut number[resource as usize];
        if *at == NONE {
            *at = u32::try_from(self.part.resources.len()).unwrap_or(NONE);
            self.part.resources.push(resource as usize);
            self.part.network.resources.push(network.resources[resource as usize]);
        }
        *at
    }
}

/// Writes what makes classes the same, as numbers that can be compared and hashed.
fn write_key(class: &Class, key: &mut Vec<u64>) {
    key.clear();
    key.push(class.demand.to_bits());
    for (position, leg) in class.legs.iter().enumerate() {
        key.push(u64::MAX - u64::from(position == class.second));
        for hop in leg {
            key.push(u64::from(hop.resource) << 32 | u64::from(hop.port));
            key.extend([hop.turn.to_bits(), hop.cost.to_bits()]);
        }
    }
    for &(resource, cost) in &class.ahead {
        key.extend([u64::from(resource), cost.to_bits()]);
    }
}

/// Disjoint sets (Galler, Fischer, 1964) with paths halved.
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        // The lower number stays, so that the outcome does not depend on the order.
        self.0[a.max(b)] = a.min(b);
    }
}
