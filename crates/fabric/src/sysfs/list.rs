//! The list of everything that discovery reads, with its form in a capture.
//!
//! The list is the one place for both: a capture keeps the items on it and nothing else, the
//! reference page of captures is made from it, and a test fails where discovery reads something
//! that it does not have. Paths of functions, controllers, disks, partitions and stacked devices
//! begin with a word in capitals; `*` stands for any characters within one component.

use std::path::Path;

use super::cufile::CONFIGURATION;
use super::environment::{RUN, UDEV};
use super::functions::{address, is_host_bridge};
use super::libraries::{FOLDERS, MAIN};
use super::nvme::NvmeName;
use super::{nvidia, nvidia_fs};

/// Something that discovery reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Its path; see the head of this module.
    pub path: &'static str,
    /// Its form in a capture.
    pub kept: CaptureRule,
    /// The purpose of reading it.
    pub purpose: &'static str,
}

/// The form that something has in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureRule {
    /// Presence of the folder.
    Folder,
    /// The folder, whose name is replaced unless it is of a form that the kernel gives.
    NamedFolder,
    /// The last part of where the link points.
    LinkName,
    /// All of it.
    Whole,
    /// Its permission bits; it is not read.
    Permissions,
    /// Presence of a file of this name; it is not read.
    Presence,
    /// Another word, the same for the same.
    Serial,
    /// Another word for the address, the same for the same; the port and the interface.
    NetworkAddress,
    /// Another word for an address, the same for the same; none for an empty entry.
    Gid,
    /// The name of an interface, replaced unless it is of a form that the kernel gives.
    Interface,
    /// Another name, the same for the same.
    Subsystem,
    /// The word `machine`.
    HostName,
    /// The first processor's vendor, family, model, and flags that tell of a hypervisor.
    Processor,
    /// The numbers and the known flavours of a kernel.
    Release,
    /// The numbers that it begins with.
    Version,
    /// Kernel parameters of a list, which bear on devices.
    Parameters,
    /// The lines of the options that bear on peers: P2PDMA, peer access of amdgpu, notices of moves.
    Configuration,
    /// Devices of this list, file systems, and well-known places; other paths are replaced.
    Mounts,
    /// Identity, class and the lists of capabilities; of these PCIe and ACS whole. No addresses and
    /// no serial numbers.
    Registers,
    /// Sizes and flags, and how many bits the highest address has.
    Windows,
    /// The part before the first `-`.
    Prefix,
    /// Lines of the driver, the class and the identity.
    Event,
    /// The line of the minor number of a GPU's device node.
    MinorNumber,
    /// Keys that bear on the route, without addresses; mount points as [`CaptureRule::Mounts`] has them.
    Cufile,
    /// Presence of a library, and the version that it points to; it is not read.
    LibraryVersion,
    /// The kind of NVIDIA's driver, open or not, and its version; not who built it.
    NvidiaVersion,
    /// Parameters of NVIDIA's driver that bear on peer traffic: numbers and registry keys.
    NvidiaParameters,
    /// Names of drivers that NVIDIA's `nvidia_fs` knows.
    NvidiaFsModules,
}

impl CaptureRule {
    /// Describes the form in words, for the reference page.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Folder => "that it is there",
            Self::NamedFolder => "its name, replaced unless the kernel gives such names",
            Self::LinkName => "the last part of where it points",
            Self::Whole => "whole",
            Self::Permissions => "permission bits; it is never opened",
            Self::Presence => "that it is there; it is never opened",
            Self::Serial | Self::Subsystem | Self::Gid => "replaced, the same for the same",
            Self::Interface => "replaced unless the kernel gives such names",
            Self::NetworkAddress => {
                "port and interface; the address replaced, the same for the same"
            }
            Self::HostName => "replaced",
            Self::Processor => {
                "vendor, family, model and flags of a hypervisor of the first processor"
            }
            Self::Release => "numbers and known flavours",
            Self::Version => "the numbers that it begins with",
            Self::Parameters => "known parameters that bear on devices",
            Self::Configuration => {
                "the lines of CONFIG_PCI_P2PDMA, CONFIG_HSA_AMD_P2P and CONFIG_DMABUF_MOVE_NOTIFY"
            }
            Self::Mounts => "drives, file systems, well-known places; other paths replaced",
            Self::Registers => "identity and capabilities; no addresses, no serial numbers",
            Self::Windows => {
                "sizes, flags, and the number of bits of the last address; no addresses"
            }
            Self::Prefix => "what comes before the first `-`",
            Self::Event => "lines of driver, class and identity",
            Self::MinorNumber => "the line of the minor number",
            Self::Cufile => "keys that bear on the route; no addresses, other paths replaced",
            Self::LibraryVersion => "that it is there, and which version; it is never opened",
            Self::NvidiaVersion => "open or proprietary, and the version",
            Self::NvidiaParameters => "numbers and registry keys that bear on peer traffic",
            Self::NvidiaFsModules => "names of known drivers",
        }
    }
}

const fn item(path: &'static str, kept: CaptureRule, purpose: &'static str) -> Item {
    Item { path, kept, purpose }
}

/// Everything that discovery reads.
#[rustfmt::skip]
pub const ITEMS: &[Item] = {
    use CaptureRule::{
        Configuration, Cufile, Event, Folder, Gid, HostName, Interface, LibraryVersion, LinkName, MinorNumber, Mounts, NamedFolder, NetworkAddress, NvidiaFsModules,
        NvidiaParameters, NvidiaVersion, Parameters, Permissions, Prefix, Presence, Processor, Registers, Release, Serial, Subsystem, Version,
        Whole, Windows,
    };
    &[
    item("proc/sys/kernel/hostname", HostName, "what the machine is called"),
    item("proc/sys/kernel/osrelease", Release, "what the kernel can do"),
    item("proc/cpuinfo", Processor, "whether the processor forwards peer traffic, and is virtual"),
    item("proc/cmdline", Parameters, "ACS, IOMMU and NVMe settings"),
    item("proc/config.gz", Configuration, "whether peer-to-peer is built in"),
    item("boot/config-*", Configuration, "whether peer-to-peer is built in"),
    item("usr/lib/modules/*/config", Configuration, "whether peer-to-peer is built in"),
    item(MAIN, Folder, "whether libraries can be looked for"),
    item("LIBRARY/libcuda.so.1", Presence, "whether programs reach NVIDIA GPUs"),
    item("LIBRARY/libcufile.so.0", LibraryVersion, "whether they reach storage from there"),
    item("LIBRARY/libxrt_coreutil.so.2", Presence, "whether programs reach AMD FPGA cards"),
    item(nvidia::VERSION, NvidiaVersion, "which of NVIDIA's kernel modules are loaded"),
    item(nvidia::PARAMETERS, NvidiaParameters, "what its driver allows peers"),
    item("proc/driver/nvidia/gpus/*/information", MinorNumber, "which of NVIDIA's GPUs it is"),
    item("proc/driver/nvidia/capabilities/gpu*/mig", Folder, "whether MIG instances are listed"),
    item("proc/driver/nvidia/capabilities/gpu*/mig/gi*", Folder, "MIG instances"),
    item(nvidia_fs::MODULES, NvidiaFsModules, "whether nvme is registered with nvidia-fs"),
    item(nvidia_fs::USERS, Whole, "whether a program uses nvidia-fs"),
    item(CONFIGURATION, Cufile, "which routes cuFile takes"),
    item("etc/alternatives/cufile.json", Cufile, "which routes cuFile takes"),
    item("usr/local/cuda*/gds/cufile.json", Cufile, "which routes cuFile takes"),
    item("proc/self/mountinfo", Mounts, "what is mounted from a drive"),
    item(RUN, Folder, "whether udev can be looked for"),
    item(UDEV, Folder, "whether cuFile finds drives"),
    item("run/secrets/kubernetes.io", Presence, "whether this is a container"),
    item("var/run/secrets/kubernetes.io", Presence, "whether this is a container"),
    item("run/.containerenv", Presence, "whether this is a container"),
    item(".dockerenv", Presence, "whether this is a container"),
    item("run/systemd/container", Presence, "whether this is a container"),
    item("sys/hypervisor/type", Whole, "the hypervisor below this system"),
    item("sys/hypervisor/properties/features", Whole, "whether Xen gave it the hardware"),
    item("sys/class/misc/tdx_guest", Presence, "whether memory is encrypted"),
    item("sys/class/misc/sev-guest", Presence, "whether memory is encrypted"),
    item("sys/devices/system/cpu/sev/vmpl", Presence, "whether memory is encrypted"),
    item("sys/devices", Folder, "the devices"),
    item("sys/devices/virtual/dmi/id/sys_vendor", Whole, "who made the machine"),
    item("sys/devices/virtual/dmi/id/product_name", Whole, "which model the machine is"),
    item("sys/kernel/iommu_groups", Folder, "whether an IOMMU is in use"),
    item("sys/kernel/iommu_groups/*/type", Whole, "whether it translates"),
    item("sys/module", Folder, "which modules are loaded"),
    item("sys/module/*", Folder, "whether a module is loaded"),
    item("sys/module/*/version", Version, "versions of the makers' drivers"),
    item("sys/module/nvme/parameters/use_cmb_sqes", Whole, "whether queues take the CMB"),
    item("sys/module/nvme_core/parameters/multipath", Whole, "whether namespaces have heads"),
    item("BRIDGE", Folder, "a host bridge"),
    item("FUNCTION", Folder, "a PCI function"),
    item("FUNCTION/vendor", Whole, "names, the kernel's list of host bridges"),
    item("FUNCTION/device", Whole, "names, the kernel's list of host bridges"),
    item("FUNCTION/class", Whole, "what it is"),
    item("FUNCTION/config", Registers, "port type and ACS"),
    item("FUNCTION/numa_node", Whole, "memory node"),
    item("FUNCTION/resource", Windows, "sizes of memory windows"),
    item("FUNCTION/resource*_resize", Whole, "sizes that a window can be given"),
    item("FUNCTION/current_link_speed", Whole, "what the link trained to"),
    item("FUNCTION/current_link_width", Whole, "what the link trained to"),
    item("FUNCTION/max_link_speed", Whole, "what the link could be"),
    item("FUNCTION/max_link_width", Whole, "what the link could be"),
    item("FUNCTION/driver", LinkName, "which driver is bound"),
    item("FUNCTION/uevent", Event, "which driver is bound, where there is no link"),
    item("FUNCTION/msi_irqs", Folder, "whether a driver is bound, where that is not shown"),
    item("FUNCTION/uio", Folder, "whether a driver is bound, where that is not shown"),
    item("FUNCTION/vfio-dev", Folder, "whether a driver is bound, where that is not shown"),
    item("FUNCTION/iommu_group", LinkName, "IOMMU group"),
    item("FUNCTION/physfn", LinkName, "whether it is a virtual function, and whose"),
    item("FUNCTION/p2pmem/size", Whole, "memory for peers"),
    item("FUNCTION/p2pmem/available", Whole, "how much of it is free"),
    item("FUNCTION/p2pmem/published", Whole, "whether it is offered"),
    item("FUNCTION/p2pmem/allocate", Permissions, "who may get it"),
    item("FUNCTION/p2p.*/p2p_enable", Whole, "whether an FPGA card lends its memory"),
    item("FUNCTION/net/*", NamedFolder, "network interfaces"),
    item("FUNCTION/infiniband/*", NamedFolder, "RDMA devices"),
    item("FUNCTION/virtio*/net/*", NamedFolder, "network interfaces"),
    item("RDMA", NamedFolder, "RDMA devices in software"),
    item("RDMA/parent", Interface, "network interface"),
    item("RDMA/ports", Folder, "its ports"),
    item("RDMA/ports/*/state", Whole, "whether it carries traffic"),
    item("RDMA/ports/*/phys_state", Whole, "whether its link is up"),
    item("RDMA/ports/*/link_layer", Whole, "InfiniBand or Ethernet"),
    item("RDMA/ports/*/gids", Folder, "its addresses"),
    item("RDMA/ports/*/gids/*", Gid, "its addresses"),
    item("RDMA/ports/*/gid_attrs/types/*", Whole, "which protocol an address is for"),
    item("RDMA/ports/*/gid_attrs/ndevs/*", Interface, "network interface"),
    item("sys/class/net", Folder, "whether that is in this network namespace"),
    item("FUNCTION/drm/*", NamedFolder, "nodes of a GPU"),
    item("CONTROLLER", Folder, "an NVMe controller"),
    item("CONTROLLER/serial", Serial, "which drive it is"),
    item("CONTROLLER/model", Whole, "which drive it is"),
    item("CONTROLLER/firmware_rev", Whole, "which firmware it runs"),
    item("CONTROLLER/state", Whole, "whether it works"),
    item("CONTROLLER/cmb", Whole, "registers of its CMB"),
    item("CONTROLLER/hwmon*/temp1_*", Whole, "how warm it is"),
    item("CONTROLLER/hwmon/hwmon*/temp1_*", Whole, "how warm it is"),
    item("REMOTE", Folder, "a drive that another machine serves"),
    item("REMOTE/transport", Whole, "how it is connected"),
    item("REMOTE/address", NetworkAddress, "where it is"),
    item("REMOTE/subsysnqn", Subsystem, "which drive it is"),
    item("REMOTE/cntrltype", Whole, "whether it only lists others"),
    item("REMOTE/state", Whole, "whether it is connected"),
    item("DISK", Folder, "a namespace as a block device"),
    item("DISK/dev", Whole, "what is mounted from it"),
    item("DISK/nsid", Whole, "which namespace it is"),
    item("DISK/size", Whole, "capacity"),
    item("DISK/queue/logical_block_size", Whole, "what a request may carry"),
    item("DISK/queue/physical_block_size", Whole, "what a request may carry"),
    item("DISK/queue/max_sectors_kb", Whole, "what a request may carry"),
    item("DISK/queue/max_hw_sectors_kb", Whole, "what a request may carry"),
    item("DISK/queue/max_segments", Whole, "what a request may carry"),
    item("DISK/queue/stable_writes", Whole, "whether writes need stable pages"),
    item("DISK/integrity/format", Whole, "protection information"),
    item("DISK/integrity/write_generate", Whole, "protection information"),
    item("DISK/integrity/read_verify", Whole, "protection information"),
    item("PARTITION/partition", Whole, "partitions"),
    item("PARTITION/dev", Whole, "what is mounted from it"),
    item("PARTITION/start", Whole, "where it lies"),
    item("PARTITION/size", Whole, "capacity"),
    item("STACK", Folder, "a block device made of others"),
    item("STACK/dev", Whole, "what is mounted from it"),
    item("STACK/dm/uuid", Prefix, "what makes it"),
    item("STACK/md/level", Whole, "what makes it"),
    item("STACK/slaves/*", LinkName, "what it lies on"),
    ]
};

/// The item that a path belongs to.
pub(crate) fn item_of(path: &Path) -> Option<&'static Item> {
    let normal = normal(path);
    ITEMS.iter().find(|item| {
        let mut pattern = item.path.split('/');
        normal.iter().all(|name| pattern.next().is_some_and(|glob| matches(glob, name)))
            && pattern.next().is_none()
    })
}

/// Returns whether a name matches a pattern with at most one `*`.
fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((front, back)) => {
            name.len() >= front.len() + back.len()
                && name.starts_with(front)
                && name.ends_with(back)
        }
    }
}

/// Returns whether the folders of a path are one of those where libraries are looked for.
fn is_library_folder(names: &[&str]) -> bool {
    FOLDERS.iter().any(|glob| {
        let parts: Vec<&str> = glob.split('/').collect();
        parts.len() == names.len()
            && parts.iter().zip(names).all(|(glob, name)| matches(glob, name))
    })
}

/// The components of a path, with one word for those that lead to a device.
fn normal(path: &Path) -> Vec<&str> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    match names.as_slice() {
        [folder @ .., name] if name.starts_with("lib") && is_library_folder(folder) => {
            vec!["LIBRARY", name]
        }
        ["proc", process, "mountinfo"] if process.bytes().all(|b| b.is_ascii_digit()) => {
            vec!["proc", "self", "mountinfo"]
        }
        ["sys", "devices", "virtual", "nvme-subsystem", _, rest @ ..] => {
            below_controller("CONTROLLER", rest)
        }
        ["sys", "devices", "virtual", "nvme-fabrics", "ctl", controller, rest @ ..]
            if NvmeName::parse(controller) == Some(NvmeName::Controller) =>
        {
            below_controller("REMOTE", rest)
        }
        ["sys", "devices", "virtual", "infiniband", _, rest @ ..] => below_rdma(rest),
        ["sys", "devices", "virtual", "block", disk, rest @ ..] => below_disk("STACK", disk, rest),
        ["sys", "devices", below @ ..] => {
            let Some(bridge) = below.iter().position(|name| is_host_bridge(name)) else {
                return names;
            };
            let on_the_way = |name: &&&str| is_host_bridge(name) || address(name).is_some();
            let end = bridge + below[bridge..].iter().take_while(on_the_way).count();
            let rest = &below[end..];
            if is_host_bridge(below[end - 1]) {
                return std::iter::once("BRIDGE").chain(rest.iter().copied()).collect();
            }
            match rest {
                ["nvme", controller, rest @ ..]
                    if NvmeName::parse(controller) == Some(NvmeName::Controller) =>
                {
                    below_controller("CONTROLLER", rest)
                }
                ["infiniband", _, rest @ ..] if !rest.is_empty() => below_rdma(rest),
                _ => std::iter::once("FUNCTION").chain(rest.iter().copied()).collect(),
            }
        }
        _ => names,
    }
}

fn below_controller<'a>(word: &'static str, rest: &[&'a str]) -> Vec<&'a str> {
    match rest {
        [disk, rest @ ..]
            if matches!(
                NvmeName::parse(disk),
                Some(NvmeName::Namespace | NvmeName::Path { .. })
            ) =>
        {
            below_disk("DISK", disk, rest)
        }
        _ => std::iter::once(word).chain(rest.iter().copied()).collect(),
    }
}

fn below_rdma<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    std::iter::once("RDMA").chain(rest.iter().copied()).collect()
}

fn below_disk<'a>(word: &'static str, disk: &str, rest: &[&'a str]) -> Vec<&'a str> {
    let (word, rest) = match rest {
        [partition, rest @ ..] if partition.starts_with(disk) => ("PARTITION", rest),
        _ => (word, rest),
    };
    std::iter::once(word).chain(rest.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_their_list_item() {
        let function = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
        let remote = "sys/devices/virtual/nvme-fabrics/ctl/nvme5";
        for (path, expected) in [
            ("proc/cmdline".to_owned(), Some("proc/cmdline")),
            ("proc/1/environ".to_owned(), None),
            ("usr/lib64/libcufile.so.0".to_owned(), Some("LIBRARY/libcufile.so.0")),
            (
                "usr/local/cuda-12.8/targets/sbsa-linux/lib/libcufile.so.0".to_owned(),
                Some("LIBRARY/libcufile.so.0"),
            ),
            ("usr/lib/libc.so.6".to_owned(), None),
            ("proc/42/mountinfo".to_owned(), Some("proc/self/mountinfo")),
            ("sys/devices/pci0000:00".to_owned(), Some("BRIDGE")),
            (function.to_owned(), Some("FUNCTION")),
            (format!("{function}/config"), Some("FUNCTION/config")),
            (format!("{function}/resource2_resize"), Some("FUNCTION/resource*_resize")),
            (format!("{function}/resource2"), None),
            (format!("{function}/nvme/nvme0/serial"), Some("CONTROLLER/serial")),
            (format!("{function}/nvme/nvme0/nvme0n1/size"), Some("DISK/size")),
            (format!("{function}/nvme/nvme0/nvme0n1/wwid"), None),
            (format!("{function}/nvme/nvme0/nvme0n1/nvme0n1p2/size"), Some("PARTITION/size")),
            (format!("{function}/net/eth0"), Some("FUNCTION/net/*")),
            (format!("{function}/net/eth0/address"), None),
            (format!("{function}/infiniband/mlx5_0"), Some("FUNCTION/infiniband/*")),
            (format!("{function}/infiniband/mlx5_0/ports/1/state"), Some("RDMA/ports/*/state")),
            (format!("{function}/infiniband/mlx5_0/node_guid"), None),
            ("sys/devices/virtual/infiniband/rxe0".to_owned(), Some("RDMA")),
            (format!("{subsystem}/nvme0n1/queue/max_segments"), Some("DISK/queue/max_segments")),
            (format!("{subsystem}/subsysnqn"), None),
            (format!("{remote}/address"), Some("REMOTE/address")),
            (format!("{remote}/serial"), None),
            (format!("{remote}/nvme5n1/size"), Some("DISK/size")),
            ("sys/devices/virtual/block/dm-0/dm/uuid".to_owned(), Some("STACK/dm/uuid")),
            ("sys/devices/virtual/block/dm-0/dm/name".to_owned(), None),
        ] {
            assert_eq!(item_of(Path::new(&path)).map(|item| item.path), expected, "{path}");
        }
    }
}
