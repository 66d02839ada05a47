//! What bytes cost on a link: rate, framing, and the credits of its receivers.

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::{Picos, picos_per_kib};

/// Framing and sequence number 4, LCRC 4, header 16: a request with a 64-bit address (PCIe base
/// specification, transaction and data link layers).
const REQUEST_OVERHEAD: u64 = 24;
/// The header of a completion is four bytes shorter.
const COMPLETION_OVERHEAD: u64 = 20;
/// End-to-end CRC (PCIe base specification, "ECRC rules").
const ECRC: u64 = 4;
/// A data link layer packet with its framing (PCIe base specification, "Data link layer packets").
const DLLP: u64 = 8;

/// What the data link layer puts around a header: framing and sequence number 4, LCRC 4.
const LINK_LAYER: u64 = 8;
/// Bytes of a frame that are no content: preamble and delimiter 8, header 14, check sequence 4, gap 12
/// (IEEE 802.3), as [`FRAME_OVERHEAD`](crate::devices::ethernet::FRAME_OVERHEAD).
const FRAME: u64 = 38;
/// Bytes of the shortest frame with preamble and gap: 46 of content (IEEE 802.3).
const SHORTEST_FRAME: u64 = 46 + FRAME;

/// How payload becomes bytes on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Packets of PCIe.
    Pcie {
        /// Whether packets carry an end-to-end CRC.
        has_ecrc: bool,
        /// Acknowledgements and credit updates sent back for each packet with payload, in thousandths.
        /// One fits measurements of both directions of a Gen5 link; how a port merges them is its own
        /// affair.
        dllp_per_mille: u32,
    },
    /// Packets of PCIe, each in an Ethernet frame of its own (`devices::ethernet`).
    Ethernet {
        /// Bytes of each frame that are the bridge's own.
        tunnel: u32,
    },
    /// Payload alone: paths inside a chip, links between sockets.
    Bare,
}

/// One direction of a link; both are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Generation and width; `None` for what is no PCIe link.
    pub speed: Option<LinkSpeed>,
    /// Picoseconds for 1024 bytes, line encoding and SKP ordered sets included.
    pub picos_per_kib: u64,
    /// Most payload of one packet.
    pub mps: Bytes,
    /// How payload becomes bytes.
    pub framing: Framing,
    /// From one end to the other.
    pub propagation: Picos,
    /// What the receiver at either end can hold.
    pub credits: Credits,
}

impl Wire {
    /// A PCIe link with packets of `mps` and room for a round trip of 2 us.
    pub fn pcie(speed: LinkSpeed, mps: Bytes) -> Self {
        let rate = speed.usable_rate();
        Self {
            speed: Some(speed),
            picos_per_kib: picos_per_kib(rate),
            mps,
            framing: Framing::Pcie { has_ecrc: false, dllp_per_mille: 1000 },
            propagation: Picos::nanos(5),
            credits: Credits::covering(rate, mps, Picos::micros(2)),
        }
    }

    /// An Ethernet that carries `rate` in each direction, with a packet of PCIe in each frame, and room for a round
    /// trip of 20 us.
    pub fn ethernet(rate: ByteRate, mps: Bytes, tunnel: u32, propagation: Picos) -> Self {
        Self {
            speed: None,
            picos_per_kib: picos_per_kib(rate),
            mps,
            framing: Framing::Ethernet { tunnel },
            propagation,
            credits: Credits::covering(rate, mps, Picos::micros(20)),
        }
    }

    /// A way inside a chip or between sockets that carries `rate` of payload.
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

    /// A link between sockets that carries `rate` of payload, with room for a round trip of 2 us, as PCIe links have
    /// here: how much sockets have is not published.
    pub fn socket(rate: ByteRate, propagation: Picos) -> Self {
        let credits = Credits::covering(rate, Bytes(256), Picos::micros(2));
        Self { credits, ..Self::bare(rate, propagation) }
    }

    /// Bytes a second in one direction, headers included.
    pub fn rate(&self) -> ByteRate {
        ByteRate(1_024_000_000_000_000 / self.picos_per_kib)
    }

    /// Bytes around the payload of a posted write.
    pub fn write_overhead(&self) -> u64 {
        self.framed(REQUEST_OVERHEAD)
    }

    /// Bytes of a read request.
    pub fn request_bytes(&self) -> u64 {
        match self.framing {
            // A frame is no shorter than it must be.
            Framing::Ethernet { .. } => self.framed(REQUEST_OVERHEAD).max(SHORTEST_FRAME),
            Framing::Pcie { .. } | Framing::Bare => self.framed(REQUEST_OVERHEAD),
        }
    }

    /// Bytes around the payload of a completion.
    pub fn completion_overhead(&self) -> u64 {
        self.framed(COMPLETION_OVERHEAD)
    }

    /// Bytes sent back, in thousandths, for each packet with payload.
    pub fn dllp_bytes_per_mille(&self) -> u64 {
        match self.framing {
            Framing::Pcie { dllp_per_mille, .. } => DLLP * u64::from(dllp_per_mille),
            // Its receiver has no data link layer of PCIe.
            Framing::Ethernet { .. } | Framing::Bare => 0,
        }
    }

    fn framed(&self, overhead: u64) -> u64 {
        match self.framing {
            Framing::Pcie { has_ecrc, .. } => overhead + if has_ecrc { ECRC } else { 0 },
            Framing::Ethernet { tunnel } => overhead - LINK_LAYER + u64::from(tunnel) + FRAME,
            Framing::Bare => 0,
        }
    }
}

/// Packets and 16-byte units of payload that a receiver can hold (PCIe base specification, "Flow
/// control"). Initiators and root complexes take any completion that they asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// PH: posted packets.
    pub posted_headers: u32,
    /// PD: units of posted payload.
    pub posted_data: u32,
    /// NPH: read requests.
    pub nonposted_headers: u32,
    /// CPLH: completions.
    pub completion_headers: u32,
    /// CPLD: units of completion payload.
    pub completion_data: u32,
}

impl Credits {
    /// So many that they never run out.
    pub const UNLIMITED: Self = Self {
        posted_headers: Self::MOST,
        posted_data: Self::MOST,
        nonposted_headers: Self::MOST,
        completion_headers: Self::MOST,
        completion_data: Self::MOST,
    };
    /// Counts from here on are unlimited.
    pub const MOST: u32 = 1 << 28;

    /// As many as keep a link of `rate` busy with packets of `payload` over `round_trip`, for payload as
    /// small as 64 bytes in headers, and 64 packets at least.
    pub fn covering(rate: ByteRate, payload: Bytes, round_trip: Picos) -> Self {
        let bytes = u128::from(rate.0) * u128::from(round_trip.0) / 1_000_000_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(64 * payload.0);
        let units =
            |unit: u64| u32::try_from(bytes / unit).unwrap_or(Self::MOST).clamp(64, Self::MOST);
        Self {
            posted_headers: units(64),
            posted_data: units(16),
            nonposted_headers: units(64),
            completion_headers: units(64),
            completion_data: units(16),
        }
    }
}
