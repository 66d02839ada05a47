//! Short names of functions and memories, as a person would type or say them.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, MemoryKind};

use crate::plain::plain;

/// The word for each function in commands.
#[derive(Debug)]
pub(crate) struct Labels(Vec<String>);

impl Labels {
    pub(crate) fn new(fabric: &Fabric) -> Self {
        Self(fabric.device_words())
    }

    /// The word for a function, whole and as its machine has it.
    pub(crate) fn word(&self, id: FunctionId) -> &str {
        &self.0[id.0]
    }

    /// The word for a function; an address in the first domain without that domain.
    pub(crate) fn of(&self, id: FunctionId) -> String {
        let word = self.word(id);
        plain(word.strip_prefix("0000:").unwrap_or(word))
    }

    /// A memory as the command line takes it, `cmb:nvme2` or `gpu:0`, except for a short address of
    /// a card.
    pub(crate) fn memory(&self, fabric: &Fabric, id: FunctionId, kind: MemoryKind) -> String {
        let prefix = match (kind, fabric.function(id).kind) {
            (MemoryKind::P2pMem, FunctionKind::Nvme) => "cmb",
            (MemoryKind::P2pMem, _) => "p2pmem",
            (MemoryKind::Gpu, _) => "gpu",
            (MemoryKind::Fpga, _) => "fpga",
        };
        let label = self.of(id);
        if label.starts_with("gpu:") { label } else { format!("{prefix}:{label}") }
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
