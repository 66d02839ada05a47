//! Steps of making and removing an export (drivers/nvme/target/configfs.c, Linux 4.8 to 7.3).
//!
//! A disabled namespace takes the disk from its hosts at once. Without its port or subsystem a host
//! reconnects for minutes, and blocks programs that wait for the disk. Removal therefore begins with
//! the namespace.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::configfs::ConfigTree;
use super::error::ServeError;
use super::request::{AllowedHosts, ExportRequest, Listen, PayloadMemory};

/// Model shown to hosts (`attr_model`, absent from older kernels).
const MODEL: &str = "Peerlane";

/// Number of the only namespace of an export.
pub const NSID: u32 = 1;

/// Items of configfs of one export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExportItems {
    /// NQN of the subsystem.
    pub(crate) subsystem: String,
    /// Number of the port.
    pub(crate) port: u16,
    /// NQNs of the allowed hosts.
    pub(crate) hosts: Vec<String>,
    /// Those of them that were not there before: an administrator's own host may hold keys.
    pub(crate) new_hosts: Vec<String>,
}

impl ExportItems {
    /// Names the items of a request, with a free port number.
    pub(crate) fn new(configfs: &dyn ConfigTree, request: &ExportRequest, port: u16) -> Self {
        let hosts: Vec<String> = match &request.hosts {
            AllowedHosts::Any => Vec::new(),
            AllowedHosts::These(hosts) => hosts.iter().map(ToString::to_string).collect(),
        };
        let is_new = |host: &&String| !configfs.has(&Path::new("hosts").join(host));
        let new_hosts = hosts.iter().filter(is_new).cloned().collect();
        Self { subsystem: request.subsystem.to_string(), port, hosts, new_hosts }
    }

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

/// Makes an export, or nothing if a step fails.
pub(crate) fn make(
    configfs: &dyn ConfigTree,
    items: &ExportItems,
    request: &ExportRequest,
) -> Result<(), ServeError> {
    // A second program cannot make the same folder: from here on it is ours.
    configfs.make(&items.subsystem()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => {
            ServeError::NameTaken { subsystem: items.subsystem.clone() }
        }
        _ => ServeError::Step { action: "make", path: items.subsystem(), source },
    })?;
    fill(configfs, items, request).inspect_err(|_| {
        let _ = remove(configfs, items);
    })
}

fn fill(
    configfs: &dyn ConfigTree,
    items: &ExportItems,
    request: &ExportRequest,
) -> Result<(), ServeError> {
    let subsystem = items.subsystem();
    let model = subsystem.join("attr_model");
    if configfs.has(&model) {
        set(configfs, model, MODEL)?;
    }
    admit(configfs, items, &request.hosts)?;
    let namespace = items.namespace();
    step("make", &namespace, configfs.make(&namespace))?;
    set(configfs, namespace.join("device_path"), &request.device.to_string_lossy())?;
    set(configfs, namespace.join("device_uuid"), &request.uuid)?;
    choose_memory(configfs, &namespace, &request.memory)?;
    let enable = namespace.join("enable");
    configfs.write(&enable, "1").map_err(|source| ServeError::Enable {
        device: request.device.clone(),
        memory: request.memory.clone(),
        source,
    })?;
    confirm(configfs, enable, "1")?;
    listen(configfs, items, request.listen)
}

fn admit(
    configfs: &dyn ConfigTree,
    items: &ExportItems,
    hosts: &AllowedHosts,
) -> Result<(), ServeError> {
    let subsystem = items.subsystem();
    let any = subsystem.join("attr_allow_any_host");
    set(configfs, any, if *hosts == AllowedHosts::Any { "1" } else { "0" })?;
    for host in &items.new_hosts {
        let item = Path::new("hosts").join(host);
        match configfs.make(&item) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => step("make", &item, made)?,
        }
    }
    for host in &items.hosts {
        let item = Path::new("hosts").join(host);
        let allowed = subsystem.join("allowed_hosts");
        step("link a host into", &allowed, configfs.link(&item, &allowed))?;
    }
    Ok(())
}

/// Sets the memory and reads it back: the kernel accepts any text that begins like a truth value.
fn choose_memory(
    configfs: &dyn ConfigTree,
    namespace: &Path,
    memory: &PayloadMemory,
) -> Result<(), ServeError> {
    let attribute = namespace.join("p2pmem");
    if *memory == PayloadMemory::Host && !configfs.has(&attribute) {
        return Ok(());
    }
    configfs
        .write(&attribute, memory.attribute())
        .map_err(|source| ServeError::Memory { memory: memory.clone(), source })?;
    confirm(configfs, attribute, memory.attribute())
}

fn listen(
    configfs: &dyn ConfigTree,
    items: &ExportItems,
    listen: Listen,
) -> Result<(), ServeError> {
    let port = items.port();
    step("make", &port, configfs.make(&port))?;
    set(configfs, port.join("addr_trtype"), listen.transport())?;
    if let Some(address) = listen.address() {
        set(configfs, port.join("addr_adrfam"), if address.is_ipv4() { "ipv4" } else { "ipv6" })?;
        set(configfs, port.join("addr_traddr"), &address.ip().to_string())?;
        set(configfs, port.join("addr_trsvcid"), &address.port().to_string())?;
    }
    configfs
        .link(&items.subsystem(), &port.join("subsystems"))
        .map_err(|source| ServeError::Listen { listen, source })
}

fn set(configfs: &dyn ConfigTree, attribute: PathBuf, text: &str) -> Result<(), ServeError> {
    step("write", &attribute, configfs.write(&attribute, text))
}

fn confirm(configfs: &dyn ConfigTree, attribute: PathBuf, wanted: &str) -> Result<(), ServeError> {
    match configfs.read(&attribute) {
        Ok(found) if found == wanted => Ok(()),
        Ok(found) => {
            Err(ServeError::OtherAnswer { path: attribute, wanted: wanted.to_owned(), found })
        }
        Err(source) => Err(ServeError::Step { action: "read", path: attribute, source }),
    }
}

fn step(action: &'static str, path: &Path, done: io::Result<()>) -> Result<(), ServeError> {
    done.map_err(|source| ServeError::Step { action, path: path.to_owned(), source })
}

/// Removes an export, or the part of it that exists. Tries every step and returns the first error.
pub(crate) fn remove(configfs: &dyn ConfigTree, items: &ExportItems) -> Result<(), ServeError> {
    let (subsystem, namespace, port) = (items.subsystem(), items.namespace(), items.port());
    let served = port.join("subsystems").join(&items.subsystem);
    let mut first = Ok(());
    let mut attempt = |action, path: &Path, result: io::Result<()>| {
        if let Err(source) = result {
            if source.kind() != io::ErrorKind::NotFound && first.is_ok() {
                first = Err(ServeError::Step { action, path: path.to_owned(), source });
            }
        }
    };
    attempt("disable", &namespace, configfs.write(&namespace.join("enable"), "0"));
    attempt("unlink", &served, configfs.unlink(&served));
    match configfs.remove(&port) {
        // The port was never made, and another program has its number.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => attempt("remove", &port, removed),
    }
    attempt("remove", &namespace, configfs.remove(&namespace));
    for host in &items.hosts {
        let allowed = subsystem.join("allowed_hosts").join(host);
        attempt("unlink", &allowed, configfs.unlink(&allowed));
    }
    for host in &items.new_hosts {
        // Another subsystem may allow it meanwhile.
        let _ = configfs.remove(&Path::new("hosts").join(host));
    }
    attempt("remove", &subsystem, configfs.remove(&subsystem));
    first
}
