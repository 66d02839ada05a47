//! What a fabric does not say of itself.

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::{Endpoint, HostMemory, Picos, RootComplex, Switch};

/// Values for every node and link of which nothing better is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Root complexes.
    pub root: RootComplex,
    /// Switches.
    pub switch: Switch,
    /// Devices.
    pub endpoint: Endpoint,
    /// Host memory of each memory node.
    pub host: HostMemory,
    /// Most payload of a packet.
    pub mps: Bytes,
    /// Links whose speed the fabric does not say.
    pub link: LinkSpeed,
    /// Links between sockets.
    pub socket: SocketLink,
    /// Ethernets, where the fabric has any.
    pub ethernet: Ethernet,
}

/// What a fabric does not say of a link between sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketLink {
    /// What it carries in one direction.
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

/// What a fabric does not say of an Ethernet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ethernet {
    /// Of PCIe in frames: bytes of each frame that are the bridge's own.
    pub tunnel: u32,
    /// Of PCIe in frames: from one part of the switch to the other.
    pub latency: Picos,
    /// Of network controllers: content of a full frame.
    pub mtu: Bytes,
    /// Of network controllers: what of it headers of network and transport take.
    pub headers: Bytes,
}

impl Default for Ethernet {
    /// TCP over IPv4 with timestamps (RFC 791, 9293, 7323) in frames of 1500 bytes; a bridge's header is
    /// published nowhere.
    fn default() -> Self {
        Self { tunnel: 10, latency: Picos::micros(2), mtu: Bytes(1500), headers: Bytes(52) }
    }
}

impl Default for Parameters {
    /// 256 bytes of payload and Gen4 x4: what NVMe drives of 2020 to 2024 have. Predictions have numbers of their own, with
    /// ranges (`predict/defaults.toml`).
    fn default() -> Self {
        Self {
            root: RootComplex::default(),
            switch: Switch::default(),
            endpoint: Endpoint::default(),
            host: HostMemory::default(),
            mps: Bytes(256),
            link: LinkSpeed { megatransfers: 16_000, width: 4 },
            socket: SocketLink::default(),
            ethernet: Ethernet::default(),
        }
    }
}
