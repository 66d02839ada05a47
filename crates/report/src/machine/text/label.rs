//! Short names of functions and memories, as a person would type or say them.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, MemoryKind};

use crate::plain::plain;

/// A name of a few characters: that of the drive or interface, else the address without the domain
/// where all have one.
pub(crate) fn label(fabric: &Fabric, id: FunctionId) -> String {
    plain(&name(fabric, id))
}

fn name(fabric: &Fabric, id: FunctionId) -> String {
    let function = fabric.function(id);
    let Some(address) = function.address else { return function.name.clone() };
    if function.name != address.to_string() {
        return function.name.clone();
    }
    if function.kind == FunctionKind::Nic {
        if let Some(name) = function.kernel_names.first() {
            return name.clone();
        }
    }
    let text = function.name.clone();
    if address.domain() == 0 { text.trim_start_matches("0000:").to_owned() } else { text }
}

/// A memory as the command line takes it, `cmb:nvme2` or `gpu:0`, but for a short address of a card.
pub(crate) fn memory_label(fabric: &Fabric, id: FunctionId, kind: MemoryKind) -> String {
    let prefix = match (kind, fabric.function(id).kind) {
        (MemoryKind::P2pMem, FunctionKind::Nvme) => "cmb",
        (MemoryKind::P2pMem, _) => "p2pmem",
        (MemoryKind::Gpu, _) => "gpu",
        (MemoryKind::Fpga, _) => "fpga",
    };
    match fabric.gpu_number(id).filter(|_| kind == MemoryKind::Gpu) {
        Some(number) => format!("{prefix}:{number}"),
        None => format!("{prefix}:{}", label(fabric, id)),
    }
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
