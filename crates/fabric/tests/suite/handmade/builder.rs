//! A machine put together function by function, with addresses as firmware gives them.

use std::collections::HashMap;

use peerlane_fabric::{
    Acs, Bar, Bdf, BridgeId, CmbRegisters, Cpu, DriverBinding, Fabric, Function, FunctionId,
    FunctionKind, HostBridge, IommuMode, Kernel, Link, LinkSpeed, Module, Mount, Namespace,
    NvidiaDriver, NvmeController, Origin, P2pMem, Parent, Partition, QueueLimits, Rates, RootBus,
    StackedDevice, Temperature,
};
use peerlane_units::Bytes;

/// A machine in the making.
pub(crate) struct MachineBuilder {
    pub(crate) fabric: Fabric,
    /// Bus below each parent, and how many devices are on it.
    buses: HashMap<Parent, (u8, u8)>,
    next_bus: u8,
    domain: u32,
    groups: u32,
    drives: u32,
}

/// A port of a switch or root complex.
#[derive(Clone, Copy)]
pub(crate) struct Ids(pub(crate) u16, pub(crate) u16);

impl MachineBuilder {
    pub(crate) fn new(name: &str, product: &str, release: &str) -> Self {
        let kernel = Kernel {
            release: Some(release.to_owned()),
            has_p2pdma: Some(true),
            has_amd_p2p: None,
            has_move_notify: None,
            parameters: Some(Vec::new()),
            use_cmb_sqes: Some(true),
            nvme_multipath: Some(true),
            modules: Some(vec![module("nvme"), module("nvme_core")]),
            nvidia_fs_nvme: None,
            seen_modules: Vec::new(),
        };
        let fabric = Fabric {
            kernel,
            iommu: IommuMode::Off,
            product: Some(product.to_owned()),
            libraries: Some(Vec::new()),
            mounts: Some(Vec::new()),
            ..Fabric::unknown(name, Origin::Description)
        };
        let buses = HashMap::new();
        Self { fabric, buses, next_bus: 0, domain: 0, groups: 0, drives: 0 }
    }

    pub(crate) fn cpu(&mut self, vendor: &str, family: Option<u32>, model: &str) {
        let model = (!model.is_empty()).then(|| model.to_owned());
        self.fabric.cpu = Cpu { vendor: Some(vendor.to_owned()), family, model, ..Cpu::default() };
    }

    /// A host bridge at a bus, with what the kernel knows it by at device 0.
    pub(crate) fn bridge(&mut self, domain: u32, bus: u8, node: Option<u32>, first: Ids) -> Parent {
        self.domain = domain;
        self.next_bus = bus + 1;
        let parent = Parent::Bridge(BridgeId(self.fabric.bridges.len()));
        let name = format!("pci{domain:04x}:{bus:02x}");
        let peer = Rates::default();
        self.fabric.bridges.push(HostBridge {
            name,
            numa_node: node,
            peer,
            socket_link: None,
            root_bus: RootBus::Whole,
        });
        self.buses.insert(parent, (bus, 0));
        self.function(parent, FunctionKind::Other, first, 0x06_00_00, node);
        parent
    }

    /// The next device below a parent.
    pub(crate) fn function(
        &mut self,
        parent: Parent,
        kind: FunctionKind,
        ids: Ids,
        class: u32,
        node: Option<u32>,
    ) -> FunctionId {
        let next_bus = &mut self.next_bus;
        let (bus, device) = self.buses.entry(parent).or_insert_with(|| {
            *next_bus += 1;
            (*next_bus - 1, 0)
        });
        let address = Bdf::new(self.domain, *bus, *device, 0).unwrap();
        *device += 1;
        self.at(parent, kind, ids, class, node, address)
    }

    pub(crate) fn at(
        &mut self,
        parent: Parent,
        kind: FunctionKind,
        Ids(vendor, device): Ids,
        class: u32,
        node: Option<u32>,
        address: Bdf,
    ) -> FunctionId {
        let translates = self.fabric.iommu != IommuMode::Off;
        let iommu_group = translates.then(|| {
            self.groups += 1;
            self.groups - 1
        });
        let iommu_type = match self.fabric.iommu {
            IommuMode::Translating => Some("DMA-FQ".to_owned()),
            IommuMode::Passthrough => Some("identity".to_owned()),
            IommuMode::Off | IommuMode::Unknown => None,
        };
        self.fabric.functions.push(Function {
            address: Some(address),
            kind,
            vendor: Some(vendor),
            device: Some(device),
            class: Some(class),
            acs: Acs::Absent,
            numa_node: node,
            iommu_group,
            iommu_type,
            driver: DriverBinding::Unbound,
            ..Function::unknown(address.to_string(), parent)
        });
        FunctionId(self.fabric.functions.len() - 1)
    }

    pub(crate) fn last(&mut self) -> &mut Function {
        self.fabric.functions.last_mut().unwrap()
    }

    /// A port; `below` is the most its lower link can be, `link` what the one above is and can be.
    pub(crate) fn port(
        &mut self,
        parent: Parent,
        kind: FunctionKind,
        ids: Ids,
        link: Option<&str>,
        below: Option<&str>,
    ) -> Parent {
        let node = self.node(parent);
        let id = self.function(parent, kind, ids, 0x06_04_00, node);
        // Linux sets these bits on every port that has them once it finds an IOMMU.
        let control = if self.fabric.iommu == IommuMode::Off { 0 } else { 0x1d };
        let port = self.last();
        port.driver = DriverBinding::Bound("pcieport".to_owned());
        port.link = link.map(trained);
        port.link_below = below.map(speed);
        if kind != FunctionKind::UpstreamPort {
            port.acs = Acs::Present { control };
        }
        Parent::Function(id)
    }

    fn node(&self, parent: Parent) -> Option<u32> {
        match parent {
            Parent::Bridge(bridge) => self.fabric.bridges[bridge.0].numa_node,
            Parent::Function(id) => self.fabric.function(id).numa_node,
        }
    }

    /// An endpoint with a driver.
    pub(crate) fn endpoint(
        &mut self,
        parent: Parent,
        kind: FunctionKind,
        ids: Ids,
        class: u32,
        link: &str,
        driver: &str,
    ) -> &mut Function {
        let node = self.node(parent);
        self.function(parent, kind, ids, class, node);
        let endpoint = self.last();
        endpoint.link = Some(trained(link));
        endpoint.driver = DriverBinding::Bound(driver.to_owned());
        endpoint
    }

    /// An NVMe drive with one namespace; returns its controller's name.
    pub(crate) fn drive(
        &mut self,
        parent: Parent,
        ids: Ids,
        link: &str,
        model: &str,
        size: Bytes,
    ) -> String {
        let number = self.drives;
        self.drives += 1;
        let name = format!("nvme{number}");
        // A translating IOMMU lets one request carry 128 KiB (`dma_opt_mapping_size`).
        let translates = self.fabric.iommu == IommuMode::Translating;
        let max_request = if translates { Bytes(128 << 10) } else { Bytes(1280 << 10) };
        let drive = self.endpoint(parent, FunctionKind::Nvme, ids, 0x01_08_02, link, "nvme");
        drive.name.clone_from(&name);
        drive.bars = vec![bar(0, Bytes(16 << 10), false)];
        drive.nvme = Some(NvmeController {
            name: Some(name.clone()),
            serial: Some(format!("S{:07}", 4_711_000 + number)),
            model: Some(model.to_owned()),
            firmware: Some("GDC5602Q".to_owned()),
            state: Some("live".to_owned()),
            cmb: None,
            temperature: Some(Temperature {
                current: 38_850,
                warning: Some(79_850),
                critical: Some(84_850),
            }),
            namespaces: vec![Namespace {
                name: Some(format!("{name}n1")),
                nsid: Some(1),
                size,
                limits: QueueLimits {
                    logical_block: Bytes(512),
                    physical_block: Bytes(4096),
                    max_request: Some(max_request),
                    max_hw_request: Some(Bytes(2 << 20)),
                    max_segments: Some(127),
                },
                is_multipath_head: false,
                stable_writes: Some(false),
                integrity: None,
                partitions: Vec::new(),
            }],
        });
        name
    }

    pub(crate) fn nvme(&mut self) -> &mut NvmeController {
        self.last().nvme.as_mut().unwrap()
    }

    /// Gives the last drive a CMB of some MiB, registered and published.
    pub(crate) fn cmb(&mut self, mib: u32) {
        // Units of 1 MiB; data to read and to write, no queues.
        self.nvme().cmb = Some(CmbRegisters { location: 2, size: mib << 12 | 2 << 8 | 0x18 });
        let size = Bytes::mib(u64::from(mib));
        let drive = self.last();
        drive.bars.push(bar(2, size, true));
        drive.p2pmem = Some(P2pMem {
            size,
            available: size,
            published: true,
            allocate: Some(0o660),
            rates: Rates::default(),
        });
    }

    /// Partitions of the last drive: sizes in MiB, one after the other from 1 MiB on.
    pub(crate) fn partitions(&mut self, sizes: &[u64]) {
        let namespace = &mut self.nvme().namespaces[0];
        let name = namespace.name.clone().unwrap();
        let mut start = 1;
        for (index, size) in (1..).zip(sizes) {
            namespace.partitions.push(Partition {
                name: format!("{name}p{index}"),
                start: Bytes::mib(start),
                size: Bytes::mib(*size),
            });
            start += size;
        }
    }

    pub(crate) fn mount(&mut self, device: &str, file_system: &str, point: &str) {
        self.fabric.mounts.get_or_insert_default().push(Mount {
            device: device.to_owned(),
            point: point.to_owned(),
            file_system: file_system.to_owned(),
            is_read_only: false,
        });
    }

    pub(crate) fn stack(&mut self, name: &str, kind: &str, below: &[&str]) {
        self.fabric.stacked.push(StackedDevice {
            name: name.to_owned(),
            kind: Some(kind.to_owned()),
            below: below.iter().map(|&name| name.to_owned()).collect(),
        });
    }

    /// NVIDIA's driver with the registry keys given, and defaults for the rest. The proprietary one here is too
    /// old to have the rest.
    pub(crate) fn nvidia(&mut self, is_open: bool, version: &str, registry: &str) {
        let defaults = [
            ("DmaRemapPeerMmio", "1"),
            ("EnablePCIERelaxedOrderingMode", "0"),
            ("EnableResizableBar", "0"),
            ("GrdmaPciTopoCheckOverride", "0"),
            ("NvLinkDisable", "0"),
            ("RegistryDwordsPerDevice", ""),
        ];
        let defaults = defaults.into_iter().filter(|_| is_open);
        let parameters = defaults.chain([("RegistryDwords", registry)]);
        self.fabric.nvidia = Some(NvidiaDriver {
            is_open: Some(is_open),
            version: Some(version.to_owned()),
            parameters: parameters.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        });
    }

    pub(crate) fn modules(&mut self, modules: &[(&str, Option<&str>)]) {
        let kept = modules.iter().map(|(name, version)| Module {
            name: (*name).to_owned(),
            version: version.map(str::to_owned),
        });
        self.fabric.kernel.modules = Some(kept.collect());
    }
}

fn module(name: &str) -> Module {
    Module { name: name.to_owned(), version: None }
}

pub(crate) fn bar(index: u8, size: Bytes, is_prefetchable: bool) -> Bar {
    Bar { index, size, is_prefetchable, largest: None, address_bits: None }
}

pub(crate) fn speed(text: &str) -> LinkSpeed {
    text.parse().unwrap()
}

/// `16GT/s x4` for a link at its best, `8GT/s x4 of 16GT/s x4` for another.
fn trained(text: &str) -> Link {
    let (current, maximum) = text.split_once(" of ").unwrap_or((text, text));
    Link { current: Some(speed(current)), maximum: Some(speed(maximum)) }
}
