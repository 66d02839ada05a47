//! From the text of a machine file to a fabric.

mod storage;

use std::collections::HashMap;

use peerlane_units::{ByteRate, Bytes};
use toml::Spanned;

use super::shape;
use super::values::Rate;
use super::{MachineFileError, NO_DRIVER, Problem, UNKNOWN_DRIVER};
use crate::{
    Acs, Bar, Bdf, BridgeId, DriverBinding, Fabric, Function, FunctionId, FunctionKind, GpuLink,
    HostBridge, LabDrive, Origin, P2pMem, Parent, PeerAccess, Rates, RootBus, UnassignedBar,
};

/// Name of the host bridge of a file that lists none.
const ONLY_BRIDGE: &str = "pci0000:00";

/// Above 800 bytes for each function that is read; a drive with all its keys takes about 600.
pub(super) const LONGEST_TEXT: usize = 32 << 20;
/// More functions than in a tree of ten thousand drives, with a port above each and above each
/// switch; a bound on the work that a file can cause.
pub(super) const MOST_FUNCTIONS: usize = 40_000;
/// Slower than every device with a rate here, and far above where engines, which count picoseconds
/// in 64 bits, would run out of numbers.
pub(super) const SLOWEST: ByteRate = ByteRate(1_000_000);
/// 1.6 Tbit/s (IEEE P802.3dj).
pub(super) const FASTEST_ETHERNET: ByteRate = ByteRate(200_000_000_000);
/// Ports one below another: each has a bus of its own below it, and a PCI segment has 256 buses
/// (PCI local bus specification 3.0, section 3.2.2.3.1: eight bits of bus number).
pub(super) const DEEPEST: usize = 256;

/// Reads the text of a machine file.
pub(super) fn fabric(text: &str) -> Result<Fabric, MachineFileError> {
    if text.len() > LONGEST_TEXT {
        return Err(MachineFileError::TooLong { bytes: text.len() });
    }
    let machine: shape::MachineTable = toml::from_str(text)?;
    if machine.function.len() > MOST_FUNCTIONS {
        return Err(MachineFileError::TooLarge { functions: machine.function.len() });
    }
    let mut reader = MachineFileReader::new(text, &machine)?;
    for (index, function) in machine.function.iter().enumerate() {
        let built = reader.function(FunctionId(index), function)?;
        reader.functions.push(built);
    }
    let peer_access = reader.peer_access(&machine.peer_access)?;
    let links = |list: &Option<Vec<_>>, key| {
        list.as_ref().map(|list| reader.gpu_links(list, key)).transpose()
    };
    let (nvlinks, xgmi) =
        (links(&machine.nvlink, "nvlink.gpus")?, links(&machine.xgmi, "xgmi.gpus")?);
    Ok(Fabric {
        name: machine.name,
        origin: Origin::Description,
        kernel: machine.kernel,
        cpu: machine.cpu,
        iommu: machine.iommu,
        bridges: reader.bridges,
        functions: reader.functions,
        product: machine.product,
        libraries: machine.libraries,
        remote_drives: Vec::new(),
        rdma_devices: Vec::new(),
        stacked: machine.stacked,
        mounts: machine.mount,
        nvlinks,
        peer_access,
        xgmi,
        nvidia: machine.nvidia,
        cufile: machine.cufile,
        environment: machine.environment,
        lab: machine.lab,
        account: None,
    })
}

fn lab_drive(function: &shape::FunctionTable) -> LabDrive {
    LabDrive {
        throttle: function.throttle.map(|rate| rate.0),
        mdts: function.mdts.map(|mdts| mdts.0),
        protection: function.protection,
        multipath: function.multipath,
        errors: function.errors.clone().unwrap_or_default(),
        is_ram_bar: function.ram_bar,
    }
}

struct MachineFileReader<'a> {
    text: &'a str,
    bridges: Vec<HostBridge>,
    functions: Vec<Function>,
    /// Every name of the file, those further down included.
    names: HashMap<String, Parent>,
    addresses: HashMap<Bdf, FunctionId>,
    /// Depth of each of `functions` below its host bridge, from 1.
    depths: Vec<usize>,
}

impl<'a> MachineFileReader<'a> {
    fn new(text: &'a str, machine: &shape::MachineTable) -> Result<Self, MachineFileError> {
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
                let peer = Rates::default();
                reader.bridges.push(HostBridge {
                    name,
                    numa_node: None,
                    peer,
                    socket_link: None,
                    root_bus: RootBus::Whole,
                });
            }
            Some(bridges) => {
                for (index, bridge) in bridges.iter().enumerate() {
                    reader.claim(&bridge.name, Parent::Bridge(BridgeId(index)))?;
                    check_rates(&[
                        ("p2p_read", bridge.p2p_read),
                        ("p2p_write", bridge.p2p_write),
                        ("socket_link", bridge.socket_link),
                    ])
                    .map_err(|(key, problem)| reader.error(&bridge.name, key, problem))?;
                    let name = bridge.name.get_ref().clone();
                    reader.bridges.push(HostBridge {
                        name,
                        numa_node: bridge.numa_node,
                        peer: rates(bridge.p2p_read, bridge.p2p_write),
                        socket_link: bridge.socket_link.map(|rate| rate.0),
                        root_bus: bridge.root_bus,
                    });
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
        function: &shape::FunctionTable,
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
        let of_memory =
            |rate: fn(&shape::P2pMemTable) -> Option<Rate>| function.p2pmem.as_ref().and_then(rate);
        check_rates(&[
            ("read", function.read),
            ("write", function.write),
            ("ethernet", function.ethernet),
            ("p2pmem.read", of_memory(|memory| memory.read)),
            ("p2pmem.write", of_memory(|memory| memory.write)),
        ])
        .map_err(|(key, problem)| fail(key, problem))?;
        if function.throttle.is_some_and(|rate| rate.0 == ByteRate(0)) {
            return Err(fail("throttle", Problem::NoThrottle));
        }
        let p2pmem = p2pmem(function).map_err(|(key, problem)| fail(key, problem))?;
        let nvme = storage::nvme(function).map_err(|(key, problem)| fail(key, problem))?;
        let mixed_per_mille =
            storage::mixed(function).map_err(|(key, problem)| fail(key, problem))?;
        if function.ethernet.is_some() && !function.kind.is_on_ethernet() {
            return Err(fail("ethernet", Problem::NotOnEthernet));
        }
        if function.ethernet.is_some_and(|rate| rate.0 > FASTEST_ETHERNET) {
            return Err(fail("ethernet", Problem::Ethernet));
        }
        let bars = bars(function).map_err(|(key, problem)| fail(key, problem))?;
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
            link: function.link,
            link_below: function.link_below.map(|link| link.0),
            acs: function.acs.unwrap_or(Acs::Absent),
            numa_node: function.numa_node,
            iommu_group: function.iommu_group,
            iommu_type: function.iommu_type.clone(),
            driver: driver(function),
            kernel_names: function.kernel_names.clone(),
            bars,
            unassigned_bars: function.bars.iter().filter_map(unassigned).collect(),
            fpga_p2p: function.fpga_p2p,
            p2pmem,
            rates: rates(function.read, function.write),
            mixed_per_mille,
            ethernet: function.ethernet.map(|rate| rate.0),
            nvme,
            physical_function: function.physical_function.map(|address| address.0),
            memory_size: function.memory_size.map(|size| size.0),
            is_silent: function.silent,
            is_accelerator: function.accelerator,
            mig_instances: function.mig_instances,
            lines: None,
            lab: lab_drive(function),
        })
    }

    fn gpu(
        &self,
        name: &Spanned<String>,
        key: &'static str,
    ) -> Result<FunctionId, MachineFileError> {
        match self.names.get(name.get_ref()) {
            Some(&Parent::Function(id)) => Ok(id),
            _ => Err(self.error(name, key, Problem::NoSuchFunction)),
        }
    }

    fn peer_access(
        &self,
        answers: &[shape::PeerAccessTable],
    ) -> Result<Vec<PeerAccess>, MachineFileError> {
        let gpu = |name: &Spanned<String>| self.gpu(name, "peer_access.gpus");
        let answer = |answer: &shape::PeerAccessTable| {
            Ok(PeerAccess {
                gpus: (gpu(&answer.gpus[0])?, gpu(&answer.gpus[1])?),
                capability: answer.capability,
                status: answer.status.clone(),
            })
        };
        answers.iter().map(answer).collect()
    }

    fn gpu_links(
        &self,
        links: &[shape::GpuLinkTable],
        key: &'static str,
    ) -> Result<Vec<GpuLink>, MachineFileError> {
        let gpu = |name: &Spanned<String>| self.gpu(name, key);
        links
            .iter()
            .map(|link| {
                let [one, other] = [gpu(&link.gpus[0])?, gpu(&link.gpus[1])?];
                Ok(GpuLink { gpus: (one.min(other), one.max(other)), links: link.links })
            })
            .collect()
    }

    fn parent(&self, id: FunctionId, function: &shape::FunctionTable) -> Result<Parent, Problem> {
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
                FunctionKind::RootPort
                | FunctionKind::UpstreamPort
                | FunctionKind::DownstreamPort
                | FunctionKind::OtherBridge => Ok(Parent::Function(parent)),
                FunctionKind::Nvme
                | FunctionKind::Gpu
                | FunctionKind::Fpga
                | FunctionKind::Nic
                | FunctionKind::Other => Err(Problem::ParentIsNoBridge(under.clone())),
            },
        }
    }
}

/// The key at fault and its problem.
type Fault = (&'static str, Problem);

fn p2pmem(function: &shape::FunctionTable) -> Result<Option<P2pMem>, Fault> {
    if function.ram_bar && function.kind != FunctionKind::Other {
        return Err(("ram_bar", Problem::NotOther));
    }
    if function.ram_bar && function.p2pmem.is_none() {
        return Err(("ram_bar", Problem::Needs("p2pmem")));
    }
    match (&function.p2pmem, function.cmb) {
        (Some(_), Some(_)) => Err(("cmb", Problem::SaidTwice("p2pmem"))),
        (None, None) => Ok(None),
        (None, Some(size)) => Ok(Some(P2pMem {
            size,
            available: size,
            published: true,
            allocate: None,
            rates: Rates::default(),
        })),
        (Some(memory), None) => Ok(Some(P2pMem {
            size: memory.size.0,
            available: memory.available.unwrap_or(memory.size).0,
            published: memory.published,
            allocate: memory.allocate.map(|mode| mode.0),
            rates: rates(memory.read, memory.write),
        })),
    }
}

/// Refuses rates that nothing has.
fn check_rates(rates: &[(&'static str, Option<Rate>)]) -> Result<(), Fault> {
    let is_too_slow = |rate: Option<Rate>| rate.is_some_and(|rate| rate.0 < SLOWEST);
    match rates.iter().find(|(_, rate)| is_too_slow(*rate)) {
        Some((key, _)) => Err((key, Problem::TooSlow)),
        None => Ok(()),
    }
}

fn rates(read: Option<Rate>, write: Option<Rate>) -> Rates {
    Rates { read: read.map(|rate| rate.0), write: write.map(|rate| rate.0) }
}

/// A drive without the NVMe driver has none, unless another one is named.
fn driver(function: &shape::FunctionTable) -> DriverBinding {
    match function.driver.as_deref() {
        None if function.bound == Some(false) => DriverBinding::Unbound,
        None | Some(UNKNOWN_DRIVER) => DriverBinding::Unknown,
        Some(NO_DRIVER) => DriverBinding::Unbound,
        Some(name) => DriverBinding::Bound(name.to_owned()),
    }
}

/// The windows with address space.
fn bars(function: &shape::FunctionTable) -> Result<Vec<Bar>, Fault> {
    let assigned = function.bars.iter().filter(|bar| unassigned(bar).is_none());
    let bar = |bar: &shape::BarTable| {
        Ok(Bar {
            index: bar.index,
            size: bar.size.ok_or(("bars", Problem::Needs("size")))?.0,
            is_prefetchable: bar.prefetchable,
            largest: bar.largest.map(|size| size.0),
            address_bits: bar.address_bits,
        })
    };
    assigned.map(bar).collect()
}

/// A window without address space; one without a size has none either.
fn unassigned(bar: &shape::BarTable) -> Option<UnassignedBar> {
    let size = bar.size.map(|size| size.0);
    let has_none = !bar.assigned || size == Some(Bytes::ZERO);
    let size = size.filter(|&size| size != Bytes::ZERO);
    has_none.then_some(UnassignedBar { index: bar.index, size })
}
