//! Discovery: a fabric read from `/sys` and `/proc` below a given root.
//!
//! Nothing outside the root is opened. What the reader may not see becomes a value that says so.

mod block;
mod config_space;
mod disk;
mod functions;
mod nvme;
mod passthrough;
mod system;
mod tree;

use std::path::{Path, PathBuf};

pub use block::{BlockDevice, Integrity, ParentDisk};
pub use passthrough::{PassthroughNode, block_name, passthrough_name};

use crate::{Fabric, Origin};
use tree::Tree;

/// Why a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// A file or directory that must be there is not readable.
    #[error("cannot read {path}")]
    Read {
        /// The path, root included.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("cannot understand {path}: `{text}` is not {expected}")]
    Malformed {
        /// The path, root included.
        path: PathBuf,
        /// Its content, shortened.
        text: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// No block device has this number.
    #[error("cannot find block device {major}:{minor} below {root}")]
    NoSuchBlockDevice {
        /// Where it was looked for.
        root: PathBuf,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

impl Fabric {
    /// Reads the machine described by `sys/` and `proc/` below `root`; `/` is this machine.
    ///
    /// # Errors
    /// When there is no readable `sys/` below `root`. Single files that cannot be read are
    /// `None` or unknown in the result.
    pub fn discover(root: &Path) -> Result<Self, DiscoverError> {
        let tree = Tree::new(root);
        let devices = Path::new("sys/devices");
        tree.names(devices)
            .map_err(|source| DiscoverError::Read { path: tree.full(devices), source })?;
        let is_this_machine = root == Path::new("/");
        let found = functions::walk(&tree);
        let has_p2pmem = found.functions.iter().any(|function| function.p2pmem.is_some());
        Ok(Self {
            name: tree
                .word(Path::new("proc/sys/kernel/hostname"))
                .unwrap_or_else(|| "machine".to_owned()),
            origin: if is_this_machine {
                Origin::ThisMachine
            } else {
                Origin::Tree(root.to_owned())
            },
            kernel: system::kernel(&tree, has_p2pmem),
            cpu: system::cpu(&tree),
            iommu: system::iommu(&tree, is_this_machine),
            bridges: found.bridges,
            functions: found.functions,
            lab: None,
        })
    }
}
