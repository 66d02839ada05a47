//! Discovery: a fabric read from `/sys` and `/proc` below a given root.
//!
//! Nothing outside the root is opened. Facts hidden from the reader become values that say so.

pub(crate) mod archive;
mod block;
pub(crate) mod config_space;
pub(crate) mod configuration;
pub(crate) mod cufile;
mod disk;
mod driver;
pub(crate) mod environment;
pub(crate) mod functions;
pub(crate) mod libraries;
pub(crate) mod list;
pub(crate) mod nvidia;
pub(crate) mod nvidia_fs;
mod nvme;
mod passthrough;
pub(crate) mod rdma;
pub(crate) mod remote;
pub(crate) mod resources;
pub(crate) mod snapshot;
mod stacked;
pub(crate) mod system;
pub(crate) mod tree;
pub(crate) mod windows;

use std::path::{Path, PathBuf};

pub use block::{BlockDevice, ParentDisk};
pub use configuration::kernel_has_p2pdma;
pub use passthrough::{PassthroughNode, block_name, passthrough_name};

use crate::{Fabric, Origin};
use snapshot::Snapshot;
use tree::Tree;

/// Folders between the one that is named and that of a machine.
const FOLDERS_ABOVE: usize = 2;

/// The reason why a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// A file or directory that must be there is not readable.
    #[error("cannot read {path}")]
    Read {
        /// The path, root included.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not an archive of a machine.
    #[error("cannot read {path} as the archive of a machine")]
    Archive {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        source: archive::ArchiveError,
    },
    /// A file holds something else than it should.
    #[error("cannot understand {path}: `{text}` is not {expected}")]
    Malformed {
        /// The path, root included.
        path: PathBuf,
        /// Its content, shortened.
        text: String,
        /// The expected content.
        expected: &'static str,
    },
    /// No block device has this number.
    #[error("cannot find block device {major}:{minor} below {root}")]
    NoSuchBlockDevice {
        /// The root of the search.
        root: PathBuf,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

impl Fabric {
    /// Reads the machine described by `sys/` and `proc/` below `root`; `/` is this machine, and a file
    /// is an archive.
    ///
    /// # Errors
    /// When the archive cannot be used, or there is no readable `sys/` below `root`. Single files that cannot be read are
    /// `None` or unknown in the result.
    pub fn discover(root: &Path) -> Result<Self, DiscoverError> {
        from_tree(&open(root)?, origin(root))
    }

    /// As [`Fabric::discover`], without commands to drives: temperatures are `None`, and a drive
    /// that does not answer delays nothing.
    ///
    /// # Errors
    /// As [`Fabric::discover`].
    pub fn discover_quietly(root: &Path) -> Result<Self, DiscoverError> {
        let mut tree = open(root)?;
        tree.leave_drives_alone();
        from_tree(&tree, origin(root))
    }

    /// Reads the machine described by a tree in memory; `name` stands for its root in messages.
    ///
    /// # Errors
    /// As [`Fabric::discover`].
    pub fn discover_snapshot(name: &Path, content: Snapshot) -> Result<Self, DiscoverError> {
        from_tree(&Tree::of_snapshot(name, content), Origin::Tree(name.to_owned()))
    }
}

/// The tree at `root`: a directory, or the archive of a capture.
pub(crate) fn open(root: &Path) -> Result<Tree, DiscoverError> {
    if !root.is_file() {
        return Ok(Tree::new(&with_devices(root)));
    }
    let file = std::fs::File::open(root)
        .map_err(|source| DiscoverError::Read { path: root.to_owned(), source })?;
    let content = archive::unpack_machine(std::io::BufReader::new(file))
        .map_err(|source| DiscoverError::Archive { path: root.to_owned(), source })?;
    Ok(Tree::of_snapshot(root, content))
}

/// The folder that has `sys/devices`: the root, or the only one close below it, as archives unpack.
fn with_devices(root: &Path) -> PathBuf {
    let tree = Tree::new(root);
    let children = |at: &Path| tree.directories(at).into_iter().map(|name| at.join(name)).collect();
    let has_devices = |at: &Path| tree.is_directory(&at.join("sys/devices"));
    match archive::folders_with_devices(children, has_devices, FOLDERS_ABOVE).as_slice() {
        [only] if !only.as_os_str().is_empty() => root.join(only),
        _ => root.to_owned(),
    }
}

/// The origin of a tree, which decides whether data may move: only `/` is the running machine.
pub(crate) fn origin(root: &Path) -> Origin {
    if root == Path::new("/") { Origin::ThisMachine } else { Origin::Tree(root.to_owned()) }
}

/// Reads the machine described by a tree.
pub(crate) fn from_tree(tree: &Tree, origin: Origin) -> Result<Fabric, DiscoverError> {
    let devices = Path::new("sys/devices");
    tree.names(devices)
        .map_err(|source| DiscoverError::Read { path: tree.full(devices), source })?;
    let is_this_machine = origin == Origin::ThisMachine;
    let mut found = functions::walk(tree, is_this_machine);
    let remote_drives = remote::drives(tree, &mut found.numbers);
    found.rdma_devices.extend(rdma::devices(tree, Path::new(rdma::SOFTWARE), None));
    let has_p2pmem = found.functions.iter().any(|function| function.p2pmem.is_some());
    let stacked = stacked::devices(tree);
    let product = system::product(tree);
    Ok(Fabric {
        name: tree
            .word(Path::new("proc/sys/kernel/hostname"))
            .unwrap_or_else(|| "machine".to_owned()),
        origin,
        kernel: system::kernel(tree, has_p2pmem),
        cpu: system::cpu(tree),
        iommu: system::iommu(tree, is_this_machine),
        environment: environment::read(tree, product.as_deref(), is_this_machine),
        product,
        libraries: libraries::installed(tree),
        mounts: stacked::mounts(tree, &found.numbers, &stacked),
        remote_drives,
        rdma_devices: found.rdma_devices,
        stacked: stacked.into_iter().map(|found| found.device).collect(),
        bridges: found.bridges,
        functions: found.functions,
        nvlinks: None,
        peer_access: Vec::new(),
        xgmi: None,
        nvidia: nvidia::driver(tree),
        cufile: cufile::configuration(tree),
        lab: None,
        account: None,
    })
}
