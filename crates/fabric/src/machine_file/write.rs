//! From a fabric to the text of a machine file.

use toml::Spanned;

use super::shape;
use super::values::{Mdts, OctalMode, Rate, Size, Text};
use super::{NO_DRIVER, UNKNOWN_DRIVER};
use crate::notation::Hex;
use crate::{
    Acs, DriverBinding, Fabric, Function, FunctionKind, GpuLink, Namespace, NvmeController, Parent,
    PeerAccess,
};

/// The tables of a machine file.
pub(super) fn machine(fabric: &Fabric) -> shape::MachineTable {
    shape::MachineTable {
        name: fabric.name.clone(),
        iommu: fabric.iommu,
        product: fabric.product.clone(),
        libraries: fabric.libraries.clone(),
        kernel: fabric.kernel.clone(),
        cpu: fabric.cpu.clone(),
        nvidia: fabric.nvidia.clone(),
        cufile: fabric.cufile.clone(),
        environment: fabric.environment.clone(),
        lab: fabric.lab.clone(),
        host_bridge: Some(
            fabric
                .bridges
                .iter()
                .map(|bridge| shape::HostBridgeTable {
                    name: unplaced(&bridge.name),
                    numa_node: bridge.numa_node,
                    p2p_read: bridge.peer.read.map(Rate),
                    p2p_write: bridge.peer.write.map(Rate),
                    socket_link: bridge.socket_link.map(Rate),
                    root_bus: bridge.root_bus,
                })
                .collect(),
        ),
        function: fabric.functions.iter().map(|one| function(fabric, one)).collect(),
        stacked: fabric.stacked.clone(),
        mount: fabric.mounts.clone(),
        peer_access: fabric.peer_access.iter().map(|answer| peer_access(fabric, answer)).collect(),
        nvlink: fabric.nvlinks.as_ref().map(|list| gpu_links(fabric, list)),
        xgmi: fabric.xgmi.as_ref().map(|list| gpu_links(fabric, list)),
    }
}

fn gpu_links(fabric: &Fabric, links: &[GpuLink]) -> Vec<shape::GpuLinkTable> {
    let name = |id| unplaced(&fabric.function(id).name);
    let table = |link: &GpuLink| shape::GpuLinkTable {
        gpus: [name(link.gpus.0), name(link.gpus.1)],
        links: link.links,
    };
    links.iter().map(table).collect()
}

fn peer_access(fabric: &Fabric, answer: &PeerAccess) -> shape::PeerAccessTable {
    let (one, other) = answer.gpus;
    shape::PeerAccessTable {
        gpus: [one, other].map(|id| unplaced(&fabric.function(id).name)),
        capability: answer.capability,
        status: answer.status.clone(),
    }
}

/// A name that has no place in a text yet.
fn unplaced(name: &str) -> Spanned<String> {
    Spanned::new(0..0, name.to_owned())
}

fn function(fabric: &Fabric, function: &Function) -> shape::FunctionTable {
    let under = match function.parent {
        Parent::Bridge(id) => &fabric.bridges[id.0].name,
        Parent::Function(id) => &fabric.function(id).name,
    };
    let is_drive = function.kind == FunctionKind::Nvme;
    let nvme = function.nvme.clone().filter(|_| is_drive);
    // Pasted text shows the driver, and nothing of the drive.
    let is_held = function.driver.is_named("nvme");
    let bound = (is_drive && nvme.is_none() && !is_held).then_some(false);
    let NvmeController { name, serial, model, firmware, state, cmb, temperature, namespaces } =
        nvme.unwrap_or_default();
    shape::FunctionTable {
        name: unplaced(&function.name),
        kind: function.kind,
        under: Some(under.clone()),
        address: function.address.map(Text),
        vendor: function.vendor.map(Hex),
        device: function.device.map(Hex),
        class: function.class.map(Hex),
        numa_node: function.numa_node,
        iommu_group: function.iommu_group,
        iommu_type: function.iommu_type.clone(),
        driver: driver(&function.driver, bound),
        kernel_names: function.kernel_names.clone(),
        fpga_p2p: function.fpga_p2p,
        physical_function: function.physical_function.map(Text),
        memory_size: function.memory_size.map(Size),
        silent: function.is_silent,
        accelerator: function.is_accelerator,
        mig_instances: function.mig_instances,
        bound,
        controller: name,
        serial,
        model,
        firmware,
        state,
        read: function.rates.read.filter(|_| is_drive).map(Rate),
        write: function.rates.write.filter(|_| is_drive).map(Rate),
        mixed: function.mixed_per_mille.filter(|_| is_drive).map(|mixed| f64::from(mixed) / 1000.0),
        throttle: function.lab.throttle.filter(|_| is_drive).map(Rate),
        ethernet: function.ethernet.filter(|_| function.kind.is_on_ethernet()).map(Rate),
        mdts: function.lab.mdts.filter(|_| is_drive).map(Mdts),
        protection: function.lab.protection.filter(|_| is_drive),
        multipath: function.lab.multipath && is_drive,
        size: None,
        block_size: None,
        cmb: None,
        acs: (function.acs != Acs::Absent).then_some(function.acs),
        link: function.link,
        link_below: function.link_below.map(Text),
        bars: bars(function),
        cmb_registers: cmb,
        temperature,
        p2pmem: function.p2pmem.map(|memory| shape::P2pMemTable {
            size: Size(memory.size),
            available: Some(Size(memory.available)),
            published: memory.published,
            allocate: memory.allocate.map(OctalMode),
            read: memory.rates.read.map(Rate),
            write: memory.rates.write.map(Rate),
        }),
        namespaces: (!namespaces.is_empty()).then(|| namespaces.iter().map(namespace).collect()),
        ram_bar: function.lab.is_ram_bar && function.kind == FunctionKind::Other,
        errors: (is_drive && !function.lab.errors.is_empty()).then(|| function.lab.errors.clone()),
    }
}

fn driver(driver: &DriverBinding, bound: Option<bool>) -> Option<String> {
    match driver {
        DriverBinding::Bound(name) => Some(name.clone()),
        DriverBinding::Unbound => Some(NO_DRIVER.to_owned()),
        // A drive that is not bound has no driver where none is named.
        DriverBinding::Unknown => bound.map(|_| UNKNOWN_DRIVER.to_owned()),
    }
}

fn bars(function: &Function) -> Vec<shape::BarTable> {
    let assigned = function.bars.iter().map(|bar| shape::BarTable {
        index: bar.index,
        size: Some(Size(bar.size)),
        assigned: true,
        prefetchable: bar.is_prefetchable,
        largest: bar.largest.map(Size),
        address_bits: bar.address_bits,
    });
    let unassigned = function.unassigned_bars.iter().map(|bar| shape::BarTable {
        index: bar.index,
        size: bar.size.map(Size),
        assigned: false,
        prefetchable: false,
        largest: None,
        address_bits: None,
    });
    assigned.chain(unassigned).collect()
}

fn namespace(namespace: &Namespace) -> shape::NamespaceTable {
    let limits = namespace.limits;
    shape::NamespaceTable {
        name: namespace.name.clone(),
        nsid: namespace.nsid,
        size: Size(namespace.size),
        block_size: Size(limits.logical_block),
        physical_block_size: (limits.physical_block != limits.logical_block)
            .then_some(Size(limits.physical_block)),
        max_request: limits.max_request.map(Size),
        max_hw_request: limits.max_hw_request.map(Size),
        max_segments: limits.max_segments,
        multipath_head: namespace.is_multipath_head,
        stable_writes: namespace.stable_writes,
        integrity: namespace.integrity,
        partitions: namespace.partitions.clone(),
    }
}
