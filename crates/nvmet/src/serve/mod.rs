//! Exports that this program makes: one device as the only namespace of a subsystem with a port of its own.
//!
//! An export lasts as long as its [`Served`]. One whose program was killed stays in the kernel and serves
//! on; a note below `/run` names it, by which [`sweep`] and [`remove`] undo it.

mod error;
mod note;
mod steps;
#[cfg(test)]
mod tests;
mod tree;
mod wanted;

use std::path::{Path, PathBuf};

pub use error::MakeError;
pub use steps::NSID;
pub use wanted::{Hosts, Listen, Nqn, NqnError, PayloadMemory, Wanted};

use crate::location::{Location, locate};
use crate::root::Root;
use note::{Content, Note};
use steps::Items;
use tree::Configfs;

/// Where RDMA devices are listed.
const RDMA_DEVICES: &str = "sys/class/infiniband";

/// An export that is served; dropped, it is removed.
#[derive(Debug)]
pub struct Served {
    tree: Configfs,
    items: Items,
    note: Option<Note>,
}

/// An export of this program or of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// The device.
    pub device: PathBuf,
    /// Where hosts connect: `tcp 10.0.0.1:4420`.
    pub listen: String,
    /// The process that serves it; `None` where it was left.
    pub process: Option<u32>,
}

/// Makes an export below a root.
///
/// Guards are the caller's: the kernel exports a drive that is mounted without a word.
///
/// # Errors
/// [`MakeError`]; nothing is left then.
pub fn serve(root: &Path, wanted: &Wanted) -> Result<Served, MakeError> {
    check(root, wanted)?;
    let tree = Configfs { nvmet: nvmet(root)? };
    let names = Root::new(&tree.nvmet).names(Path::new("ports")).map_err(MakeError::Read)?;
    let is_used = |port: &u16| names.iter().any(|name| *name == *port.to_string());
    let hosts = match &wanted.hosts {
        Hosts::Any => Vec::new(),
        Hosts::These(hosts) => hosts.iter().map(ToString::to_string).collect(),
    };
    let subsystem = wanted.subsystem.to_string();
    let port = (1..u16::MAX).find(|port| !is_used(port)).unwrap_or(u16::MAX);
    let items = Items { subsystem, port, hosts };
    let content = Content {
        process: std::process::id(),
        device: wanted.device.clone(),
        listen: wanted.listen.to_string(),
        items: items.clone(),
    };
    let note = Note::write(root, &content)?;
    match steps::make(&tree, &items, wanted) {
        Ok(()) => Ok(Served { tree, items, note: Some(note) }),
        Err(error) => {
            let _ = note.remove();
            Err(error)
        }
    }
}

/// What the kernel would take silently.
fn check(root: &Path, wanted: &Wanted) -> Result<(), MakeError> {
    match wanted.listen {
        Listen::Rdma(_) => {
            let folder = Path::new(RDMA_DEVICES);
            let devices = Root::new(root).names(folder).unwrap_or_default();
            if devices.is_empty() {
                return Err(MakeError::NoRdma { folder: root.join(folder) });
            }
        }
        Listen::Tcp(_) | Listen::Loop if wanted.memory != PayloadMemory::Host => {
            return Err(MakeError::MemoryNotUsed { transport: wanted.listen.transport() });
        }
        Listen::Tcp(_) | Listen::Loop => {}
    }
    Ok(())
}

fn nvmet(root: &Path) -> Result<PathBuf, MakeError> {
    match locate(&Root::new(root)).map_err(MakeError::Read)? {
        Location::Folder(folder) => Ok(root.join(folder)),
        Location::Absent => Err(MakeError::NoTarget),
        Location::Unknown(reason) => Err(MakeError::Unknown(reason)),
    }
}

impl Served {
    /// Removes the export: hosts lose the disk at once.
    ///
    /// # Errors
    /// The first step that failed; the others were tried.
    pub fn end(mut self) -> Result<(), MakeError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), MakeError> {
        let Some(note) = self.note.take() else { return Ok(()) };
        steps::remove(&self.tree, &self.items)?;
        note.remove()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.undo();
    }
}

/// Lists the exports of this program.
///
/// # Errors
/// When their notes cannot be read.
pub fn own(root: &Path) -> Result<Vec<Own>, MakeError> {
    Ok(note::all(root)?.into_iter().map(|(content, note)| seen(content, note.is_none())).collect())
}

fn seen(content: Content, is_served: bool) -> Own {
    let Content { process, device, listen, items } = content;
    Own { subsystem: items.subsystem, device, listen, process: is_served.then_some(process) }
}

/// Removes every export that a program left which was killed. Returns what was removed.
///
/// # Errors
/// The first that could not be removed.
pub fn sweep(root: &Path) -> Result<Vec<Own>, MakeError> {
    let left = note::all(root)?.into_iter().filter_map(|(content, note)| Some((content, note?)));
    left.map(|(content, note)| remove_left(root, content, note)).collect()
}

/// Removes one export that was left.
///
/// # Errors
/// When it is served, or is none of this program, or cannot be removed.
pub fn remove(root: &Path, subsystem: &Nqn) -> Result<Own, MakeError> {
    let found = note::all(root)?
        .into_iter()
        .find(|(content, _)| content.items.subsystem == subsystem.as_str());
    let subsystem = subsystem.to_string();
    match found {
        None => Err(MakeError::NotOurs { subsystem }),
        Some((content, None)) => Err(MakeError::Served { subsystem, process: content.process }),
        Some((content, Some(note))) => remove_left(root, content, note),
    }
}

fn remove_left(root: &Path, content: Content, note: Note) -> Result<Own, MakeError> {
    match nvmet(root) {
        Ok(nvmet) => steps::remove(&Configfs { nvmet }, &content.items)?,
        // The module is gone, and everything with it.
        Err(MakeError::NoTarget) => {}
        Err(error) => return Err(error),
    }
    note.remove()?;
    Ok(seen(content, false))
}
