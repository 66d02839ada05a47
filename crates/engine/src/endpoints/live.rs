//! Endpoints of this machine: block devices and regular files, by path.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use peerlane_fabric::{Bdf, BlockDevice, Fabric, FunctionId};
use peerlane_reach::kernel_refusal;
use peerlane_results::{EndpointFacts, EndpointKind};
use peerlane_units::Bytes;
use rustix::fs::{AtFlags, CWD, IFlags, Statx, StatxAttributes, StatxFlags};

use super::described;
use super::layer::Layer;
use super::obstacles::{self, FileTraits, Obstacle};
use super::passthrough;
use super::{
    Endpoint, EndpointError, Live, PathNode, RemoteName, drive_name, request_host, request_p2p,
};
use crate::endpoints::suggestion::hint_of_device;
use crate::io::failure::Role;
use crate::io::system::{MountinfoLine, System};

/// Block size assumed if neither file system nor device tells, and the largest believed.
const BLOCK_DEFAULT: Bytes = Bytes::kib(4);
const BLOCK_MAX: Bytes = Bytes::kib(64);
/// File systems that live in memory or work without direct I/O; newer kernels accept `O_DIRECT` on
/// tmpfs and use the page cache all the same.
const WITHOUT_DIRECT: &[&str] =
    &["tmpfs", "ramfs", "rootfs", "hugetlbfs", "squashfs", "proc", "sysfs", "devtmpfs"];
/// File systems whose files the kernel makes while they are read; sizes are zero, or a page.
const MADE_BY_KERNEL: &[&str] =
    &["proc", "sysfs", "debugfs", "tracefs", "securityfs", "configfs", "cgroup", "cgroup2", "bpf"];
/// Further file systems of the kernel's own: a new file there would not last.
const OF_THE_KERNEL: &[&str] = &[
    "devpts",
    "mqueue",
    "hugetlbfs",
    "efivarfs",
    "pstore",
    "fusectl",
    "binfmt_misc",
    "selinuxfs",
    "nsfs",
    "rpc_pipefs",
];
/// Directory of device nodes.
const DEVICES: &str = "/dev";
/// `FS_NOCOW_FL` of `include/uapi/linux/fs.h`: on btrfs, data without checksums.
const NOCOW: IFlags = IFlags::NOCOW;
/// `FS_JOURNAL_DATA_FL`: on ext4, data that goes through the journal.
const JOURNALED: IFlags = IFlags::JOURNALING;

pub(super) fn inspect(
    system: &System,
    fabric: &Fabric,
    typed: &Path,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    let typed = device_path(system, fabric, typed)?;
    match fs::canonicalize(&typed) {
        Ok(path) => existing(system, fabric, path, role),
        // A link of /proc to a pipe, such as /dev/stdin, leads to an object without a path.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::metadata(&typed) {
            Ok(unnamed) if !unnamed.is_file() => existing(system, fabric, typed, role),
            _ => missing(system, fabric, &typed, role),
        },
        Err(source) => Err(EndpointError::Inspect { path: typed, source }),
    }
}

/// The device node of a drive that is named by its PCI address, or by machine and NQN; any other path
/// unchanged.
fn device_path(system: &System, fabric: &Fabric, typed: &Path) -> Result<PathBuf, EndpointError> {
    if let Some(name) = typed.to_str().filter(|text| RemoteName::is_one(text)) {
        let drive: RemoteName = name.parse()?;
        let disk = drive.find(system);
        let disk = disk.ok_or(EndpointError::NotConnected { drive: Box::new(drive) })?;
        return Ok(Path::new("/dev").join(disk));
    }
    let Some(name) = typed.to_str().filter(|text| text.parse::<Bdf>().is_ok()) else {
        return Ok(typed.to_owned());
    };
    if typed.exists() {
        return Ok(typed.to_owned());
    }
    let function = fabric.find(name).map(|id| fabric.function(id));
    function.map_or(Ok(()), described::served)?;
    let nvme = function.and_then(|function| function.nvme.as_ref()).ok_or_else(|| {
        let (name, machine) = (name.to_owned(), fabric.name.clone());
        let hint = hint_of_device(fabric, &name);
        EndpointError::UnknownDrive { name, machine, hint }
    })?;
    let names: Vec<String> = nvme.namespaces.iter().filter_map(|one| one.name.clone()).collect();
    match names.as_slice() {
        [one] => Ok(Path::new("/dev").join(one)),
        _ => Err(EndpointError::NotOneNamespace { name: name.to_owned(), namespaces: names }),
    }
}

fn existing(
    system: &System,
    fabric: &Fabric,
    path: PathBuf,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    let metadata = fs::metadata(&path)
        .map_err(|source| EndpointError::Inspect { path: path.clone(), source })?;
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return block_device(system, fabric, path, metadata.rdev(), role);
    }
    if kind.is_file() {
        return file(system, fabric, path, role);
    }
    if kind.is_char_device() {
        if let Some(found) = passthrough::inspect(system, fabric, &path, metadata.rdev())? {
            return Ok(found);
        }
    }
    let what = match kind {
        _ if kind.is_dir() => "directory",
        _ if kind.is_char_device() => "character device",
        _ if kind.is_fifo() => "pipe",
        _ if kind.is_socket() => "socket",
        _ => "special file",
    };
    Err(EndpointError::WrongKind { path, what })
}

fn block_device(
    system: &System,
    fabric: &Fabric,
    path: PathBuf,
    number: u64,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = BlockDevice::read(system.root(), major, minor)
        .map_err(|source| EndpointError::Device { path: path.clone(), source })?;
    let layer = Layer::from_device(system, &device);
    let (initiator, further) = initiators(fabric, &device, &layer);
    let obstacle = kernel_refusal(&fabric.kernel)
        .map(Obstacle::new)
        .or_else(|| obstacles::device_refusal(&device, &layer, &fabric.kernel, role, None));
    let facts = EndpointFacts {
        path: path.display().to_string(),
        kind: EndpointKind::BlockDevice,
        size: device.size,
        block: device.limits.logical_block,
        request_host: request_host(device.limits.max_request),
        request_p2p: obstacle.is_none().then(|| request_p2p(device.limits)),
        device: Some(device.name.clone()),
        address: device.function.map(|address| address.to_string()),
        drive: initiator.and_then(|id| drive_name(fabric, id)),
        file_system: None,
        refusal: obstacle.as_ref().map(|obstacle| obstacle.reason.clone()),
        way_out: obstacle.and_then(|obstacle| obstacle.way_out),
        network: layer.network().cloned(),
    };
    let live = Live {
        path,
        node: PathNode::Block,
        device: Some(device),
        layer: Some(layer),
        is_direct: true,
        passthrough: None,
    };
    Ok(Endpoint { facts, initiator, further, live: Some(live) })
}

fn file(
    system: &System,
    fabric: &Fabric,
    path: PathBuf,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let statx = rustix::fs::statx(CWD, &path, AtFlags::empty(), flags)
        .map_err(|errno| EndpointError::Inspect { path: path.clone(), source: errno.into() })?;
    let device = (statx.stx_dev_major, statx.stx_dev_minor);
    let ground = Ground::from_number(system, &path, device);
    if MADE_BY_KERNEL.contains(&ground.kind.as_str()) {
        let (kind, size) = (ground.kind, Bytes(statx.stx_size));
        return Err(EndpointError::MadeByKernel { path, kind, size });
    }
    if ground.is_among_devices {
        return Err(EndpointError::NotADevice { path });
    }
    let alignment = direct_alignment(&statx);
    // What replaces a file is made next to it: the directory decides what that is going to be.
    let traits = match (role, path.parent()) {
        (Role::Target, Some(directory)) => ground.traits_of_new(directory),
        _ => FileTraits {
            is_direct: alignment.map_or_else(|| ground.may_be_direct(), |alignment| alignment > 0),
            is_encrypted: statx.stx_attributes.contains(StatxAttributes::ENCRYPTED),
            is_verity: statx.stx_attributes.contains(StatxAttributes::VERITY),
            is_compressed: statx.stx_attributes.contains(StatxAttributes::COMPRESSED),
            is_nodatacow: ground.kind == "btrfs" && has_flag(&path, NOCOW),
            is_spread: ground.is_spread,
            is_journaled: ground.is_journaled(&path),
        },
    };
    let block = alignment.filter(|&alignment| alignment > 0);
    let block = block.map(|alignment| Bytes(u64::from(alignment)));
    let node = PathNode::File { device, inode: statx.stx_ino };
    Ok(ground.endpoint(
        fabric,
        path,
        role,
        LiveFile { size: Bytes(statx.stx_size), block, traits, node },
    ))
}

/// A target that is to be made.
fn missing(
    system: &System,
    fabric: &Fabric,
    typed: &Path,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    if fs::symlink_metadata(typed).is_ok() {
        return Err(EndpointError::DanglingLink { path: typed.to_owned() });
    }
    if let Some(disk) = passthrough::of_a_partition(typed) {
        return Err(EndpointError::NoPartition { path: typed.to_owned(), disk });
    }
    if is_device_name(typed) {
        return Err(EndpointError::LooksLikeDevice { path: typed.to_owned() });
    }
    let name = typed.file_name().filter(|_| role == Role::Target);
    let Some(name) = name else {
        return Err(EndpointError::Missing { path: typed.to_owned() });
    };
    if typed.as_os_str().as_bytes().ends_with(b"/") {
        // Who writes a slash means a directory; a file of that name would surprise.
        let (path, directory) = (typed.to_owned(), typed.to_owned());
        return Err(EndpointError::NoDirectory { path, directory });
    }
    let parent = match typed.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let no_directory =
        || EndpointError::NoDirectory { path: typed.to_owned(), directory: parent.to_owned() };
    if !parent.exists() && typed.starts_with(DEVICES) {
        return Err(EndpointError::NoDevice { path: typed.to_owned() });
    }
    let directory = fs::canonicalize(parent).map_err(|_| no_directory())?;
    let metadata = fs::metadata(&directory)
        .map_err(|source| EndpointError::Inspect { path: directory.clone(), source })?;
    if !metadata.is_dir() {
        return Err(no_directory());
    }
    let number = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let ground = Ground::from_number(system, &directory, number);
    ground.takes_new_files(typed)?;
    let traits = ground.traits_of_new(&directory);
    let file = LiveFile { size: Bytes::ZERO, block: None, traits, node: PathNode::NewFile };
    Ok(ground.endpoint(fabric, directory.join(name), role, file))
}

/// True for a bare name such as `nvme5`, `sda1` or `gpu0`: a typing error more often than a new file.
fn is_device_name(typed: &Path) -> bool {
    let is_bare = typed.parent().is_some_and(|parent| parent.as_os_str().is_empty());
    let Some(name) = typed.to_str().filter(|_| is_bare) else { return false };
    let is_numbered = |rest: &str| {
        let mut parts = rest.split(['n', 'p', 'c']);
        parts.all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()))
    };
    let is_lettered = |rest: &str| {
        let rest = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        (1..=2).contains(&rest.len()) && rest.bytes().all(|c| c.is_ascii_lowercase())
    };
    let after = |prefix| name.strip_prefix(prefix);
    ["nvme", "gpu"].into_iter().filter_map(after).any(is_numbered)
        || ["sd", "vd", "xvd"].into_iter().filter_map(after).any(is_lettered)
}

/// Facts of a file.
struct LiveFile {
    size: Bytes,
    /// Alignment of direct I/O as the file system says it.
    block: Option<Bytes>,
    traits: FileTraits,
    node: PathNode,
}

/// The file system that a path lies on, and the device below it.
struct Ground {
    kind: String,
    /// Block size of the file system, which direct I/O to a file that is yet to be made may need.
    block: Bytes,
    device: Option<BlockDevice>,
    layer: Option<Layer>,
    /// btrfs on more than one device.
    is_spread: bool,
    /// ext4 mounted with `data=journal`.
    is_journaled: bool,
    /// In memory, next to the nodes of devices: a file there is a device's name that was mistyped, or
    /// that of one that is gone.
    is_among_devices: bool,
}

impl Ground {
    fn from_number(system: &System, path: &Path, number: (u32, u32)) -> Self {
        let mounts = system.mounts();
        let mount = mount_of(&mounts, path);
        // Major 0 is a number without a device behind it: btrfs, overlay, tmpfs, network.
        let number = if number.0 == 0 {
            mount.and_then(|mount| system.number_of_source(mount))
        } else {
            Some(number)
        };
        let device =
            number.and_then(|(major, minor)| BlockDevice::read(system.root(), major, minor).ok());
        let block = rustix::fs::statvfs(path)
            .ok()
            .map(|system| Bytes(system.f_frsize))
            .filter(|block| block.0.is_power_of_two() && *block <= BLOCK_MAX);
        Self {
            kind: mount.map_or_else(|| "unknown".to_owned(), |mount| mount.kind.clone()),
            block: block.unwrap_or(BLOCK_DEFAULT),
            layer: device.as_ref().map(|device| Layer::from_device(system, device)),
            is_spread: device.as_ref().is_some_and(|device| system.btrfs_width(&device.name) > 1),
            device,
            is_journaled: mount.is_some_and(|mount| mount.has_option("data=journal")),
            is_among_devices: mount
                .map_or_else(|| path.starts_with(DEVICES), |mount| is_among_devices(mount, path)),
        }
    }

    /// Refuses a file that would not be one to keep.
    fn takes_new_files(&self, typed: &Path) -> Result<(), EndpointError> {
        if self.is_among_devices {
            return Err(EndpointError::NoDevice { path: typed.to_owned() });
        }
        let kind = self.kind.as_str();
        if MADE_BY_KERNEL.contains(&kind) || OF_THE_KERNEL.contains(&kind) {
            let (path, kind) = (typed.to_owned(), self.kind.clone());
            return Err(EndpointError::NoFilesThere { path, kind });
        }
        Ok(())
    }

    /// Returns the traits of a new file in `directory`.
    fn traits_of_new(&self, directory: &Path) -> FileTraits {
        let statx =
            rustix::fs::statx(CWD, directory, AtFlags::empty(), StatxFlags::BASIC_STATS).ok();
        let has = |attribute| statx.is_some_and(|statx| statx.stx_attributes.contains(attribute));
        let is_encrypted = has(StatxAttributes::ENCRYPTED);
        let is_journaled = self.is_journaled(directory);
        FileTraits {
            is_direct: self.may_be_direct() && !is_encrypted && !is_journaled,
            is_encrypted,
            is_verity: false,
            is_compressed: has(StatxAttributes::COMPRESSED),
            is_nodatacow: self.kind == "btrfs" && has_flag(directory, NOCOW),
            is_spread: self.is_spread,
            is_journaled,
        }
    }

    fn is_journaled(&self, path: &Path) -> bool {
        self.is_journaled || self.kind == "ext4" && has_flag(path, JOURNALED)
    }

    fn may_be_direct(&self) -> bool {
        !WITHOUT_DIRECT.contains(&self.kind.as_str())
    }

    fn endpoint(self, fabric: &Fabric, path: PathBuf, role: Role, file: LiveFile) -> Endpoint {
        let limits = self.device.as_ref().map(|device| device.limits);
        let (initiator, further) = match (&self.device, &self.layer) {
            (Some(device), Some(layer)) => initiators(fabric, device, layer),
            _ => (None, Vec::new()),
        };
        let obstacle = self.obstacle(fabric, role, file.traits);
        // Without direct I/O the page cache takes any length and offset.
        let block = match file.block {
            _ if !file.traits.is_direct => Bytes(1),
            Some(block) => block,
            None => limits.map_or(self.block, |limits| self.block.max(limits.logical_block)),
        };
        let facts = EndpointFacts {
            path: path.display().to_string(),
            kind: EndpointKind::File,
            size: file.size,
            block,
            request_host: request_host(limits.and_then(|limits| limits.max_request)),
            request_p2p: limits.filter(|_| obstacle.is_none()).map(request_p2p),
            device: self.device.as_ref().map(|device| device.name.clone()),
            address: self.device.as_ref().and_then(|device| Some(device.function?.to_string())),
            drive: initiator.and_then(|id| drive_name(fabric, id)),
            file_system: Some(self.kind),
            refusal: obstacle.as_ref().map(|obstacle| obstacle.reason.clone()),
            way_out: obstacle.and_then(|obstacle| obstacle.way_out),
            network: self.layer.as_ref().and_then(Layer::network).cloned(),
        };
        let is_direct = file.traits.is_direct;
        Endpoint {
            facts,
            initiator,
            further,
            live: Some(Live {
                path,
                node: file.node,
                device: self.device,
                layer: self.layer,
                is_direct,
                passthrough: None,
            }),
        }
    }

    fn obstacle(&self, fabric: &Fabric, role: Role, traits: FileTraits) -> Option<Obstacle> {
        kernel_refusal(&fabric.kernel)
            .map(Obstacle::new)
            .or_else(|| obstacles::file_refusal(&self.kind, traits))
            .or_else(|| match (&self.device, &self.layer) {
                (Some(device), Some(layer)) => {
                    obstacles::device_refusal(device, layer, &fabric.kernel, role, Some(&self.kind))
                }
                _ => {
                    Some(Obstacle::new(format!("{}: there is no block device below it", self.kind)))
                }
            })
    }
}

/// The mount with the longest point above `path`; the latest of equals hides the others.
fn mount_of<'a>(mounts: &'a [MountinfoLine], path: &Path) -> Option<&'a MountinfoLine> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// True when `path` is among the nodes of devices. Containers and small systems have a tmpfs there,
/// or none of its own. Other mounts below, such as `/dev/shm`, do not count.
fn is_among_devices(mount: &MountinfoLine, path: &Path) -> bool {
    let is_below = mount.point != Path::new(DEVICES) && mount.point.starts_with(DEVICES);
    mount.kind == "devtmpfs" || (path.starts_with(DEVICES) && !is_below)
}

/// The controllers of the fabric that serve a device: its own, or those of an array's members.
fn initiators(
    fabric: &Fabric,
    device: &BlockDevice,
    layer: &Layer,
) -> (Option<FunctionId>, Vec<FunctionId>) {
    let Layer::Md { members, .. } = layer else { return (initiator(fabric, device), Vec::new()) };
    let mut found = members.iter().filter_map(|member| initiator(fabric, member));
    (found.next(), found.collect())
}

/// The controller of the fabric that serves a device.
pub(super) fn initiator(fabric: &Fabric, device: &BlockDevice) -> Option<FunctionId> {
    fabric
        .iter()
        .find(|(_, function)| device.function.is_some() && function.address == device.function)
        .map(|(id, _)| id)
}

/// Alignment of direct I/O in bytes, zero if there is none; `None` if the kernel does not say.
fn direct_alignment(statx: &Statx) -> Option<u32> {
    (statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(statx.stx_dio_offset_align)
}

/// True when a file or directory has a flag of `chattr`; unknown counts as not.
pub(crate) fn has_flag(path: &Path, flag: IFlags) -> bool {
    fs::File::open(path)
        .ok()
        .and_then(|file| rustix::fs::ioctl_getflags(file).ok())
        .is_some_and(|flags| flags.contains(flag))
}

#[cfg(test)]
mod tests;
