//! From a fabric to the text of a machine file.

use toml::Spanned;

use super::shape;
use super::values::{AcsValue, Hex, LinkValue, Rate, Size, Text};
use crate::{
    Acs, Fabric, Function, InjectedError, Kind, LabBoot, Namespace, NvmeController, Parent,
};

/// The text of a machine file.
pub(super) fn text(fabric: &Fabric) -> String {
    let machine = shape::Machine {
        name: fabric.name.clone(),
        iommu: fabric.iommu,
        kernel: shape::Kernel {
            release: fabric.kernel.release.clone(),
            p2pdma: fabric.kernel.has_p2pdma,
        },
        cpu: shape::Cpu {
            vendor: fabric.cpu.vendor.clone(),
            family: fabric.cpu.family,
            model: fabric.cpu.model.clone(),
        },
        lab: fabric.lab.as_ref().map(lab),
        host_bridge: Some(
            fabric
                .bridges
                .iter()
                .map(|bridge| shape::HostBridge {
                    name: unplaced(&bridge.name),
                    numa_node: bridge.numa_node,
                })
                .collect(),
        ),
        function: fabric.functions.iter().map(|one| function(fabric, one)).collect(),
    };
    toml::to_string(&machine).unwrap_or_else(|error| {
        unreachable!("strings, integers that fit and tables are always TOML: {error}")
    })
}

/// A name that has no place in a text yet.
fn unplaced(name: &str) -> Spanned<String> {
    Spanned::new(0..0, name.to_owned())
}

fn lab(lab: &LabBoot) -> shape::Lab {
    shape::Lab {
        cpu: Some(lab.cpu.clone()),
        cpus: Some(lab.cpus),
        memory: Some(Size(lab.memory)),
        kernel_args: lab.kernel_args.clone(),
    }
}

fn function(fabric: &Fabric, function: &Function) -> shape::Function {
    let under = match function.parent {
        Parent::Bridge(id) => &fabric.bridges[id.0].name,
        Parent::Function(id) => &fabric.function(id).name,
    };
    let is_drive = function.kind == Kind::Nvme;
    let nvme = function.nvme.clone().filter(|_| is_drive);
    let bound = (is_drive && nvme.is_none()).then_some(false);
    let NvmeController { name, serial, model, firmware, namespaces } = nvme.unwrap_or_default();
    shape::Function {
        name: unplaced(&function.name),
        kind: function.kind,
        under: Some(under.clone()),
        address: function.address.map(Text),
        vendor: function.vendor.map(Hex),
        device: function.device.map(Hex),
        class: function.class.map(Hex),
        numa_node: function.numa_node,
        iommu_group: function.iommu_group,
        driver: function.driver.clone(),
        bound,
        controller: name,
        serial,
        model,
        firmware,
        throttle: function.lab.throttle.filter(|_| is_drive).map(Rate),
        mdts: function.lab.mdts.filter(|_| is_drive),
        size: None,
        block_size: None,
        cmb: None,
        acs: (function.acs != Acs::Absent).then_some(AcsValue(function.acs)),
        link: function.link.map(LinkValue),
        p2pmem: function.p2pmem.map(|memory| shape::P2pMem {
            size: Size(memory.size),
            available: Some(Size(memory.available)),
            published: memory.published,
        }),
        namespaces: (!namespaces.is_empty()).then(|| namespaces.iter().map(namespace).collect()),
        errors: (is_drive && !function.lab.errors.is_empty())
            .then(|| function.lab.errors.iter().map(injected_error).collect()),
    }
}

fn injected_error(error: &InjectedError) -> shape::InjectedError {
    shape::InjectedError { on: error.on, sector: error.sector, times: error.times }
}

fn namespace(namespace: &Namespace) -> shape::Namespace {
    let limits = namespace.limits;
    shape::Namespace {
        name: namespace.name.clone(),
        nsid: namespace.nsid,
        size: Size(namespace.size),
        block_size: Size(limits.logical_block),
        physical_block_size: (limits.physical_block != limits.logical_block)
            .then_some(Size(limits.physical_block)),
        max_request: limits.max_request.map(Size),
        max_segments: limits.max_segments,
        partitions: namespace
            .partitions
            .iter()
            .map(|partition| shape::Partition {
                name: partition.name.clone(),
                start: Size(partition.start),
                size: Size(partition.size),
            })
            .collect(),
    }
}
