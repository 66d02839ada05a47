//! Processors: threads of transfers that submit commands and copy blocks.
//!
//! A thread does one job after the other, and copies a block in pieces. Each piece waits for a free processor, where
//! transfers could use all of them up, and for the host memory. Threads get processors for equal time (start-time fair
//! queueing; Goyal, Vin, Cheng, SIGCOMM 1996), which is what schedulers aim at. Leaves out which processor a thread
//! runs on, and the cost of a change.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::engine::{PacketEngine, WORKED};
use super::memory::COPIES;
use super::network::PacketNetwork;
use super::port::NONE;
use crate::model::{FlowSpec, Topology};
use crate::work::SharedProcessors;

/// Payload of a piece of a copy: kernels copy a page at a time.
const PIECE: u32 = 4 << 10;
/// Time that a thread saves while it waits for something else, and lead of submissions before copies: 3 ms, about a
/// slice of Linux on eight processors or more (kernel/sched/fair.c, `sysctl_sched_base_slice`).
const SAVED: u64 = 3_000_000_000;
/// A copy is preempted by a thread that has had so much less time: a millisecond, about a slice of Linux on one
/// processor or two (the same).
const PREEMPTION: u64 = 1_000_000_000;

/// The processors next to a host memory.
#[derive(Debug, Clone)]
pub(super) struct Processors {
    idle: u32,
    /// Flows whose threads wait, by priority.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Processor time of the thread served last.
    turn: u64,
}

impl Processors {
    pub(super) fn new(cores: u32) -> Self {
        Self { idle: cores, waiting: BinaryHeap::new(), turn: 0 }
    }
}

/// A job of a thread, for a slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum ThreadJob {
    /// Submit the commands of the slot, which begin at once.
    Submit(u32),
    /// Copy the slot, then start its last leg.
    Copy(u32),
}

/// The job in progress.
#[derive(Debug, Clone, Copy)]
struct CurrentJob {
    job: ThreadJob,
    /// Bytes of a copy that are left.
    left: u32,
    /// End of the piece in progress on the processor.
    until: u64,
}

/// The thread of a flow.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// Its processors; [`NONE`] where all transfers together cannot use them up.
    processors: u32,
    /// The memory of copies; [`NONE`] where they take nothing from others.
    memory: u32,
    /// Picoseconds to submit a block.
    submit: u64,
    /// Picoseconds, and bytes of memory, to copy a block of `request` bytes.
    copy: u64,
    traffic: u64,
    request: u64,
    waiting: VecDeque<ThreadJob>,
    current: Option<CurrentJob>,
    /// Processor time so far.
    turn: u64,
}

impl Thread {
    /// The thread of a flow; `None` where nothing waits for it.
    pub(super) fn for_flow(
        topology: &Topology,
        spec: &FlowSpec,
        shared: &SharedProcessors,
        network: &mut PacketNetwork,
    ) -> Option<Self> {
        let work = spec.work.as_ref()?;
        let cores = shared.cores(work);
        let processors = cores.map_or(NONE, |cores| network.processors(work.at, cores));
        if processors == NONE && work.copy.0 == 0 {
            return None;
        }
        let memory = work.memory_time(topology).filter(|_| work.traffic.0 > 0);
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

    pub(super) fn copies(&self) -> bool {
        self.copy > 0
    }

    /// Returns true if submission waits for processors.
    pub(super) fn submits(&self) -> bool {
        self.processors != NONE && self.submit > 0
    }

    /// Returns its priority for a processor, least first. Submissions go before copies, as a thread that wakes up
    /// preempts others for a short job.
    fn priority(&self) -> u64 {
        match self.current.map(|current| current.job) {
            Some(ThreadJob::Copy(_)) => self.turn.saturating_add(SAVED),
            Some(ThreadJob::Submit(_)) | None => self.turn,
        }
    }

    /// Returns the share of a block's cost for so many bytes.
    fn part(&self, whole: u64, bytes: u32) -> u64 {
        let part = u128::from(whole) * u128::from(bytes) / u128::from(self.request);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

impl PacketEngine {
    /// Gives the thread of a flow a job.
    pub(super) fn assign(&mut self, flow: u32, job: ThreadJob) {
        let Some(thread) = &mut self.flows[flow as usize].thread else { return };
        thread.waiting.push_back(job);
        if thread.current.is_none() {
            self.take_next(flow);
            self.want_processor(flow);
        }
    }

    /// Takes the next job of a thread, if there is one.
    fn take_next(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(thread) = &mut flow.thread else { return };
        let Some(job) = thread.waiting.pop_front() else { return };
        thread.current = Some(CurrentJob { job, left: flow.request, until: 0 });
    }

    /// Runs a thread on a free processor, or lets it wait for one.
    fn want_processor(&mut self, index: u32) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        if thread.processors != NONE {
            let processors = &mut self.net.processors[thread.processors as usize];
            thread.turn = thread.turn.max(processors.turn.saturating_sub(SAVED));
            if processors.idle == 0 {
                processors.waiting.push(Reverse((thread.priority(), index)));
                return;
            }
            processors.idle -= 1;
        }
        self.run(index);
    }

    /// Runs a piece of a job on a processor.
    fn run(&mut self, index: u32) {
        let now = self.now;
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(CurrentJob { job, left, .. }) = thread.current else { return };
        let time = match job {
            ThreadJob::Submit(_) => thread.submit,
            ThreadJob::Copy(_) => thread.part(thread.copy, left.min(PIECE)),
        };
        let until = now + time;
        thread.current = Some(CurrentJob { job, left, until });
        if thread.processors != NONE {
            let processors = &mut self.net.processors[thread.processors as usize];
            processors.turn = processors.turn.max(thread.turn);
            thread.turn += time;
        }
        let memory = thread.memory;
        match job {
            ThreadJob::Copy(_) if memory != NONE => self.queue_up(memory, COPIES, index),
            ThreadJob::Copy(_) => self.push(until, WORKED, index),
            ThreadJob::Submit(slot) => {
                self.push(until, WORKED, index);
                self.submitted(index, slot);
            }
        }
    }

    /// Returns the bytes of memory that the piece of a copy takes.
    pub(super) fn copied_bytes(&self, flow: u32) -> u32 {
        let thread = self.flows[flow as usize].thread.as_ref();
        let traffic = thread
            .and_then(|thread| Some(thread.part(thread.traffic, thread.current?.left.min(PIECE))));
        u32::try_from(traffic.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// The memory has served a piece of a copy, which ends when its processor has finished, too.
    pub(super) fn copied(&mut self, flow: u32, served: u64) {
        let thread = self.flows[flow as usize].thread.as_ref();
        let until = thread.and_then(|thread| thread.current).map_or(0, |current| current.until);
        self.push(served.max(until), WORKED, flow);
    }

    /// A piece of a job is finished.
    pub(super) fn worked(&mut self, index: u32) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(current) = &mut thread.current else { return };
        let job = current.job;
        current.left -= current.left.min(PIECE);
        let is_done = matches!(job, ThreadJob::Submit(_)) || current.left == 0;
        if is_done {
            thread.current = None;
            self.take_next(index);
        }
        self.schedule(index, !is_done);
        if let (ThreadJob::Copy(slot), true) = (job, is_done) {
            self.start_last_leg(index, slot);
        }
    }

    /// Continues a thread, or gives its processor to the one with the highest priority.
    fn schedule(&mut self, index: u32, is_within_job: bool) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let has_job = thread.current.is_some();
        if thread.processors == NONE {
            if has_job {
                self.run(index);
            }
            return;
        }
        let processors = &mut self.net.processors[thread.processors as usize];
        let least = processors.waiting.peek().map_or(u64::MAX, |Reverse((least, _))| *least);
        if is_within_job && thread.priority() <= least.saturating_add(PREEMPTION) {
            self.run(index);
            return;
        }
        if has_job {
            processors.waiting.push(Reverse((thread.priority(), index)));
        }
        match processors.waiting.pop() {
            Some(Reverse((_, next))) => self.run(next),
            None => processors.idle += 1,
        }
    }
}
