//! Ports, the queues in front of them, and the hops of a route.
//!
//! All refer to each other by index. A *port* sends one train at a time at a fixed rate. It is one direction of
//! a link, or a stage inside a node: the medium of a drive, a root complex's limit for traffic between peers.

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// Posted writes.
pub(super) const POSTED: u8 = 0;
/// Read requests.
pub(super) const REQUEST: u8 = 1;
/// Completions with data.
pub(super) const COMPLETION: u8 = 2;

/// A linked list of queues whose head waits for one port, in order of service.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingQueues {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// A sender of one train at a time.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) picos_per_kib: u64,
    /// Departure of the last byte of the train before.
    pub(super) free_at: u64,
    /// Time that the egress buffer takes to drain when full: a train is accepted so long before `free_at`.
    pub(super) ahead: u64,
    /// True while an event is scheduled that arbitrates again.
    pub(super) is_awaited: bool,
    /// The other direction of the link; [`NONE`] for a stage.
    pub(super) opposite: u32,
    /// DLLP bytes sent back for each packet with payload, in thousandths.
    pub(super) dllp_per_mille: u32,
    /// DLLP bytes that wait to be sent here, in thousandths.
    pub(super) debt: u64,
    /// Waiting queues, by class.
    pub(super) waiting: [WaitingQueues; 3],
    pub(super) waiting_count: u32,
    /// Number of the next turn or, with `is_by_bytes`, the bytes sent by a queue that was never empty.
    pub(super) next_turn: u64,
    /// True where turns are equal bytes (media), not equal trains (links).
    pub(super) is_by_bytes: bool,
    /// Bytes sent, with headers.
    pub(super) wire_bytes: u64,
}

impl Port {
    pub(super) fn new(picos_per_kib: u64, opposite: u32, dllp_per_mille: u32) -> Self {
        Self {
            picos_per_kib,
            free_at: 0,
            ahead: 0,
            is_awaited: false,
            opposite,
            dllp_per_mille,
            debt: 0,
            waiting: [WaitingQueues { head: NONE, tail: NONE }; 3],
            waiting_count: 0,
            next_turn: 0,
            is_by_bytes: false,
            wire_bytes: 0,
        }
    }
}

/// A first-in, first-out queue of trains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fifo {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The next queue that waits for the same port.
    pub(super) next: u32,
    /// Its place in the order of service.
    pub(super) turn: u64,
    /// Turns in a row.
    pub(super) weight: u16,
    pub(super) turns_left: u16,
    /// The tags that each train of it takes; [`NONE`] except where read requests leave their initiator.
    pub(super) tags: u32,
    /// The leg that fills it; [`NONE`] for arrivals from a link or a memory.
    pub(super) leg: u32,
}

impl Fifo {
    pub(super) fn new(weight: u16, leg: u32) -> Self {
        let (head, tail, next, tags) = (NONE, NONE, NONE, NONE);
        Self { head, tail, next, turn: 0, weight, turns_left: weight, tags, leg }
    }
}

/// A receiver's queue and the credit pool of its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveQueue {
    pub(super) fifo: u32,
    pub(super) pool: u32,
}

/// The far end of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HopEnd {
    /// A queue for the next hop.
    Queue,
    /// This memory.
    Memory(u32),
    /// The initiator that asked for it, or that moves it between its medium and its own memory.
    Initiator,
}

/// One port on the route of a leg's packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub(super) port: u32,
    /// Time of 1024 bytes: that of the port, except on a medium that is both read and written.
    pub(super) picos_per_kib: u64,
    /// log2 of the payload of a packet.
    pub(super) unit_shift: u32,
    /// Header and framing bytes of a packet.
    pub(super) overhead: u32,
    pub(super) class: u8,
    pub(super) has_payload: bool,
    /// The queue of the node behind; true if all its outputs share it.
    pub(super) is_shared: bool,
    pub(super) lane: ReceiveQueue,
    pub(super) end: HopEnd,
    /// Propagation and the latency of the node behind.
    pub(super) latency: u64,
    pub(super) propagation: u64,
    /// The IOMMU that translates on arrival; [`NONE`] for none.
    pub(super) iommu: u32,
}

impl Hop {
    pub(super) fn packets(&self, bytes: u32) -> u32 {
        (bytes + (1 << self.unit_shift) - 1) >> self.unit_shift
    }

    /// Returns the 16-byte units of payload.
    pub(super) fn units(&self, bytes: u32) -> u32 {
        if self.has_payload { bytes.div_ceil(16) } else { 0 }
    }

    pub(super) fn payload(&self, bytes: u32) -> u64 {
        if self.has_payload { u64::from(bytes) } else { 0 }
    }

    pub(super) fn wire(&self, bytes: u32, packets: u32) -> u64 {
        self.payload(bytes) + u64::from(packets) * u64::from(self.overhead)
    }

    /// Returns the time of the port for all packets of a train but the first.
    pub(super) fn behind_first(&self, bytes: u32) -> u64 {
        let packets = self.packets(bytes);
        let out = (self.wire(bytes, packets) * self.picos_per_kib) >> 10;
        out - out / u64::from(packets)
    }
}
