//! The DMA recorder: reads QEMU's trace and says where each byte of payload went.
//!
//! It judges addresses as the emulated drives used them, not the requests or claims of the guest's
//! program. Under an IOMMU that translates, drives use addresses that say nothing about the target:
//! such bytes are unclassified, never guest memory and never a peer. Kinds of memory rest on
//! addresses alone. The split into payload and check rests on the measured program's own marks, so
//! a judge of the report must bound the check bytes, as the demonstration does. The log is read
//! once, line by line; a line that is not understood is counted, not guessed at.

mod line;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use peerlane_units::Bytes;

use crate::mark::{Mark, MarkPhase};
use line::{Opcode, RecordedEvent};
pub use report::{DMA_SCHEMA, DmaReport, DriveOperation, DriveTransfers, TargetKind};

/// Trace events to record: QEMU 7.2 to 11.1 have all of them, at no measurable cost.
pub(crate) const EVENTS: [&str; 11] = [
    "pci_nvme_admin_cmd",
    "pci_nvme_io_cmd",
    "pci_nvme_read",
    "pci_nvme_write",
    "pci_nvme_map_addr",
    "pci_nvme_map_prp",
    "pci_nvme_map_sgl",
    "pci_nvme_create_sq",
    "pci_update_mappings_add",
    "pci_update_mappings_del",
    "pci_cfg_read",
];

/// Bytes of a submission queue entry (NVMe base specification 4.1).
const SUBMISSION_ENTRY: u64 = 64;
/// Bytes of a completion queue entry (NVMe base specification 4.2).
const COMPLETION_ENTRY: u64 = 16;
/// Bytes of a PRP list entry (NVMe base specification 4.3).
const PRP_ENTRY: u64 = 8;
/// Bytes of an SGL descriptor (NVMe base specification 4.3.2).
const SGL_DESCRIPTOR: u64 = 16;

/// Facts about the machine that are needed to read its trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracedMachine {
    /// Guest memory.
    pub memory: Bytes,
    /// True when an IOMMU translates the drives' addresses.
    pub is_translating: bool,
    /// Name of the drive with each namespace identifier.
    pub drives: BTreeMap<u32, String>,
    /// Name of the drive at each PCI address, written `04:00.0`.
    pub addresses: BTreeMap<String, String>,
}

/// Reads a trace to its end.
///
/// # Errors
/// When `trace` cannot be read, or holds no complete window.
pub fn read(trace: impl BufRead, machine: &TracedMachine) -> io::Result<DmaReport> {
    let mut recorder = TraceRecorder::new(machine);
    for_each_line(trace, |line| recorder.line(line))?;
    recorder.finish()
}

/// Calls `each` with every line; bytes that are not UTF-8 become U+FFFD, overlong lines are cut.
fn for_each_line(mut trace: impl BufRead, mut each: impl FnMut(&str)) -> io::Result<()> {
    use std::io::Read;
    const LONGEST: u64 = 4096;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = trace.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        each(String::from_utf8_lossy(&line).trim_end());
    }
}

/// A base address register as it is mapped.
struct MappedBar {
    base: u64,
    size: u64,
}

/// The command whose address lines follow.
#[derive(Default)]
struct TracedCommand {
    nsid: Option<u32>,
    operation: Option<DriveOperation>,
    asked: u64,
    mapped: u64,
    has_sgl_list: bool,
}

struct TraceRecorder<'a> {
    machine: &'a TracedMachine,
    bars: BTreeMap<(String, u8), MappedBar>,
    /// Submission queues that lie in the drive's own memory: drive and queue identifier.
    local_queues: BTreeSet<(String, u16)>,
    is_open: bool,
    has_opened: bool,
    has_closed: bool,
    phase: MarkPhase,
    command: TracedCommand,
    transfers: BTreeMap<report::Key, report::Sum>,
    report: DmaReport,
}

impl<'a> TraceRecorder<'a> {
    fn new(machine: &'a TracedMachine) -> Self {
        Self {
            machine,
            bars: BTreeMap::new(),
            local_queues: BTreeSet::new(),
            is_open: false,
            has_opened: false,
            has_closed: false,
            phase: MarkPhase::Move,
            command: TracedCommand::default(),
            transfers: BTreeMap::new(),
            report: DmaReport::default(),
        }
    }

    fn line(&mut self, text: &str) {
        match line::parse(text) {
            line::RecorderLine::Event(event) => self.event(event),
            line::RecorderLine::Damaged if self.is_open => self.report.damaged_lines += 1,
            line::RecorderLine::Damaged | line::RecorderLine::Other => {}
        }
    }

    fn event(&mut self, event: RecordedEvent<'_>) {
        match event {
            RecordedEvent::BarAdded { address, bar, base, size } => {
                self.bars.insert((address.to_owned(), bar), MappedBar { base, size });
            }
            RecordedEvent::BarRemoved { address, bar } => {
                self.bars.remove(&(address.to_owned(), bar));
            }
            RecordedEvent::BridgeRead { offset } => {
                if let Some(mark) = Mark::from_offset(offset) {
                    self.mark(mark);
                }
            }
            RecordedEvent::QueueCreated { base, queue } => self.queue_created(base, queue),
            RecordedEvent::AdminCommand => {
                self.begin(TracedCommand::default());
                self.count_control(SUBMISSION_ENTRY + COMPLETION_ENTRY);
            }
            RecordedEvent::IoCommand { nsid, queue, opcode } => {
                self.io_command(nsid, queue, opcode);
            }
            RecordedEvent::Asked { nsid, bytes } => {
                self.command.nsid = Some(nsid);
                self.command.asked = self.command.asked.saturating_add(bytes);
            }
            RecordedEvent::PrpList { list, bytes } => self.prp_list(list, bytes),
            RecordedEvent::SglSegment => self.command.has_sgl_list = true,
            RecordedEvent::Mapped { base, bytes } => self.mapped(base, bytes),
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.begin(TracedCommand::default());
        match mark {
            Mark::WindowStart => {
                self.is_open = true;
                self.has_opened = true;
                self.phase = MarkPhase::Move;
            }
            Mark::WindowEnd => {
                self.has_closed |= self.is_open;
                self.is_open = false;
            }
            Mark::Phase(phase) => self.phase = phase,
        }
    }

    /// Ends the command before, which must have mapped the bytes that it requested.
    fn begin(&mut self, next: TracedCommand) {
        let last = std::mem::replace(&mut self.command, next);
        if self.is_open && last.operation.is_some() {
            let gap = last.asked.abs_diff(last.mapped);
            self.report.unaccounted_bytes = self.report.unaccounted_bytes.saturating_add(gap);
        }
    }

    fn io_command(&mut self, nsid: u32, queue: u16, opcode: Opcode) {
        let operation = match opcode {
            Opcode::Read => Some(DriveOperation::Read),
            Opcode::Write => Some(DriveOperation::Write),
            Opcode::Other => None,
        };
        self.begin(TracedCommand { nsid: Some(nsid), operation, ..TracedCommand::default() });
        if self.is_open {
            self.report.commands += u64::from(operation.is_some());
            self.report.other_commands += u64::from(operation.is_none());
        }
        let in_drive = self.local_queues.contains(&(self.drive(nsid), queue));
        let entry = if in_drive { 0 } else { SUBMISSION_ENTRY };
        self.count_control(entry + COMPLETION_ENTRY);
    }

    fn queue_created(&mut self, base: u64, queue: u16) {
        let owner = self.bar_at(base).map(|(address, _)| self.name_of(address));
        if let Some(owner) = owner {
            self.local_queues.insert((owner, queue));
        }
    }

    fn prp_list(&mut self, list: u64, bytes: u64) {
        if self.kind_of(list, bytes) != TargetKind::Bar {
            self.count_control(bytes);
        }
    }

    /// Counts bytes that a command itself needed; under translation nothing says where they lie.
    fn count_control(&mut self, bytes: u64) {
        if self.is_open {
            let total = if self.machine.is_translating {
                &mut self.report.control_bytes_unclassified
            } else {
                &mut self.report.control_bytes_guest_memory
            };
            *total = total.saturating_add(bytes);
        }
    }

    fn mapped(&mut self, base: u64, bytes: u64) {
        self.command.mapped = self.command.mapped.saturating_add(bytes);
        if !self.is_open {
            return;
        }
        if self.command.has_sgl_list {
            self.count_control(SGL_DESCRIPTOR);
        }
        let kind = self.kind_of(base, bytes);
        let (Some(operation), Some(nsid)) = (self.command.operation, self.command.nsid) else {
            // Data of admin commands and of I/O commands that carry no payload.
            if kind != TargetKind::Bar {
                self.count_control(bytes);
            }
            return;
        };
        let bar = if kind == TargetKind::Bar { self.bar_at(base) } else { None };
        let key = report::Key {
            drive: self.drive(nsid),
            operation,
            memory: kind,
            memory_device: bar.map(|(address, _)| self.name_of(address)),
            bar: bar.map(|(_, number)| number),
            phase: self.phase,
        };
        self.transfers.entry(key).or_default().add(bytes);
    }

    fn drive(&self, nsid: u32) -> String {
        self.machine.drives.get(&nsid).cloned().unwrap_or_else(|| format!("nsid {nsid}"))
    }

    fn name_of(&self, address: &str) -> String {
        self.machine.addresses.get(address).cloned().unwrap_or_else(|| address.to_owned())
    }

    fn bar_at(&self, base: u64) -> Option<(&str, u8)> {
        self.bars
            .iter()
            .find(|(_, bar)| base.checked_sub(bar.base).is_some_and(|offset| offset < bar.size))
            .map(|((address, number), _)| (address.as_str(), *number))
    }

    /// Judged by both ends: a transfer beyond a BAR or beyond memory is neither.
    fn kind_of(&self, base: u64, bytes: u64) -> TargetKind {
        let Some(last) = base.checked_add(bytes.saturating_sub(1)) else {
            return TargetKind::Unclassified;
        };
        let memory = self.machine.memory;
        match (self.bar_at(base), self.bar_at(last)) {
            _ if self.machine.is_translating => TargetKind::Unclassified,
            (Some(first), Some(last)) if first == last => TargetKind::Bar,
            (None, None) if is_guest_memory(base, memory) && is_guest_memory(last, memory) => {
                TargetKind::GuestMemory
            }
            _ => TargetKind::Unclassified,
        }
    }

    fn finish(mut self) -> io::Result<DmaReport> {
        self.begin(TracedCommand::default());
        if !self.has_opened || !self.has_closed {
            let what = if self.has_opened { "end" } else { "start" };
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the trace holds no {what} of the command's window"),
            ));
        }
        Ok(self.report.with_transfers(self.transfers))
    }
}

/// True when an address is RAM of QEMU's q35 machine (`pc_q35_init` in hw/i386/pc_q35.c): memory of
/// 2816 MiB and above is split at 2 GiB, the rest lies above 4 GiB.
fn is_guest_memory(address: u64, memory: Bytes) -> bool {
    const FOUR_GIB: u64 = 4 << 30;
    let below = if memory.0 >= 0xb000_0000 { 0x8000_0000 } else { memory.0 };
    let above = memory.0 - below;
    address < below || address.checked_sub(FOUR_GIB).is_some_and(|offset| offset < above)
}

#[cfg(test)]
mod tests;
