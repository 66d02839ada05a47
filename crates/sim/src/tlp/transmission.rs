//! Transmission: a train crosses a port, and arrives at the next queue, a memory or an initiator.
//!
//! Nodes cut through. A port is charged for the DLLPs that packets of the opposite direction cause.

use super::engine::{ARRIVE, DELIVERED, PacketEngine, TAGS};
use super::port::{Hop, HopEnd, NONE, REQUEST};
use super::train::Train;

impl PacketEngine {
    /// Sends the head of a queue through a port.
    pub(super) fn send(&mut self, index: u32, fifo: u32) {
        let queue = &mut self.net.fifos[fifo as usize];
        let head = queue.head;
        let leg = queue.leg;
        let train = self.slab[head];
        queue.head = train.next;
        let port = &mut self.net.ports[index as usize];
        if port.is_by_bytes {
            port.charge_bytes(&mut queue.turn, train.bytes);
        }
        queue.turns_left -= 1;
        if queue.turns_left == 0 {
            queue.turns_left = queue.weight;
        }
        let is_last = train.next == NONE;
        let hop = self.net.hops[train.hop as usize];
        let packets = hop.packets(train.bytes);
        let wire = hop.wire(train.bytes, packets);
        // It leaves its queue now, and stays in the egress buffer for so long.
        let buffered = self.net.ports[index as usize].free_at.saturating_sub(self.now);
        let (start, time) = self.occupy(index, &hop, packets, wire);
        let first = if packets == 1 { time } else { time / u64::from(packets) };
        let tail = start + time + hop.propagation;
        self.release_credits(&train, start + first - buffered);
        let lane = hop.lane;
        self.net.pools[lane.pool as usize].take(&hop, &train);
        let sent = &mut self.slab[head];
        sent.held = lane.pool;
        sent.tail = tail;
        match hop.end {
            HopEnd::Queue => {
                let lead = self.cut_through(&train, &hop, wire, time, first);
                self.push(start + lead + hop.latency, ARRIVE, head);
            }
            HopEnd::Memory(_) => self.push(start + first + hop.propagation, ARRIVE, head),
            HopEnd::Initiator => self.deliver(head, tail, time),
        }
        if !is_last {
            if let Some(port) = self.join(fifo).filter(|&port| port != index) {
                self.to_arbitrate.push(port);
            }
        }
        if leg != NONE {
            self.departed(leg, train.bytes);
        }
        self.to_arbitrate.push(index);
    }

    /// Occupies a port with a train and the DLLPs due. Returns its start and duration.
    ///
    /// DLLPs are charged to the direction opposite to the packets that cause them (pcie-bench, SIGCOMM 2018, section
    /// 3); those that found it idle cost nothing.
    fn occupy(&mut self, index: u32, hop: &Hop, packets: u32, wire: u64) -> (u64, u64) {
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
        port.wire_bytes += wire;
        let (opposite, per_packet) = (port.opposite, port.dllp_per_mille);
        if opposite != NONE && hop.class != REQUEST {
            self.net.ports[opposite as usize].debt += u64::from(packets) * u64::from(per_packet);
        }
        (start, time)
    }

    /// Returns the time after which the next port may begin with a train: one header where that port is not faster,
    /// else the first packet, and so late that the last packet is there when its turn comes.
    fn cut_through(&self, train: &Train, hop: &Hop, wire: u64, time: u64, first: u64) -> u64 {
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

    /// A train is at the end of a hop.
    pub(super) fn arrive(&mut self, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        if let HopEnd::Memory(memory) = hop.end {
            self.access(memory, index);
            return;
        }
        if hop.iommu != NONE && !train.is_translated {
            if let Some(done) = self.translate(hop.iommu, &train) {
                self.slab[index].is_translated = true;
                self.push(done, ARRIVE, index);
                return;
            }
        }
        let moved = &mut self.slab[index];
        moved.is_translated = false;
        moved.hop += 1;
        self.enqueue(hop.lane.fifo, index);
    }

    /// Delivers a completion to its initiator. Tags are free once the first request is answered.
    fn deliver(&mut self, index: u32, tail: u64, time: u64) {
        let Train { tags, leg, bytes, .. } = self.slab[index];
        let route = &self.net.routes[leg as usize];
        let requests = u64::from(bytes >> route.request_shift);
        if tags > 0 && requests > 1 {
            let rest = time - time / requests;
            let of = route.tags;
            self.slab[index].tags = 0;
            self.push_with(tail - rest, TAGS, of, tags);
        }
        self.push(tail, DELIVERED, index);
    }

    /// The last byte of a completion is at its initiator.
    pub(super) fn delivered(&mut self, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        let pool = &mut self.net.pools[train.held as usize];
        pool.give(hop.packets(train.bytes), hop.units(train.bytes));
        self.slab.remove(index);
        if train.tags > 0 {
            self.return_tags(self.net.routes[train.leg as usize].tags, train.tags);
        }
        self.moved(train.leg, train.slot, train.bytes);
    }
}
