//! Making and removing an export, step by step (drivers/nvme/target/configfs.c, Linux 4.8 to 7.3).
//!
//! A host whose namespace is disabled loses the disk at once. One whose port or subsystem goes first
//! tries to connect again for minutes, and holds whoever waits for its disk. So removing begins with
//! the namespace.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::MakeError;
use super::tree::Tree;
use super::wanted::{Hosts, Listen, PayloadMemory, Wanted};

/// The model that hosts see (`attr_model`, since Linux 5.5).
const MODEL: &str = "Peerlane";

/// Number of the only namespace of an export.
pub const NSID: u32 = 1;

/// Items of configfs that belong to one export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Items {
    /// NQN of the subsystem.
    pub(crate) subsystem: String,
    /// Number of the port.
    pub(crate) port: u16,
    /// NQNs of hosts that may connect.
    pub(crate) hosts: Vec<String>,
}

impl Items {
    fn subsystem(&self) -> PathBuf {
        Path::new("subsystems").join(&self.subsystem)
    }

    fn namespace(&self) -> PathBuf {
        self.subsystem().join("namespaces").join(NSID.to_string())
    }

    fn port(&self) -> PathBuf {
        Path::new("ports").join(self.port.to_string())
    }
}

/// Makes an export; what was made is removed again where a step fails.
pub(crate) fn make(tree: &dyn Tree, items: &Items, wanted: &Wanted) -> Result<(), MakeError> {
    // Its folder is this export's from here on: two cannot make it.
    tree.make(&items.subsystem()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => MakeError::NameTaken { subsystem: items.subsystem.clone() },
        _ => MakeError::Step { action: "make", path: items.subsystem(), source },
    })?;
    fill(tree, items, wanted).inspect_err(|_| {
        let _ = remove(tree, items);
    })
}

fn fill(tree: &dyn Tree, items: &Items, wanted: &Wanted) -> Result<(), MakeError> {
    let subsystem = items.subsystem();
    let model = subsystem.join("attr_model");
    if tree.has(&model) {
        set(tree, model, MODEL)?;
    }
    admit(tree, items, &wanted.hosts)?;
    let namespace = items.namespace();
    step("make", &namespace, tree.make(&namespace))?;
    set(tree, namespace.join("device_path"), &wanted.device.to_string_lossy())?;
    set(tree, namespace.join("device_uuid"), &wanted.uuid)?;
    choose_memory(tree, &namespace, &wanted.memory)?;
    let enable = namespace.join("enable");
    tree.write(&enable, "1").map_err(|source| MakeError::Enable {
        device: wanted.device.clone(),
        memory: wanted.memory.clone(),
        source,
    })?;
    confirm(tree, enable, "1")?;
    listen(tree, items, wanted.listen)
}

fn admit(tree: &dyn Tree, items: &Items, hosts: &Hosts) -> Result<(), MakeError> {
    let subsystem = items.subsystem();
    let any = subsystem.join("attr_allow_any_host");
    set(tree, any, if *hosts == Hosts::Any { "1" } else { "0" })?;
    for host in &items.hosts {
        let item = Path::new("hosts").join(host);
        match tree.make(&item) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(MakeError::Step { action: "make", path: item, source: error });
            }
            _ => {}
        }
        let allowed = subsystem.join("allowed_hosts");
        step("link a host into", &allowed, tree.link(&item, &allowed))?;
    }
    Ok(())
}

/// The kernel takes whatever begins like a truth value for one: what it took is read back.
fn choose_memory(
    tree: &dyn Tree,
    namespace: &Path,
    memory: &PayloadMemory,
) -> Result<(), MakeError> {
    let attribute = namespace.join("p2pmem");
    if *memory == PayloadMemory::Host && !tree.has(&attribute) {
        return Ok(());
    }
    tree.write(&attribute, memory.attribute())
        .map_err(|source| MakeError::Memory { memory: memory.clone(), source })?;
    confirm(tree, attribute, memory.attribute())
}

fn listen(tree: &dyn Tree, items: &Items, listen: Listen) -> Result<(), MakeError> {
    let port = items.port();
    step("make", &port, tree.make(&port))?;
    set(tree, port.join("addr_trtype"), listen.transport())?;
    if let Some(address) = listen.address() {
        set(tree, port.join("addr_adrfam"), if address.is_ipv4() { "ipv4" } else { "ipv6" })?;
        set(tree, port.join("addr_traddr"), &address.ip().to_string())?;
        set(tree, port.join("addr_trsvcid"), &address.port().to_string())?;
    }
    tree.link(&items.subsystem(), &port.join("subsystems"))
        .map_err(|source| MakeError::Listen { listen, source })
}

fn set(tree: &dyn Tree, attribute: PathBuf, text: &str) -> Result<(), MakeError> {
    step("write", &attribute, tree.write(&attribute, text))
}

fn confirm(tree: &dyn Tree, attribute: PathBuf, wanted: &str) -> Result<(), MakeError> {
    match tree.read(&attribute) {
        Ok(found) if found == wanted => Ok(()),
        Ok(found) => {
            Err(MakeError::OtherAnswer { path: attribute, wanted: wanted.to_owned(), found })
        }
        Err(source) => Err(MakeError::Step { action: "read", path: attribute, source }),
    }
}

fn step(action: &'static str, path: &Path, done: io::Result<()>) -> Result<(), MakeError> {
    done.map_err(|source| MakeError::Step { action, path: path.to_owned(), source })
}

/// Removes what is there of an export. Every step is tried; the first that failed is returned.
pub(crate) fn remove(tree: &dyn Tree, items: &Items) -> Result<(), MakeError> {
    let (subsystem, namespace, port) = (items.subsystem(), items.namespace(), items.port());
    let served = port.join("subsystems").join(&items.subsystem);
    let mut first = Ok(());
    let mut attempt = |action, path: &Path, result: io::Result<()>| {
        if let Err(source) = result {
            if source.kind() != io::ErrorKind::NotFound && first.is_ok() {
                first = Err(MakeError::Step { action, path: path.to_owned(), source });
            }
        }
    };
    attempt("disable", &namespace, tree.write(&namespace.join("enable"), "0"));
    attempt("unlink", &served, tree.unlink(&served));
    match tree.remove(&port) {
        // Another one took the number of a port that was never made.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => attempt("remove", &port, removed),
    }
    attempt("remove", &namespace, tree.remove(&namespace));
    for host in &items.hosts {
        let allowed = subsystem.join("allowed_hosts").join(host);
        attempt("unlink", &allowed, tree.unlink(&allowed));
        // Another subsystem may admit it, too.
        let _ = tree.remove(&Path::new("hosts").join(host));
    }
    attempt("remove", &subsystem, tree.remove(&subsystem));
    first
}
