//! Random fabrics, possible ones: parents are ports, names and addresses are unique.

use peerlane_fabric::{
    Acs, Bar, Bdf, BridgeId, CmbRegisters, Cpu, CufileConfiguration, CufileValue, DriverBinding,
    Environment, Fabric, FailingRequest, FailureCount, Function, FunctionId, FunctionKind, GpuLink,
    HostBridge, InjectedError, Integrity, IommuMode, Kernel, LabBoot, LabDrive, Link, LinkSpeed,
    Module, Mount, Namespace, NvidiaDriver, NvmeController, Origin, P2pMem, Parent, Partition,
    PeerAccess, PeerCapability, QueueLimits, Rates, RootBus, StackedDevice, Temperature,
    UnassignedBar,
};
use peerlane_units::{ByteRate, Bytes};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Identifiers that matter to the allow list, and one that does not.
const TEST_DEVICES: [(u16, u16); 5] =
    [(0x8086, 0x29c0), (0x8086, 0x09a2), (0x8086, 0x3c00), (0x1ae0, 1), (0x10de, 0x2f95)];

const PORTS: [FunctionKind; 4] = [
    FunctionKind::RootPort,
    FunctionKind::UpstreamPort,
    FunctionKind::DownstreamPort,
    FunctionKind::OtherBridge,
];
const ENDPOINTS: [FunctionKind; 5] = [
    FunctionKind::Nvme,
    FunctionKind::Gpu,
    FunctionKind::Fpga,
    FunctionKind::Nic,
    FunctionKind::Other,
];

/// Any fabric with at least one function.
pub(crate) fn fabric() -> impl Strategy<Value = Fabric> {
    let system =
        (kernel(), of(".*"), vec(stacked(), 0..3), of(vec(mount(), 0..3)), of(vec(".*", 0..3)));
    let whole = (
        ".*",
        system,
        cpu(),
        iommu(),
        vec(host_bridge(), 1..3),
        (of(lab()), environment(), of(nvidia()), of(cufile())),
    );
    // Two machines in one test would overflow the stack otherwise.
    let functions = vec((any::<Index>(), function()), 1..12);
    (whole.boxed(), functions.boxed()).prop_map(
        |((name, system, cpu, iommu, bridges, (lab, environment, nvidia, cufile)), functions)| {
            let (kernel, product, stacked, mounts, libraries) = system;
            let bridge = |(index, bridge): (usize, HostBridge)| HostBridge {
                name: format!("pci0000:{index:02x}"),
                ..bridge
            };
            Fabric {
                name,
                origin: Origin::Description,
                kernel,
                cpu,
                iommu,
                bridges: bridges.into_iter().enumerate().map(bridge).collect(),
                functions: Vec::new(),
                product,
                libraries,
                remote_drives: Vec::new(),
                rdma_devices: Vec::new(),
                stacked,
                mounts,
                nvlinks: None,
                peer_access: Vec::new(),
                xgmi: None,
                nvidia,
                cufile,
                environment,
                lab,
                account: None,
            }
            .with_functions(functions)
        },
    )
}

/// A fabric and two of its functions.
#[allow(dead_code, reason = "the suite of crate reach includes this file, too")]
pub(crate) fn fabric_and_pair() -> impl Strategy<Value = (Fabric, FunctionId, FunctionId)> {
    (fabric(), any::<Index>(), any::<Index>()).prop_map(|(fabric, one, other)| {
        let pick = |index: Index| FunctionId(index.index(fabric.functions.len()));
        let (one, other) = (pick(one), pick(other));
        (fabric, one, other)
    })
}

trait WithFunctions {
    fn with_functions(self, functions: Vec<(Index, Function)>) -> Self;
}

impl WithFunctions for Fabric {
    /// Hangs each function from a bridge or from one of the ports before it.
    fn with_functions(mut self, functions: Vec<(Index, Function)>) -> Self {
        for (place, mut function) in functions {
            let ports = self.iter().filter(|(_, port)| PORTS.contains(&port.kind));
            let mut places: Vec<Parent> = ports.map(|(id, _)| Parent::Function(id)).collect();
            places.extend((0..self.bridges.len()).map(|at| Parent::Bridge(BridgeId(at))));
            let number = self.functions.len();
            function.parent = places[place.index(places.len())];
            function.name = format!("f{number}{}", function.name);
            let taken = self.functions.iter().any(|other| other.address == function.address);
            function.address = function.address.filter(|_| !taken);
            self.functions.push(function);
        }
        let last = FunctionId(self.functions.len() - 1);
        self.nvlinks = Some(vec![GpuLink { gpus: (FunctionId(0), last), links: Some(4) }]);
        self.xgmi = Some(vec![GpuLink { gpus: (FunctionId(0), last), links: Some(2) }]);
        let (gpus, status) = ((last, FunctionId(0)), "CNS".to_owned());
        self.peer_access = vec![PeerAccess { gpus, capability: PeerCapability::Read, status }];
        self
    }
}

fn host_bridge() -> impl Strategy<Value = HostBridge> {
    let root_bus = select(vec![RootBus::Whole, RootBus::Partial, RootBus::Assumed]);
    let parts = (of(any::<u32>()), rates(), of(rate()), root_bus);
    parts.prop_map(|(numa_node, peer, link, root_bus)| HostBridge {
        name: String::new(),
        numa_node,
        peer,
        socket_link: link,
        root_bus,
    })
}

fn environment() -> impl Strategy<Value = Environment> {
    (of(".*"), of(".*"), of(".*"), of(any::<bool>())).prop_map(
        |(hypervisor, container, confidential, has_udev)| Environment {
            hypervisor,
            container,
            confidential,
            has_udev,
        },
    )
}

fn nvidia() -> impl Strategy<Value = NvidiaDriver> {
    let parameters = btree_map(".*", ".*", 0..3);
    (of(any::<bool>()), of(".*"), parameters)
        .prop_map(|(is_open, version, parameters)| NvidiaDriver { is_open, version, parameters })
}

fn cufile() -> impl Strategy<Value = CufileConfiguration> {
    let value = prop_oneof![
        any::<bool>().prop_map(CufileValue::Flag),
        any::<i64>().prop_map(CufileValue::Number),
        ".*".prop_map(CufileValue::Text),
        vec(".*", 0..3).prop_map(CufileValue::List),
    ];
    (btree_map(".*", value, 0..3), of(".*"))
        .prop_map(|(settings, problem)| CufileConfiguration { settings, problem })
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let release = of(select(vec!["6.12.107+deb13", "7.2.13", "7.3.4", "x"]));
    let module = (".*", of(".*")).prop_map(|(name, version)| Module { name, version });
    let switches = (of(any::<bool>()), of(any::<bool>()), of(any::<bool>()));
    let options = (of(any::<bool>()), of(any::<bool>()), of(any::<bool>()));
    (release, switches, options, of(vec(".*", 0..3)), of(vec(module, 0..3))).prop_map(
        |(
            release,
            (use_cmb_sqes, nvme_multipath, nvidia_fs_nvme),
            (has_p2pdma, has_amd_p2p, has_move_notify),
            parameters,
            modules,
        )| Kernel {
            release: release.map(str::to_owned),
            has_p2pdma,
            has_amd_p2p,
            has_move_notify,
            parameters,
            use_cmb_sqes,
            nvme_multipath,
            nvidia_fs_nvme,
            modules,
            seen_modules: Vec::new(),
        },
    )
}

fn stacked() -> impl Strategy<Value = StackedDevice> {
    (".*", of(".*"), vec(".*", 0..3)).prop_map(|(name, kind, below)| StackedDevice {
        name,
        kind,
        below,
    })
}

fn mount() -> impl Strategy<Value = Mount> {
    (".*", ".*", ".*", any::<bool>()).prop_map(|(device, point, file_system, is_read_only)| Mount {
        device,
        point,
        file_system,
        is_read_only,
    })
}

fn cpu() -> impl Strategy<Value = Cpu> {
    let vendor = select(vec!["AuthenticAMD", "GenuineIntel", "HygonGenuine"]);
    let family = of(select(vec![6, 0x16, 0x17, 0x19]));
    (of(vendor), family, of(0..256_u32), of(".*")).prop_map(
        |(vendor, family, model_number, model)| Cpu {
            vendor: vendor.map(str::to_owned),
            family,
            model_number,
            model,
        },
    )
}

fn iommu() -> impl Strategy<Value = IommuMode> {
    select(vec![IommuMode::Off, IommuMode::Passthrough, IommuMode::Translating, IommuMode::Unknown])
}

fn lab() -> impl Strategy<Value = LabBoot> {
    (".*", any::<u32>(), bytes(), vec(".*", 0..3))
        .prop_map(|(cpu, cpus, memory, kernel_args)| LabBoot { cpu, cpus, memory, kernel_args })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![any::<u64>(), (0u64..1 << 20).prop_map(|mib| mib << 20)].prop_map(Bytes)
}

fn function() -> impl Strategy<Value = Function> {
    let kind = prop_oneof![select(PORTS.to_vec()), select(ENDPOINTS.to_vec())];
    let identity = (kind, of(select(TEST_DEVICES.to_vec())), of(0u32..1 << 24), ".*");
    let place = (of(address()), of(any::<u32>()), of(any::<u32>()), driver());
    let abilities =
        (acs(), of(link()), of(p2pmem()), of(nvme()), drive(), (rates(), of(100u32..=2000)));
    let names = (
        of(".*"),
        vec(".*", 0..3),
        bars(),
        (
            of(any::<bool>()),
            of(address()),
            of(any::<u32>()),
            of(bytes()),
            any::<bool>(),
            any::<bool>(),
        ),
        links(),
    );
    (identity, place, abilities, names).prop_map(|(identity, place, abilities, names)| {
        let (iommu_type, kernel_names, (bars, unassigned_bars), split, (link_below, ethernet)) =
            names;
        let (fpga_p2p, physical_function, mig_instances, memory_size, is_silent, is_accelerator) =
            split;
        let (kind, ids, class, name) = identity;
        let (address, numa_node, iommu_group, driver) = place;
        let (acs, link, p2pmem, nvme, drive, (rates, mixed)) = abilities;
        let is_drive = kind == FunctionKind::Nvme;
        Function {
            name,
            address,
            parent: Parent::Bridge(BridgeId(0)),
            kind,
            vendor: ids.map(|ids| ids.0),
            device: ids.map(|ids| ids.1),
            class,
            link,
            link_below,
            acs,
            numa_node,
            iommu_group,
            iommu_type,
            driver,
            kernel_names,
            bars,
            unassigned_bars,
            fpga_p2p,
            p2pmem,
            rates: if is_drive { rates } else { Rates::default() },
            mixed_per_mille: mixed.filter(|_| is_drive),
            ethernet: ethernet.filter(|_| kind.is_on_ethernet()),
            nvme: nvme.filter(|_| is_drive),
            physical_function,
            memory_size,
            is_silent,
            is_accelerator: is_accelerator && kind == FunctionKind::Gpu,
            mig_instances,
            lines: None,
            lab: if is_drive { drive } else { LabDrive::default() },
        }
    })
}

fn driver() -> impl Strategy<Value = DriverBinding> {
    prop_oneof![
        Just(DriverBinding::Unknown),
        Just(DriverBinding::Unbound),
        ".*".prop_map(DriverBinding::Bound),
    ]
}

fn address() -> impl Strategy<Value = Bdf> {
    (any::<u32>(), any::<u8>(), 0u8..3, 0u8..2)
        .prop_map(|(domain, bus, device, function)| Bdf::new(domain, bus, device, function))
        .prop_filter_map("device and function in range", |address| address)
}

fn acs() -> impl Strategy<Value = Acs> {
    prop_oneof![
        Just(Acs::Absent),
        Just(Acs::Absent),
        Just(Acs::Unknown),
        any::<u16>().prop_map(|control| Acs::Present { control }),
        Just(Acs::Present { control: 0x53 }),
    ]
}

fn link() -> impl Strategy<Value = Link> {
    (of(speed()), of(speed())).prop_map(|(current, maximum)| Link { current, maximum })
}

fn links() -> impl Strategy<Value = (Option<LinkSpeed>, Option<ByteRate>)> {
    (of(speed()), of(rate()))
}

fn speed() -> impl Strategy<Value = LinkSpeed> {
    (any::<u32>(), 1u8..).prop_map(|(megatransfers, width)| LinkSpeed { megatransfers, width })
}

fn bars() -> impl Strategy<Value = (Vec<Bar>, Vec<UnassignedBar>)> {
    let size = || (1..=u64::MAX).prop_map(Bytes);
    let unassigned =
        (any::<u8>(), of(size())).prop_map(|(index, size)| UnassignedBar { index, size });
    (vec(bar(), 0..3), vec(unassigned, 0..2))
}

fn bar() -> impl Strategy<Value = Bar> {
    let size = (1..=u64::MAX).prop_map(Bytes);
    (any::<u8>(), size, any::<bool>(), of(bytes()), of(any::<u8>())).prop_map(
        |(index, size, is_prefetchable, largest, address_bits)| Bar {
            index,
            size,
            is_prefetchable,
            largest,
            address_bits,
        },
    )
}

fn p2pmem() -> impl Strategy<Value = P2pMem> {
    (bytes(), bytes(), any::<bool>(), of(0u32..0o1000), rates()).prop_map(
        |(size, available, published, allocate, rates)| P2pMem {
            size,
            available,
            published,
            allocate,
            rates,
        },
    )
}

/// From the slowest that a machine file may have to the fastest Ethernet.
fn rate() -> impl Strategy<Value = ByteRate> {
    (1_000_000..=200_000_000_000_u64).prop_map(ByteRate)
}

fn rates() -> impl Strategy<Value = Rates> {
    (of(rate()), of(rate())).prop_map(|(read, write)| Rates { read, write })
}

fn drive() -> impl Strategy<Value = LabDrive> {
    let limits = (of((1..=u64::MAX).prop_map(ByteRate)), of(any::<u8>()), of(any::<u8>()));
    (limits, any::<bool>(), vec(injected_error(), 0..3)).prop_map(
        |((throttle, mdts, protection), multipath, errors)| LabDrive {
            throttle,
            mdts,
            protection,
            multipath,
            errors,
            is_ram_bar: false,
        },
    )
}

fn injected_error() -> impl Strategy<Value = InjectedError> {
    let on = select(vec![FailingRequest::Read, FailingRequest::Write]);
    let times = select(vec![FailureCount::Once, FailureCount::Always]);
    (on, any::<u32>(), times).prop_map(|(on, sector, times)| InjectedError { on, sector, times })
}

fn nvme() -> impl Strategy<Value = NvmeController> {
    let texts = (of(".*"), of(".*"), of(".*"), of(".*"), of(".*"));
    let cmb =
        (any::<u32>(), any::<u32>()).prop_map(|(location, size)| CmbRegisters { location, size });
    let degrees = (any::<i32>(), of(any::<i32>()), of(any::<i32>()))
        .prop_map(|(current, warning, critical)| Temperature { current, warning, critical });
    (texts, of(cmb), of(degrees), vec(namespace(), 0..3)).prop_map(
        |((name, serial, model, firmware, state), cmb, temperature, namespaces)| NvmeController {
            name,
            serial,
            model,
            firmware,
            state,
            cmb,
            temperature,
            namespaces,
        },
    )
}

fn namespace() -> impl Strategy<Value = Namespace> {
    let partition =
        (".*", bytes(), bytes()).prop_map(|(name, start, size)| Partition { name, start, size });
    let integrity = (any::<bool>(), any::<bool>())
        .prop_map(|(write_generate, read_verify)| Integrity { write_generate, read_verify });
    let state = (any::<bool>(), of(any::<bool>()), of(integrity));
    (of(".*"), of(any::<u32>()), bytes(), limits(), state, vec(partition, 0..3)).prop_map(
        |(name, nsid, size, limits, state, partitions)| Namespace {
            name,
            nsid,
            size,
            limits,
            is_multipath_head: state.0,
            stable_writes: state.1,
            integrity: state.2,
            partitions,
        },
    )
}

fn limits() -> impl Strategy<Value = QueueLimits> {
    let block = || (9u32..63).prop_map(|shift| Bytes(1 << shift));
    (block(), block(), of(bytes()), of(bytes()), of(any::<u32>())).prop_map(
        |(logical_block, physical_block, max_request, max_hw_request, max_segments)| QueueLimits {
            logical_block,
            physical_block,
            max_request,
            max_hw_request,
            max_segments,
        },
    )
}
