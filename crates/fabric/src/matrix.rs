//! Every memory against every initiator, those between which the kernel cannot tell put together.
//!
//! What the kernel decides for a pair depends on the ports above both and on nothing else of the two,
//! so that functions with the same way up share a row or a column. A thousand drives below one switch
//! are one cell.

use std::collections::HashMap;

use peerlane_units::Bytes;

use crate::gpu::{VENDOR_AMD, VENDOR_NVIDIA};
use crate::reach::{self, Decisions, MapType};
use crate::{Acs, Fabric, FunctionId, Kind, Parent};

const VENDOR_INTEL: u16 = 0x8086;
/// Red Hat, Inc.: paravirtual devices, behind which there is no hardware of their own.
const VENDOR_VIRTIO: u16 = 0x1af4;
/// Smallest window through which the `xocl` driver lends memory (`P2P_BAR` in its source).
const SMALLEST_FPGA_MEMORY: Bytes = Bytes(256 << 20);

/// Memory of a device that others could read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Whose it is.
    pub function: FunctionId,
    /// By what it is reached.
    pub kind: MemoryKind,
    /// How much there is; `None` where it is not known.
    pub size: Option<Bytes>,
    /// How much of it nobody uses; known of the kernel's own pools alone.
    pub available: Option<Bytes>,
}

/// How memory of a device is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// A pool that the kernel keeps (`p2pmem`).
    P2pMem,
    /// A window of a GPU, through its maker's driver.
    Gpu,
    /// A window of an FPGA card, through its maker's driver.
    Fpga,
}

/// How finely a matrix is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row and a column each for every function.
    Each,
    /// Functions with the same way up share a row or a column.
    Grouped,
}

/// Functions that share a row or a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// The functions, in the order of the fabric; at least one.
    pub members: Vec<FunctionId>,
}

/// What the kernel decides between two functions of a row and a column that are not the same one;
/// where both hold one and the same function alone, what it decides for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The decision.
    pub map: MapType,
    /// Hops, where it is not refused.
    pub distance: Option<u32>,
}

/// Every memory against every initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The memories; rows.
    pub memories: Vec<Peers>,
    /// The initiators; columns.
    pub initiators: Vec<Peers>,
    /// The decisions, by row and column.
    pub cells: Vec<Vec<Cell>>,
}

impl Fabric {
    /// Whether a function moves payload: drives, NICs, FPGAs and GPUs, without the graphics of a
    /// processor or board, paravirtual devices, and the management side of an FPGA card.
    pub fn moves_payload(&self, id: FunctionId) -> bool {
        let function = self.function(id);
        match function.kind {
            Kind::Nvme => true,
            Kind::Nic => function.vendor != Some(VENDOR_VIRTIO),
            Kind::Fpga => !function.driver.is_named("xclmgmt"),
            Kind::Gpu => {
                let is_accelerator =
                    [None, Some(VENDOR_INTEL), Some(VENDOR_AMD), Some(VENDOR_NVIDIA)];
                let is_on_root_bus = matches!(function.parent, Parent::Bridge(_));
                is_accelerator.contains(&function.vendor)
                    && !(is_on_root_bus && function.vendor == Some(VENDOR_INTEL))
            }
            Kind::RootPort
            | Kind::UpstreamPort
            | Kind::DownstreamPort
            | Kind::OtherBridge
            | Kind::Other => false,
        }
    }

    /// Memory of devices that others could read and write, in the order of the functions.
    pub fn memories(&self) -> Vec<Memory> {
        self.iter().filter_map(|(id, _)| self.memory(id)).collect()
    }

    /// The memory of a function that others could read and write.
    pub fn memory(&self, id: FunctionId) -> Option<Memory> {
        let function = self.function(id);
        if let Some(pool) = function.p2pmem {
            return Some(Memory {
                function: id,
                kind: MemoryKind::P2pMem,
                size: Some(pool.size),
                available: Some(pool.available),
            });
        }
        let kind = match function.kind {
            Kind::Gpu if self.moves_payload(id) => MemoryKind::Gpu,
            Kind::Fpga if self.moves_payload(id) => MemoryKind::Fpga,
            _ => return None,
        };
        let window = function.bars.iter().filter(|bar| bar.is_prefetchable).map(|bar| bar.size);
        let size = window.max();
        let is_too_small = kind == MemoryKind::Fpga
            && !function.bars.is_empty()
            && size.is_none_or(|size| size < SMALLEST_FPGA_MEMORY);
        let is_out_of_reach = size.is_none() && !function.unassigned_bars.is_empty();
        (!is_too_small && !is_out_of_reach).then_some(Memory {
            function: id,
            kind,
            size,
            available: None,
        })
    }
}

impl Matrix {
    /// Decides every memory of a fabric against every function that moves payload.
    pub fn new(fabric: &Fabric, detail: Detail) -> Self {
        let memories: Vec<_> = fabric.memories().iter().map(|memory| memory.function).collect();
        let initiators: Vec<_> =
            fabric.iter().map(|(id, _)| id).filter(|&id| fabric.moves_payload(id)).collect();
        let (memories, initiators) = match detail {
            Detail::Each => (each(&memories), each(&initiators)),
            Detail::Grouped => grouped(fabric, &memories, &initiators),
        };
        let decisions = Decisions::new(fabric);
        let cell = |row, column| cell(&decisions, row, column);
        let cells = memories
            .iter()
            .map(|row| initiators.iter().map(|column| cell(row, column)).collect())
            .collect();
        Self { memories, initiators, cells }
    }
}

fn each(ids: &[FunctionId]) -> Vec<Peers> {
    ids.iter().map(|&id| Peers { members: vec![id] }).collect()
}

/// Memories and initiators, those each together between which the kernel cannot tell.
pub fn grouped(
    fabric: &Fabric,
    memories: &[FunctionId],
    initiators: &[FunctionId],
) -> (Vec<Peers>, Vec<Peers>) {
    let ways = Ways::new(fabric, memories.iter().chain(initiators).copied());
    (ways.groups(memories), ways.groups(initiators))
}

/// Two functions of a row and a column that are not the same one, if there are any.
pub fn representatives(row: &Peers, column: &Peers) -> Option<(FunctionId, FunctionId)> {
    let mut pairs = row.members.iter().take(2).flat_map(|&memory| {
        column.members.iter().take(2).map(move |&initiator| (memory, initiator))
    });
    pairs.find(|(one, other)| one != other)
}

fn cell(decisions: &Decisions<'_>, row: &Peers, column: &Peers) -> Cell {
    let alone = (row.members[0], column.members[0]);
    let (memory, initiator) = representatives(row, column).unwrap_or(alone);
    let found = decisions.decide(memory, initiator);
    Cell { map: found.map, distance: found.distance }
}

/// What of the way up from a function bears on a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    /// Where its way joins that of others.
    joins: Joint,
    /// Whether the port above it redirects, when nothing else hangs from that.
    port: Option<Redirects>,
    /// Whether it redirects itself.
    own: Redirects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Joint {
    Bridge(usize),
    Function(usize),
    Itself(usize),
}

/// What of ACS bears on a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Redirects {
    Unknown,
    No,
    Yes,
}

struct Ways<'a> {
    fabric: &'a Fabric,
    /// How many of the functions in question are at or below each function.
    below: Vec<usize>,
}

impl<'a> Ways<'a> {
    fn new(fabric: &'a Fabric, functions: impl Iterator<Item = FunctionId>) -> Self {
        let mut below = vec![0; fabric.functions.len()];
        for id in functions {
            // A function that is both memory and initiator counts once.
            below[id.0] = 1;
        }
        // Parents precede children.
        for (index, function) in fabric.functions.iter().enumerate().rev() {
            if let Parent::Function(FunctionId(parent)) = function.parent {
                below[parent] += below[index];
            }
        }
        Self { fabric, below }
    }

    fn groups(&self, ids: &[FunctionId]) -> Vec<Peers> {
        let mut places: HashMap<Way, usize> = HashMap::new();
        let mut groups: Vec<Peers> = Vec::new();
        for &id in ids {
            let place = *places.entry(self.way(id)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.members.push(id),
                None => groups.push(Peers { members: vec![id] }),
            }
        }
        groups
    }

    fn way(&self, id: FunctionId) -> Way {
        let function = self.fabric.function(id);
        let own = redirects(function.acs);
        let (joins, port) = match function.parent {
            // Others of the functions in question hang from it.
            _ if self.below[id.0] > 1 => (Joint::Itself(id.0), None),
            Parent::Bridge(bridge) => (Joint::Bridge(bridge.0), None),
            Parent::Function(port) if self.below[port.0] > 1 => (Joint::Function(port.0), None),
            Parent::Function(port) => {
                let port = self.fabric.function(port);
                let joins = match port.parent {
                    Parent::Bridge(bridge) => Joint::Bridge(bridge.0),
                    Parent::Function(above) => Joint::Function(above.0),
                };
                (joins, Some(redirects(port.acs)))
            }
        };
        Way { joins, port, own }
    }
}

fn redirects(acs: Acs) -> Redirects {
    match acs {
        Acs::Unknown => Redirects::Unknown,
        Acs::Present { control } if control & reach::ACS_REDIRECT != 0 => Redirects::Yes,
        Acs::Present { .. } | Acs::Absent => Redirects::No,
    }
}
