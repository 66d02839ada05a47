//! Queues of events in order of time, and of insertion where times are equal.
//!
//! [`Heap`] is the plain one. [`Wheel`] does the same in constant time for events that are near, which
//! are nearly all, and keeps far ones in a heap. Both return the same events in the same order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens, and when: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// Picoseconds since the start.
    pub(super) time: u64,
    /// Kind and index, as the engine packs them.
    pub(super) key: u32,
    /// What the kind adds.
    pub(super) data: u32,
}

/// A queue of events; none may be pushed that is earlier than the last that was popped.
pub(super) trait EventQueue {
    fn push(&mut self, event: Event);
    /// The earliest event, if it is not later than `until`.
    fn pop(&mut self, until: u64) -> Option<Event>;
    /// Bytes that it takes.
    fn footprint(&self) -> usize;
}

/// A binary heap.
#[derive(Debug, Default)]
pub(super) struct Heap {
    events: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    pushed: u64,
}

impl EventQueue for Heap {
    fn push(&mut self, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((event.time, self.pushed, event.key, event.data)));
    }

    fn pop(&mut self, until: u64) -> Option<Event> {
        let &Reverse((time, _, key, data)) = self.events.peek()?;
        if time > until {
            return None;
        }
        self.events.pop();
        Some(Event { time, key, data })
    }

    fn footprint(&self) -> usize {
        self.events.capacity() * size_of::<Reverse<(u64, u64, u32, u32)>>()
    }
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    event: Event,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot { head: NONE, tail: NONE };

/// A time wheel: a ring of slots, each a list in order, with a bit for each slot that holds something.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<Slot>,
    occupied: Vec<u64>,
    entries: Vec<Entry>,
    free: u32,
    /// log2 of the picoseconds of a slot.
    shift: u32,
    mask: u64,
    /// The slot of the event popped last, counted from time zero.
    current: u64,
    far: Heap,
}

impl Wheel {
    /// A wheel for events with about so many picoseconds between them, most of them due within 4 us: one
    /// or two in a slot, and slots few enough to stay in a near cache.
    pub(super) fn new(between: u64) -> Self {
        let shift = between.clamp(32, 1 << 16).ilog2();
        let slots = (4_000_000usize >> shift).next_power_of_two().clamp(1 << 10, 1 << 15);
        Self::with_slots(slots, shift)
    }

    pub(super) fn with_slots(slots: usize, shift: u32) -> Self {
        assert!(slots.is_power_of_two() && slots >= 64, "slots fill whole words");
        Self {
            slots: vec![EMPTY; slots],
            occupied: vec![0; slots / 64],
            entries: Vec::new(),
            free: NONE,
            shift,
            mask: slots as u64 - 1,
            current: 0,
            far: Heap::default(),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of slots")]
    fn position(&self, bucket: u64) -> usize {
        (bucket & self.mask) as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounded by the packets in flight")]
    fn entry(&mut self, event: Event) -> u32 {
        let entry = Entry { event, next: NONE };
        if self.free == NONE {
            self.entries.push(entry);
            return (self.entries.len() - 1) as u32;
        }
        let index = self.free;
        let place = &mut self.entries[index as usize];
        self.free = place.next;
        *place = entry;
        index
    }

    /// Puts an event into its slot, after those that are not later.
    fn insert(&mut self, event: Event) {
        let position = self.position(event.time >> self.shift);
        let index = self.entry(event);
        let slot = self.slots[position];
        if slot.head == NONE {
            self.slots[position] = Slot { head: index, tail: index };
            self.occupied[position / 64] |= 1 << (position % 64);
        } else if self.entries[slot.tail as usize].event.time <= event.time {
            self.entries[slot.tail as usize].next = index;
            self.slots[position].tail = index;
        } else if self.entries[slot.head as usize].event.time > event.time {
            self.entries[index as usize].next = slot.head;
            self.slots[position].head = index;
        } else {
            let mut before = slot.head;
            loop {
                let next = self.entries[before as usize].next;
                if self.entries[next as usize].event.time > event.time {
                    self.entries[index as usize].next = next;
                    self.entries[before as usize].next = index;
                    return;
                }
                before = next;
            }
        }
    }

    /// The first occupied slot after the current one.
    fn next_occupied(&self) -> Option<u64> {
        let first = self.position(self.current + 1);
        let words = self.occupied.len();
        let begin = first / 64;
        let here = self.occupied[begin] & (u64::MAX << (first % 64));
        let found = |word: usize, bits: u64| (word * 64) as u64 + u64::from(bits.trailing_zeros());
        let position = if here != 0 {
            found(begin, here)
        } else {
            let word = (1..=words).map(|step| (begin + step) % words);
            let word = { word }.find(|&word| self.occupied[word] != 0)?;
            found(word, self.occupied[word])
        };
        let ahead = position.wrapping_sub(self.current + 1) & self.mask;
        Some(self.current + 1 + ahead)
    }

    /// Makes `bucket` the current slot and takes in what came near by that.
    fn advance(&mut self, bucket: u64) {
        self.current = bucket;
        let last = ((bucket + self.mask + 1) << self.shift) - 1;
        while let Some(event) = self.far.pop(last) {
            self.insert(event);
        }
    }
}

impl EventQueue for Wheel {
    fn push(&mut self, event: Event) {
        if (event.time >> self.shift) - self.current > self.mask {
            self.far.push(event);
        } else {
            self.insert(event);
        }
    }

    fn pop(&mut self, until: u64) -> Option<Event> {
        let mut position = self.position(self.current);
        if self.slots[position].head == NONE {
            let bucket = match self.next_occupied() {
                Some(bucket) => bucket,
                None => self.far.events.peek()?.0.0 >> self.shift,
            };
            // Not before it is known that there is an event to pop: others may still come before it.
            let head = self.slots[self.position(bucket)].head;
            let time = match head {
                NONE => self.far.events.peek()?.0.0,
                head => self.entries[head as usize].event.time,
            };
            if time > until {
                return None;
            }
            self.advance(bucket);
            position = self.position(bucket);
        }
        let index = self.slots[position].head;
        let Entry { event, next } = self.entries[index as usize];
        if event.time > until {
            return None;
        }
        self.entries[index as usize].next = self.free;
        self.free = index;
        self.slots[position].head = next;
        if next == NONE {
            self.slots[position] = EMPTY;
            self.occupied[position / 64] &= !(1 << (position % 64));
        }
        Some(event)
    }

    fn footprint(&self) -> usize {
        let slots = self.slots.len() * size_of::<Slot>() + self.occupied.len() * 8;
        slots + self.entries.capacity() * size_of::<Entry>() + self.far.footprint()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Delays of pushed events, and how many are popped between.
    fn script() -> impl Strategy<Value = Vec<(u64, bool)>> {
        let delay = prop_oneof![0..4u64, 0..5_000u64, 0..3_000_000u64, 0..(1u64 << 36)];
        prop::collection::vec((delay, any::<bool>()), 1..400)
    }

    fn run(queue: &mut impl EventQueue, script: &[(u64, bool)]) -> Vec<Event> {
        let (mut now, mut popped) = (0, Vec::new());
        for (number, &(delay, pops)) in (0u32..).zip(script) {
            queue.push(Event { time: now + delay, key: number, data: 0 });
            if pops {
                if let Some(event) = queue.pop(now + 100_000) {
                    now = event.time;
                    popped.push(event);
                }
            }
        }
        popped.extend(std::iter::from_fn(|| queue.pop(u64::MAX >> 1)));
        popped
    }

    proptest! {
        #[test]
        fn wheel_and_heap_return_the_same_events_in_the_same_order(
            script in script(), shift in 0u32..16
        ) {
            let expected = run(&mut Heap::default(), &script);
            prop_assert_eq!(expected.len(), script.len());
            prop_assert_eq!(&run(&mut Wheel::with_slots(64, shift), &script), &expected);
            prop_assert_eq!(&run(&mut Wheel::new(10_000), &script), &expected);
        }
    }

    #[test]
    fn equal_times_keep_the_order_in_which_they_came() {
        let mut wheel = Wheel::new(10_000);
        for key in 0..100 {
            wheel.push(Event { time: 1_000_000_000, key, data: 0 });
        }
        let keys: Vec<u32> = std::iter::from_fn(|| wheel.pop(u64::MAX)).map(|e| e.key).collect();
        assert_eq!(keys, Vec::from_iter(0..100));
    }
}
