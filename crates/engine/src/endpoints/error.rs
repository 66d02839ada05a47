//! Errors of an end of a copy.

use std::io;
use std::path::PathBuf;

use peerlane_reach::Unserved;
use peerlane_units::Bytes;

use super::{Notation, RemoteName, RemoteNameError};
use crate::endpoints::suggestion::hint_of_path;
use crate::io::failure::hint_of_denial;

/// Reason why something cannot be source or target of a copy.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// A memory or a device without blocks instead of a file or a block device.
    #[error("`{notation}` cannot be source or target of a copy: it is not a file or block device")]
    NotPayload {
        /// The name as typed.
        notation: Notation,
    },
    /// The name of a drive or GPU that is not there, though it could mean a file.
    #[error("{path} is not a device of this machine")]
    LooksLikeDevice {
        /// The name as typed.
        path: PathBuf,
    },
    /// Nothing is at the path.
    #[error("{path} does not exist")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A target among the nodes of devices: a new file would lie in memory there and be lost.
    #[error("there is no such device: {path}")]
    NoDevice {
        /// The path as typed.
        path: PathBuf,
    },
    /// A regular file among the nodes of devices, made there by mistake.
    #[error("there is no such device: {path} is a file in memory that is lost at the next start")]
    NotADevice {
        /// The path.
        path: PathBuf,
    },
    /// A file system of the kernel's own.
    #[error("cannot make {path}: a {kind} file system keeps no files")]
    NoFilesThere {
        /// The path as typed.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// A file whose content the kernel makes while it is read: its size says nothing.
    #[error(
        "the kernel makes {path} while it is read ({kind}): its size, {size}, is not its content"
    )]
    MadeByKernel {
        /// The path.
        path: PathBuf,
        /// The file system.
        kind: String,
        /// The size that the kernel gives.
        size: Bytes,
    },
    /// The directory that a new file would be in is not there.
    #[error("cannot make {path}: there is no directory {directory}")]
    NoDirectory {
        /// The path.
        path: PathBuf,
        /// The directory.
        directory: PathBuf,
    },
    /// A symbolic link that leads nowhere.
    #[error("{path} is a symbolic link to nothing")]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },
    /// Something else than a regular file or block device.
    #[error("{path} is a {what}, not a regular file or block device")]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// Kind of the object.
        what: &'static str,
    },
    /// No device of the machine is called that.
    #[error("machine {machine} has no drive `{name}`")]
    UnknownDrive {
        /// The name as typed.
        name: String,
        /// The machine.
        machine: String,
        /// Advice: a near name, or the devices of the kind that was meant.
        hint: String,
    },
    /// A device that has no namespace, or several and none named.
    #[error("`{name}` names {} namespaces, not one", namespaces.len())]
    NotOneNamespace {
        /// The name as typed.
        name: String,
        /// Its namespaces.
        namespaces: Vec<String>,
    },
    /// A drive that the driver `nvme` does not serve.
    #[error("cannot reach drive `{name}`: {reason}")]
    Unserved {
        /// Its name on the machine.
        name: String,
        /// Reason why it is not served.
        reason: Unserved,
        /// Commands that get it back, in order.
        commands: Vec<String>,
    },
    /// A text that begins as the name of a drive of another machine.
    #[error(transparent)]
    RemoteName(#[from] RemoteNameError),
    /// A drive of another machine that is not connected.
    #[error("{drive} is not connected")]
    NotConnected {
        /// The drive.
        drive: Box<RemoteName>,
    },
    /// A partition among passthrough nodes, which are of whole namespaces.
    #[error(
        "{path} does not exist: a passthrough node is of a whole namespace, never of a partition"
    )]
    NoPartition {
        /// The path as typed.
        path: PathBuf,
        /// The disk that has the partition.
        disk: String,
    },
    /// A namespace that commands of a passthrough node do not serve.
    #[error("{path} cannot be source or target of a copy: its namespace {what}")]
    Namespace {
        /// The node.
        path: PathBuf,
        /// Its block device.
        block: String,
        /// Reason.
        what: String,
    },
    /// The system refused to examine it.
    #[error("cannot look at {path}")]
    Inspect {
        /// The path.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// sysfs does not show the device.
    #[error("cannot look at block device {path}")]
    Device {
        /// The path.
        path: PathBuf,
        /// Answer of discovery.
        source: peerlane_fabric::DiscoverError,
    },
}

impl EndpointError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotPayload { notation: memory @ Notation::Device(_) } => Some(format!(
                "device memory lies between source and target: name it with `--via {memory}`"
            )),
            Self::NotPayload { notation: Notation::Host } => Some(
                "`peerlane bench stream FILE host` reads into host memory; `--route host` copies \
                 between two files or drives through it"
                    .to_owned(),
            ),
            Self::NotPayload { notation: Notation::Gpu(gpu) } => Some(format!(
                "a GPU keeps no files: `peerlane bench stream --source FILE --target gpu:{gpu}` moves \
                 payload into its memory"
            )),
            Self::NotPayload { .. } => Some(
                "`peerlane bench stream --source FILE --target null` reads and throws away"
                    .to_owned(),
            ),
            Self::Missing { path } if !path.starts_with("/dev") => hint_of_path(path),
            Self::Missing { .. } | Self::NoDevice { .. } => {
                Some("`ls /dev/nvme*` and `peerlane topo` show the devices".to_owned())
            }
            Self::LooksLikeDevice { path } => Some(format!(
                "`peerlane topo` shows the devices; for a file of this name: ./{}",
                path.display()
            )),
            Self::NotADevice { path } => Some(format!(
                "`ls /dev/nvme*` and `peerlane topo` show the devices; to keep the file, \
                 `mv {} DIRECTORY`",
                path.display()
            )),
            Self::MadeByKernel { .. } => Some("`cat` it into a file, and copy that".to_owned()),
            Self::NoDirectory { directory, .. } => {
                Some(format!("mkdir -p {}", directory.display()))
            }
            Self::WrongKind { path, what: "directory" } => {
                Some(format!("name a file in it, such as {}", path.join("NAME").display()))
            }
            Self::WrongKind { what: "pipe", .. } => {
                Some("write its data to a file with `cat > FILE`, and copy that file".to_owned())
            }
            Self::UnknownDrive { hint, .. } => Some(hint.clone()),
            Self::NoPartition { path, disk } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let (node, number) = name.rsplit_once('p').unwrap_or((&name, ""));
                Some(format!(
                    "name /dev/{disk}p{number}, or /dev/{node} with the partition's place as \
                     --offset, --target-offset and --length"
                ))
            }
            Self::NotConnected { drive } => Some(format!(
                "`peerlane copy --dry-run` connects it, plans and disconnects it; `nvme connect \
                 --transport {} --traddr {} --trsvcid {} --nqn {}` keeps it connected",
                drive.transport().as_str(),
                drive.host(),
                drive.port(),
                drive.subsystem()
            )),
            Self::Inspect { path, source } => hint_of_denial(path, source),
            Self::Namespace { block, .. } => Some(format!("copy /dev/{block} instead")),
            Self::NotOneNamespace { namespaces, .. } if !namespaces.is_empty() => {
                Some(format!("name one of {}", namespaces.join(", ")))
            }
            Self::Unserved { reason, commands, .. } => Some(match commands.as_slice() {
                [] => reason.way_out().to_owned(),
                commands => format!("{}: `{}`", reason.way_out(), commands.join(" && ")),
            }),
            _ => None,
        }
    }
}
