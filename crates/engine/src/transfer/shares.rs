//! Shares of what several copies use together: a rate, links, drives.
//!
//! A copy asks before each part. On a link or drive that it shares, as much may be in flight for all as
//! the largest of them would have alone; each has an equal part of that for itself, and what others do
//! not ask for goes to whoever is furthest behind. A link that serves what is in flight in turn thus
//! gives equal rates, and a copy that is slow by itself holds no more than its part. Under a common rate
//! the copies take turns by bytes begun (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996), so
//! that two that always want more never differ by more than a part of each.
//!
//! Nobody is told when a turn comes; a copy that was refused asks again after `RETRY`, and one that
//! has not asked for `FORGOTTEN` does not hold others up. `ShareQueue` is told the time and does
//! the same for the same calls; [`Arbiter`] is a lock around it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peerlane_results::{EndpointFacts, Plan};
use peerlane_units::{ByteRate, Nanos};

use crate::transfer::relay::Pace;

/// Time after which a copy that was refused asks again.
const RETRY: Nanos = Nanos(200_000);
/// Time after which a copy that asked and did not ask again is taken to want nothing.
const FORGOTTEN: Nanos = Nanos(50_000_000);

/// Use of shared resources by one copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Drives and links, by name.
    pub resources: Vec<String>,
    /// Bytes that it has in flight when nobody is in its way.
    pub window: u64,
    /// Bytes of its largest part.
    pub part: u64,
}

impl Demand {
    /// Returns the demand of a copy by this plan: both drives and every link of known speed on the
    /// way.
    pub(crate) fn from_plan(plan: &Plan) -> Self {
        let drive = |end: &EndpointFacts| end.address.clone().or_else(|| end.device.clone());
        let drives = [&plan.source, &plan.target].into_iter().filter_map(drive);
        let links = plan.limits.iter().map(|limit| limit.object.clone());
        let mut resources: Vec<String> = drives.chain(links).collect();
        resources.sort();
        resources.dedup();
        let (window, part) = plan.shape.as_ref().map_or((0, 0), |shape| {
            (shape.request.0.saturating_mul(shape.slots.into()), shape.request.0)
        });
        Self { resources, window, part }
    }

    /// The same for several plans that are carried out as one copy.
    pub fn of_all(plans: &[Plan]) -> Self {
        let mut all = Self { resources: Vec::new(), window: 0, part: 0 };
        for one in plans.iter().map(Self::from_plan) {
            all.resources.extend(one.resources);
            all.window = all.window.max(one.window);
            all.part = all.part.max(one.part);
        }
        all.resources.sort();
        all.resources.dedup();
        all
    }
}

/// Scheduler of the parts of copies that share drives, links or a rate.
#[derive(Debug)]
pub(crate) struct ShareQueue {
    pace: Option<Pace>,
    /// The furthest start tag of a part that began.
    virtual_time: u64,
    flows: BTreeMap<u64, ShareFlow>,
    next: u64,
}

#[derive(Debug)]
struct ShareFlow {
    demand: Demand,
    in_flight: u64,
    /// Bytes begun, as far as they count against others: the finish tag of its last part.
    finish: u64,
    /// Start tag of the part that it asks for.
    start: Option<u64>,
    /// Time of the last refusal.
    refused: Option<Nanos>,
}

impl ShareFlow {
    /// The start tag of its next part: what it did not ask for is not owed to it beyond a window.
    fn fresh_start(&self, virtual_time: u64) -> u64 {
        self.finish.max(virtual_time.saturating_sub(self.demand.window))
    }

    fn is_waiting(&self, now: Nanos) -> bool {
        self.refused.is_some_and(|at| now.since(at) < FORGOTTEN)
    }
}

impl ShareQueue {
    /// A queue whose copies move no more than `limit` together.
    pub(crate) fn new(limit: Option<ByteRate>) -> Self {
        Self { pace: limit.map(Pace::new), virtual_time: 0, flows: BTreeMap::new(), next: 0 }
    }

    /// Takes a copy in; the number is its own until it leaves.
    pub(crate) fn join(&mut self, demand: Demand) -> u64 {
        let number = self.next;
        self.next += 1;
        let finish = self.virtual_time;
        let flow = ShareFlow { demand, in_flight: 0, finish, start: None, refused: None };
        self.flows.insert(number, flow);
        number
    }

    /// Forgets a copy and what it had in flight.
    pub(crate) fn leave(&mut self, number: u64) {
        self.flows.remove(&number);
    }

    /// True when a copy may begin a part now; if not, it is taken to want one.
    pub(crate) fn may_begin(&mut self, number: u64, now: Nanos) -> bool {
        let virtual_time = self.virtual_time;
        let Some(flow) = self.flows.get_mut(&number) else { return true };
        let fresh = flow.fresh_start(virtual_time);
        let start = *flow.start.get_or_insert(fresh);
        let may = self.has_room(number, now) && self.is_in_time(number, start, now);
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.refused = (!may).then_some(now);
        }
        may
    }

    /// True when there is room for a part on all that the copy shares.
    fn has_room(&self, number: u64, now: Nanos) -> bool {
        let flow = &self.flows[&number];
        flow.demand.resources.iter().all(|resource| {
            let users =
                || self.flows.iter().filter(|(_, one)| one.demand.resources.contains(resource));
            let count = users().count() as u64;
            if count < 2 {
                return true;
            }
            let room = users().map(|(_, one)| one.demand.window).max().unwrap_or(0);
            if flow.in_flight == 0 || flow.in_flight + flow.demand.part <= room / count {
                return true;
            }
            let used: u64 = users().map(|(_, one)| one.in_flight).sum();
            let tag = (flow.start, number);
            let is_behind = |other: u64, one: &ShareFlow| {
                other != number && one.is_waiting(now) && (one.start, other) < tag
            };
            used + flow.demand.part <= room && !users().any(|(other, one)| is_behind(*other, one))
        })
    }

    /// True when the common rate allows it, and no other copy is before this one.
    fn is_in_time(&self, number: u64, start: u64, now: Nanos) -> bool {
        let Some(pace) = &self.pace else { return true };
        let is_before = |other: u64, one: &ShareFlow| {
            let tag = one.start.map(|start| (start, other));
            let waits = other != number && one.is_waiting(now) && self.has_room(other, now);
            waits && tag.is_some_and(|tag| tag < (start, number))
        };
        pace.wait(now) == Nanos(0) && !self.flows.iter().any(|(other, one)| is_before(*other, one))
    }

    /// Counts a part that begins.
    pub(crate) fn begin(&mut self, number: u64, bytes: u64, now: Nanos) {
        if let Some(pace) = &mut self.pace {
            pace.begin(bytes, now);
        }
        let virtual_time = self.virtual_time;
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let fresh = flow.fresh_start(virtual_time);
        let start = flow.start.take().unwrap_or(fresh);
        flow.finish = start.saturating_add(bytes);
        flow.in_flight = flow.in_flight.saturating_add(bytes);
        flow.refused = None;
        self.virtual_time = virtual_time.max(start);
    }

    /// Counts a part that is over, however it ended.
    pub(crate) fn end(&mut self, number: u64, bytes: u64) {
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.in_flight = flow.in_flight.saturating_sub(bytes);
        }
    }
}

/// A queue for copies that run at the same time.
#[derive(Debug)]
pub struct Arbiter(Mutex<ShareQueue>);

impl Arbiter {
    /// An arbiter whose copies move no more than `limit` together.
    pub fn new(limit: Option<ByteRate>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ShareQueue::new(limit))))
    }

    /// Takes a copy in; it is forgotten when its share is dropped.
    pub fn join(self: &Arc<Self>, demand: Demand) -> Share {
        let number = self.queue().join(demand);
        Share { arbiter: Arc::clone(self), number }
    }

    /// Every call leaves the queue whole, so that a panic of another thread does no harm.
    fn queue(&self) -> MutexGuard<'_, ShareQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One copy's place with an arbiter.
#[derive(Debug)]
pub struct Share {
    arbiter: Arc<Arbiter>,
    number: u64,
}

impl Share {
    /// Time after which to ask again; zero when a part may begin now.
    pub fn wait(&self, now: Nanos) -> Nanos {
        if self.arbiter.queue().may_begin(self.number, now) { Nanos(0) } else { RETRY }
    }

    /// Counts a part that begins.
    pub fn begin(&self, bytes: u64, now: Nanos) {
        self.arbiter.queue().begin(self.number, bytes, now);
    }

    /// Counts a part that is over.
    pub fn end(&self, bytes: u64) {
        self.arbiter.queue().end(self.number, bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.arbiter.queue().leave(self.number);
    }
}

#[cfg(test)]
mod tests;
