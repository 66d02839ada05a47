//! Values that a fabric leaves out.

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::{HostMemory, ModelEndpoint, Picos, RootComplex, Switch};

/// Values of every node and link that the fabric does not state.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelParameters {
    /// Root complexes.
    pub root: RootComplex,
    /// Switches.
    pub switch: Switch,
    /// Devices.
    pub endpoint: ModelEndpoint,
    /// Host memory of every memory node.
    pub host: HostMemory,
    /// Maximum payload of a packet.
    pub mps: Bytes,
    /// Links without a stated speed.
    pub link: LinkSpeed,
    /// Links between sockets.
    pub socket: SocketLink,
    /// Ethernet links.
    pub ethernet: Ethernet,
}

/// A link between sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketLink {
    /// Bytes a second in one direction.
    pub rate: ByteRate,
    /// From one root complex to the other.
    pub latency: Picos,
}

impl Default for SocketLink {
    /// One xGMI-2 link of 16 lanes at 16 GT/s, or three UPI links of half that.
    fn default() -> Self {
        Self { rate: ByteRate(31_000_000_000), latency: Picos::nanos(60) }
    }
}

/// An Ethernet link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ethernet {
    /// PCIe in frames: bytes of the bridge in each frame.
    pub tunnel: u32,
    /// PCIe in frames: time from one part of the switch to the other.
    pub latency: Picos,
    /// Network controllers: rate of frames where none is stated; `None` without a limit.
    pub rate: Option<ByteRate>,
    /// Network controllers: content of a full frame.
    pub mtu: Bytes,
    /// Network controllers: network and transport headers in it.
    pub headers: Bytes,
}

impl Default for Ethernet {
    /// TCP over IPv4 with timestamps (RFC 791, 9293, 7323) in frames of 1500 bytes. The header of a bridge is a guess.
    fn default() -> Self {
        Self {
            tunnel: 10,
            latency: Picos::micros(2),
            rate: None,
            mtu: Bytes(1500),
            headers: Bytes(52),
        }
    }
}

impl Default for ModelParameters {
    /// NVMe drives of 2020 to 2024: 256 bytes of payload, Gen4 x4. Predictions have their own numbers, with ranges
    /// (`predict/defaults.toml`).
    fn default() -> Self {
        Self {
            root: RootComplex::default(),
            switch: Switch::default(),
            endpoint: ModelEndpoint::default(),
            host: HostMemory::default(),
            mps: Bytes(256),
            link: LinkSpeed { megatransfers: 16_000, width: 4 },
            socket: SocketLink::default(),
            ethernet: Ethernet::default(),
        }
    }
}
