//! One line of QEMU's trace as an event; the texts are those of QEMU's `trace-events` files.

/// A line of the trace, classified.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecorderLine<'a> {
    /// A recorded event.
    Event(RecordedEvent<'a>),
    /// A recorded event whose text does not have the known form.
    Damaged,
    /// Anything else that QEMU logs.
    Other,
}

/// A recorded event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordedEvent<'a> {
    AdminCommand,
    IoCommand {
        nsid: u32,
        queue: u16,
        opcode: Opcode,
    },
    /// Bytes that a read or a write is for.
    Asked {
        nsid: u32,
        bytes: u64,
    },
    /// An entry of the command's scatter list.
    Mapped {
        base: u64,
        bytes: u64,
    },
    /// A list of PRP entries that the drive fetched.
    PrpList {
        list: u64,
        bytes: u64,
    },
    /// The command's scatter list lies in memory as SGL descriptors.
    SglSegment,
    QueueCreated {
        base: u64,
        queue: u16,
    },
    BarAdded {
        address: &'a str,
        bar: u8,
        base: u64,
        size: u64,
    },
    BarRemoved {
        address: &'a str,
        bar: u8,
    },
    /// A read of the LPC bridge's configuration space.
    BridgeRead {
        offset: u64,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Read,
    Write,
    Other,
}

/// Page size that Linux sets on x86 (CC.MPS 0).
const PAGE: u64 = 4096;
/// Opcodes of the NVM command set specification.
const WRITE: u64 = 0x01;
const READ: u64 = 0x02;

/// SGL descriptor types that point to further descriptors (NVMe base specification 4.3.2).
const SGL_SEGMENT: u64 = 0x2;
const SGL_LAST_SEGMENT: u64 = 0x3;

pub(super) fn parse(text: &str) -> RecorderLine<'_> {
    // With timestamps or a thread number the event's name is not the first word.
    let Some(start) = text.find("pci_") else { return RecorderLine::Other };
    let (name, rest) = text[start..].split_once(' ').unwrap_or((&text[start..], ""));
    let event = match name {
        "pci_nvme_admin_cmd" => Some(RecordedEvent::AdminCommand),
        "pci_nvme_io_cmd" => io_command(rest),
        "pci_nvme_read" | "pci_nvme_write" => asked(rest),
        "pci_nvme_map_addr" => mapped(rest),
        "pci_nvme_map_prp" => match prp_list(rest) {
            Some(Some(event)) => Some(event),
            Some(None) => return RecorderLine::Other,
            None => None,
        },
        "pci_nvme_map_sgl" => match number(rest, "type ") {
            Some(SGL_SEGMENT | SGL_LAST_SEGMENT) => Some(RecordedEvent::SglSegment),
            Some(_) => return RecorderLine::Other,
            None => None,
        },
        "pci_nvme_create_sq" => queue_created(rest),
        "pci_update_mappings_add" => bar(rest, true),
        "pci_update_mappings_del" => bar(rest, false),
        "pci_cfg_read" => {
            let Some(bridge) = rest.strip_prefix("ICH9-LPC 00:1f.0 ") else {
                return RecorderLine::Other;
            };
            bridge_read(bridge)
        }
        _ => return RecorderLine::Other,
    };
    event.map_or(RecorderLine::Damaged, RecorderLine::Event)
}

fn io_command(rest: &str) -> Option<RecordedEvent<'static>> {
    let opcode = match number(rest, "opc ")? {
        READ => Opcode::Read,
        WRITE => Opcode::Write,
        _ => Opcode::Other,
    };
    Some(RecordedEvent::IoCommand {
        nsid: number(rest, "nsid ")?.try_into().ok()?,
        queue: number(rest, "sqid ")?.try_into().ok()?,
        opcode,
    })
}

fn asked(rest: &str) -> Option<RecordedEvent<'static>> {
    let nsid = number(rest, "nsid ")?.try_into().ok()?;
    Some(RecordedEvent::Asked { nsid, bytes: number(rest, "count ")? })
}

fn mapped(rest: &str) -> Option<RecordedEvent<'static>> {
    Some(RecordedEvent::Mapped { base: number(rest, "addr ")?, bytes: number(rest, "len ")? })
}

/// `Some(None)` when the command needs no list: two entries or fewer stand in the command itself.
fn prp_list(rest: &str) -> Option<Option<RecordedEvent<'static>>> {
    let (first, total) = (number(rest, "trans_len ")?, number(rest, " len ")?);
    let list = number(rest, "prp2 ")?;
    let in_command = 2;
    let needed = total.saturating_sub(first).div_ceil(PAGE).saturating_add(1);
    if needed <= in_command {
        return Some(None);
    }
    let bytes = (needed - 1).saturating_mul(super::PRP_ENTRY);
    Some(Some(RecordedEvent::PrpList { list, bytes }))
}

fn queue_created(rest: &str) -> Option<RecordedEvent<'static>> {
    let queue = number(rest, "sqid=")?.try_into().ok()?;
    Some(RecordedEvent::QueueCreated { base: number(rest, "addr=")?, queue })
}

/// `nvme 05:00.0 2,0xf0000000+0x4000000`
fn bar(rest: &str, is_added: bool) -> Option<RecordedEvent<'_>> {
    let (front, range) = rest.rsplit_once(' ')?;
    let address = front.rsplit(' ').next().filter(|text| text.contains(':'))?;
    let (bar, range) = range.split_once(',')?;
    let bar = bar.parse().ok()?;
    let (base, size) = range.split_once('+')?;
    let (base, size) = (value(base)?, value(size)?);
    Some(if is_added {
        RecordedEvent::BarAdded { address, bar, base, size }
    } else {
        RecordedEvent::BarRemoved { address, bar }
    })
}

fn bridge_read(rest: &str) -> Option<RecordedEvent<'static>> {
    Some(RecordedEvent::BridgeRead { offset: number(rest, "@")? })
}

/// The number that follows `key`.
fn number(text: &str, key: &str) -> Option<u64> {
    let after = &text[text.find(key)? + key.len()..];
    let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
    value(&after[..end])
}

/// Hexadecimal with `0x`, else decimal.
fn value(text: &str) -> Option<u64> {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}
