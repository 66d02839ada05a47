//! Drives of a machine and the images behind them; everything that can be refused before boot is.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Namespace, Origin};
use peerlane_units::Bytes;

use crate::LabError;

/// An NVMe drive and its image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drive {
    /// The function of the machine.
    pub(crate) function: FunctionId,
    /// Name and serial number.
    pub(crate) name: String,
    /// Its namespace; `None` for a controller that only lends memory.
    pub(crate) namespace: Option<NamespaceImage>,
}

/// A namespace and its image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamespaceImage {
    /// Different for every drive of the machine: QEMU's trace names commands by it alone.
    pub(crate) nsid: u32,
    /// Raw image.
    pub(crate) image: PathBuf,
    /// True when the image is deleted after the run.
    pub(crate) is_scratch: bool,
    /// Logical block size.
    pub(crate) logical_block: Bytes,
    /// Physical block size.
    pub(crate) physical_block: Bytes,
}

/// Pairs each drive with its image: a named one, else a sparse one in `scratch`.
pub(crate) fn prepare(
    machine: &Fabric,
    images: &[(String, PathBuf)],
    scratch: &Path,
) -> Result<Vec<Drive>, LabError> {
    let functions: Vec<_> =
        machine.iter().filter(|(_, function)| function.kind == FunctionKind::Nvme).collect();
    for (position, (name, image)) in images.iter().enumerate() {
        let bad = |reason: String| LabError::BadDrive {
            drive: name.clone(),
            image: image.clone(),
            reason,
        };
        if !functions.iter().any(|(_, function)| &function.name == name) {
            let known: Vec<_> =
                functions.iter().map(|(_, function)| function.name.as_str()).collect();
            return Err(bad(format!(
                "machine {} has no such drive, it has: {}",
                machine.name,
                known.join(", ")
            )));
        }
        if images[..position].iter().any(|(earlier, _)| earlier == name) {
            return Err(bad("the drive is given twice".to_owned()));
        }
        check_regular(image).map_err(&bad)?;
        if let Some((other, _)) = images[..position].iter().find(|(_, path)| same(path, image)) {
            return Err(bad(format!("drive `{other}` has the same file")));
        }
    }
    let mut drives = Vec::new();
    for (id, function) in functions {
        check_name(machine, &function.name)?;
        let image = images.iter().find(|(name, _)| *name == function.name).map(|(_, path)| path);
        let namespaces =
            function.nvme.as_ref().map(|nvme| nvme.namespaces.as_slice()).unwrap_or_default();
        let namespace = match (namespaces, image) {
            ([], None) if machine.origin == Origin::Text => {
                return Err(LabError::NotEmulated {
                    machine: machine.name.clone(),
                    function: function.name.clone(),
                    reason: "its size is unknown: state `size` in a machine file, or give --drive"
                        .to_owned(),
                });
            }
            ([], None) => None,
            ([], Some(image)) => Some(named(
                &function.name,
                image,
                &Namespace {
                    name: None,
                    nsid: None,
                    size: Bytes::ZERO,
                    limits: peerlane_fabric::QueueLimits::default(),
                    is_multipath_head: false,
                    stable_writes: None,
                    integrity: None,
                    partitions: Vec::new(),
                },
            )?),
            ([namespace], Some(image)) => Some(named(&function.name, image, namespace)?),
            ([namespace], None) => Some(scratch_image(&function.name, namespace, scratch)?),
            _ => {
                return Err(LabError::NotEmulated {
                    machine: machine.name.clone(),
                    function: function.name.clone(),
                    reason: "the lab gives a drive one namespace".to_owned(),
                });
            }
        };
        drives.push(Drive { function: id, name: function.name.clone(), namespace });
    }
    number_namespaces(&mut drives);
    Ok(drives)
}

/// A drive of the guest writes where it likes, so nothing of the host but a file may lie behind it.
///
/// Asked before anything is opened: opening a device can have effects of its own.
pub(crate) fn check_regular(image: &Path) -> Result<(), String> {
    let kind = image.metadata().map_err(|error| error.to_string())?.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_block_device() => "a block device of this machine",
        _ if kind.is_dir() => "a directory",
        _ => "not a regular file",
    };
    Err(format!("it is {what}, and the guest may write to it; an image is a regular file"))
}

/// True when two paths lead to one file, by whatever names.
fn same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn number_namespaces(drives: &mut [Drive]) {
    for (nsid, backing) in (1..).zip(drives.iter_mut().filter_map(|drive| drive.namespace.as_mut()))
    {
        backing.nsid = nsid;
    }
}

/// The name becomes the serial number: 20 printable characters (NVMe base specification, Identify
/// Controller, SN), and a file name in the guest.
pub(crate) fn check_name(machine: &Fabric, name: &str) -> Result<(), LabError> {
    const LONGEST: usize = 20;
    let fits = (1..=LONGEST).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
        && !name.starts_with('.');
    if fits {
        return Ok(());
    }
    Err(LabError::NotEmulated {
        machine: machine.name.clone(),
        function: name.to_owned(),
        reason: format!(
            "a drive's name becomes its serial: at most {LONGEST} letters, digits, -_.:"
        ),
    })
}

fn named(drive: &str, image: &Path, namespace: &Namespace) -> Result<NamespaceImage, LabError> {
    let bad = |reason: String| LabError::BadDrive {
        drive: drive.to_owned(),
        image: image.to_owned(),
        reason,
    };
    let path = image.canonicalize().map_err(|error| bad(error.to_string()))?;
    let file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| bad(format!("not readable and writable: {error}")))?;
    let opened = file.metadata().map_err(|error| bad(error.to_string()))?;
    if !opened.is_file() {
        return Err(bad("it is not a regular file any more".to_owned()));
    }
    let size = Bytes(opened.len());
    let block = namespace.limits.logical_block;
    if size == Bytes::ZERO || !size.is_multiple_of(block) {
        return Err(bad(format!(
            "its size of {} bytes is not a whole number of blocks of {} bytes",
            size.0, block.0
        )));
    }
    Ok(backing(path, false, namespace))
}

fn scratch_image(
    drive: &str,
    namespace: &Namespace,
    folder: &Path,
) -> Result<NamespaceImage, LabError> {
    let path = folder.join(format!("scratch-{}.img", drive.replace(':', "_")));
    let bad = |reason: &str| LabError::BadDrive {
        drive: drive.to_owned(),
        image: path.clone(),
        reason: reason.to_owned(),
    };
    if namespace.size == Bytes::ZERO
        || !namespace.size.is_multiple_of(namespace.limits.logical_block)
    {
        return Err(bad("the machine gives a size that is not a whole number of blocks"));
    }
    let create = || -> std::io::Result<()> { File::create_new(&path)?.set_len(namespace.size.0) };
    create().map_err(LabError::io("create scratch image", &path))?;
    Ok(backing(path, true, namespace))
}

fn backing(image: PathBuf, is_scratch: bool, namespace: &Namespace) -> NamespaceImage {
    NamespaceImage {
        nsid: 0,
        image,
        is_scratch,
        logical_block: namespace.limits.logical_block,
        physical_block: namespace.limits.physical_block,
    }
}
