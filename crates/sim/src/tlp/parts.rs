//! The parts that the engine moves packets through: ports, queues, pools of credits, hops, memories.
//!
//! All refer to each other by position. The one thing to know: a *port* is anything that sends one
//! train at a time at a rate. It is one direction of a link, or a stage inside a node: the medium of a
//! drive, the limit of a root complex for traffic between peers.

/// No position.
pub(super) const NONE: u32 = u32::MAX;

/// Posted writes.
pub(super) const POSTED: u8 = 0;
/// Read requests.
pub(super) const REQUEST: u8 = 1;
/// Completions with data.
pub(super) const COMPLETION: u8 = 2;

/// Queues whose head waits for one port, in order of their turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// What sends trains one at a time.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) picos_per_kib: u64,
    /// When the last byte of the train before is out.
    pub(super) free_at: u64,
    /// How long before that it may take the next one: what its egress buffer may hold is sent in that time.
    pub(super) ahead: u64,
    /// Whether an event is under way that will look for the next train.
    pub(super) is_awaited: bool,
    /// The other direction of the link; [`NONE`] for a stage.
    pub(super) opposite: u32,
    /// DLLP bytes sent back for each packet with payload, in thousandths.
    pub(super) dllp_per_mille: u32,
    /// DLLP bytes that wait to be sent here, in thousandths.
    pub(super) debt: u64,
    /// Queues whose turn comes, by class.
    pub(super) turns: [Turns; 3],
    /// Number of the next turn.
    pub(super) next_turn: u64,
    /// Whether turns are equal bytes, and not trains: [`next_turn`](Self::next_turn) is then the bytes that a queue
    /// which always had some has sent.
    pub(super) is_by_bytes: bool,
    pub(super) waiting: u32,
    pub(super) counted: PortCount,
}

impl Port {
    /// Puts a queue in front of those of its class that have sent more.
    pub(super) fn join_by_bytes(&mut self, class: usize, fifo: u32, fifos: &mut [Fifo]) {
        let turns = &mut self.turns[class];
        let turn = fifos[fifo as usize].turn;
        let (mut before, mut at) = (NONE, turns.head);
        while at != NONE && fifos[at as usize].turn <= turn {
            before = at;
            at = fifos[at as usize].next;
        }
        fifos[fifo as usize].next = at;
        match before {
            NONE => turns.head = fifo,
            before => fifos[before as usize].next = fifo,
        }
        if at == NONE {
            turns.tail = fifo;
        }
    }

    /// Gives a queue its turn. One that waited for credits has an earlier turn than others that went meanwhile: what
    /// comes anew begins where those are, and not with the turns that it has left.
    pub(super) fn take_by_bytes(&mut self, turn: &mut u64, bytes: u32) {
        self.next_turn = self.next_turn.max(*turn);
        *turn += u64::from(bytes);
    }
}

/// What a port has sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PortCount {
    pub(super) payload: u64,
    pub(super) wire: u64,
    /// In thousandths of a byte.
    pub(super) dllp: u64,
    pub(super) busy: u64,
    pub(super) most_waiting: u32,
}

/// Trains that leave in the order in which they came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fifo {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The next queue that waits for the same port.
    pub(super) next: u32,
    /// The number of its turn.
    pub(super) turn: u64,
    /// Turns in a row.
    pub(super) weight: u16,
    pub(super) left: u16,
    /// The tags without which no train leaves it; [`NONE`] but where read requests leave their initiator.
    pub(super) tags: u32,
    /// The leg that fills it; [`NONE`] for what comes from a link or a memory.
    pub(super) leg: u32,
}

/// Credits of one receiver for one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool {
    pub(super) headers: u32,
    pub(super) units: u32,
    /// Who waits for them.
    pub(super) port: u32,
    pub(super) full: (u32, u32),
    /// Time that a credit takes back to the sender.
    pub(super) back: u64,
}

/// Where a train waits behind a hop, and whose credits it holds there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) fifo: u32,
    pub(super) pool: u32,
}

/// What is at the far end of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A queue for the next hop.
    Queue,
    /// This memory.
    Memory(u32),
    /// The initiator that asked for it, or that moves it between its medium and its own memory.
    Initiator,
}

/// One port on the way of a leg's packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub(super) port: u32,
    /// What the port takes for 1024 bytes: as long as for all others, but on a medium that is read and written.
    pub(super) picos_per_kib: u64,
    /// log2 of the payload of a packet.
    pub(super) unit_shift: u32,
    /// Bytes around that payload.
    pub(super) overhead: u32,
    pub(super) class: u8,
    pub(super) has_payload: bool,
    /// Whether the sender of the next packet may be held up by others: 65536ths of the commands.
    pub(super) coupling: u32,
    pub(super) shared: Lane,
    pub(super) private: Lane,
    pub(super) end: End,
    /// Propagation and the latency of the node behind.
    pub(super) latency: u64,
    pub(super) propagation: u64,
    /// What translates on arrival; [`NONE`] for nothing.
    pub(super) iommu: u32,
}

impl Hop {
    pub(super) fn packets(&self, bytes: u32) -> u32 {
        (bytes + (1 << self.unit_shift) - 1) >> self.unit_shift
    }

    /// 16-byte units of payload.
    pub(super) fn units(&self, bytes: u32) -> u32 {
        if self.has_payload { bytes.div_ceil(16) } else { 0 }
    }

    pub(super) fn payload(&self, bytes: u32) -> u64 {
        if self.has_payload { u64::from(bytes) } else { 0 }
    }

    pub(super) fn wire(&self, bytes: u32, packets: u32) -> u64 {
        self.payload(bytes) + u64::from(packets) * u64::from(self.overhead)
    }

    /// How long its port takes for what comes behind the first packet of a train.
    pub(super) fn behind_first(&self, bytes: u32) -> u64 {
        let packets = self.packets(bytes);
        let out = (self.wire(bytes, packets) * self.picos_per_kib) >> 10;
        out - out / u64::from(packets)
    }

    pub(super) fn lane(&self, draw: u32) -> Lane {
        if draw < self.coupling { self.shared } else { self.private }
    }
}

/// Those who wait for a memory, in the order of their turns: trains that write, trains that read, flows whose threads copy,
/// and trains that its own device is about to post or to fetch.
pub(super) const SIDES: usize = 4;

/// A memory, or one direction of it where reads and writes take nothing from each other: serves one access after the other.
#[derive(Debug, Clone)]
pub(super) struct MemoryState {
    /// Picoseconds for 1024 bytes written, read.
    pub(super) per_kib: [u64; 2],
    pub(super) write_latency: u64,
    pub(super) read_latency: u64,
    /// Whether sides take turns; in order of arrival where only one of them takes time.
    pub(super) takes_turns: bool,
    /// When the accesses before are served.
    pub(super) free_at: u64,
    /// What waits where sides take turns, in order of arrival.
    pub(super) waiting: [std::collections::VecDeque<u32>; SIDES],
    /// Bytes that each side has sent for, and those of the last that was served: turns are equal bytes.
    pub(super) turns: [u64; SIDES],
    pub(super) turn: u64,
    pub(super) written: u64,
    pub(super) read: u64,
}

/// Page-table walkers, by when each is free.
#[derive(Debug, Clone)]
pub(super) struct IommuState {
    pub(super) walkers: Vec<u64>,
    pub(super) walk: u64,
    /// Bytes a thousand times over between two misses.
    pub(super) bytes_per_mille_miss: u64,
    pub(super) miss_per_mille: u64,
}

/// Tags of an initiator.
#[derive(Debug, Clone)]
pub(super) struct Tags {
    pub(super) free: u32,
    pub(super) full: u32,
    /// Queues whose head waits for some, first come first served.
    pub(super) waiting: std::collections::VecDeque<u32>,
}

/// Packets of one command that move as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Train {
    /// The hop that it waits for or crosses.
    pub(super) hop: u32,
    pub(super) leg: u32,
    /// Slot of its command.
    pub(super) slot: u32,
    pub(super) bytes: u32,
    /// The train behind it in a queue, or the next free place.
    pub(super) next: u32,
    /// Pool whose credits it holds.
    pub(super) held: u32,
    /// When its last byte arrives at the end of the hop.
    pub(super) tail: u64,
    /// Read requests whose tags it gives back.
    pub(super) tags: u32,
    /// Compared with the coupling of nodes, below 65536; the highest bit set once it is translated.
    pub(super) draw: u32,
}

/// Mark of a translated train in [`Train::draw`].
pub(super) const TRANSLATED: u32 = 1 << 31;

/// Trains in place, and the places that are free.
#[derive(Debug, Default)]
pub(super) struct Slab {
    trains: Vec<Train>,
    free: Option<u32>,
    pub(super) live: u32,
}

impl Slab {
    #[expect(clippy::cast_possible_truncation, reason = "bounded by depth and credits")]
    pub(super) fn insert(&mut self, train: Train) -> u32 {
        self.live += 1;
        match self.free {
            Some(index) => {
                let place = &mut self.trains[index as usize];
                self.free = (place.next != NONE).then_some(place.next);
                *place = train;
                index
            }
            None => {
                self.trains.push(train);
                (self.trains.len() - 1) as u32
            }
        }
    }

    pub(super) fn footprint(&self) -> usize {
        self.trains.capacity() * size_of::<Train>()
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.live -= 1;
        self.trains[index as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(index);
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Train;
    fn index(&self, index: u32) -> &Train {
        &self.trains[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, index: u32) -> &mut Train {
        &mut self.trains[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_waited_for_credits_gives_others_no_turns_of_the_past() {
        let mut port = Port {
            picos_per_kib: 1,
            free_at: 0,
            ahead: 0,
            is_awaited: false,
            opposite: NONE,
            dllp_per_mille: 0,
            debt: 0,
            turns: [Turns { head: NONE, tail: NONE }; 3],
            next_turn: 0,
            is_by_bytes: true,
            waiting: 0,
            counted: PortCount::default(),
        };
        let (mut goes, mut waits) = (8192, 4096);
        port.take_by_bytes(&mut goes, 4096);
        assert_eq!((port.next_turn, goes), (8192, 12_288));
        // It has turns left, and its credits come back.
        port.take_by_bytes(&mut waits, 4096);
        assert_eq!((port.next_turn, waits), (8192, 8192));
    }
}
