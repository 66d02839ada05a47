//! Exports made by this program: one device as the only namespace of a subsystem with a port of its own.
//!
//! An export lasts as long as its [`ServedExport`]. The export of a killed program stays in the kernel and serves
//! on. A note below `/run` names it; [`sweep`] and [`remove`] undo it.

mod configfs;
mod error;
mod note;
mod request;
mod steps;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::ServeError;
pub use request::{AllowedHosts, ExportRequest, Listen, Nqn, NqnError, PayloadMemory};
pub use steps::NSID;

use crate::location::{Location, locate};
use crate::root::NvmetRoot;
use configfs::Configfs;
use note::{LockedNote, NoteContent};
use steps::ExportItems;

/// The list of RDMA devices.
const RDMA_DEVICES: &str = "sys/class/infiniband";

/// A served export; dropping it removes the export.
#[derive(Debug)]
pub struct ServedExport {
    configfs: Configfs,
    items: ExportItems,
    note: Option<LockedNote>,
}

/// An export of this program, or of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedExport {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// The device.
    pub device: PathBuf,
    /// Transport and address: `tcp 10.0.0.1:4420`.
    pub listen: String,
    /// The serving process; `None` for a leftover.
    pub process: Option<u32>,
}

/// Makes an export below a root.
///
/// The caller asks the guards first: the kernel exports a mounted drive without a word.
///
/// # Errors
/// [`ServeError`]; nothing is left then.
pub fn serve(root: &Path, request: &ExportRequest) -> Result<ServedExport, ServeError> {
    check(root, request)?;
    let configfs = Configfs { nvmet: nvmet(root)? };
    let names =
        NvmetRoot::new(&configfs.nvmet).names(Path::new("ports")).map_err(ServeError::Read)?;
    let is_used = |port: &u16| names.iter().any(|name| *name == *port.to_string());
    let port = (1..u16::MAX).find(|port| !is_used(port)).unwrap_or(u16::MAX);
    let items = ExportItems::new(&configfs, request, port);
    let content = NoteContent {
        process: std::process::id(),
        device: request.device.clone(),
        items: items.clone(),
    };
    let note = LockedNote::write(root, &content)?;
    match steps::make(&configfs, &items, request) {
        Ok(()) => Ok(ServedExport { configfs, items, note: Some(note) }),
        Err(error) => {
            let _ = note.remove();
            Err(error)
        }
    }
}

/// Refuses requests that the kernel accepts and does not honour.
fn check(root: &Path, request: &ExportRequest) -> Result<(), ServeError> {
    match request.listen {
        Listen::Rdma(_) if !has_rdma(root) => {
            return Err(ServeError::NoRdma { folder: root.join(RDMA_DEVICES) });
        }
        Listen::Rdma(address) if address.ip().is_loopback() => {
            return Err(ServeError::LoopbackByRdma { address });
        }
        Listen::Tcp(_) | Listen::Loop if request.memory != PayloadMemory::Host => {
            return Err(ServeError::MemoryNotUsed { transport: request.listen.transport() });
        }
        Listen::Rdma(_) | Listen::Tcp(_) | Listen::Loop => {}
    }
    Ok(())
}

/// Returns true if the machine has an RDMA device.
pub fn has_rdma(root: &Path) -> bool {
    NvmetRoot::new(root).names(Path::new(RDMA_DEVICES)).is_ok_and(|devices| !devices.is_empty())
}

fn nvmet(root: &Path) -> Result<PathBuf, ServeError> {
    match locate(&NvmetRoot::new(root)).map_err(ServeError::Read)? {
        Location::Folder(folder) => Ok(root.join(folder)),
        Location::Absent => Err(ServeError::NoTarget),
        Location::Unknown(reason) => Err(ServeError::Unknown(reason)),
    }
}

impl ServedExport {
    /// Removes the export: hosts lose the disk at once.
    ///
    /// # Errors
    /// The first failed step; the others were tried.
    pub fn end(mut self) -> Result<(), ServeError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), ServeError> {
        let Some(note) = self.note.take() else { return Ok(()) };
        steps::remove(&self.configfs, &self.items)?;
        note.remove()
    }
}

impl Drop for ServedExport {
    fn drop(&mut self) {
        let _ = self.undo();
    }
}

/// Lists the exports of this program, served and leftover.
///
/// # Errors
/// When a note cannot be read.
pub fn noted(root: &Path) -> Result<Vec<NotedExport>, ServeError> {
    let exports = note::all(root)?.into_iter();
    Ok(exports.map(|(content, leftover)| exported(content, leftover.is_none())).collect())
}

fn exported(content: NoteContent, is_served: bool) -> NotedExport {
    let NoteContent { process, device, items } = content;
    let process = is_served.then_some(process);
    NotedExport { subsystem: items.subsystem, device, listen: items.listen, process }
}

/// Removes the leftovers of killed programs, and returns them.
///
/// # Errors
/// The first leftover that could not be removed.
pub fn sweep(root: &Path) -> Result<Vec<NotedExport>, ServeError> {
    let left = note::all(root)?.into_iter().filter_map(|(content, note)| Some((content, note?)));
    left.map(|(content, note)| remove_leftover(root, content, note)).collect()
}

/// Removes one leftover.
///
/// # Errors
/// When it is served, or not of this program, or cannot be removed.
pub fn remove(root: &Path, subsystem: &Nqn) -> Result<NotedExport, ServeError> {
    let found = note::all(root)?
        .into_iter()
        .find(|(content, _)| content.items.subsystem == subsystem.as_str());
    let subsystem = subsystem.to_string();
    match found {
        None => Err(ServeError::NotOurs { subsystem }),
        Some((content, None)) => Err(ServeError::Served { subsystem, process: content.process }),
        Some((content, Some(note))) => remove_leftover(root, content, note),
    }
}

fn remove_leftover(
    root: &Path,
    content: NoteContent,
    note: LockedNote,
) -> Result<NotedExport, ServeError> {
    match nvmet(root) {
        Ok(nvmet) => {
            let configfs = Configfs { nvmet };
            // What is no longer there, or has its name only, is not touched.
            if content.items.is_there(&configfs) {
                steps::remove(&configfs, &content.items)?;
            }
        }
        // The module is gone, and everything with it.
        Err(ServeError::NoTarget) => {}
        Err(error) => return Err(error),
    }
    note.remove()?;
    Ok(exported(content, false))
}
