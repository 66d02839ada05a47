//! The devices that take part in uses.

use peerlane_fabric::{DriverBinding, Fabric, Function, FunctionId, FunctionKind, NvmeController};

use super::Use;
use crate::drivers::{carries_nvme, imports_memory, is_held_by_vfio};

/// Mellanox, now NVIDIA: every network controller of theirs has RDMA.
const VENDOR_MELLANOX: u16 = 0x15b3;
/// InfiniBand (PCI Code and ID Assignment Specification, base class 02h).
const CLASS_INFINIBAND: u32 = 0x0207;

/// Prefixes of RDMA device names: those of their drivers (Linux 7.2, drivers/infiniband/hw), and
/// those that udev gives them (rdma-core 55, kernel-boot/rdma_rename.c).
const RDMA_NAMES: [&str; 17] = [
    "bnxt_re", "cxgb4_", "efa_", "erdma_", "hfi1_", "hns_", "ib", "ionic_", "irdma", "iwp",
    "mana_", "mlx4_", "mlx5_", "opap", "qedr", "rdmap", "roce",
];

/// Devices of a machine by their part in uses, in the order of the fabric.
pub(super) struct Devices {
    drives: Vec<FunctionId>,
    gpus: Vec<FunctionId>,
    rdma: Vec<FunctionId>,
    fabrics: Vec<FunctionId>,
    cards: Vec<FunctionId>,
    lending_drives: Vec<FunctionId>,
}

impl Devices {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let of = |is_it: &dyn Fn(&Function) -> bool| {
            let found = fabric.iter().filter(|(id, one)| fabric.moves_payload(*id) && is_it(one));
            found.map(|(id, _)| id).collect()
        };
        Self {
            drives: of(&|one| one.kind == FunctionKind::Nvme),
            gpus: of(&|one| one.kind == FunctionKind::Gpu),
            rdma: of(&|one| one.kind == FunctionKind::Nic && has_rdma(one, imports_memory)),
            fabrics: of(&|one| one.kind == FunctionKind::Nic && has_rdma(one, carries_nvme)),
            cards: of(&|one| one.kind == FunctionKind::Fpga),
            lending_drives: of(&|one| one.kind == FunctionKind::Nvme && one.p2pmem.is_some()),
        }
    }

    /// Owners of memory and initiators of a use; both empty where the devices do not allow it.
    pub(super) fn of_use(&self, of_use: Use) -> (Vec<FunctionId>, Vec<FunctionId>) {
        let (providers, initiators) = match of_use {
            Use::StorageToGpu => (&self.gpus, &self.drives),
            Use::NetworkToGpu => (&self.gpus, &self.rdma),
            Use::GpuToGpu => (&self.gpus, &self.gpus),
            Use::DriveToDrive => (&self.drives, &self.drives),
            Use::NetworkToDrive => (&self.lending_drives, &self.fabrics),
            Use::StorageToFpga => (&self.cards, &self.drives),
        };
        (providers.clone(), initiators.clone())
    }
}

/// Returns whether a network controller has the RDMA part that a use takes: by its driver, else by
/// its identity.
fn has_rdma(function: &Function, is_enough: fn(&str) -> bool) -> bool {
    match &function.driver {
        DriverBinding::Bound(_) if is_held_by_vfio(function) => is_made_for_rdma(function),
        DriverBinding::Bound(driver) => is_enough(driver),
        DriverBinding::Unbound | DriverBinding::Unknown => is_made_for_rdma(function),
    }
}

/// Identity alone tells; a controller without a stated maker counts as made for RDMA.
fn is_made_for_rdma(function: &Function) -> bool {
    let has_name = |name: &String| RDMA_NAMES.iter().any(|prefix| name.starts_with(prefix));
    function.vendor.is_none_or(|vendor| vendor == VENDOR_MELLANOX)
        || function.class.is_some_and(|class| class >> 8 == CLASS_INFINIBAND)
        || function.kernel_names.iter().any(has_name)
}

/// Returns the reason why a device takes part in nothing; `None` where it may.
pub(super) fn unusable(fabric: &Fabric, id: FunctionId) -> Option<String> {
    let function = fabric.function(id);
    let word = || fabric.device_word(id);
    if function.driver == DriverBinding::Unbound {
        return Some(format!("no driver is bound to {}", word()));
    }
    if is_held_by_vfio(function) {
        let driver = function.driver.name().unwrap_or_default();
        return Some(format!("{} is held by {driver}, for a virtual machine or a program", word()));
    }
    if function
        .nvme
        .as_ref()
        .is_some_and(|nvme| nvme.state.as_deref() == Some(NvmeController::DEAD))
    {
        return Some(format!(
            "the kernel has given {} up (state {})",
            word(),
            NvmeController::DEAD
        ));
    }
    let is_closed = function.kind == FunctionKind::Nvme
        && function.unassigned_bars.iter().any(|bar| bar.index == NvmeController::REGISTERS);
    let is_out_of_reach = function.kind == FunctionKind::Gpu && fabric.memory(id).is_none();
    (is_closed || is_out_of_reach).then(|| format!("a window of {} has no address space", word()))
}
