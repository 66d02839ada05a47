//! Arbitration: the queue that a port serves next.
//!
//! Links serve queues round robin, one train each: a queue joins when a train for the port comes to its head, and
//! rejoins behind the others after each train. That is round robin over input ports (PCIe base specification, "Port
//! arbitration", hardware-fixed); weights give an input several turns in a row. Media serve equal bytes instead of
//! equal trains (start-time fair queueing; Goyal, Vin, Cheng, SIGCOMM 1996). A port passes over queues whose head
//! has no credits, and sends only while there is room in its egress buffer.

use super::engine::{FREE, PacketEngine};
use super::port::{Fifo, NONE, Port};

impl Port {
    /// Inserts a queue behind those of its class that have sent no more bytes.
    fn join_by_bytes(&mut self, class: usize, fifo: u32, fifos: &mut [Fifo]) {
        let list = &mut self.waiting[class];
        let turn = fifos[fifo as usize].turn;
        let (mut before, mut at) = (NONE, list.head);
        while at != NONE && fifos[at as usize].turn <= turn {
            before = at;
            at = fifos[at as usize].next;
        }
        fifos[fifo as usize].next = at;
        match before {
            NONE => list.head = fifo,
            before => fifos[before as usize].next = fifo,
        }
        if at == NONE {
            list.tail = fifo;
        }
    }

    /// Charges a queue for its bytes. A queue that waited for credits may have an earlier turn than others: arrivals
    /// at an empty queue start where those are, so the port's turn never goes back.
    pub(super) fn charge_bytes(&mut self, turn: &mut u64, bytes: u32) {
        self.next_turn = self.next_turn.max(*turn);
        *turn += u64::from(bytes);
    }
}

impl PacketEngine {
    /// Appends a train to a queue.
    pub(super) fn enqueue(&mut self, fifo: u32, train: u32) {
        self.slab[train].next = NONE;
        let queue = &mut self.net.fifos[fifo as usize];
        if queue.head == NONE {
            queue.head = train;
            queue.tail = train;
            queue.turns_left = queue.weight;
            if let Some(port) = self.join(fifo) {
                self.to_arbitrate.push(port);
            }
        } else {
            let tail = queue.tail;
            queue.tail = train;
            self.slab[tail].next = train;
        }
    }

    /// Lets a queue wait for the port of its head: behind the others, or before them while it has turns left.
    /// Returns that port, or `None` where the head waits for tags.
    pub(super) fn join(&mut self, fifo: u32) -> Option<u32> {
        if self.net.fifos[fifo as usize].tags != NONE && !self.take_tags(fifo) {
            return None;
        }
        let queue = &mut self.net.fifos[fifo as usize];
        let hop = &self.net.hops[self.slab[queue.head].hop as usize];
        let port = &mut self.net.ports[hop.port as usize];
        port.waiting_count += 1;
        if port.is_by_bytes {
            queue.turn = queue.turn.max(port.next_turn);
            port.join_by_bytes(hop.class.into(), fifo, &mut self.net.fifos);
            return Some(hop.port);
        }
        let list = &mut port.waiting[hop.class as usize];
        if queue.turns_left < queue.weight {
            queue.next = list.head;
            list.head = fifo;
            if list.tail == NONE {
                list.tail = fifo;
            }
            return Some(hop.port);
        }
        queue.turn = port.next_turn;
        port.next_turn += 1;
        queue.next = NONE;
        let tail = list.tail;
        list.tail = fifo;
        if tail == NONE {
            list.head = fifo;
        } else {
            self.net.fifos[tail as usize].next = fifo;
        }
        Some(hop.port)
    }

    /// Sends the next train of a port, if its egress buffer has room and a queue is eligible.
    pub(super) fn arbitrate(&mut self, index: u32) {
        let port = &mut self.net.ports[index as usize];
        if port.waiting_count == 0 {
            return;
        }
        if port.free_at > self.now + port.ahead {
            if !port.is_awaited {
                port.is_awaited = true;
                let time = port.free_at - port.ahead;
                self.push(time, FREE, index);
            }
            return;
        }
        if let Some((class, before, fifo)) = self.first_eligible(index) {
            self.unlink(index, class, before, fifo);
            self.send(index, fifo);
        }
    }

    /// Returns the queue with the earliest turn among those whose head has credits: its class, its predecessor in
    /// the list, and itself. A head without credits blocks others only where they share the receiver's queue.
    fn first_eligible(&self, index: u32) -> Option<(usize, u32, u32)> {
        let port = &self.net.ports[index as usize];
        let mut best: Option<(u64, usize, u32, u32)> = None;
        for (class, list) in port.waiting.iter().enumerate() {
            let (mut before, mut at) = (NONE, list.head);
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
                if hop.is_shared {
                    break;
                }
                before = at;
                at = queue.next;
            }
        }
        best.map(|(_, class, before, at)| (class, before, at))
    }

    /// Removes a queue from those that wait for a port.
    fn unlink(&mut self, index: u32, class: usize, before: u32, fifo: u32) {
        let next = self.net.fifos[fifo as usize].next;
        let port = &mut self.net.ports[index as usize];
        port.waiting_count -= 1;
        let list = &mut port.waiting[class];
        if before == NONE {
            list.head = next;
        } else {
            self.net.fifos[before as usize].next = next;
        }
        if list.tail == fifo {
            list.tail = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_credits_keep_other_turns() {
        let mut port = Port::new(1, NONE, 0);
        let (mut sends, mut waits) = (8192, 4096);
        port.charge_bytes(&mut sends, 4096);
        assert_eq!((port.next_turn, sends), (8192, 12_288));
        // It has turns left, and its credits come back.
        port.charge_bytes(&mut waits, 4096);
        assert_eq!((port.next_turn, waits), (8192, 8192));
    }
}
