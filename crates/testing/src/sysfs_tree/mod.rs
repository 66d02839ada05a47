//! Writes a fabric as a tree of sysfs that discovery reads: for fixtures and for tests of discovery.
//!
//! It writes the files that discovery reads and nothing more; numbers that no fabric has, such as
//! those of block devices, are made up. A function without an address gets one, as firmware numbers buses.

mod environment;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use peerlane_fabric::{
    Acs, Bar, Bdf, BridgeId, DriverBinding, Fabric, Function, FunctionId, FunctionKind, IommuMode,
    Kernel, LinkSpeed, Namespace, NoPlace, NvmeController, Parent, Snapshot, TreeEntry,
};

/// Unit of `size` and `start` in sysfs (`SECTOR_SHIFT`).
const SECTOR: u64 = 512;
/// `IORESOURCE_UNSET` of `include/linux/ioport.h`.
const UNSET: u64 = 0x2000_0000;
/// Controllers of drives in other machines.
const CONTROLLERS: &str = "sys/devices/virtual/nvme-fabrics/ctl";
/// Start of extended configuration space (PCIe 6.0 section 7.6).
const EXTENDED: usize = 0x100;
/// `BLOCK_EXT_MAJOR`, which namespaces have.
const MAJOR_EXTENDED: u32 = 259;
/// The major number that device mapper usually gets.
const MAJOR_MAPPER: u32 = 253;

/// The tree that [`Fabric::discover_snapshot`] reads back as the machine.
///
/// # Errors
/// When a name cannot be that of a file, two are the same, or there are too many.
pub fn sysfs_tree(fabric: &Fabric) -> Result<Snapshot, NoPlace> {
    let mut writer = TreeWriter {
        fabric,
        tree: Snapshot::default(),
        addresses: addresses(fabric),
        numbers: HashMap::new(),
    };
    writer.folder("sys/devices")?;
    writer.system()?;
    let mut below: HashMap<Parent, Vec<FunctionId>> = HashMap::new();
    for (id, function) in fabric.iter() {
        below.entry(function.parent).or_default().push(id);
    }
    for (index, bridge) in fabric.bridges.iter().enumerate() {
        let at = format!("sys/devices/{}", bridge.name);
        writer.folder(&at)?;
        writer.children(Parent::Bridge(BridgeId(index)), at, &below)?;
    }
    writer.rdma_devices(None, "sys/devices/virtual/infiniband")?;
    writer.remote_drives()?;
    writer.stacked()?;
    writer.mounts()?;
    Ok(writer.tree)
}

/// The address of each function: its own, or the next one free on its bus.
fn addresses(fabric: &Fabric) -> Vec<Bdf> {
    let mut taken: BTreeSet<Bdf> = fabric.functions.iter().filter_map(|one| one.address).collect();
    let mut last_bus: HashMap<u32, u8> = HashMap::new();
    for address in &taken {
        let last = last_bus.entry(address.domain()).or_insert(0);
        *last = (*last).max(address.bus());
    }
    let mut buses: HashMap<Parent, (u32, u8)> = HashMap::new();
    for (index, bridge) in fabric.bridges.iter().enumerate() {
        let place = place(&bridge.name);
        let last = last_bus.entry(place.0).or_insert(0);
        *last = (*last).max(place.1);
        buses.insert(Parent::Bridge(BridgeId(index)), place);
    }
    let mut addresses: Vec<Bdf> = Vec::new();
    for function in &fabric.functions {
        let own = function.address.unwrap_or_else(|| {
            let (domain, bus) = *buses.entry(function.parent).or_insert_with(|| {
                let domain = match function.parent {
                    Parent::Function(above) => addresses[above.0].domain(),
                    Parent::Bridge(_) => 0,
                };
                let last = last_bus.entry(domain).or_insert(0);
                *last = last.saturating_add(1);
                (domain, *last)
            });
            let free = (0..=u8::MAX)
                .filter_map(|number| Bdf::new(domain, bus, number % 32, number / 32))
                .find(|address| !taken.contains(address));
            // A full bus ends in two entries of one name, which the tree refuses.
            free.or_else(|| Bdf::new(domain, bus, 0, 0))
                .unwrap_or_else(|| unreachable!("device 0 and function 0 are those of an address"))
        });
        taken.insert(own);
        addresses.push(own);
    }
    addresses
}

/// Domain and bus in the name of a host bridge, `pci0000:40`.
fn place(name: &str) -> (u32, u8) {
    let parts = name.strip_prefix("pci").and_then(|rest| rest.split_once(':'));
    let read = |(domain, bus): (&str, &str)| {
        Some((u32::from_str_radix(domain, 16).ok()?, u8::from_str_radix(bus, 16).ok()?))
    };
    parts.and_then(read).unwrap_or((0, 0))
}

struct TreeWriter<'a> {
    fabric: &'a Fabric,
    tree: Snapshot,
    addresses: Vec<Bdf>,
    /// Major and minor number of the block devices, by name.
    numbers: HashMap<String, String>,
}

type Written = Result<(), NoPlace>;

impl TreeWriter<'_> {
    fn folder(&mut self, path: &str) -> Written {
        self.tree.insert(Path::new(path), TreeEntry::Folder(BTreeMap::new()))
    }

    fn file(&mut self, folder: &str, name: &str, text: impl std::fmt::Display) -> Written {
        self.tree.text(format!("{folder}/{name}"), &text.to_string())
    }

    fn some<T: std::fmt::Display>(
        &mut self,
        folder: &str,
        name: &str,
        value: Option<T>,
    ) -> Written {
        value.map_or(Ok(()), |value| self.file(folder, name, value))
    }

    fn link(&mut self, path: &str, target: String) -> Written {
        self.tree.insert(Path::new(path), TreeEntry::Link(PathBuf::from(target)))
    }

    fn system(&mut self) -> Written {
        let Fabric { name, kernel, cpu, product, iommu, .. } = self.fabric;
        self.file("proc/sys/kernel", "hostname", name)?;
        self.some("proc/sys/kernel", "osrelease", kernel.release.as_ref())?;
        if let (Some(release), Some(_)) = (&kernel.release, kernel.has_p2pdma) {
            self.file("boot", &format!("config-{release}"), configuration(kernel))?;
        }
        self.some("proc", "cmdline", kernel.parameters.as_ref().map(|list| list.join(" ")))?;
        let mut lines = String::new();
        match cpu
            .vendor
            .as_ref()
            .map(|vendor| vendor.strip_prefix("CPU implementer ").ok_or(vendor))
        {
            Some(Ok(implementer)) => lines += &format!("CPU implementer\t: {implementer}\n"),
            Some(Err(vendor)) => lines += &format!("vendor_id\t: {vendor}\n"),
            None => {}
        }
        for (key, number) in [("cpu family", cpu.family), ("model\t", cpu.model_number)] {
            lines += &number.map(|number| format!("{key}\t: {number}\n")).unwrap_or_default();
        }
        lines +=
            &cpu.model.as_ref().map(|name| format!("model name\t: {name}\n")).unwrap_or_default();
        lines += environment::flags(self.fabric);
        self.file("proc", "cpuinfo", lines)?;
        self.environment()?;
        self.nvidia()?;
        self.cufile()?;
        self.some("sys/devices/virtual/dmi/id", "product_name", product.as_ref())?;
        if *iommu != IommuMode::Unknown {
            self.folder("sys/kernel/iommu_groups")?;
        }
        if let Some(libraries) = &self.fabric.libraries {
            self.libraries(libraries)?;
        }
        self.modules()
    }

    fn modules(&mut self) -> Written {
        let kernel = &self.fabric.kernel;
        let letter = |value: bool| if value { "Y" } else { "N" };
        let cmb = kernel.use_cmb_sqes.map(letter);
        self.some("sys/module/nvme/parameters", "use_cmb_sqes", cmb)?;
        let multipath = kernel.nvme_multipath.map(letter);
        self.some("sys/module/nvme_core/parameters", "multipath", multipath)?;
        if let Some(modules) = &kernel.modules {
            self.folder("sys/module")?;
            for module in modules {
                let folder = format!("sys/module/{}", module.name);
                self.folder(&folder)?;
                self.some(&folder, "version", module.version.as_ref())?;
            }
        }
        Ok(())
    }

    fn children(
        &mut self,
        parent: Parent,
        at: String,
        below: &HashMap<Parent, Vec<FunctionId>>,
    ) -> Written {
        let mut waiting = vec![(parent, at)];
        while let Some((parent, at)) = waiting.pop() {
            for &id in below.get(&parent).into_iter().flatten() {
                let path = format!("{at}/{}", self.addresses[id.0]);
                self.function(id, &path, below.get(&Parent::Function(id)))?;
                self.rdma_devices(Some(id), &format!("{path}/infiniband"))?;
                waiting.push((Parent::Function(id), path));
            }
        }
        Ok(())
    }

    fn function(&mut self, id: FunctionId, at: &str, below: Option<&Vec<FunctionId>>) -> Written {
        let fabric = self.fabric;
        let function = fabric.function(id);
        self.folder(at)?;
        self.some(at, "vendor", function.vendor.map(|id| format!("{id:#06x}")))?;
        self.some(at, "device", function.device.map(|id| format!("{id:#06x}")))?;
        self.some(at, "class", function.class.map(|class| format!("{class:#08x}")))?;
        self.file(at, "numa_node", function.numa_node.map_or(-1, i64::from))?;
        let config = TreeEntry::File { bytes: config(function), mode: 0o644 };
        self.tree.insert(Path::new(&format!("{at}/config")), config)?;
        let under = below.and_then(|below| below.first()).map(|&id| fabric.function(id));
        let current = function.link.and_then(|link| link.current);
        let maximum = function.link.and_then(|link| link.maximum);
        if let Some(most) = function.link_below {
            self.speed(at, "max", Some(most))?;
            self.speed(at, "current", under.and_then(|below| below.link?.current))?;
        } else {
            self.speed(at, "max", maximum)?;
            self.speed(at, "current", current)?;
        }
        match &function.driver {
            DriverBinding::Bound(name) => {
                self.link(&format!("{at}/driver"), format!("../drivers/{name}"))?;
            }
            DriverBinding::Unbound => {
                self.file(at, "uevent", format!("PCI_CLASS={:X}", function.class.unwrap_or(0)))?;
            }
            // As in trees of tools that follow links.
            DriverBinding::Unknown => self.folder(&format!("{at}/driver"))?,
        }
        if let Some(group) = function.iommu_group {
            self.link(&format!("{at}/iommu_group"), format!("../iommu_groups/{group}"))?;
            let folder = format!("sys/kernel/iommu_groups/{group}");
            if self.tree.get(Path::new(&format!("{folder}/type"))).is_none() {
                self.some(&folder, "type", function.iommu_type.as_ref())?;
            }
        }
        if let Some(physical) = function.physical_function {
            self.link(&format!("{at}/physfn"), format!("../{physical}"))?;
        }
        self.mig(function, id)?;
        self.resources(function, at)?;
        match &function.nvme {
            Some(nvme) => self.controller(nvme, at),
            None => Ok(()),
        }
    }

    fn speed(&mut self, at: &str, which: &str, speed: Option<LinkSpeed>) -> Written {
        let Some(speed) = speed else { return Ok(()) };
        let (whole, tenths) = (speed.megatransfers / 1000, speed.megatransfers % 1000 / 100);
        self.file(at, &format!("{which}_link_speed"), format!("{whole}.{tenths} GT/s PCIe"))?;
        self.file(at, &format!("{which}_link_width"), speed.width)
    }

    fn resources(&mut self, function: &Function, at: &str) -> Written {
        if !function.bars.is_empty() || !function.unassigned_bars.is_empty() {
            let mut lines = [[0u64; 3]; 6];
            for bar in &function.bars {
                let Some(line) = lines.get_mut(usize::from(bar.index)) else { continue };
                let prefetch = if bar.is_prefetchable { 0x2000 } else { 0 };
                let (start, end) = place_bar(bar);
                *line = [start, end, 0x200 | 0x40000 | prefetch];
                let mask = resize_mask(bar).map(|mask| format!("{mask:016x}"));
                self.some(at, &format!("resource{}_resize", bar.index), mask)?;
            }
            for bar in &function.unassigned_bars {
                let Some(line) = lines.get_mut(usize::from(bar.index)) else { continue };
                let size = bar.size.unwrap_or_default();
                *line = [0, size.0.saturating_sub(1), 0x200 | UNSET];
            }
            let lines: Vec<String> = lines
                .iter()
                .map(|[start, end, flags]| format!("0x{start:016x} 0x{end:016x} 0x{flags:016x}"))
                .collect();
            self.file(at, "resource", lines.join("\n"))?;
        }
        if let Some(pool) = function.p2pmem {
            self.file(&format!("{at}/p2pmem"), "size", pool.size.0)?;
            self.file(&format!("{at}/p2pmem"), "available", pool.available.0)?;
            self.file(&format!("{at}/p2pmem"), "published", u8::from(pool.published))?;
            if let Some(mode) = pool.allocate {
                let path = format!("{at}/p2pmem/allocate");
                self.tree.insert(Path::new(&path), TreeEntry::File { bytes: Vec::new(), mode })?;
            }
        }
        self.some(&format!("{at}/p2p.u.0"), "p2p_enable", function.fpga_p2p.map(u8::from))?;
        let is_rdma = |name: &String| self.fabric.rdma_devices.iter().any(|one| one.name == *name);
        for name in &function.kernel_names {
            let rdma = ["mlx", "bnxt_re", "irdma", "roce", "hfi"];
            let folder = match function.kind {
                FunctionKind::Gpu => "drm",
                _ if rdma.iter().any(|front| name.starts_with(front)) || is_rdma(name) => {
                    "infiniband"
                }
                _ => "net",
            };
            self.folder(&format!("{at}/{folder}/{name}"))?;
        }
        Ok(())
    }

    fn controller(&mut self, nvme: &NvmeController, at: &str) -> Written {
        let name = nvme.name.clone().unwrap_or_else(|| format!("nvme{}", self.numbers.len()));
        let at = format!("{at}/nvme/{name}");
        self.folder(&at)?;
        self.some(&at, "serial", nvme.serial.as_ref())?;
        self.some(&at, "model", nvme.model.as_ref())?;
        self.some(&at, "firmware_rev", nvme.firmware.as_ref())?;
        self.some(&at, "state", nvme.state.as_ref())?;
        if let Some(cmb) = nvme.cmb {
            let text = format!("cmbloc : 0x{:08x}\ncmbsz  : 0x{:08x}", cmb.location, cmb.size);
            self.file(&at, "cmb", text)?;
        }
        if let Some(found) = nvme.temperature {
            let sensor = format!("{at}/hwmon0");
            self.file(&sensor, "temp1_input", found.current)?;
            self.some(&sensor, "temp1_max", found.warning)?;
            self.some(&sensor, "temp1_crit", found.critical)?;
        }
        for (index, namespace) in nvme.namespaces.iter().enumerate() {
            let usual = format!("{name}n{}", index + 1);
            self.namespace(namespace, namespace.name.as_ref().unwrap_or(&usual), &at, &name)?;
        }
        Ok(())
    }

    fn rdma_devices(&mut self, function: Option<FunctionId>, at: &str) -> Written {
        let devices = &self.fabric.rdma_devices;
        for device in devices.iter().filter(|device| device.function == function) {
            self.folder(&format!("{at}/{}", device.name))?;
            for port in &device.ports {
                let at = format!("{at}/{}/ports/{}", device.name, port.number);
                self.folder(&at)?;
                self.some(&at, "state", port.state.as_ref())?;
                self.some(&at, "phys_state", port.physical_state.as_ref())?;
                self.some(&at, "link_layer", port.link_layer.as_ref())?;
                for gid in &port.gids {
                    let index = gid.index.to_string();
                    self.file(&format!("{at}/gids"), &index, &gid.address)?;
                    self.some(&format!("{at}/gid_attrs/types"), &index, gid.kind.as_ref())?;
                    self.some(&format!("{at}/gid_attrs/ndevs"), &index, port.netdev.as_ref())?;
                }
            }
        }
        Ok(())
    }

    fn remote_drives(&mut self) -> Written {
        for drive in &self.fabric.remote_drives {
            let at = format!("{}/{}", CONTROLLERS, drive.name);
            let location = &drive.location;
            self.file(&at, "transport", &location.transport)?;
            let parts = [
                ("traddr", &location.host),
                ("trsvcid", &location.port),
                ("host_iface", &location.interface),
            ];
            let parts: Vec<String> = parts
                .into_iter()
                .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
                .collect();
            self.file(&at, "address", parts.join(","))?;
            self.some(&at, "subsysnqn", location.subsystem.as_ref())?;
            self.some(&at, "state", drive.state.as_ref())?;
            for (index, namespace) in drive.namespaces.iter().enumerate() {
                let usual = format!("{}n{}", drive.name, index + 1);
                let name = namespace.name.as_ref().unwrap_or(&usual);
                self.namespace(namespace, name, &at, &drive.name)?;
            }
        }
        Ok(())
    }

    fn namespace(
        &mut self,
        namespace: &Namespace,
        name: &str,
        controller: &str,
        controller_name: &str,
    ) -> Written {
        let mut at = format!("{controller}/{name}");
        if namespace.is_multipath_head {
            let (front, number) = name.rsplit_once('n').unwrap_or((name, "1"));
            let path = controller_name.strip_prefix("nvme").unwrap_or("0");
            self.folder(&format!("{controller}/{front}c{path}n{number}"))?;
            let subsystem = front.strip_prefix("nvme").unwrap_or("0");
            at = format!("sys/devices/virtual/nvme-subsystem/nvme-subsys{subsystem}/{name}");
            if self.tree.get(Path::new(&at)).is_some() {
                return Ok(());
            }
        }
        self.folder(&at)?;
        self.some(&at, "nsid", namespace.nsid)?;
        self.file(&at, "size", namespace.size.0 / SECTOR)?;
        self.number(name, &at, MAJOR_EXTENDED)?;
        let queue = format!("{at}/queue");
        let limits = namespace.limits;

        self.file(&queue, "logical_block_size", limits.logical_block.0)?;
        self.file(&queue, "physical_block_size", limits.physical_block.0)?;
        self.some(&queue, "max_sectors_kb", limits.max_request.map(|size| size.0 >> 10))?;
        self.some(&queue, "max_hw_sectors_kb", limits.max_hw_request.map(|size| size.0 >> 10))?;
        self.some(&queue, "max_segments", limits.max_segments)?;
        self.some(&queue, "stable_writes", namespace.stable_writes.map(u8::from))?;
        if let Some(integrity) = namespace.integrity {
            let folder = format!("{at}/integrity");
            self.file(&folder, "format", "T10-DIF-TYPE1-CRC")?;
            self.file(&folder, "write_generate", u8::from(integrity.write_generate))?;
            self.file(&folder, "read_verify", u8::from(integrity.read_verify))?;
        }
        for (index, partition) in namespace.partitions.iter().enumerate() {
            let at = format!("{at}/{}", partition.name);
            self.file(&at, "partition", index + 1)?;
            self.file(&at, "start", partition.start.0 / SECTOR)?;
            self.file(&at, "size", partition.size.0 / SECTOR)?;
            self.number(&partition.name, &at, MAJOR_EXTENDED)?;
        }
        Ok(())
    }

    fn number(&mut self, name: &str, at: &str, major: u32) -> Written {
        let number = format!("{major}:{}", self.numbers.len());
        self.numbers.insert(name.to_owned(), number.clone());
        self.file(at, "dev", number)
    }

    fn stacked(&mut self) -> Written {
        for device in &self.fabric.stacked {
            let at = format!("sys/devices/virtual/block/{}", device.name);
            self.folder(&at)?;
            self.number(&device.name, &at, MAJOR_MAPPER)?;
            if let Some(kind) = &device.kind {
                if device.name.starts_with("dm-") {
                    self.file(&format!("{at}/dm"), "uuid", format!("{}-", kind.to_uppercase()))?;
                } else {
                    self.file(&format!("{at}/md"), "level", kind)?;
                }
            }
            for below in &device.below {
                self.link(&format!("{at}/slaves/{below}"), below.clone())?;
            }
        }
        Ok(())
    }

    fn mounts(&mut self) -> Written {
        let Some(mounts) = &self.fabric.mounts else { return Ok(()) };
        let lines = mounts.iter().filter_map(|mount| {
            let number = self.numbers.get(&mount.device)?;
            let access = if mount.is_read_only { "ro" } else { "rw" };
            let point = mount.point.replace(' ', "\\040");
            let (device, system) = (&mount.device, &mount.file_system);
            Some(format!("0 0 {number} / {point} {access} - {system} /dev/{device} {access}"))
        });
        let lines: Vec<String> = lines.collect();
        self.file("proc/self", "mountinfo", lines.join("\n"))
    }
}

/// First and last address of a window: the last of as many bits as it has, 0 onwards where they are unknown.
fn place_bar(bar: &Bar) -> (u64, u64) {
    let last = bar.size.0.saturating_sub(1);
    let bits = bar.address_bits.map(u32::from);
    let end = bits.and_then(|bits| u64::MAX.checked_shr(64u32.checked_sub(bits)?));
    end.and_then(|end| Some((end.checked_sub(last)?, end))).unwrap_or((0, last))
}

/// The lines of a kernel's configuration that are known.
fn configuration(kernel: &Kernel) -> String {
    let options = [
        ("CONFIG_PCI_P2PDMA", kernel.has_p2pdma),
        ("CONFIG_HSA_AMD_P2P", kernel.has_amd_p2p),
        ("CONFIG_DMABUF_MOVE_NOTIFY", kernel.has_move_notify),
    ];
    let lines = options.iter().filter_map(|(name, value)| match (*value)? {
        true => Some(format!("{name}=y")),
        false => Some(format!("# {name} is not set")),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Bit n stands for 2^n MiB; the size that it has and the largest that it can have.
fn resize_mask(bar: &Bar) -> Option<u64> {
    let bit = |size: u64| (size >> 20).checked_ilog2().map_or(0, |bit| 1u64 << bit);
    bar.largest.map(|largest| bit(largest.0) | bit(bar.size.0))
}

/// A configuration space with the PCIe capability of the function's kind, and ACS where it has it; 64
/// bytes of it where it could not be read.
fn config(function: &Function) -> Vec<u8> {
    let port_type: u8 = match function.kind {
        FunctionKind::RootPort => 4,
        FunctionKind::UpstreamPort => 5,
        FunctionKind::DownstreamPort => 6,
        FunctionKind::OtherBridge => 7,
        FunctionKind::Nvme
        | FunctionKind::Gpu
        | FunctionKind::Fpga
        | FunctionKind::Nic
        | FunctionKind::Other => 0,
    };
    // As much as discovery looks at; beyond it real ones have 4096 bytes.
    let mut bytes = vec![0; EXTENDED + 8];
    bytes[0x00..0x02].copy_from_slice(&function.vendor.unwrap_or_default().to_le_bytes());
    bytes[0x02..0x04].copy_from_slice(&function.device.unwrap_or_default().to_le_bytes());
    bytes[0x06] = 0x10;
    bytes[0x34] = 0x40;
    bytes[0x40..0x44].copy_from_slice(&[0x10, 0, port_type << 4 | 2, 0]);
    match function.acs {
        Acs::Unknown => bytes.truncate(64),
        // A register with nothing set decides as it does; a tree has no other way to say it.
        Acs::Absent | Acs::NotRedirecting => {}
        Acs::Present { control } => {
            bytes[0x100..0x104].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
            bytes[0x106..0x108].copy_from_slice(&control.to_le_bytes());
        }
    }
    bytes
}
