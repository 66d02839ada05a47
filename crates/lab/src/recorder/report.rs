//! The recorder's report, as written for others to read.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::mark::MarkPhase;

/// Version of [`DmaReport`].
pub const DMA_SCHEMA: &str = "peerlane.dma/1";

/// Destinations of the payload of a run's drives; all sizes in bytes.
///
/// Counted from the addresses that the emulated drives used between the start and the end of the
/// command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DmaReport {
    /// [`DMA_SCHEMA`].
    pub schema: &'static str,
    /// Moved between a drive and a BAR of a PCIe function.
    pub payload_bytes_p2p: u64,
    /// Moved between a drive and guest memory.
    pub payload_bytes_guest_memory: u64,
    /// Moved to or from unclassified addresses: under an IOMMU that translates, or outside memory
    /// and every BAR.
    pub payload_bytes_unclassified: u64,
    /// As `payload_bytes_p2p`, while a program had marked its transfers as a check.
    pub check_bytes_p2p: u64,
    /// As `payload_bytes_guest_memory`, while a program had marked its transfers as a check.
    pub check_bytes_guest_memory: u64,
    /// As `payload_bytes_unclassified`, while a program had marked its transfers as a check.
    pub check_bytes_unclassified: u64,
    /// Guest memory accessed by the commands themselves, apart from payload.
    pub control_bytes_guest_memory: u64,
    /// As `control_bytes_guest_memory`, under an IOMMU that translates.
    pub control_bytes_unclassified: u64,
    /// Definition of the two fields above.
    pub control_bytes_counted_how: &'static str,
    /// Bytes that reads and writes requested but did not map, or the reverse; not zero means that
    /// commands failed or that the figures above are incomplete.
    pub unaccounted_bytes: u64,
    /// Lines of the trace that do not have the known form; not zero means the same.
    pub damaged_lines: u64,
    /// Read and write commands.
    pub commands: u64,
    /// Other I/O commands: flush, discard, write zeroes.
    pub other_commands: u64,
    /// The payload and check bytes by drive, operation and memory.
    pub transfers: Vec<DriveTransfers>,
}

/// Transfers of one drive with one memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriveTransfers {
    /// The drive that executed the commands.
    pub drive: String,
    /// Operation of its commands.
    pub operation: DriveOperation,
    /// The other end.
    pub memory: TargetKind,
    /// The device whose BAR that is: the drive's name, or a PCI address.
    pub memory_device: Option<String>,
    /// Number of that BAR.
    pub bar: Option<u8>,
    /// Purpose of the transfers.
    pub phase: MarkPhase,
    /// Sum of the entries.
    pub bytes: u64,
    /// Scatter list entries.
    pub entries: u64,
}

/// Operation of a drive's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveOperation {
    /// The drive wrote its content to memory.
    Read,
    /// The drive read its new content from memory.
    Write,
}

/// The memory at the other end of a drive's transfer, told by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Memory of the guest.
    GuestMemory,
    /// A base address register of a PCIe function.
    Bar,
    /// Not to be told.
    Unclassified,
}

/// Key of a sum of transfers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) drive: String,
    pub(super) operation: DriveOperation,
    pub(super) memory: TargetKind,
    pub(super) memory_device: Option<String>,
    pub(super) bar: Option<u8>,
    pub(super) phase: MarkPhase,
}

/// A sum of entries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    bytes: u64,
    entries: u64,
}

impl Sum {
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries = self.entries.saturating_add(1);
    }
}

impl Default for DmaReport {
    fn default() -> Self {
        Self {
            schema: DMA_SCHEMA,
            payload_bytes_p2p: 0,
            payload_bytes_guest_memory: 0,
            payload_bytes_unclassified: 0,
            check_bytes_p2p: 0,
            check_bytes_guest_memory: 0,
            check_bytes_unclassified: 0,
            control_bytes_guest_memory: 0,
            control_bytes_unclassified: 0,
            control_bytes_counted_how: "64 bytes a submission entry (none where the queue lies in \
                the drive's own memory), 16 bytes a completion entry, 8 bytes an entry of each PRP \
                list fetched, 16 bytes an SGL descriptor fetched, and the data of commands that are neither read nor write; interrupts \
                are not counted",
            unaccounted_bytes: 0,
            damaged_lines: 0,
            commands: 0,
            other_commands: 0,
            transfers: Vec::new(),
        }
    }
}

impl DmaReport {
    /// True when every byte that was asked for was seen and understood.
    pub fn is_complete(&self) -> bool {
        self.unaccounted_bytes == 0 && self.damaged_lines == 0
    }

    pub(super) fn with_transfers(mut self, transfers: BTreeMap<Key, Sum>) -> Self {
        for (key, sum) in transfers {
            let total = match (key.phase, key.memory) {
                (MarkPhase::Move, TargetKind::Bar) => &mut self.payload_bytes_p2p,
                (MarkPhase::Move, TargetKind::GuestMemory) => &mut self.payload_bytes_guest_memory,
                (MarkPhase::Move, TargetKind::Unclassified) => &mut self.payload_bytes_unclassified,
                (MarkPhase::Check, TargetKind::Bar) => &mut self.check_bytes_p2p,
                (MarkPhase::Check, TargetKind::GuestMemory) => &mut self.check_bytes_guest_memory,
                (MarkPhase::Check, TargetKind::Unclassified) => &mut self.check_bytes_unclassified,
            };
            *total = total.saturating_add(sum.bytes);
            self.transfers.push(DriveTransfers {
                drive: key.drive,
                operation: key.operation,
                memory: key.memory,
                memory_device: key.memory_device,
                bar: key.bar,
                phase: key.phase,
                bytes: sum.bytes,
                entries: sum.entries,
            });
        }
        self
    }
}
