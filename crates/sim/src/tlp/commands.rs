//! Commands: when they begin, how they become trains, and when they are done.
//!
//! A command takes a slot of its flow. The first leg moves its bytes; a second one, if there is one,
//! moves them on; then the slot is free. Each leg offers one train at a time to the first port of its
//! initiator.

use std::collections::VecDeque;

use peerlane_units::ByteRate;

use super::LatencyHistogram;
use super::engine::Engine;
use super::network::Route;
use super::parts::{NONE, Train};
use super::queue::EventQueue;
use super::random::{draw, exponential, within};
use super::threads::Thread;
use crate::closed::stream_time;
use crate::model::{Arrival, FlowSpec, Leg, Op, Topology, picos_per_kib};
use crate::way::{picos, ways};

/// Open flows that fall behind keep no more waiting commands than this.
const LONGEST_BACKLOG: usize = 1 << 16;

/// What was held up of a paced flow may be made good for within this time: a tenth of a second, as the engine's token
/// bucket has it (`peerlane_engine::relay`, `Pace`).
const BURST: u64 = 100_000_000_000;

/// Commands under way up to which gaps between those of several flows decide whom they meet.
pub(crate) const FEW_SLOTS: u32 = 2;
/// Commands of such flows take so much longer or shorter at most, as a share of what each takes alone: where all take the
/// same time for ever, flows that meet once meet at every command, or never do. No figure of any drive: most vary more.
const VARIATION: f64 = 0.1;

/// By how much the latency of a leg is longer or shorter at most: never by more than it is.
pub(super) fn varies_by(topology: &Topology, flow: &FlowSpec, leg: &Leg) -> u64 {
    let streams = ways(topology, flow, leg).map(|ways| stream_time(topology, flow, leg, &ways));
    let alone = picos(leg.latency.0) + streams.unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
    let most = (alone * 1e3 * VARIATION) as u64;
    most.min(leg.latency.0)
}

/// One leg under way.
#[derive(Debug, Clone)]
pub(super) struct LegState {
    pub(super) flow: u32,
    latency: u64,
    /// By how much that is longer or shorter at most.
    pub(super) varies_by: u64,
    /// Picoseconds for 1024 bytes at its bound; zero without one.
    bound_per_kib: u64,
    /// When its bound lets the next train go.
    next_at: u64,
    is_woken: bool,
    /// Slots that it has to move, in order.
    waiting: VecDeque<u32>,
    /// The slot that it moves, and bytes of it that are not on their way.
    current: Option<(u32, u32)>,
    /// Whether a train of it waits at its first port.
    is_offered: bool,
    /// Bytes of a full train of requests, or of writes.
    train: u32,
    /// Bytes of a full train of completions.
    pub(super) piece: u32,
    /// Bytes times misses since the last miss of translation.
    pub(super) untranslated: u64,
    /// Bytes sent off.
    pub(super) injected: u64,
    /// Bytes at their end.
    pub(super) arrived: u64,
}

impl LegState {
    /// One whose latency varies by so much.
    pub(super) fn new(
        flow: u32,
        (leg, varies_by): (&Leg, u64),
        route: &Route,
        packets: u32,
    ) -> Self {
        let piece = route.unit * packets;
        // As many packets in each train, whatever they carry: a turn at a port then stands for as many
        // turns of single packets.
        let train = match route.op {
            Op::Write => piece,
            Op::Read => packets << route.request_shift,
        };
        Self {
            flow,
            latency: leg.latency.0,
            varies_by,
            bound_per_kib: leg.bound.map_or(0, picos_per_kib),
            next_at: 0,
            is_woken: false,
            waiting: VecDeque::new(),
            current: None,
            is_offered: false,
            train,
            piece,
            untranslated: 0,
            injected: 0,
            arrived: 0,
        }
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.waiting.capacity() * 4
    }
}

/// A command under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Command {
    issued: u64,
    pub(super) bytes: u32,
    left: u32,
    /// Compared with the coupling of nodes.
    draw: u32,
}

/// One flow under way.
#[derive(Debug, Clone)]
pub(super) struct FlowState {
    first_leg: u32,
    last_leg: u32,
    /// Its number among all flows, which its draws depend on.
    stream: u64,
    request: u32,
    /// Mean time between commands of an open flow.
    between: Option<u64>,
    /// Picoseconds for 1024 bytes of a paced flow; zero of others. When its next command may begin, and whether an
    /// event is under way for that.
    pace_per_kib: u64,
    next_at: u64,
    is_awaited: bool,
    pub(super) commands: Vec<Command>,
    /// What processors do of it, where anybody waits for that.
    pub(super) thread: Option<Box<Thread>>,
    free_slots: Vec<u32>,
    backlog: VecDeque<u64>,
    /// Bytes that have not begun; `None` for an endless flow.
    unissued: Option<u64>,
    issued: u64,
    arrivals: u64,
    pub(super) start: u64,
    /// Bytes at the end of the last leg.
    pub(super) moved: u64,
    pub(super) completed: u64,
    /// Commands that an open flow could not keep.
    pub(super) lost: u64,
    pub(super) latency: LatencyHistogram,
    pub(super) first_done: Option<u64>,
    pub(super) last_done: Option<u64>,
}

impl FlowState {
    pub(super) fn new(
        spec: &FlowSpec,
        thread: Option<Thread>,
        (stream, first_leg): (u64, u32),
        is_endless: bool,
    ) -> Self {
        let request = u32::try_from(spec.request.0).unwrap_or(u32::MAX);
        let between = match spec.arrival {
            Arrival::Closed | Arrival::Paced { .. } => None,
            Arrival::Open { rate: ByteRate(rate) } => {
                let picos =
                    u128::from(spec.request.0) * 1_000_000_000_000 / u128::from(rate.max(1));
                Some(u64::try_from(picos).unwrap_or(u64::MAX))
            }
        };
        let pace_per_kib = match spec.arrival {
            Arrival::Paced { rate } => picos_per_kib(rate),
            Arrival::Closed | Arrival::Open { .. } => 0,
        };
        Self {
            first_leg,
            last_leg: first_leg + u32::from(spec.second.is_some()),
            stream,
            request,
            between,
            pace_per_kib,
            next_at: 0,
            is_awaited: false,
            commands: vec![Command::default(); spec.depth as usize],
            thread: thread.map(Box::new),
            free_slots: (0..spec.depth).rev().collect(),
            backlog: VecDeque::new(),
            unissued: (!is_endless).then_some(spec.bytes.0),
            issued: 0,
            arrivals: 0,
            start: if is_endless { 0 } else { spec.start.0 },
            moved: 0,
            completed: 0,
            lost: 0,
            latency: LatencyHistogram::default(),
            first_done: None,
            last_done: None,
        }
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.commands.capacity() * size_of::<Command>()
            + (self.free_slots.capacity() + 2 * self.backlog.capacity()) * 4
            + self.latency.footprint()
            + self.thread.as_ref().map_or(0, |thread| thread.footprint())
    }

    pub(super) fn is_open(&self) -> bool {
        self.between.is_some()
    }

    /// Whether its thread copies each block before the last leg.
    fn copies(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.copies())
    }

    pub(super) fn is_paced(&self) -> bool {
        self.pace_per_kib > 0
    }

    /// Says when a command of so many bytes that begins now may be followed by the next one.
    fn pace(&mut self, now: u64, bytes: u32) {
        let time = (u128::from(bytes) * u128::from(self.pace_per_kib)) >> 10;
        let from = self.next_at.max(now.saturating_sub(BURST));
        self.next_at = from.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
    }

    /// Whether a second leg goes on with what the first has moved.
    pub(super) fn is_relay(&self) -> bool {
        self.first_leg != self.last_leg
    }

    pub(super) fn request(&self) -> u64 {
        self.request.into()
    }

    /// Whether a flow with an end has come to it.
    pub(super) fn is_done(&self) -> bool {
        self.unissued == Some(0) && self.free_slots.len() == self.commands.len()
    }

    /// Slots, which all have been used when so many commands are done and rates can be stable.
    pub(super) fn depth(&self) -> u64 {
        self.commands.len() as u64
    }
}

impl<Q: EventQueue> Engine<Q> {
    /// Sets off every flow.
    pub(super) fn start(&mut self) {
        for (index, flow) in (0u32..).zip(&self.flows) {
            let wait =
                flow.between.map_or(0, |mean| exponential(draw(self.seed, flow.stream, 0), mean));
            let time = flow.start + wait;
            self.queue.push(super::queue::Event { time, key: 8 << 28 | index, data: 0 });
        }
    }

    /// A closed flow starts, or a command of an open one comes.
    pub(super) fn begin(&mut self, index: u32) {
        if self.is_draining {
            return;
        }
        let (now, seed) = (self.now, self.seed);
        let flow = &mut self.flows[index as usize];
        if let Some(mean) = flow.between {
            flow.arrivals += 1;
            // Even counters are for arrivals, odd ones for commands.
            let next = exponential(draw(seed, flow.stream, 2 * flow.arrivals), mean);
            if flow.backlog.len() < LONGEST_BACKLOG {
                flow.backlog.push_back(now);
            } else {
                flow.lost += 1;
            }
            if flow.unissued.is_none_or(|left| left > flow.request.into()) {
                self.push_begin(now.saturating_add(next), index);
            }
        }
        self.flows[index as usize].is_awaited = false;
        self.fill(index);
    }

    /// Begins commands while there are slots and something to do.
    fn fill(&mut self, index: u32) {
        loop {
            let flow = &mut self.flows[index as usize];
            if self.is_draining || flow.unissued == Some(0) || flow.free_slots.is_empty() {
                return;
            }
            if flow.next_at > self.now {
                let time = flow.next_at;
                if !std::mem::replace(&mut flow.is_awaited, true) {
                    self.push_begin(time, index);
                }
                return;
            }
            let issued = match flow.between {
                None => self.now,
                Some(_) => match flow.backlog.pop_front() {
                    Some(came) => came,
                    None => return,
                },
            };
            let Some(slot) = flow.free_slots.pop() else { return };
            let left = flow.unissued.unwrap_or(u64::MAX);
            let bytes = u32::try_from(left).unwrap_or(u32::MAX).min(flow.request);
            if let Some(left) = &mut flow.unissued {
                *left -= u64::from(bytes);
            }
            flow.issued += 1;
            if flow.is_paced() {
                flow.pace(self.now, bytes);
            }
            let chance = draw(self.seed, flow.stream, 2 * flow.issued + 1) & 0xffff;
            let draw = u32::try_from(chance).unwrap_or(0);
            flow.commands[slot as usize] = Command { issued, bytes, left: bytes, draw };
            let submits = flow.thread.as_ref().is_some_and(|thread| thread.submits());
            if submits {
                self.submit(index, slot);
            } else {
                self.submitted(index, slot);
            }
        }
    }

    /// The commands of a slot are on their way, or what is copied before they are.
    pub(super) fn submitted(&mut self, index: u32, slot: u32) {
        let flow = &self.flows[index as usize];
        if flow.is_relay() || !flow.copies() {
            let leg = flow.first_leg;
            self.hand_to(leg, slot);
        } else {
            self.copy(index, slot);
        }
    }

    /// Lets the last leg of a flow move a slot.
    pub(super) fn hand_to_last(&mut self, index: u32, slot: u32) {
        let leg = self.flows[index as usize].last_leg;
        self.hand_to(leg, slot);
    }

    /// Lets a leg move a slot once the latency of its command is over.
    fn hand_to(&mut self, leg: u32, slot: u32) {
        let LegState { mut latency, varies_by, flow, .. } = self.legs[leg as usize];
        if varies_by > 0 {
            let flow = &self.flows[flow as usize];
            // Counters of arrivals and of commands begin at the other end.
            let number = u64::MAX - 2 * flow.issued - u64::from(leg - flow.first_leg);
            latency = within(draw(self.seed, flow.stream, number), latency, varies_by);
        }
        if latency == 0 {
            self.ready(leg, slot);
        } else {
            self.push_ready(self.now + latency, leg, slot);
        }
    }

    pub(super) fn ready(&mut self, leg: u32, slot: u32) {
        let state = &mut self.legs[leg as usize];
        if state.current.is_none() && state.waiting.is_empty() && !state.is_offered {
            // It had nothing to move, which is not to be made good for.
            state.next_at = state.next_at.max(self.now);
        }
        state.waiting.push_back(slot);
        self.offer(leg);
    }

    pub(super) fn wake(&mut self, leg: u32) {
        self.legs[leg as usize].is_woken = false;
        self.offer(leg);
    }

    /// Puts the next train of a leg in front of its first port, unless one is there or its bound makes it wait.
    pub(super) fn offer(&mut self, index: u32) {
        let leg = &mut self.legs[index as usize];
        if leg.is_offered || self.is_draining {
            return;
        }
        let flow = &self.flows[leg.flow as usize];
        let (slot, left) = match leg.current {
            Some(current) => current,
            None => match leg.waiting.pop_front() {
                Some(slot) => (slot, flow.commands[slot as usize].bytes),
                None => return,
            },
        };
        leg.current = Some((slot, left));
        if leg.next_at > self.now {
            let time = leg.next_at;
            if !std::mem::replace(&mut leg.is_woken, true) {
                self.push_wake(time, index);
            }
            return;
        }
        let bytes = left.min(leg.train);
        let route = &self.net.routes[index as usize];
        leg.is_offered = true;
        leg.current = (left > bytes).then_some((slot, left - bytes));
        let train = Train {
            hop: route.first,
            leg: index,
            slot,
            bytes,
            next: NONE,
            held: NONE,
            tail: 0,
            tags: 0,
            draw: flow.commands[slot as usize].draw,
        };
        let memory = route.own_memory;
        let train = self.slab.insert(train);
        if memory == NONE {
            self.leave_for_port(train);
        } else {
            self.access_own(memory, train);
        }
    }

    /// Puts the train that a leg offers in front of its first port.
    pub(super) fn leave_for_port(&mut self, train: u32) {
        let fifo = self.net.routes[self.slab[train].leg as usize].fifo;
        self.enqueue(fifo, train);
    }

    /// A train of a leg has begun to leave its initiator.
    pub(super) fn departed(&mut self, index: u32, bytes: u32) {
        let leg = &mut self.legs[index as usize];
        leg.is_offered = false;
        leg.injected += u64::from(bytes);
        // Slow commands of a gibibyte are more picoseconds than there are numbers before the division.
        let pace = |bytes: u32| u64::from(bytes).saturating_mul(leg.bound_per_kib) >> 10;
        if leg.bound_per_kib > 0 {
            // What was held up may be made good for within one command.
            let request = self.flows[leg.flow as usize].request;
            let earliest = self.now.saturating_sub(pace(request));
            leg.next_at = leg.next_at.max(earliest) + pace(bytes);
        }
        self.offer(index);
    }

    /// Bytes of a command are at the end of a leg.
    pub(super) fn moved(&mut self, leg: u32, slot: u32, bytes: u32) {
        self.legs[leg as usize].arrived += u64::from(bytes);
        let index = self.legs[leg as usize].flow;
        let flow = &mut self.flows[index as usize];
        let is_last = leg == flow.last_leg;
        if is_last {
            flow.moved += u64::from(bytes);
        }
        let command = &mut flow.commands[slot as usize];
        command.left -= bytes;
        if command.left > 0 {
            return;
        }
        if !is_last {
            command.left = command.bytes;
            if flow.copies() {
                self.copy(index, slot);
            } else {
                self.hand_to_last(index, slot);
            }
            return;
        }
        flow.completed += 1;
        flow.first_done.get_or_insert(self.now);
        flow.last_done = Some(self.now);
        if self.is_measuring {
            flow.latency.record(self.now - command.issued);
        }
        flow.free_slots.push(slot);
        self.fill(index);
    }
}
