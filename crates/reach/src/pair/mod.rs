//! Two PCI functions: for each direction, the path of packets and the kernel's decision, apart.
//!
//! A direction is one function, the initiator, reading and writing memory of the other, the provider. A
//! direction whose provider is known to have no memory for peers does not exist.

mod path;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Origin};

pub use path::{PacketPath, PathClass, SlowestLink, Turn};

use crate::{Reach, decide};

/// Both directions between two functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The path between the two, which both directions share.
    pub path: PacketPath,
    /// The first function reaches memory of the second.
    pub forward: Option<Direction>,
    /// The second function reaches memory of the first.
    pub backward: Option<Direction>,
}

/// One function reaching memory of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// The function that reads and writes.
    pub initiator: FunctionId,
    /// The function whose memory it is.
    pub provider: FunctionId,
    /// Evidence that the provider has memory for peers.
    pub memory: PeerMemory,
    /// The kernel's decision where a driver asks for it.
    pub kernel: Reach,
}

/// Memory of a function that peers could read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMemory {
    /// It has some.
    Present,
    /// It may have some: its windows, or the memory that its driver lends, are unknown.
    Unknown,
    /// It has none.
    Absent,
}

impl Pair {
    /// The directions between two functions of one fabric.
    ///
    /// # Panics
    /// When an identifier comes from another fabric.
    pub fn new(fabric: &Fabric, first: FunctionId, second: FunctionId) -> Self {
        let direction = |initiator, provider| {
            let memory = PeerMemory::new(fabric, provider);
            (memory != PeerMemory::Absent).then(|| Direction {
                initiator,
                provider,
                memory,
                kernel: decide(fabric, provider, initiator),
            })
        };
        Self {
            path: PacketPath::new(fabric, first, second),
            forward: direction(first, second),
            backward: direction(second, first),
        }
    }

    /// The directions that payload takes: GPUs and cards read no memory of drives, whatever a drive lends.
    pub fn payload_directions(&self, fabric: &Fabric) -> impl Iterator<Item = &Direction> {
        let kind = |id: FunctionId| fabric.function(id).kind;
        let is_taken = move |one: &&Direction| {
            kind(one.provider) != FunctionKind::Nvme
                || !matches!(kind(one.initiator), FunctionKind::Gpu | FunctionKind::Fpga)
        };
        self.directions().filter(is_taken)
    }

    /// The directions that exist.
    pub fn directions(&self) -> impl Iterator<Item = &Direction> {
        self.forward.iter().chain(&self.backward)
    }
}

impl PeerMemory {
    /// Returns the knowledge of a function's memory.
    pub fn new(fabric: &Fabric, id: FunctionId) -> Self {
        let function = fabric.function(id);
        if fabric.memory(id).is_some() {
            return Self::Present;
        }
        let has_window = function.bars.iter().any(|bar| bar.size > peerlane_units::Bytes::ZERO);
        let is_text = fabric.origin == Origin::Text;
        match function.kind {
            // Without its class it may be anything.
            FunctionKind::Other if is_text && function.is_unclassified() => Self::Unknown,
            // A CMB lies in a window of the drive, and only the kernel says whether it lends it.
            FunctionKind::Nvme if is_text => Self::Unknown,
            FunctionKind::Other if has_window => Self::Unknown,
            _ => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests;
