//! The labels that name a function in samples.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};

use crate::machine::text::Labels;

/// The labels of one function: address, word in commands, kind.
pub(super) struct DeviceLabels {
    address: String,
    name: String,
    kind: &'static str,
}

impl DeviceLabels {
    pub(super) fn new(fabric: &Fabric, words: &Labels, id: FunctionId) -> Self {
        let function = fabric.function(id);
        Self {
            address: function.address_or_name(),
            name: words.word(id).to_owned(),
            kind: kind(function.kind),
        }
    }

    pub(super) fn labels(&self) -> [(&str, &str); 3] {
        [("device", &self.address), ("name", &self.name), ("kind", self.kind)]
    }
}

/// The name of a kind, as in machine files.
fn kind(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::RootPort => "root-port",
        FunctionKind::UpstreamPort => "upstream-port",
        FunctionKind::DownstreamPort => "downstream-port",
        FunctionKind::OtherBridge => "bridge",
        FunctionKind::Nvme => "nvme",
        FunctionKind::Gpu => "gpu",
        FunctionKind::Fpga => "fpga",
        FunctionKind::Nic => "nic",
        FunctionKind::Other => "other",
    }
}
