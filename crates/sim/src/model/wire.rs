//! Wires: rate, framing, and credits of the receivers.

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::{Picos, picos_per_kib};

/// Kinds of packets, each with buffers and credits of its own (PCIe base specification, "Flow control").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Writes.
    Posted,
    /// Read requests.
    NonPosted,
    /// Answers to read requests.
    Completion,
}

/// Framing and sequence number 4, LCRC 4, header 16: a request with a 64-bit address (PCIe base
/// specification, transaction and data link layers).
const REQUEST_OVERHEAD: u64 = 24;
/// The header of a completion is four bytes shorter.
const COMPLETION_OVERHEAD: u64 = 20;
/// A data link layer packet with its framing (PCIe base specification, "Data link layer packets").
const DLLP: u64 = 8;

/// Data link layer around a header: framing and sequence number 4, LCRC 4.
const LINK_LAYER: u64 = 8;
/// Bytes of a frame besides its content: preamble and delimiter 8, header 14, check sequence 4, gap 12 (IEEE 802.3).
pub(super) const FRAME: u64 = 38;
/// Bytes of the shortest frame with preamble and gap: 46 of content (IEEE 802.3).
const SHORTEST_FRAME: u64 = 46 + FRAME;

/// Framing of payload on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// PCIe packets.
    Pcie {
        /// Acknowledgements and credit updates sent back for each packet with payload, in thousandths. One fits
        /// measurements of both directions of a Gen5 link; ports differ in how they merge them.
        dllp_per_mille: u32,
    },
    /// PCIe packets, one in each Ethernet frame (ExpressEther, Suzuki and others, Hot Interconnects 2006).
    Ethernet {
        /// Bytes of the bridge in each frame.
        tunnel: u32,
    },
    /// Payload alone: on-chip paths, links between sockets.
    Bare,
}

/// One direction of a link; both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Generation and width; `None` unless it is a PCIe link.
    pub speed: Option<LinkSpeed>,
    /// Picoseconds for 1024 bytes, with line encoding and SKP ordered sets.
    pub picos_per_kib: u64,
    /// Maximum payload of a packet.
    pub mps: Bytes,
    /// Framing of payload.
    pub framing: Framing,
    /// Time from one end to the other.
    pub propagation: Picos,
    /// Room of the receiver at either end.
    pub credits: Credits,
}

impl Wire {
    /// A PCIe link with credits for a round trip of 2 us.
    pub fn pcie(speed: LinkSpeed, mps: Bytes) -> Self {
        let rate = speed.usable_rate();
        let framing = Framing::Pcie { dllp_per_mille: 1000 };
        let credits = Credits::covering(rate, mps, Picos::micros(2));
        Self { speed: Some(speed), mps, framing, credits, ..Self::bare(rate, Picos::nanos(5)) }
    }

    /// An Ethernet link with one PCIe packet in each frame, and credits for a round trip of 20 us.
    pub fn ethernet(rate: ByteRate, mps: Bytes, tunnel: u32, propagation: Picos) -> Self {
        let credits = Credits::covering(rate, mps, Picos::micros(20));
        Self {
            mps,
            framing: Framing::Ethernet { tunnel },
            credits,
            ..Self::bare(rate, propagation)
        }
    }

    /// An on-chip path that carries `rate` of payload.
    pub fn bare(rate: ByteRate, propagation: Picos) -> Self {
        Self {
            speed: None,
            picos_per_kib: picos_per_kib(rate),
            mps: Bytes(4096),
            framing: Framing::Bare,
            propagation,
            credits: Credits::UNLIMITED,
        }
    }

    /// A link between sockets that carries `rate` of payload, with credits as a PCIe link (none are published).
    pub fn socket(rate: ByteRate, propagation: Picos) -> Self {
        let credits = Credits::covering(rate, Bytes(256), Picos::micros(2));
        Self { credits, ..Self::bare(rate, propagation) }
    }

    /// Bytes a second, with headers.
    pub fn rate(&self) -> ByteRate {
        ByteRate(1_024_000_000_000_000 / self.picos_per_kib)
    }

    /// Bytes around the payload of a posted write.
    pub(crate) fn write_overhead(&self) -> u64 {
        self.framed(REQUEST_OVERHEAD)
    }

    /// Bytes of a read request.
    pub(crate) fn request_bytes(&self) -> u64 {
        match self.framing {
            Framing::Ethernet { .. } => self.framed(REQUEST_OVERHEAD).max(SHORTEST_FRAME),
            Framing::Pcie { .. } | Framing::Bare => self.framed(REQUEST_OVERHEAD),
        }
    }

    /// Bytes around the payload of a completion.
    pub(crate) fn completion_overhead(&self) -> u64 {
        self.framed(COMPLETION_OVERHEAD)
    }

    /// Bytes sent back, in thousandths, for each packet with payload.
    pub(crate) fn dllp_bytes_per_mille(&self) -> u64 {
        match self.framing {
            Framing::Pcie { dllp_per_mille } => DLLP * u64::from(dllp_per_mille),
            // The receiver has no data link layer of PCIe.
            Framing::Ethernet { .. } | Framing::Bare => 0,
        }
    }

    fn framed(&self, overhead: u64) -> u64 {
        match self.framing {
            Framing::Pcie { .. } => overhead,
            Framing::Ethernet { tunnel } => overhead - LINK_LAYER + u64::from(tunnel) + FRAME,
            Framing::Bare => 0,
        }
    }
}

/// Room of a receiver for each class of packets (PCIe base specification, "Flow control"). Initiators and root
/// complexes take any completion that they requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// Packets: PH, NPH and CPLH.
    pub headers: u32,
    /// Units of 16 bytes of payload: PD and CPLD.
    pub data: u32,
}

impl Credits {
    /// Least count that means infinite credits.
    pub const MOST: u32 = 1 << 28;
    /// Infinite credits.
    pub(crate) const UNLIMITED: Self = Self { headers: Self::MOST, data: Self::MOST };

    /// Credits that keep a link of `rate` busy over `round_trip` with payloads down to 64 bytes: the bandwidth-delay
    /// product, and 64 packets of `payload` at least.
    pub fn covering(rate: ByteRate, payload: Bytes, round_trip: Picos) -> Self {
        let bytes = u128::from(rate.0) * u128::from(round_trip.0) / 1_000_000_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(64 * payload.0);
        let units =
            |unit: u64| u32::try_from(bytes / unit).unwrap_or(Self::MOST).clamp(64, Self::MOST);
        Self { headers: units(64), data: units(16) }
    }
}
