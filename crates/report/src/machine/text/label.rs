//! Short names of functions and memories, as a person would type or say them.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, MemoryKind};

use crate::plain::plain;

/// The word for a function in commands; an address in the first domain without that domain.
pub(crate) fn label(fabric: &Fabric, id: FunctionId) -> String {
    let word = fabric.device_word(id);
    plain(word.strip_prefix("0000:").unwrap_or(&word))
}

/// A memory as the command line takes it, `cmb:nvme2` or `gpu:0`, except for a short address of a
/// card.
pub(crate) fn memory_label(fabric: &Fabric, id: FunctionId, kind: MemoryKind) -> String {
    let prefix = match (kind, fabric.function(id).kind) {
        (MemoryKind::P2pMem, FunctionKind::Nvme) => "cmb",
        (MemoryKind::P2pMem, _) => "p2pmem",
        (MemoryKind::Gpu, _) => "gpu",
        (MemoryKind::Fpga, _) => "fpga",
    };
    let label = label(fabric, id);
    if label.starts_with("gpu:") { label } else { format!("{prefix}:{label}") }
}

/// Kind of a function, in words.
pub(crate) fn port_kind(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::RootPort => "root port",
        FunctionKind::UpstreamPort => "upstream port",
        FunctionKind::DownstreamPort => "downstream port",
        FunctionKind::OtherBridge => "bridge",
        FunctionKind::Nvme => "NVMe",
        FunctionKind::Gpu => "GPU",
        FunctionKind::Fpga => "FPGA",
        FunctionKind::Nic => "NIC",
        FunctionKind::Other => "other",
    }
}
