//! Commands written down leg by leg, for a trace.
//!
//! Leaves out packets: a leg of a command begins when the one before it ends, and ends with its last byte. The one
//! thing to know: of a window it has every command that was under way in it, with how much of it arrived there, so
//! that these add up to what was moved. A command that does not fit is left out with both its legs, and counted.

use crate::model::Picos;

/// One leg of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLeg {
    /// Position of its flow.
    pub flow: usize,
    /// Whether it is the second leg of a relay.
    pub is_second: bool,
    /// The slot that the command takes, below the depth of its flow.
    pub slot: u32,
    /// How many commands of its flow began before this one, since the run began.
    pub number: u64,
    /// Bytes of the command.
    pub bytes: u64,
    /// Those of them that arrived in the window.
    pub moved: u64,
    /// When it began, from the start of the run: before the window, perhaps.
    pub begin: Picos,
    /// When its last byte arrived; `None` if that was not in the window.
    pub end: Option<Picos>,
}

/// Commands of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// Their legs, in the order of their begin.
    pub legs: Vec<CommandLeg>,
    /// Legs of each flow that are not in it, since there was no room.
    pub left_out: Vec<u64>,
}

/// A log under way.
#[derive(Debug)]
pub(super) struct Log {
    /// Legs that fit, and those that have a place or are promised one.
    room: usize,
    taken: usize,
    is_open: bool,
    /// What is in each slot of each flow.
    slots: Vec<Vec<Option<UnderWay>>>,
    commands: Commands,
}

/// A command in its slot.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    leg: CommandLeg,
    /// Legs that it has to go, this one included.
    legs_left: usize,
    /// Bytes of this leg that arrived before the window.
    before: u64,
    is_kept: bool,
}

impl Log {
    /// A log for so many legs of commands, of flows with so many slots each.
    pub(super) fn new(room: usize, depths: impl Iterator<Item = u64>) -> Self {
        let slots = depths.map(|depth| vec![None; usize::try_from(depth).unwrap_or(usize::MAX)]);
        let slots: Vec<_> = slots.collect();
        let commands = Commands { left_out: vec![0; slots.len()], ..Commands::default() };
        Self { room, taken: 0, is_open: false, slots, commands }
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        let slots: usize = self.slots.iter().map(Vec::capacity).sum();
        slots * size_of::<Option<UnderWay>>()
            + self.commands.legs.capacity() * size_of::<CommandLeg>()
    }

    /// A command of so many legs takes its slot.
    pub(super) fn begins(&mut self, leg: CommandLeg, legs: usize) {
        let mut one = UnderWay { leg, legs_left: legs, before: 0, is_kept: false };
        if self.is_open {
            one.is_kept = self.has_room(legs);
        }
        self.slots[leg.flow][leg.slot as usize] = Some(one);
    }

    /// Gives so many legs a place, if there is one.
    fn has_room(&mut self, legs: usize) -> bool {
        let has_room = self.taken + legs <= self.room;
        self.taken += if has_room { legs } else { 0 };
        has_room
    }

    /// The leg of a slot has ended: the next one begins, or the slot is free.
    pub(super) fn ends(&mut self, flow: usize, slot: u32, now: u64) {
        let place = &mut self.slots[flow][slot as usize];
        let Some(mut one) = place.take() else { return };
        if one.legs_left > 1 {
            let leg = CommandLeg { is_second: true, begin: Picos(now), ..one.leg };
            *place = Some(UnderWay { leg, legs_left: 1, before: 0, ..one });
        }
        one.leg.end = Some(Picos(now));
        one.leg.moved = one.leg.bytes - one.before;
        self.note(one);
    }

    fn note(&mut self, one: UnderWay) {
        if self.is_open && one.is_kept {
            self.commands.legs.push(one.leg);
        } else if self.is_open {
            self.commands.left_out[one.leg.flow] += 1;
        }
    }

    /// The window begins. `left` has the bytes of each slot, by flow, that have not arrived.
    pub(super) fn opens(&mut self, left: impl Fn(usize, usize) -> u64) {
        self.is_open = true;
        let mut slots = std::mem::take(&mut self.slots);
        for (flow, slots) in slots.iter_mut().enumerate() {
            for (slot, one) in slots.iter_mut().enumerate() {
                let Some(one) = one else { continue };
                one.before = one.leg.bytes - left(flow, slot);
                one.is_kept = self.has_room(one.legs_left);
            }
        }
        self.slots = slots;
    }

    /// The window ends: what is in it, with what is under way.
    pub(super) fn closes(mut self, left: impl Fn(usize, usize) -> u64) -> Commands {
        let slots = std::mem::take(&mut self.slots);
        for (flow, slots) in slots.into_iter().enumerate() {
            for (slot, one) in slots.into_iter().enumerate() {
                let Some(mut one) = one else { continue };
                one.leg.moved = one.leg.bytes - left(flow, slot) - one.before;
                self.note(one);
            }
        }
        self.commands.legs.sort_by_key(|leg| (leg.begin, leg.flow, leg.slot, leg.is_second));
        self.commands
    }
}
