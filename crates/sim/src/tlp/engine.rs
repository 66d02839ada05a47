//! The engine: takes events in order and moves trains from port to port.
//!
//! Leaves out where commands come from (`commands`) and what memories do (`memory`). The one thing to
//! know: a port sends what has its turn and whose receiver has credits; queues join the turns of a port
//! when a train for it comes to their head, and rejoin behind the others after each train. That is
//! round robin over input ports (PCIe base specification, "Port arbitration", hardware-fixed).

use super::commands::{FlowState, LegState};
use super::network::Network;
use super::parts::{End, Hop, NONE, REQUEST, Slab, TRANSLATED, Train};
use super::queue::{Event, EventQueue};

/// There is room in the egress buffer of a port again, or it has sent a train.
const FREE: u32 = 0;
/// A train is at the end of a hop.
const ARRIVE: u32 = 1;
/// Credits are back at a sender.
const CREDIT: u32 = 2;
/// A memory has taken a write, or has data for a completion.
const SERVED: u32 = 3;
/// The last byte of a completion is at its initiator.
const DELIVERED: u32 = 4;
/// The first of the read requests of a train is answered.
const TAGS: u32 = 5;
/// The latency of a command is over.
const READY: u32 = 6;
/// A leg with a bound may go on.
const WAKE: u32 = 7;
/// A command of an open flow comes, or a closed flow starts.
const BEGIN: u32 = 8;
/// A memory whose reads and writes take turns has served one.
const IDLE: u32 = 9;
/// The thread of a flow is done with a piece of what it does.
const WORKED: u32 = 10;
/// The memory of an initiator is done with what it posts, or is about to fetch.
const LOADED: u32 = 11;

const INDEX_BITS: u32 = 28;
/// Headers of a credit event take the upper 12 bits of its data, units the lower 20.
const UNIT_BITS: u32 = 20;

/// A simulation under way.
pub(super) struct Engine<Q> {
    pub(super) queue: Q,
    pub(super) now: u64,
    pub(super) events: u64,
    pub(super) net: Network,
    pub(super) slab: Slab,
    pub(super) legs: Vec<LegState>,
    pub(super) flows: Vec<FlowState>,
    pub(super) seed: u64,
    /// Whether latencies are recorded.
    pub(super) is_measuring: bool,
    /// Whether no packet is injected any more.
    pub(super) is_draining: bool,
    /// Ports to look at before the next event.
    pub(super) kicked: Vec<u32>,
}

impl<Q: EventQueue> Engine<Q> {
    /// Carries out what happens up to `until`, and stands there.
    pub(super) fn run_until(&mut self, until: u64) {
        while let Some(event) = self.queue.pop(until) {
            self.now = event.time;
            self.events += 1;
            self.handle(event);
            while let Some(port) = self.kicked.pop() {
                self.look(port);
            }
        }
    }

    fn handle(&mut self, Event { key, data, .. }: Event) {
        let index = key & ((1 << INDEX_BITS) - 1);
        match key >> INDEX_BITS {
            FREE => {
                self.net.ports[index as usize].is_awaited = false;
                self.kicked.push(index);
            }
            ARRIVE => self.arrive(index),
            CREDIT => self.credit(index, data >> UNIT_BITS, data & ((1 << UNIT_BITS) - 1)),
            SERVED => self.served(index),
            DELIVERED => self.delivered(index),
            TAGS => self.give_tags(index, data),
            READY => self.ready(index, data),
            WAKE => self.wake(index),
            IDLE => self.serve_next(index),
            WORKED => self.worked(index),
            LOADED => self.leave_for_port(index),
            _ => self.begin(index),
        }
    }

    fn push(&mut self, time: u64, kind: u32, index: u32, data: u32) {
        debug_assert!(index < 1 << INDEX_BITS && time >= self.now);
        self.queue.push(Event { time, key: kind << INDEX_BITS | index, data });
    }

    pub(super) fn push_served(&mut self, time: u64, train: u32) {
        self.push(time, SERVED, train, 0);
    }

    pub(super) fn push_idle(&mut self, time: u64, memory: u32) {
        self.push(time, IDLE, memory, 0);
    }

    pub(super) fn push_ready(&mut self, time: u64, leg: u32, slot: u32) {
        self.push(time, READY, leg, slot);
    }

    pub(super) fn push_wake(&mut self, time: u64, leg: u32) {
        self.push(time, WAKE, leg, 0);
    }

    pub(super) fn push_worked(&mut self, time: u64, flow: u32) {
        self.push(time, WORKED, flow, 0);
    }

    pub(super) fn push_loaded(&mut self, time: u64, train: u32) {
        self.push(time, LOADED, train, 0);
    }

    pub(super) fn push_begin(&mut self, time: u64, flow: u32) {
        self.push(time, BEGIN, flow, 0);
    }

    /// Puts a train behind the others of a queue.
    pub(super) fn enqueue(&mut self, fifo: u32, train: u32) {
        self.slab[train].next = NONE;
        let queue = &mut self.net.fifos[fifo as usize];
        if queue.head == NONE {
            queue.head = train;
            queue.tail = train;
            queue.left = queue.weight;
            if let Some(port) = self.join(fifo) {
                self.kicked.push(port);
            }
        } else {
            let tail = queue.tail;
            queue.tail = train;
            self.slab[tail].next = train;
        }
    }

    /// Gives a queue its turn at the port that its head waits for, behind the others, or before them
    /// while it has turns left in a row: that port, or `None` where the head waits for tags.
    fn join(&mut self, fifo: u32) -> Option<u32> {
        if self.net.fifos[fifo as usize].tags != NONE && !self.take_tags(fifo) {
            return None;
        }
        let queue = &mut self.net.fifos[fifo as usize];
        let hop = &self.net.hops[self.slab[queue.head].hop as usize];
        let port = &mut self.net.ports[hop.port as usize];
        port.waiting += 1;
        port.counted.most_waiting = port.counted.most_waiting.max(port.waiting);
        if port.is_by_bytes {
            queue.turn = queue.turn.max(port.next_turn);
            let class = hop.class.into();
            port.join_by_bytes(class, fifo, &mut self.net.fifos);
            return Some(hop.port);
        }
        let turns = &mut port.turns[hop.class as usize];
        if queue.left < queue.weight {
            queue.next = turns.head;
            turns.head = fifo;
            if turns.tail == NONE {
                turns.tail = fifo;
            }
            return Some(hop.port);
        }
        queue.turn = port.next_turn;
        port.next_turn += 1;
        queue.next = NONE;
        let tail = turns.tail;
        turns.tail = fifo;
        if tail == NONE {
            turns.head = fifo;
        } else {
            self.net.fifos[tail as usize].next = fifo;
        }
        Some(hop.port)
    }

    /// Sends the next train of a port if there is room for it in its egress buffer and one can go.
    fn look(&mut self, index: u32) {
        let port = &mut self.net.ports[index as usize];
        if port.waiting == 0 {
            return;
        }
        if port.free_at > self.now + port.ahead {
            if !port.is_awaited {
                port.is_awaited = true;
                let time = port.free_at - port.ahead;
                self.push(time, FREE, index, 0);
            }
            return;
        }
        if let Some((class, before, fifo)) = self.choose(index) {
            self.leave(index, class, before, fifo);
            self.send(index, fifo);
        }
    }

    /// The queue whose turn is first among those whose head has credits: its class, the queue before it
    /// in the turns, and itself.
    fn choose(&self, index: u32) -> Option<(usize, u32, u32)> {
        let port = &self.net.ports[index as usize];
        let mut best: Option<(u64, usize, u32, u32)> = None;
        for (class, turns) in port.turns.iter().enumerate() {
            let (mut before, mut at) = (NONE, turns.head);
            while at != NONE {
                let queue = &self.net.fifos[at as usize];
                if best.is_some_and(|(turn, ..)| turn < queue.turn) {
                    break;
                }
                let train = &self.slab[queue.head];
                let hop = &self.net.hops[train.hop as usize];
                if self.has_credits(hop, train) {
                    best = Some((queue.turn, class, before, at));
                    break;
                }
                if hop.coupling == 1 << 16 {
                    break;
                }
                before = at;
                at = queue.next;
            }
        }
        best.map(|(_, class, before, at)| (class, before, at))
    }

    fn has_credits(&self, hop: &Hop, train: &Train) -> bool {
        let pool = &self.net.pools[hop.lane(train.draw).pool as usize];
        pool.headers >= hop.packets(train.bytes) && pool.units >= hop.units(train.bytes)
    }

    /// Takes a queue out of the turns of a port.
    fn leave(&mut self, index: u32, class: usize, before: u32, fifo: u32) {
        let next = self.net.fifos[fifo as usize].next;
        let port = &mut self.net.ports[index as usize];
        port.waiting -= 1;
        let turns = &mut port.turns[class];
        if before == NONE {
            turns.head = next;
        } else {
            self.net.fifos[before as usize].next = next;
        }
        if turns.tail == fifo {
            turns.tail = before;
        }
    }

    /// Sends the head of a queue through a port.
    fn send(&mut self, index: u32, fifo: u32) {
        let queue = &mut self.net.fifos[fifo as usize];
        let head = queue.head;
        let leg = queue.leg;
        let train = self.slab[head];
        queue.head = train.next;
        let port = &mut self.net.ports[index as usize];
        if port.is_by_bytes {
            port.take_by_bytes(&mut queue.turn, train.bytes);
        }
        queue.left -= 1;
        if queue.left == 0 {
            queue.left = queue.weight;
        }
        let is_last = train.next == NONE;
        let hop = self.net.hops[train.hop as usize];
        let packets = hop.packets(train.bytes);
        let wire = hop.wire(train.bytes, packets);
        // It leaves its queue now, and stands in the egress buffer for so long.
        let stands = self.net.ports[index as usize].free_at.saturating_sub(self.now);
        let (start, time) = self.occupy(index, &hop, train.bytes, packets, wire);
        let first = if packets == 1 { time } else { time / u64::from(packets) };
        let tail = start + time + hop.propagation;
        self.release(&train, start + first - stands);
        let lane = hop.lane(train.draw);
        let pool = &mut self.net.pools[lane.pool as usize];
        pool.headers -= packets;
        pool.units -= hop.units(train.bytes);
        let moved = &mut self.slab[head];
        moved.held = lane.pool;
        moved.tail = tail;
        match hop.end {
            End::Queue => {
                let lead = self.lead(&train, &hop, wire, time, first);
                self.push(start + lead + hop.latency, ARRIVE, head, 0);
            }
            End::Memory(_) => self.push(start + first + hop.propagation, ARRIVE, head, 0),
            End::Initiator => self.hand_over(head, tail, time),
        }
        if !is_last {
            if let Some(port) = self.join(fifo).filter(|&port| port != index) {
                self.kicked.push(port);
            }
        }
        if leg != NONE {
            self.departed(leg, train.bytes);
        }
        self.kicked.push(index);
    }

    /// Occupies a port with a train and with the DLLPs that wait: when it begins, and how long it takes.
    ///
    /// DLLPs are charged to the direction opposite to the packets that cause them (pcie-bench,
    /// SIGCOMM 2018, section 3); those that found it idle cost nothing.
    fn occupy(&mut self, index: u32, hop: &Hop, bytes: u32, packets: u32, wire: u64) -> (u64, u64) {
        let now = self.now;
        let port = &mut self.net.ports[index as usize];
        let time = (wire * hop.picos_per_kib + 512) >> 10;
        let begin = now.max(port.free_at);
        let mut start = begin;
        if port.debt > 0 {
            let owed = (port.debt * port.picos_per_kib / 1000) >> 10;
            start += owed.saturating_sub(begin - port.free_at);
            port.debt = 0;
        }
        port.free_at = start + time;
        let counted = &mut port.counted;
        counted.busy += port.free_at - begin;
        counted.wire += wire;
        counted.payload += hop.payload(bytes);
        let (opposite, per_packet) = (port.opposite, port.dllp_per_mille);
        if opposite != NONE && hop.class != REQUEST {
            let back = &mut self.net.ports[opposite as usize];
            let bytes = u64::from(packets) * u64::from(per_packet);
            back.debt += bytes;
            back.counted.dllp += bytes;
        }
        (start, time)
    }

    /// How long after the beginning of a train the next port may begin to send it: after the header
    /// where that port is not faster (cut-through), else after the first packet, and so late that the
    /// last packet is there when its turn comes.
    fn lead(&self, train: &Train, hop: &Hop, wire: u64, time: u64, first: u64) -> u64 {
        let next = &self.net.hops[train.hop as usize + 1];
        let (here, there) = (hop.picos_per_kib, next.picos_per_kib);
        if there >= here {
            let header = (u64::from(hop.overhead) * here) >> 10;
            return header.min(first);
        }
        let packets = next.packets(train.bytes);
        let bytes = if next.has_payload { next.wire(train.bytes, packets) } else { wire };
        let out = (bytes * there) >> 10;
        let rest = out - out / u64::from(packets);
        first.max(time.saturating_sub(rest))
    }

    /// Sends back the credits that a train holds where it is, as its first packet is gone at `time`.
    ///
    /// A train takes all its credits when its first packet is sent and returns all when its first is
    /// gone, so that the round trip of credits does not depend on the length of trains.
    pub(super) fn release(&mut self, train: &Train, time: u64) {
        if train.held == NONE {
            return;
        }
        let before = &self.net.hops[train.hop as usize - 1];
        let (headers, units) = (before.packets(train.bytes), before.units(train.bytes));
        self.push_credit(time, train.held, headers, units);
    }

    pub(super) fn push_credit(&mut self, time: u64, pool: u32, headers: u32, units: u32) {
        let back = self.net.pools[pool as usize].back;
        self.push(time + back, CREDIT, pool, headers << UNIT_BITS | units);
    }

    fn credit(&mut self, pool: u32, headers: u32, units: u32) {
        let pool = &mut self.net.pools[pool as usize];
        pool.headers += headers;
        pool.units += units;
        self.kicked.push(pool.port);
    }

    fn arrive(&mut self, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        if let End::Memory(memory) = hop.end {
            self.access(memory, index);
            return;
        }
        if hop.iommu != NONE && train.draw & TRANSLATED == 0 {
            if let Some(done) = self.translate(hop.iommu, &train) {
                self.slab[index].draw |= TRANSLATED;
                self.push(done, ARRIVE, index, 0);
                return;
            }
        }
        let draw = train.draw & !TRANSLATED;
        let moved = &mut self.slab[index];
        moved.draw = draw;
        moved.hop += 1;
        self.enqueue(hop.lane(draw).fifo, index);
    }

    /// Gives a completion to its initiator, whose tags are free as the first request is answered.
    fn hand_over(&mut self, index: u32, tail: u64, time: u64) {
        let Train { tags, leg, bytes, .. } = self.slab[index];
        let route = &self.net.routes[leg as usize];
        let requests = u64::from(bytes >> route.request_shift);
        if tags > 0 && requests > 1 {
            let rest = time - time / requests;
            let of = route.tags;
            self.slab[index].tags = 0;
            self.push(tail - rest, TAGS, of, tags);
        }
        self.push(tail, DELIVERED, index, 0);
    }

    fn delivered(&mut self, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        let pool = &mut self.net.pools[train.held as usize];
        pool.headers += hop.packets(train.bytes);
        pool.units += hop.units(train.bytes);
        self.slab.remove(index);
        if train.tags > 0 {
            self.give_tags(self.net.routes[train.leg as usize].tags, train.tags);
        }
        self.moved(train.leg, train.slot, train.bytes);
    }

    /// Takes the tags that the head of a queue needs, or lets it wait for them behind others.
    ///
    /// A tag is in use from when a request is sent until its last completion is in a buffer of its initiator (PCIe base
    /// specification, "Transaction descriptor"), whatever a medium takes before or after.
    fn take_tags(&mut self, fifo: u32) -> bool {
        let queue = &self.net.fifos[fifo as usize];
        let train = &mut self.slab[queue.head];
        let tags = &mut self.net.tags[queue.tags as usize];
        let request_shift = self.net.routes[train.leg as usize].request_shift;
        let taken = train.bytes.div_ceil(1 << request_shift).min(tags.full);
        if tags.free < taken {
            tags.waiting.push_back(fifo);
            return false;
        }
        tags.free -= taken;
        train.tags = taken;
        true
    }

    /// Takes tags back and lets the queues that wait for some go on, in the order in which they came.
    fn give_tags(&mut self, index: u32, count: u32) {
        self.net.tags[index as usize].free += count;
        while let Some(fifo) = self.net.tags[index as usize].waiting.pop_front() {
            let Some(port) = self.join(fifo) else {
                // Too few for it still: it keeps its place.
                self.net.tags[index as usize].waiting.rotate_right(1);
                break;
            };
            self.kicked.push(port);
        }
    }
}
