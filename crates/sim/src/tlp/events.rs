//! A queue of events in order of time, and of insertion where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A scheduled event, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// Picoseconds since the start.
    pub(super) time: u64,
    /// Kind and index, as the engine packs them.
    pub(super) key: u32,
    /// An argument of the kind.
    pub(super) data: u32,
}

/// A binary heap of events.
#[derive(Debug, Default)]
struct EventHeap {
    events: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    pushed: u64,
}

impl EventHeap {
    fn push(&mut self, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((event.time, self.pushed, event.key, event.data)));
    }

    fn first(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(event)| event.0)
    }

    fn pop(&mut self, until: u64) -> Option<Event> {
        self.first().filter(|&time| time <= until)?;
        self.events.pop().map(|Reverse((time, _, key, data))| Event { time, key, data })
    }
}

/// A time wheel: a ring of slots with a bit for each that is occupied, and a heap for events beyond the ring. Push and
/// pop take constant time for near events, which are nearly all. No event may be earlier than the last one popped.
#[derive(Debug)]
pub(super) struct EventWheel {
    /// Events by slot: in order of time in the current slot, in order of insertion in others.
    slots: Vec<Vec<Event>>,
    occupied: Vec<u64>,
    /// log2 of the picoseconds of a slot.
    shift: u32,
    mask: u64,
    /// The current slot, counted from time zero, and the events of it that were popped.
    current: u64,
    popped: usize,
    far: EventHeap,
}

impl EventWheel {
    /// A wheel for events so many picoseconds apart on average, most of them due within 4 us: one or two in a slot, and
    /// few enough slots for a near cache.
    pub(super) fn new(between: u64) -> Self {
        let shift = between.clamp(32, 1 << 16).ilog2();
        let slots = (4_000_000usize >> shift).next_power_of_two().clamp(1 << 10, 1 << 15);
        Self::with_slots(slots, shift)
    }

    fn with_slots(slots: usize, shift: u32) -> Self {
        assert!(slots.is_power_of_two() && slots >= 64, "slots fill whole words");
        Self {
            slots: vec![Vec::new(); slots],
            occupied: vec![0; slots / 64],
            shift,
            mask: slots as u64 - 1,
            current: 0,
            popped: 0,
            far: EventHeap::default(),
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        let slot = event.time >> self.shift;
        if slot - self.current > self.mask {
            self.far.push(event);
            return;
        }
        let position = self.position(slot);
        let events = &mut self.slots[position];
        if slot == self.current {
            let later = events[self.popped..].partition_point(|other| other.time <= event.time);
            events.insert(self.popped + later, event);
        } else {
            events.push(event);
            self.occupied[position / 64] |= 1 << (position % 64);
        }
    }

    /// Removes the earliest event, unless it is later than `until`.
    pub(super) fn pop(&mut self, until: u64) -> Option<Event> {
        let mut position = self.position(self.current);
        if self.popped == self.slots[position].len() {
            self.advance(until)?;
            position = self.position(self.current);
        }
        let event = self.slots[position][self.popped];
        if event.time > until {
            return None;
        }
        self.popped += 1;
        Some(event)
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of slots")]
    fn position(&self, slot: u64) -> usize {
        (slot & self.mask) as usize
    }

    /// Makes the next occupied slot the current one, unless its events are later than `until`: others may still come
    /// before them. Takes in far events that are near by that.
    fn advance(&mut self, until: u64) -> Option<()> {
        let next = self.next_occupied();
        let first = match next {
            Some(slot) => self.slots[self.position(slot)].iter().map(|event| event.time).min()?,
            None => self.far.first()?,
        };
        if first > until {
            return None;
        }
        let position = self.position(self.current);
        self.slots[position].clear();
        (self.current, self.popped) = (first >> self.shift, 0);
        let position = self.position(self.current);
        self.slots[position].sort_by_key(|event| event.time);
        self.occupied[position / 64] &= !(1 << (position % 64));
        let last = ((self.current + self.mask + 1) << self.shift) - 1;
        while let Some(event) = self.far.pop(last) {
            self.push(event);
        }
        Some(())
    }

    /// Returns the first occupied slot after the current one.
    fn next_occupied(&self) -> Option<u64> {
        let first = self.position(self.current + 1);
        let (words, begin) = (self.occupied.len(), first / 64);
        let here = self.occupied[begin] & (u64::MAX << (first % 64));
        let (word, bits) = if here != 0 {
            (begin, here)
        } else {
            let mut others = (1..=words).map(|step| (begin + step) % words);
            let word = others.find(|&word| self.occupied[word] != 0)?;
            (word, self.occupied[word])
        };
        let position = (word * 64) as u64 + u64::from(bits.trailing_zeros());
        Some(self.current + 1 + (position.wrapping_sub(self.current + 1) & self.mask))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Delays of pushed events, each with a pop behind it or not.
    fn script() -> impl Strategy<Value = Vec<(u64, bool)>> {
        let delay = prop_oneof![0..4u64, 0..5_000u64, 0..3_000_000u64, 0..(1u64 << 36)];
        prop::collection::vec((delay, any::<bool>()), 1..400)
    }

    /// Runs a script on a wheel and on a heap.
    fn popped(mut wheel: EventWheel, script: &[(u64, bool)]) -> (Vec<Event>, Vec<Event>) {
        let (mut heap, mut now, mut popped) = (EventHeap::default(), 0, (vec![], vec![]));
        for (key, &(delay, pops)) in (0u32..).zip(script) {
            let event = Event { time: now + delay, key, data: 0 };
            wheel.push(event);
            heap.push(event);
            if pops {
                popped.0.extend(wheel.pop(now + 100_000));
                popped.1.extend(heap.pop(now + 100_000));
                now = popped.0.last().map_or(now, |event| event.time);
            }
        }
        popped.0.extend(std::iter::from_fn(|| wheel.pop(u64::MAX >> 1)));
        popped.1.extend(std::iter::from_fn(|| heap.pop(u64::MAX >> 1)));
        popped
    }

    proptest! {
        #[test]
        fn wheel_pops_as_a_heap(script in script(), shift in 0u32..16) {
            for wheel in [EventWheel::with_slots(64, shift), EventWheel::new(10_000)] {
                let (wheel, heap) = popped(wheel, &script);
                prop_assert_eq!(wheel.len(), script.len());
                prop_assert_eq!(wheel, heap);
            }
        }
    }
}
