//! The problem of the solver: resources with a capacity, and flows that load them.
//!
//! A flow has one rate and several *legs*. A leg is a chain of buffers, each of which blocks the ones behind it. Legs of one
//! flow wait for each other without blocking other flows: requests and completions of a read, the two stages of a relay,
//! the medium of the initiator.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

/// No port; see [`ResourceVisit::port`].
pub(crate) const NONE: u32 = u32::MAX;

/// A shared capacity: a direction of a link, a memory, a drive, a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Resource {
    /// Capacity in its own unit a nanosecond (wire bytes, bytes, shares of time).
    pub capacity: f64,
    /// Position in the order of each leg's visits, lowest first.
    pub rank: u32,
}

/// One visit of a leg to a resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ResourceVisit {
    /// The resource.
    pub resource: u32,
    /// The resource visited before, whose buffer the leg stands in. Buffers in front of a resource take turns.
    /// [`NONE`] where each leg has a buffer of its own.
    pub port: u32,
    /// Units of the resource for one turn: arbiters count packets, not bytes.
    pub quantum: f64,
    /// Units of the resource for each byte of payload.
    pub cost: f64,
}

/// A flow on the resources of a network.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NetworkFlow {
    /// Rate on an idle machine, in bytes of payload a nanosecond.
    pub demand: f64,
    /// Chains of visits that share the flow's rate.
    pub legs: Vec<Vec<ResourceVisit>>,
    /// Legs by which tags are taken, each with the legs that are under way meanwhile.
    pub tags: Vec<(usize, Range<usize>)>,
    /// Strict-priority load, such as acknowledgements: resources, and units of them for each byte of payload.
    pub priority: Vec<(u32, f64)>,
}

/// Resources and the flows on them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FlowNetwork {
    /// The resources; visits name them by position.
    pub resources: Vec<Resource>,
    /// The flows.
    pub flows: Vec<NetworkFlow>,
}

/// A capacity, demand or cost that is not positive and finite.
#[derive(Debug, Error, Clone, PartialEq)]
#[error("{what} {index} has {value}, which is not positive and finite")]
pub struct NotPositive {
    what: &'static str,
    index: usize,
    value: f64,
}

/// A part of a network that shares no resource with the rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NetworkPart {
    /// The part, numbered from 0.
    pub network: FlowNetwork,
    /// Its flows and resources, by their numbers in the whole.
    pub flows: Vec<usize>,
    pub resources: Vec<u32>,
}

impl NetworkFlow {
    /// The resources that it loads, those of its priority traffic last.
    fn resources(&self) -> impl Iterator<Item = u32> {
        let visits = self.legs.iter().flatten().map(|visit| visit.resource);
        visits.chain(self.priority.iter().map(|&(resource, _)| resource))
    }
}

impl FlowNetwork {
    /// Checks the preconditions of the solver.
    ///
    /// # Errors
    /// The first number that is not positive and finite.
    pub(crate) fn check(&self) -> Result<(), NotPositive> {
        for (index, resource) in self.resources.iter().enumerate() {
            positive("resource", index, resource.capacity)?;
        }
        for (index, flow) in self.flows.iter().enumerate() {
            positive("flow", index, flow.demand)?;
            for visit in flow.legs.iter().flatten() {
                positive("a visit of flow", index, visit.cost)?;
                positive("a turn of flow", index, visit.quantum)?;
            }
            for &(_, cost) in &flow.priority {
                positive("priority traffic of flow", index, cost)?;
            }
        }
        Ok(())
    }

    /// Load on each resource when the flows have these rates.
    pub(crate) fn load(&self, rates: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.resources.len()];
        for (flow, rate) in self.flows.iter().zip(rates) {
            for visit in flow.legs.iter().flatten() {
                load[visit.resource as usize] += rate * visit.cost;
            }
            for &(resource, cost) in &flow.priority {
                load[resource as usize] += rate * cost;
            }
        }
        load
    }

    /// Splits the network, by disjoint sets of resources (Galler, Fischer, 1964). Rates in one part do not depend on
    /// those in another, so parts are solved in any order and on any number of threads.
    pub(crate) fn parts(&self) -> Vec<NetworkPart> {
        let mut sets: Vec<u32> = (0..).take(self.resources.len()).collect();
        for flow in &self.flows {
            let mut resources = flow.resources();
            let Some(first) = resources.next() else { continue };
            for resource in resources {
                let (one, other) = (root(&mut sets, first), root(&mut sets, resource));
                // The lower number stays, so the outcome does not depend on the order.
                sets[one.max(other) as usize] = one.min(other);
            }
        }
        let mut parts: Vec<NetworkPart> = Vec::new();
        let mut part_of: HashMap<Option<u32>, usize> = HashMap::new();
        let mut numbers = vec![NONE; self.resources.len()];
        for (index, flow) in self.flows.iter().enumerate() {
            let set = flow.resources().next().map(|first| root(&mut sets, first));
            let at = *part_of.entry(set).or_insert(parts.len());
            if at == parts.len() {
                parts.push(NetworkPart::default());
            }
            parts[at].add(index, flow, &self.resources, &mut numbers);
        }
        parts
    }
}

impl NetworkPart {
    /// Adds a flow, and those of its resources that are new.
    fn add(&mut self, index: usize, flow: &NetworkFlow, all: &[Resource], numbers: &mut [u32]) {
        for resource in flow.resources().map(|resource| resource as usize) {
            if numbers[resource] == NONE {
                numbers[resource] = u32::try_from(self.resources.len()).unwrap_or(NONE);
                self.resources.push(u32::try_from(resource).unwrap_or(NONE));
                self.network.resources.push(all[resource]);
            }
        }
        let mut flow = flow.clone();
        let number = |resource: &mut u32| *resource = numbers[*resource as usize];
        for visit in flow.legs.iter_mut().flatten() {
            number(&mut visit.resource);
            if visit.port != NONE {
                number(&mut visit.port);
            }
        }
        flow.priority.iter_mut().for_each(|(resource, _)| number(resource));
        self.network.flows.push(flow);
        self.flows.push(index);
    }
}

/// The lowest resource known to be in the same set, with paths halved.
fn root(sets: &mut [u32], mut at: u32) -> u32 {
    while sets[at as usize] != at {
        sets[at as usize] = sets[sets[at as usize] as usize];
        at = sets[at as usize];
    }
    at
}

fn positive(what: &'static str, index: usize, value: f64) -> Result<(), NotPositive> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(NotPositive { what, index, value }) }
}
