//! The problem of the solver: resources with a capacity, and flows that load them.
//!
//! Leaves out the machine that resources stand for. A flow has one rate and several *legs*. A leg
//! is a chain of buffers, each of which blocks the ones behind it; legs of one flow wait for each
//! other without blocking anybody (requests and completions of a read, the two stages of a relay,
//! the medium of the initiator).

use thiserror::Error;

/// No port; see [`ResourceVisit::port`].
pub(crate) const NONE: u32 = u32::MAX;

/// A shared capacity: a direction of a link, a memory, a drive, a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resource {
    /// Capacity in its own unit a nanosecond (wire bytes, bytes, shares of time).
    pub capacity: f64,
    /// Position in the order of each leg's visits, lowest first.
    pub rank: u32,
    /// True for a pool, such as the tags of an initiator: a flow holds its share until all legs of the stage have passed.
    pub is_pool: bool,
    /// True for a sender of packets, at which some wait even below saturation.
    pub is_sender: bool,
    /// Capacity of the buffer behind it, in its own unit; infinite where nothing bounds that.
    pub holds: f64,
    /// Time that an undelayed packet occupies that buffer, in nanoseconds.
    pub passing: f64,
}

/// One visit of a leg to a resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceVisit {
    /// The resource.
    pub resource: u32,
    /// The resource visited before, whose buffer the leg stands in. Buffers in front of a resource take turns, and one
    /// that wants more than its turns fills up. [`NONE`] where each flow has a buffer of its own.
    pub port: u32,
    /// Units of the resource for one turn: arbiters count packets, not bytes.
    pub quantum: f64,
    /// Units of the resource for each byte of payload.
    pub cost: f64,
}

/// Identical flows: same legs, same demand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Class {
    /// Number of flows.
    pub count: u32,
    /// Rate of each on an idle machine, in bytes of payload a nanosecond.
    pub demand: f64,
    /// Chains of hops that share the flow's rate.
    pub legs: Vec<Vec<ResourceVisit>>,
    /// Back-to-back packets by leg: the completions of one request; of a pool, its tags. 1 where it ends before the legs
    /// do.
    pub batch: Vec<f64>,
    /// Position of the first leg of each stage; without any, all legs are of one.
    pub stages: Vec<usize>,
    /// Strict-priority load, such as acknowledgements: resources, and units of them for each byte of payload.
    pub priority: Vec<(u32, f64)>,
}

/// Resources and the classes of flows on them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowNetwork {
    /// The resources; hops name them by position.
    pub resources: Vec<Resource>,
    /// The classes.
    pub classes: Vec<Class>,
}

/// The reason why a network has no solution.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum NetworkError {
    /// A capacity, demand or cost that is not positive and finite.
    #[error("{what} {index} has {value}, which is not positive and finite")]
    NotPositive {
        /// The kind of item that has it.
        what: &'static str,
        /// Index of the item.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A hop that names a resource which is not there.
    #[error("class {class} visits resource {resource} of {count}")]
    NoSuchResource {
        /// The class.
        class: usize,
        /// The resource that it names.
        resource: u32,
        /// Number of resources.
        count: usize,
    },
    /// A leg that visits resources out of order, or arrives by one that it did not visit.
    #[error("a leg of class {class} visits resource {resource} out of order")]
    OutOfOrder {
        /// The class.
        class: usize,
        /// The resource at which the order breaks.
        resource: u32,
    },
}

impl Default for Resource {
    fn default() -> Self {
        Self {
            capacity: 1.0,
            rank: 0,
            is_pool: false,
            is_sender: false,
            holds: f64::INFINITY,
            passing: 0.0,
        }
    }
}

impl Class {
    /// Adds a leg whose packets come back to back, so many at a time.
    pub fn add(&mut self, leg: Vec<ResourceVisit>, batch: f64) {
        self.batch.resize(self.legs.len(), 1.0);
        self.batch.push(batch);
        self.legs.push(leg);
    }

    /// The resources that it loads, leg by leg, those of its priority traffic last.
    pub fn resources(&self) -> impl Iterator<Item = u32> {
        let hops = self.legs.iter().flatten().map(|hop| hop.resource);
        hops.chain(self.priority.iter().map(|&(resource, _)| resource))
    }
}

impl FlowNetwork {
    /// Checks the preconditions of the solver.
    ///
    /// # Errors
    /// Values that are not positive and finite, resources that are not there, legs out of order.
    pub fn check(&self) -> Result<(), NetworkError> {
        for (index, resource) in self.resources.iter().enumerate() {
            positive("resource", index, resource.capacity)?;
        }
        for (index, class) in self.classes.iter().enumerate() {
            positive("class", index, class.demand)?;
            for leg in &class.legs {
                self.check_leg(index, leg)?;
            }
            for &(resource, cost) in &class.priority {
                positive("priority traffic of class", index, cost)?;
                self.check_resource(index, resource)?;
            }
        }
        Ok(())
    }

    fn check_leg(&self, class: usize, leg: &[ResourceVisit]) -> Result<(), NetworkError> {
        let mut least = 0;
        for (position, &ResourceVisit { resource, port, quantum, cost }) in leg.iter().enumerate() {
            positive("a hop of class", class, cost)?;
            positive("a quantum of class", class, quantum)?;
            self.check_resource(class, resource)?;
            let rank = u64::from(self.resources[resource as usize].rank);
            // Mostly the one before.
            let is_before = || leg[..position].iter().rev().any(|hop| hop.resource == port);
            if rank < least || port != NONE && !is_before() {
                return Err(NetworkError::OutOfOrder { class, resource });
            }
            least = rank + 1;
        }
        Ok(())
    }

    #[inline]
    fn check_resource(&self, class: usize, resource: u32) -> Result<(), NetworkError> {
        let count = self.resources.len();
        if (resource as usize) < count {
            Ok(())
        } else {
            Err(NetworkError::NoSuchResource { class, resource, count })
        }
    }

    /// Load of all flows on each resource when each class has this rate a flow.
    pub fn load(&self, rates: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.resources.len()];
        for (class, rate) in self.classes.iter().zip(rates) {
            for hop in class.legs.iter().flatten() {
                load[hop.resource as usize] += rate * hop.cost * f64::from(class.count);
            }
            for &(resource, cost) in &class.priority {
                load[resource as usize] += rate * cost * f64::from(class.count);
            }
        }
        load
    }
}

#[inline]
fn positive(what: &'static str, index: usize, value: f64) -> Result<(), NetworkError> {
    // Numbers above nothing and below infinity are those whose bits are.
    if value.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits() - 1 {
        Ok(())
    } else {
        Err(NetworkError::NotPositive { what, index, value })
    }
}
