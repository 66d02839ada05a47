//! A queue of events in order of time, and of insertion where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A scheduled event, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScheduledEvent {
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
    fn push(&mut self, event: ScheduledEvent) {
        self.pushed += 1;
        self.events.push(Reverse((event.time, self.pushed, event.key, event.data)));
    }

    fn first(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(event)| event.0)
    }

    fn pop(&mut self, until: u64) -> Option<ScheduledEvent> {
        self.first().filter(|&time| time <= until)?;
        self.events.pop().map(|Reverse((time, _, key, data))| ScheduledEvent { time, key, data })
    }
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct EventEntry {
    event: ScheduledEvent,
    next: u32,
}

/// A list of events in order of time.
#[derive(Debug, Clone, Copy)]
struct EventList {
    head: u32,
    tail: u32,
}

const EMPTY: EventList = EventList { head: NONE, tail: NONE };

/// A time wheel: a ring of slots with a bit for each that is occupied, and a heap for events beyond the ring. Push and
/// pop take constant time for near events, which are nearly all. No event may be earlier than the last one popped.
#[derive(Debug)]
pub(super) struct EventWheel {
    slots: Vec<EventList>,
    occupied: Vec<u64>,
    entries: Vec<EventEntry>,
    free: u32,
    /// log2 of the picoseconds of a slot.
    shift: u32,
    mask: u64,
    /// The slot of the event popped last, counted from time zero.
    current: u64,
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
            slots: vec![EMPTY; slots],
            occupied: vec![0; slots / 64],
            entries: Vec::new(),
            free: NONE,
            shift,
            mask: slots as u64 - 1,
            current: 0,
            far: EventHeap::default(),
        }
    }

    pub(super) fn push(&mut self, event: ScheduledEvent) {
        if (event.time >> self.shift) - self.current > self.mask {
            self.far.push(event);
        } else {
            self.insert(event);
        }
    }

    /// Removes the earliest event, unless it is later than `until`.
    pub(super) fn pop(&mut self, until: u64) -> Option<ScheduledEvent> {
        let mut position = self.position(self.current);
        if self.slots[position].head == NONE {
            let bucket = match self.next_occupied() {
                Some(bucket) => bucket,
                None => self.far.first()? >> self.shift,
            };
            // Advances only once an event is due: others may still come before it.
            let time = match self.slots[self.position(bucket)].head {
                NONE => self.far.first()?,
                head => self.entries[head as usize].event.time,
            };
            if time > until {
                return None;
            }
            self.advance(bucket);
            position = self.position(bucket);
        }
        let index = self.slots[position].head;
        let EventEntry { event, next } = self.entries[index as usize];
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

    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of slots")]
    fn position(&self, bucket: u64) -> usize {
        (bucket & self.mask) as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounded by the packets in flight")]
    fn entry(&mut self, event: ScheduledEvent) -> u32 {
        let entry = EventEntry { event, next: NONE };
        if self.free == NONE {
            self.entries.push(entry);
            return (self.entries.len() - 1) as u32;
        }
        let index = self.free;
        let free = &mut self.entries[index as usize];
        self.free = free.next;
        *free = entry;
        index
    }

    /// Puts an event into its slot, after those that are not later.
    fn insert(&mut self, event: ScheduledEvent) {
        let position = self.position(event.time >> self.shift);
        let index = self.entry(event);
        let slot = self.slots[position];
        if slot.head == NONE {
            self.slots[position] = EventList { head: index, tail: index };
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

    /// Returns the first occupied slot after the current one.
    fn next_occupied(&self) -> Option<u64> {
        let first = self.position(self.current + 1);
        let words = self.occupied.len();
        let begin = first / 64;
        let here = self.occupied[begin] & (u64::MAX << (first % 64));
        let found = |word: usize, bits: u64| (word * 64) as u64 + u64::from(bits.trailing_zeros());
        let position = if here != 0 {
            found(begin, here)
        } else {
            let mut others = (1..=words).map(|step| (begin + step) % words);
            let word = others.find(|&word| self.occupied[word] != 0)?;
            found(word, self.occupied[word])
        };
        let ahead = position.wrapping_sub(self.current + 1) & self.mask;
        Some(self.current + 1 + ahead)
    }

    /// Makes `bucket` the current slot, and takes in far events that are near by that.
    fn advance(&mut self, bucket: u64) {
        self.current = bucket;
        let last = ((bucket + self.mask + 1) << self.shift) - 1;
        while let Some(event) = self.far.pop(last) {
            self.insert(event);
        }
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

    /// Runs a script on a wheel, and on the heap in parallel.
    fn popped(
        mut wheel: EventWheel,
        script: &[(u64, bool)],
    ) -> (Vec<ScheduledEvent>, Vec<ScheduledEvent>) {
        let (mut heap, mut now, mut popped) = (EventHeap::default(), 0, (vec![], vec![]));
        for (key, &(delay, pops)) in (0u32..).zip(script) {
            let event = ScheduledEvent { time: now + delay, key, data: 0 };
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
