//! The labels by which samples name a function.

use peerlane_fabric::{Fabric, FunctionId, Kind};

/// The labels of one function: address, word in commands, kind.
pub(super) struct DeviceLabels {
    address: String,
    name: String,
    kind: &'static str,
}

impl DeviceLabels {
    pub(super) fn new(fabric: &Fabric, id: FunctionId) -> Self {
        let function = fabric.function(id);
        Self {
            address: function.address_or_name(),
            name: fabric.device_word(id),
            kind: kind(function.kind),
        }
    }

    pub(super) fn labels(&self) -> [(&str, &str); 3] {
        [("device", &self.address), ("name", &self.name), ("kind", self.kind)]
    }
}

/// The name of a kind, as in machine files.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::RootPort => "root-port",
        Kind::UpstreamPort => "upstream-port",
        Kind::DownstreamPort => "downstream-port",
        Kind::OtherBridge => "bridge",
        Kind::Nvme => "nvme",
        Kind::Gpu => "gpu",
        Kind::Fpga => "fpga",
        Kind::Nic => "nic",
        Kind::Other => "other",
    }
}
