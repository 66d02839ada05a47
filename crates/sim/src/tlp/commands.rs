//! Commands: arrival, slots, completion.
//!
//! A command takes a slot of its flow. The first leg moves its bytes, a second one of a relay moves them on, then
//! the slot is free and the next command takes it.

use super::LatencyHistogram;
use super::engine::{BEGIN, PacketEngine};
use super::processors::Thread;
use crate::model::{Arrival, FlowSpec, picos_per_kib};

/// A paced flow makes good for delays within this time: a tenth of a second, as the engine's token bucket does
/// (`peerlane_engine::relay`, `Pace`).
const BURST: u64 = 100_000_000_000;

/// A command in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActiveCommand {
    issued: u64,
    /// Bytes that are not yet at the end of the leg.
    left: u32,
}

/// The state of a flow.
#[derive(Debug, Clone)]
pub(super) struct FlowState {
    pub(super) first_leg: u32,
    last_leg: u32,
    /// Its number among all flows, the stream of its random numbers.
    pub(super) stream: u64,
    pub(super) request: u32,
    /// Picoseconds for 1024 bytes of a paced flow; zero of others.
    pace_per_kib: u64,
    /// Earliest begin of the next command of a paced flow, and whether an event is scheduled for it.
    next_at: u64,
    is_awaited: bool,
    pub(super) commands: Vec<ActiveCommand>,
    /// The thread that copies each block before the last leg; `None` without copies.
    pub(super) thread: Option<Box<Thread>>,
    free_slots: Vec<u32>,
    pub(super) issued: u64,
    /// Bytes at the end of the last leg.
    pub(super) moved: u64,
    pub(super) completed: u64,
    pub(super) latency: LatencyHistogram,
}

impl FlowState {
    pub(super) fn new(
        spec: &FlowSpec,
        thread: Option<Thread>,
        (number, first_leg): (u32, u32),
    ) -> Self {
        let pace_per_kib = match spec.arrival {
            Arrival::Paced { rate } => picos_per_kib(rate),
            Arrival::Closed => 0,
        };
        Self {
            first_leg,
            last_leg: first_leg + u32::from(spec.second.is_some()),
            stream: number.into(),
            request: u32::try_from(spec.request.0).unwrap_or(u32::MAX),
            pace_per_kib,
            next_at: 0,
            is_awaited: false,
            commands: vec![ActiveCommand::default(); spec.depth as usize],
            thread: thread.map(Box::new),
            free_slots: (0..spec.depth).rev().collect(),
            issued: 0,
            moved: 0,
            completed: 0,
            latency: LatencyHistogram::default(),
        }
    }

    pub(super) fn is_paced(&self) -> bool {
        self.pace_per_kib > 0
    }

    pub(super) fn is_relay(&self) -> bool {
        self.first_leg != self.last_leg
    }

    pub(super) fn depth(&self) -> u64 {
        self.commands.len() as u64
    }

    /// Delays the next command by the time of one that begins now.
    fn pace(&mut self, now: u64) {
        let time = (u128::from(self.request) * u128::from(self.pace_per_kib)) >> 10;
        let from = self.next_at.max(now.saturating_sub(BURST));
        self.next_at = from.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
    }

    /// Takes a free slot for the next command.
    fn take_slot(&mut self, now: u64) -> Option<u32> {
        let slot = self.free_slots.pop()?;
        self.issued += 1;
        if self.is_paced() {
            self.pace(now);
        }
        self.commands[slot as usize] = ActiveCommand { issued: now, left: self.request };
        Some(slot)
    }
}

impl PacketEngine {
    /// Schedules the begin of every flow.
    pub(super) fn start(&mut self) {
        for index in 0..u32::try_from(self.flows.len()).unwrap_or(u32::MAX) {
            self.push(0, BEGIN, index);
        }
    }

    /// A flow starts, or the next command of a paced one is due.
    pub(super) fn begin(&mut self, index: u32) {
        self.flows[index as usize].is_awaited = false;
        self.fill(index);
    }

    /// Begins commands while there are free slots and work.
    fn fill(&mut self, index: u32) {
        loop {
            let flow = &mut self.flows[index as usize];
            if self.is_draining || flow.free_slots.is_empty() {
                return;
            }
            if flow.next_at > self.now {
                let time = flow.next_at;
                if !std::mem::replace(&mut flow.is_awaited, true) {
                    self.push(time, BEGIN, index);
                }
                return;
            }
            let Some(slot) = flow.take_slot(self.now) else { return };
            self.issue(index, slot);
        }
    }

    /// Starts the first leg of a slot, or the copy before a single leg.
    fn issue(&mut self, index: u32, slot: u32) {
        let flow = &self.flows[index as usize];
        if flow.is_relay() || flow.thread.is_none() {
            let leg = flow.first_leg;
            self.start_leg(leg, slot);
        } else {
            self.copy(index, slot);
        }
    }

    /// Starts the last leg of a flow with a slot.
    pub(super) fn start_last_leg(&mut self, index: u32, slot: u32) {
        let leg = self.flows[index as usize].last_leg;
        self.start_leg(leg, slot);
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
            command.left = flow.request;
            if flow.thread.is_some() {
                self.copy(index, slot);
            } else {
                self.start_last_leg(index, slot);
            }
            return;
        }
        let latency = self.now - command.issued;
        flow.completed += 1;
        if self.is_measuring {
            flow.latency.record(latency);
        }
        flow.free_slots.push(slot);
        self.fill(index);
    }
}
