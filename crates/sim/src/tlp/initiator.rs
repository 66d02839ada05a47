//! Legs: an initiator's start-up cost for a command, and the trains that it injects.
//!
//! A leg offers one train at a time to the first port of its initiator. [`Engine::start_leg`] adds the start-up
//! latency of a drive, [`Engine::departed`] its rate limit.

use std::collections::VecDeque;

use super::commands::FlowState;
use super::engine::{PacketEngine, READY, WAKE};
use super::memory::OWN;
use super::network::LegRoute;
use super::port::NONE;
use super::random::{draw, within};
use super::train::Train;
use crate::closed::stream_time;
use crate::model::{FlowSpec, Leg, Op, Topology, picos, picos_per_kib};
use crate::way::ways;

/// Jitter of a command's start-up latency, as a share of its time alone, for flows of few commands: with constant
/// times, flows that meet once meet at every command, or never do. No figure of any drive; most vary more.
const JITTER: f64 = 0.1;

/// Returns the jitter of a leg's latency, at most the latency itself.
pub(super) fn jitter(topology: &Topology, flow: &FlowSpec, leg: &Leg) -> u64 {
    let streams = ways(topology, flow, leg).map(|ways| stream_time(topology, flow, leg, &ways));
    let alone = picos(leg.latency.0) + streams.unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
    let most = (alone * 1e3 * JITTER) as u64;
    most.min(leg.latency.0)
}

/// The state of a leg.
#[derive(Debug, Clone)]
pub(super) struct LegState {
    pub(super) flow: u32,
    /// Start-up latency of a command, and its jitter.
    latency: u64,
    pub(super) jitter: u64,
    /// Picoseconds for 1024 bytes at its rate limit; zero without one.
    bound_per_kib: u64,
    /// Earliest time of the next train by its rate limit.
    next_at: u64,
    is_woken: bool,
    /// Slots to move, in order.
    waiting: VecDeque<u32>,
    /// The slot that it moves, and the bytes of it not yet offered.
    current: Option<(u32, u32)>,
    /// True while a train of it waits at its first port.
    is_offered: bool,
    /// Bytes of a full train of requests, or of writes.
    train: u32,
    /// Bytes of a full train of completions.
    pub(super) completion_train: u32,
    /// Bytes times misses since the last miss of translation.
    pub(super) untranslated: u64,
    /// Bytes injected.
    pub(super) injected: u64,
    /// Bytes at their end.
    pub(super) arrived: u64,
}

impl LegState {
    /// A leg with trains of so many packets.
    pub(super) fn new(flow: u32, leg: &Leg, jitter: u64, route: &LegRoute, packets: u32) -> Self {
        let completion_train = route.unit * packets;
        // As many packets in each train, whatever they carry: a turn at a port then stands for as many
        // turns of single packets.
        let train = match route.op {
            Op::Write => completion_train,
            Op::Read => packets << route.request_shift,
        };
        Self {
            flow,
            latency: leg.latency.0,
            jitter,
            bound_per_kib: leg.bound.map_or(0, picos_per_kib),
            next_at: 0,
            is_woken: false,
            waiting: VecDeque::new(),
            current: None,
            is_offered: false,
            train,
            completion_train,
            untranslated: 0,
            injected: 0,
            arrived: 0,
        }
    }
}

impl PacketEngine {
    /// Starts the command of a slot on a leg: its first packet follows after the start-up latency of the drive.
    pub(super) fn start_leg(&mut self, leg: u32, slot: u32) {
        let LegState { mut latency, jitter, flow, .. } = self.legs[leg as usize];
        if jitter > 0 {
            let flow: &FlowState = &self.flows[flow as usize];
            // Counters of commands' other random numbers begin at the other end.
            let number = u64::MAX - 2 * flow.issued - u64::from(leg - flow.first_leg);
            latency = within(draw(self.seed, flow.stream, number), latency, jitter);
        }
        if latency == 0 {
            self.ready(leg, slot);
        } else {
            self.push_with(self.now + latency, READY, leg, slot);
        }
    }

    /// The start-up latency of a command is over.
    pub(super) fn ready(&mut self, leg: u32, slot: u32) {
        let state = &mut self.legs[leg as usize];
        if state.current.is_none() && state.waiting.is_empty() && !state.is_offered {
            // An idle leg saves no credit at its rate limit.
            state.next_at = state.next_at.max(self.now);
        }
        state.waiting.push_back(slot);
        self.offer(leg);
    }

    /// The rate limit of a leg admits the next train.
    pub(super) fn wake(&mut self, leg: u32) {
        self.legs[leg as usize].is_woken = false;
        self.offer(leg);
    }

    /// Offers the next train of a leg to its first port, unless one is there or its rate limit delays it.
    fn offer(&mut self, index: u32) {
        let leg = &mut self.legs[index as usize];
        if leg.is_offered || self.is_draining {
            return;
        }
        let flow = &self.flows[leg.flow as usize];
        let (slot, left) = match leg.current {
            Some(current) => current,
            None => match leg.waiting.pop_front() {
                Some(slot) => (slot, flow.request),
                None => return,
            },
        };
        leg.current = Some((slot, left));
        if leg.next_at > self.now {
            let time = leg.next_at;
            if !std::mem::replace(&mut leg.is_woken, true) {
                self.push(time, WAKE, index);
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
            is_translated: false,
        };
        let memory = route.own_memory;
        let train = self.slab.insert(train);
        if memory == NONE {
            self.leave_for_port(train);
        } else {
            // As it would wait for a medium.
            self.queue_up(memory, OWN, train);
        }
    }

    /// Puts the offered train of a leg in front of its first port.
    pub(super) fn leave_for_port(&mut self, train: u32) {
        let fifo = self.net.routes[self.slab[train].leg as usize].fifo;
        self.enqueue(fifo, train);
    }

    /// A train of a leg leaves its initiator.
    pub(super) fn departed(&mut self, index: u32, bytes: u32) {
        let leg = &mut self.legs[index as usize];
        leg.is_offered = false;
        leg.injected += u64::from(bytes);
        // Slow commands of a gibibyte are more picoseconds than there are numbers before the division.
        let time = |bytes: u32| u64::from(bytes).saturating_mul(leg.bound_per_kib) >> 10;
        if leg.bound_per_kib > 0 {
            // A delay by others is made good within one command.
            let request = self.flows[leg.flow as usize].request;
            let earliest = self.now.saturating_sub(time(request));
            leg.next_at = leg.next_at.max(earliest) + time(bytes);
        }
        self.offer(index);
    }
}
