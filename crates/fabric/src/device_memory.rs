//! Functions that move payload, and the memory of devices that others could read and write.

use peerlane_units::Bytes;

use crate::gpu::{self, VENDOR_INTEL};
use crate::{Fabric, Function, FunctionId, FunctionKind, Origin, Parent};

/// Red Hat, Inc.: paravirtual devices, without hardware of their own.
const VENDOR_VIRTIO: u16 = 0x1af4;
/// Smallest window that the `xocl` driver lends memory through (`P2P_BAR` in its source).
const SMALLEST_FPGA_MEMORY: Bytes = Bytes(256 << 20);

/// Memory of a device that others could read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The function that has it.
    pub function: FunctionId,
    /// The way to it.
    pub kind: MemoryKind,
    /// Its size; `None` where it is unknown.
    pub size: Option<Bytes>,
    /// Unused bytes; known of the kernel's own pools alone.
    pub available: Option<Bytes>,
}

/// The way to memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// A pool that the kernel keeps (`p2pmem`).
    P2pMem,
    /// A window of a GPU, through its maker's driver.
    Gpu,
    /// A window of an FPGA card, through its maker's driver.
    Fpga,
}

impl Fabric {
    /// Returns whether a function moves payload: drives, NICs, FPGAs and GPUs, without the graphics of a
    /// processor or board, paravirtual devices, and the management side of an FPGA card.
    pub fn moves_payload(&self, id: FunctionId) -> bool {
        let function = self.function(id);
        match function.kind {
            FunctionKind::Nvme => true,
            FunctionKind::Nic => function.vendor != Some(VENDOR_VIRTIO),
            FunctionKind::Fpga => !function.driver.is_named("xclmgmt"),
            FunctionKind::Gpu => {
                let is_accelerator = function.is_accelerator
                    || function.vendor.is_none_or(|vendor| gpu::MAKERS.contains(&vendor));
                is_accelerator && !self.is_graphics_of_processor(function)
            }
            FunctionKind::RootPort
            | FunctionKind::UpstreamPort
            | FunctionKind::DownstreamPort
            | FunctionKind::OtherBridge
            | FunctionKind::Other => false,
        }
    }

    /// Intel's processors have their graphics on bus 0. A card whose bridge a text leaves out seems to be on a root bus,
    /// too, but never on bus 0.
    fn is_graphics_of_processor(&self, function: &Function) -> bool {
        let is_on_root_bus = matches!(function.parent, Parent::Bridge(_));
        let is_first_bus = function.address.is_none_or(|address| address.bus() == 0);
        function.vendor == Some(VENDOR_INTEL) && is_on_root_bus && is_first_bus
    }

    /// Functions that may be GPUs, drives or NICs, since the input shows no class of theirs.
    pub fn unclassified(&self) -> Vec<FunctionId> {
        let is_read = |function: &Function| {
            let is_text = function.lines.is_some();
            is_text || matches!(self.origin, Origin::ThisMachine | Origin::Tree(_))
        };
        let hidden = self.iter().filter(|(_, one)| one.is_unclassified() && is_read(one));
        hidden.map(|(id, _)| id).collect()
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
            FunctionKind::Gpu if self.moves_payload(id) => MemoryKind::Gpu,
            FunctionKind::Fpga if self.moves_payload(id) => MemoryKind::Fpga,
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

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: &str = "-[0000:00]-+-00.0  Root\n           \\-01.0-[01]----00.0  A\n";
    const BRIDGE: &str = "00:00.0 Host bridge: Intel Corporation Device\n";
    const DUMMY: &str = "00:18.0 Non-Essential Instrumentation: AMD Dummy Function\n";

    #[test]
    fn only_graphics_of_processor_are_left_out() {
        let gpu = |address: &str| {
            format!("{address} VGA compatible controller [0300]: Intel X [8086:e20b]\n")
        };
        let text = format!(
            "00:00.0 Host bridge [0600]: Intel Y [8086:4c43]\n{}{}",
            gpu("00:02.0"),
            gpu("03:00.0")
        );
        let fabric = crate::lspci::read(&text).expect("text");
        let moves = |name: &str| fabric.moves_payload(fabric.find(name).expect(name));
        assert!(moves("0000:03:00.0"), "its bridge is left out");
        assert!(!moves("0000:00:02.0"));
    }

    #[test]
    fn functions_without_class_are_told() {
        let count = |text: &str| crate::lspci::read(text).expect("text").unclassified().len();
        assert_eq!(count(PICTURE), 2, "the port has a bus below it");
        assert_eq!(count(BRIDGE), 0);
        assert_eq!(count(DUMMY), 0, "the class stands in words");
        let described = "name = 'm'\n[[function]]\nname = 'a'\nkind = 'other'\n";
        let described = Fabric::from_toml(described).expect("a machine");
        assert_eq!(described.unclassified(), [], "its kind is stated");
    }
}
