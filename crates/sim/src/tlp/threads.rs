//! Threads of transfers: what processors do of a block, and what copies take of host memory.
//!
//! Leaves out which processor a thread runs on, and what it costs to change. The one thing to know: a thread does one thing
//! after the other, and what copies a block does so in pieces, each of which waits for a processor that is free where
//! transfers could use all of them up, and for the memory among what devices read and write there. Threads get processors
//! for equal time (start-time fair queueing; Goyal, Vin, Cheng, SIGCOMM 1996), which is what schedulers aim at.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::engine::Engine;
use super::network::Network;
use super::parts::NONE;
use super::queue::EventQueue;
use crate::model::{FlowSpec, Topology};
use crate::work::{Shared, memory_time};

/// Payload of a piece of a copy: a page, which kernels copy at a time.
const PIECE: u32 = 4 << 10;
/// How much less time than others a thread may have had that waited for something else, and by how much commands go before
/// copies: 3 ms, about a slice of Linux on eight processors or more (kernel/sched/fair.c, `sysctl_sched_base_slice`).
const SAVED: u64 = 3_000_000_000;
/// A thread that copies goes on, unless another that waits has had so much less time: a millisecond, about a slice of Linux
/// on one processor or two (the same).
const LESS: u64 = 1_000_000_000;

/// Processors that threads take turns on.
#[derive(Debug, Clone)]
pub(super) struct Processors {
    idle: u32,
    /// Threads that wait, by their place, and their flows.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// The time that the last one which was served had had.
    turn: u64,
}

impl Processors {
    pub(super) fn new(cores: u32) -> Self {
        Self { idle: cores, waiting: BinaryHeap::new(), turn: 0 }
    }
}

/// What a thread is asked to do.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// Submit the commands of a slot, which begin as a processor takes that up.
    Submit(u32),
    /// Copy a slot, and let the last leg go on with it.
    Copy(u32),
}

/// What a thread does.
#[derive(Debug, Clone, Copy)]
struct Current {
    job: Job,
    /// Bytes of a copy that are left.
    left: u32,
    /// When the processor is done with the piece under way.
    until: u64,
}

/// The thread of a flow.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// Its processors; [`NONE`] where others cannot use them up.
    processors: u32,
    /// The memory that copies use; [`NONE`] where they take nothing from others.
    memory: u32,
    /// Picoseconds to submit a block.
    submit: u64,
    /// Picoseconds, and bytes of memory, to copy a block of so many.
    copy: u64,
    traffic: u64,
    request: u64,
    waiting: VecDeque<Job>,
    current: Option<Current>,
    /// Time that it has had of processors.
    turn: u64,
}

impl Thread {
    /// The thread of a flow; `None` where nobody waits for what it does.
    pub(super) fn of(
        topology: &Topology,
        spec: &FlowSpec,
        shared: &Shared,
        network: &mut Network,
    ) -> Option<Self> {
        let work = spec.work.as_ref()?;
        let processors = match shared.cores(work) {
            Some(cores) => network.processors(work.at, cores),
            None => NONE,
        };
        if processors == NONE && work.copy.0 == 0 {
            return None;
        }
        let memory = memory_time(topology, work).filter(|_| work.traffic.0 > 0);
        let known = memory.and_then(|_| network.memory_of.get(&(work.at, None)).copied());
        Some(Self {
            processors,
            memory: known.unwrap_or(NONE),
            submit: work.submit.0,
            copy: work.copy.0,
            traffic: work.traffic.0,
            request: spec.request.0.max(1),
            waiting: VecDeque::new(),
            current: None,
            turn: 0,
        })
    }

    /// Whether it copies.
    pub(super) fn copies(&self) -> bool {
        self.copy > 0
    }

    /// Whether submission waits for processors.
    pub(super) fn submits(&self) -> bool {
        self.processors != NONE && self.submit > 0
    }

    /// Its place among those that wait for a processor. Commands go before copies, as what is short does where a thread that
    /// wakes up interrupts others.
    fn place(&self) -> u64 {
        match self.current.map(|current| current.job) {
            Some(Job::Copy(_)) => self.turn.saturating_add(SAVED),
            Some(Job::Submit(_)) | None => self.turn,
        }
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.waiting.capacity() * size_of::<Job>()
    }

    /// The share of something of a block that a part of it takes.
    fn part(&self, whole: u64, bytes: u32) -> u64 {
        let part = u128::from(whole) * u128::from(bytes) / u128::from(self.request);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

impl<Q: EventQueue> Engine<Q> {
    /// Has the thread of a flow submit the commands of a slot.
    pub(super) fn submit(&mut self, flow: u32, slot: u32) {
        self.ask(flow, Job::Submit(slot));
    }

    /// Has the thread of a flow copy a slot.
    pub(super) fn copy(&mut self, flow: u32, slot: u32) {
        self.ask(flow, Job::Copy(slot));
    }

    fn ask(&mut self, flow: u32, job: Job) {
        let Some(thread) = &mut self.flows[flow as usize].thread else { return };
        thread.waiting.push_back(job);
        if thread.current.is_none() {
            self.take_next(flow);
            self.want_processor(flow);
        }
    }

    /// Takes the next thing to do, if there is one.
    fn take_next(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(thread) = &mut flow.thread else { return };
        let Some(job) = thread.waiting.pop_front() else { return };
        let (Job::Submit(slot) | Job::Copy(slot)) = job;
        let left = flow.commands[slot as usize].bytes;
        thread.current = Some(Current { job, left, until: 0 });
    }

    /// Begins where a processor is free, or waits for one.
    fn want_processor(&mut self, index: u32) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        if thread.processors != NONE {
            let processors = &mut self.net.processors[thread.processors as usize];
            thread.turn = thread.turn.max(processors.turn.saturating_sub(SAVED));
            if processors.idle == 0 {
                processors.waiting.push(Reverse((thread.place(), index)));
                return;
            }
            processors.idle -= 1;
        }
        self.run(index);
    }

    /// Carries out a piece of what a thread does, on a processor.
    fn run(&mut self, index: u32) {
        let now = self.now;
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(Current { job, left, .. }) = thread.current else { return };
        let piece = left.min(PIECE);
        let time = match job {
            Job::Submit(_) => thread.submit,
            Job::Copy(_) => thread.part(thread.copy, piece),
        };
        let until = now + time;
        thread.current = Some(Current { job, left, until });
        if thread.processors != NONE {
            let processors = &mut self.net.processors[thread.processors as usize];
            processors.turn = processors.turn.max(thread.turn);
            thread.turn += time;
        }
        let memory = thread.memory;
        match job {
            Job::Submit(slot) => {
                self.push_worked(until, index);
                self.submitted(index, slot);
            }
            Job::Copy(_) if memory != NONE => self.access_for_copy(memory, index),
            Job::Copy(_) => self.push_worked(until, index),
        }
    }

    /// Bytes of memory that the piece of a copy takes.
    pub(super) fn copied_bytes(&self, flow: u32) -> u32 {
        let thread = self.flows[flow as usize].thread.as_ref();
        let traffic = thread.and_then(|thread| {
            let piece = thread.current?.left.min(PIECE);
            Some(thread.part(thread.traffic, piece))
        });
        u32::try_from(traffic.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// The memory is done with a piece of a copy: the thread is when the processor is, too.
    pub(super) fn copied(&mut self, flow: u32, served: u64) {
        let thread = self.flows[flow as usize].thread.as_ref();
        let until = thread.and_then(|thread| thread.current).map_or(0, |current| current.until);
        self.push_worked(served.max(until), flow);
    }

    /// A piece of what a thread does is done.
    pub(super) fn worked(&mut self, index: u32) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(current) = &mut thread.current else { return };
        let job = current.job;
        current.left -= current.left.min(PIECE);
        let is_done = matches!(job, Job::Submit(_)) || current.left == 0;
        if is_done {
            thread.current = None;
            self.take_next(index);
        }
        self.change(index, !is_done);
        if let (Job::Copy(slot), true) = (job, is_done) {
            self.hand_to_last(index, slot);
        }
    }

    /// Goes on, or gives the processor to the thread that has had least of those that want it.
    fn change(&mut self, index: u32, is_within: bool) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let wants = thread.current.is_some();
        if thread.processors == NONE {
            if wants {
                self.run(index);
            }
            return;
        }
        let processors = &mut self.net.processors[thread.processors as usize];
        let least = processors.waiting.peek().map_or(u64::MAX, |Reverse((place, _))| *place);
        if is_within && thread.place() <= least.saturating_add(LESS) {
            self.run(index);
            return;
        }
        if wants {
            processors.waiting.push(Reverse((thread.place(), index)));
        }
        match processors.waiting.pop() {
            Some(Reverse((_, next))) => self.run(next),
            None => processors.idle += 1,
        }
    }
}
