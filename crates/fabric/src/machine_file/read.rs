//! From the text of a machine file to a fabric.

use std::collections::HashMap;

use peerlane_units::Bytes;
use toml::Spanned;

use super::shape;
use super::values::Size;
use super::{MachineFileError, Problem};
use crate::{
    Acs, Bdf, BridgeId, Cpu, Fabric, Function, FunctionId, HostBridge, InjectedError, Kernel, Kind,
    LabBoot, LabDrive, Namespace, NvmeController, Origin, P2pMem, Parent, Partition, QueueLimits,
};

/// Name of the host bridge of a file that lists none.
const ONLY_BRIDGE: &str = "pci0000:00";

/// Above 800 bytes for each function that is read; a drive with all its keys takes about 600.
pub(super) const LONGEST_TEXT: usize = 16 << 20;
/// Twice the functions of the largest machines; a bound on what a file can make a reader do.
pub(super) const MOST_FUNCTIONS: usize = 20_000;
/// Ports one below another: each has a bus of its own below it, and a PCI segment has 256 buses
/// (PCI local bus specification 3.0, section 3.2.2.3.1: eight bits of bus number).
pub(super) const DEEPEST: usize = 256;

/// Reads the text of a machine file.
pub(super) fn fabric(text: &str) -> Result<Fabric, MachineFileError> {
    if text.len() > LONGEST_TEXT {
        return Err(MachineFileError::TooLong { bytes: text.len() });
    }
    let machine: shape::Machine = toml::from_str(text)?;
    if machine.function.len() > MOST_FUNCTIONS {
        return Err(MachineFileError::TooLarge { functions: machine.function.len() });
    }
    let mut reader = Reader::new(text, &machine)?;
    for (index, function) in machine.function.iter().enumerate() {
        let built = reader.function(FunctionId(index), function)?;
        reader.functions.push(built);
    }
    Ok(Fabric {
        name: machine.name,
        origin: Origin::Description,
        kernel: Kernel { release: machine.kernel.release, has_p2pdma: machine.kernel.p2pdma },
        cpu: Cpu {
            vendor: machine.cpu.vendor,
            family: machine.cpu.family,
            model: machine.cpu.model,
        },
        iommu: machine.iommu,
        bridges: reader.bridges,
        functions: reader.functions,
        lab: machine.lab.map(lab),
    })
}

fn lab_drive(function: &shape::Function) -> LabDrive {
    let errors = function.errors.iter().flatten().map(|error| InjectedError {
        on: error.on,
        sector: error.sector,
        times: error.times,
    });
    LabDrive {
        throttle: function.throttle.map(|rate| rate.0),
        mdts: function.mdts,
        errors: errors.collect(),
    }
}

fn lab(lab: shape::Lab) -> LabBoot {
    let usual = LabBoot::default();
    LabBoot {
        cpu: lab.cpu.unwrap_or(usual.cpu),
        cpus: lab.cpus.unwrap_or(usual.cpus),
        memory: lab.memory.map_or(usual.memory, |memory| memory.0),
        kernel_args: lab.kernel_args,
    }
}

struct Reader<'a> {
    text: &'a str,
    bridges: Vec<HostBridge>,
    functions: Vec<Function>,
    /// Every name of the file, those further down included.
    names: HashMap<String, Parent>,
    addresses: HashMap<Bdf, FunctionId>,
    /// How far below its host bridge each of `functions` is, from 1.
    depths: Vec<usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, machine: &shape::Machine) -> Result<Self, MachineFileError> {
        let mut reader = Self {
            text,
            bridges: Vec::new(),
            functions: Vec::new(),
            names: HashMap::new(),
            addresses: HashMap::new(),
            depths: Vec::new(),
        };
        match &machine.host_bridge {
            None => {
                let name = ONLY_BRIDGE.to_owned();
                reader.names.insert(name.clone(), Parent::Bridge(BridgeId(0)));
                reader.bridges.push(HostBridge { name, numa_node: None });
            }
            Some(bridges) => {
                for (index, bridge) in bridges.iter().enumerate() {
                    reader.claim(&bridge.name, Parent::Bridge(BridgeId(index)))?;
                    let name = bridge.name.get_ref().clone();
                    reader.bridges.push(HostBridge { name, numa_node: bridge.numa_node });
                }
            }
        }
        for (index, function) in machine.function.iter().enumerate() {
            reader.claim(&function.name, Parent::Function(FunctionId(index)))?;
        }
        Ok(reader)
    }

    fn claim(&mut self, name: &Spanned<String>, what: Parent) -> Result<(), MachineFileError> {
        if name.get_ref().is_empty() {
            return Err(self.error(name, "name", Problem::NameEmpty));
        }
        match self.names.insert(name.get_ref().clone(), what) {
            None => Ok(()),
            Some(_) => Err(self.error(name, "name", Problem::NameTaken)),
        }
    }

    fn error(
        &self,
        name: &Spanned<String>,
        key: &'static str,
        problem: Problem,
    ) -> MachineFileError {
        let before = self.text.get(..name.span().start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        MachineFileError::Meaning { line, name: name.get_ref().clone(), key, problem }
    }

    fn function(
        &mut self,
        id: FunctionId,
        function: &shape::Function,
    ) -> Result<Function, MachineFileError> {
        let fail = |key, problem| self.error(&function.name, key, problem);
        let parent = self.parent(id, function).map_err(|problem| fail("under", problem))?;
        let depth = match parent {
            Parent::Bridge(_) => 1,
            Parent::Function(parent) => self.depths[parent.0] + 1,
        };
        if depth > DEEPEST {
            return Err(fail("under", Problem::TooDeep));
        }
        let p2pmem = p2pmem(function).map_err(|(key, problem)| fail(key, problem))?;
        let nvme = nvme(function).map_err(|(key, problem)| fail(key, problem))?;
        let address = function.address.map(|address| address.0);
        if let Some(address) = address {
            if self.addresses.contains_key(&address) {
                return Err(fail("address", Problem::AddressTaken(address)));
            }
            self.addresses.insert(address, id);
        }
        self.depths.push(depth);
        Ok(Function {
            name: function.name.get_ref().clone(),
            address,
            parent,
            kind: function.kind,
            vendor: function.vendor.map(|id| id.0),
            device: function.device.map(|id| id.0),
            class: function.class.map(|class| class.0),
            link: function.link.map(|link| link.0),
            acs: function.acs.map_or(Acs::Absent, |acs| acs.0),
            numa_node: function.numa_node,
            iommu_group: function.iommu_group,
            driver: function.driver.clone(),
            p2pmem,
            nvme,
            lab: lab_drive(function),
        })
    }

    fn parent(&self, id: FunctionId, function: &shape::Function) -> Result<Parent, Problem> {
        let Some(under) = &function.under else {
            return match self.bridges.len() {
                1 => Ok(Parent::Bridge(BridgeId(0))),
                count => Err(Problem::ParentUnclear(count)),
            };
        };
        match self.names.get(under) {
            None => Err(Problem::NoSuchParent(under.clone())),
            Some(&bridge @ Parent::Bridge(_)) => Ok(bridge),
            Some(&Parent::Function(parent)) if parent >= id => {
                Err(Problem::ParentComesLater(under.clone()))
            }
            Some(&Parent::Function(parent)) => match self.functions[parent.0].kind {
                Kind::RootPort | Kind::UpstreamPort | Kind::DownstreamPort | Kind::OtherBridge => {
                    Ok(Parent::Function(parent))
                }
                Kind::Nvme | Kind::Gpu | Kind::Fpga | Kind::Nic | Kind::Other => {
                    Err(Problem::ParentIsNoBridge(under.clone()))
                }
            },
        }
    }
}

type Fault = (&'static str, Problem);

fn p2pmem(function: &shape::Function) -> Result<Option<P2pMem>, Fault> {
    match (&function.p2pmem, function.cmb) {
        (Some(_), Some(_)) => Err(("cmb", Problem::SaidTwice("p2pmem"))),
        (None, None) => Ok(None),
        (None, Some(Size(size))) => Ok(Some(P2pMem { size, available: size, published: true })),
        (Some(memory), None) => Ok(Some(P2pMem {
            size: memory.size.0,
            available: memory.available.unwrap_or(memory.size).0,
            published: memory.published,
        })),
    }
}

fn nvme(function: &shape::Function) -> Result<Option<NvmeController>, Fault> {
    let of_a_drive = [
        ("bound", function.bound.is_some()),
        ("cmb", function.cmb.is_some()),
        ("throttle", function.throttle.is_some()),
        ("mdts", function.mdts.is_some()),
        ("errors", function.errors.is_some()),
    ];
    let of_a_controller = [
        ("controller", function.controller.is_some()),
        ("serial", function.serial.is_some()),
        ("model", function.model.is_some()),
        ("firmware", function.firmware.is_some()),
        ("size", function.size.is_some()),
        ("block_size", function.block_size.is_some()),
        ("namespaces", function.namespaces.is_some()),
    ];
    let first = |keys: &[(&'static str, bool)]| keys.iter().find(|key| key.1).map(|key| key.0);
    if function.kind != Kind::Nvme {
        return match first(&of_a_drive).or_else(|| first(&of_a_controller)) {
            None => Ok(None),
            Some(key) => Err((key, Problem::NotADrive)),
        };
    }
    if function.bound == Some(false) {
        return match first(&of_a_controller) {
            None => Ok(None),
            Some(key) => Err((key, Problem::NotBound)),
        };
    }
    Ok(Some(NvmeController {
        name: function.controller.clone(),
        serial: function.serial.clone(),
        model: function.model.clone(),
        firmware: function.firmware.clone(),
        namespaces: namespaces(function)?,
    }))
}

fn namespaces(function: &shape::Function) -> Result<Vec<Namespace>, Fault> {
    match (&function.namespaces, function.size, function.block_size) {
        (Some(_), Some(_), _) => Err(("size", Problem::SaidTwice("namespaces"))),
        (Some(_), None, Some(_)) => Err(("block_size", Problem::SaidTwice("namespaces"))),
        (None, None, Some(_)) => Err(("block_size", Problem::Needs("size"))),
        (None, None, None) => Ok(Vec::new()),
        (None, Some(Size(size)), block) => {
            let block = block_size(block.unwrap_or(Size(Bytes(512))), "block_size")?;
            Ok(vec![Namespace {
                name: None,
                nsid: Some(1),
                size,
                limits: QueueLimits {
                    logical_block: block,
                    physical_block: block,
                    ..QueueLimits::default()
                },
                partitions: Vec::new(),
            }])
        }
        (Some(list), None, None) => list.iter().map(namespace).collect(),
    }
}

fn namespace(namespace: &shape::Namespace) -> Result<Namespace, Fault> {
    let logical_block = block_size(namespace.block_size, "block_size")?;
    let physical_block = namespace
        .physical_block_size
        .map_or(Ok(logical_block), |size| block_size(size, "physical_block_size"))?;
    Ok(Namespace {
        name: namespace.name.clone(),
        nsid: namespace.nsid,
        size: namespace.size.0,
        limits: QueueLimits {
            logical_block,
            physical_block,
            max_request: namespace.max_request.map(|size| size.0),
            max_segments: namespace.max_segments,
        },
        partitions: namespace
            .partitions
            .iter()
            .map(|partition| Partition {
                name: partition.name.clone(),
                start: partition.start.0,
                size: partition.size.0,
            })
            .collect(),
    })
}

fn block_size(size: Size, key: &'static str) -> Result<Bytes, Fault> {
    if size.0.0 >= 512 && size.0.0.is_power_of_two() {
        Ok(size.0)
    } else {
        Err((key, Problem::BlockSize))
    }
}
