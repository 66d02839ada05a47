//! Steps of making and removing an export (drivers/nvme/target/configfs.c, Linux 4.8 to 7.3).
//!
//! A disabled namespace takes the disk from its hosts at once. Without its port or subsystem a host
//! reconnects for minutes, and blocks programs that wait for the disk. Removal therefore begins with
//! the namespace.

use std::io;
use std::net::{IpAddr, SocketAddr};
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
    /// UUID of the namespace.
    pub(crate) uuid: String,
    /// Number of the port.
    pub(crate) port: u16,
    /// Transport and address of the port: `tcp 10.0.0.1:4420`.
    pub(crate) listen: String,
    /// NQNs of the allowed hosts.
    pub(crate) hosts: Vec<String>,
    /// Hosts among them that were not there before: an administrator's own host may hold keys.
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
        Self {
            subsystem: request.subsystem.to_string(),
            uuid: request.uuid.clone(),
            port,
            listen: request.listen.to_string(),
            hosts,
            new_hosts,
        }
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

    /// Serial number shown to hosts, the same at each export of a drive: a host knows it again by it. At
    /// most 20 characters (`NVMET_SN_MAX_SIZE`, Linux 7.2 `drivers/nvme/target/nvmet.h`).
    fn serial(&self) -> String {
        self.uuid.chars().filter(|letter| *letter != '-').take(20).collect()
    }

    /// Returns true if the subsystem of this name is the one that was made here. Another program may
    /// have made one of the same name since.
    pub(crate) fn is_there(&self, configfs: &dyn ConfigTree) -> bool {
        let has = |path: PathBuf, wanted: &str| {
            configfs.read(&path).is_ok_and(|found| found.eq_ignore_ascii_case(wanted))
        };
        has(self.namespace().join("device_uuid"), &self.uuid)
            || has(self.subsystem().join("attr_serial"), &self.serial())
    }

    /// The same for the port: it serves the subsystem, or nothing at the address.
    fn has_port(&self, configfs: &dyn ConfigTree) -> bool {
        let port = self.port();
        let text = |name: &str| configfs.read(&port.join(name)).unwrap_or_default();
        let address =
            text("addr_traddr").parse::<IpAddr>().ok().zip(text("addr_trsvcid").parse().ok());
        let listen = match address {
            Some(address) => format!("{} {}", text("addr_trtype"), SocketAddr::from(address)),
            None => text("addr_trtype"),
        };
        configfs.has(&port.join("subsystems").join(&self.subsystem)) || listen == self.listen
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
    for (attribute, text) in [("attr_serial", &*items.serial()), ("attr_model", MODEL)] {
        let attribute = subsystem.join(attribute);
        if configfs.has(&attribute) {
            set(configfs, attribute, text)?;
        }
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
    // Without an address nothing shows whose port it is.
    set(configfs, port.join("addr_trtype"), listen.transport())
        .and_then(|()| open_port(configfs, &port, listen))
        .inspect_err(|_| drop(configfs.remove(&port)))?;
    configfs
        .link(&items.subsystem(), &port.join("subsystems"))
        .map_err(|source| ServeError::Listen { listen, source })
}

fn open_port(configfs: &dyn ConfigTree, port: &Path, listen: Listen) -> Result<(), ServeError> {
    if let Some(address) = listen.address() {
        set(configfs, port.join("addr_adrfam"), if address.is_ipv4() { "ipv4" } else { "ipv6" })?;
        set(configfs, port.join("addr_traddr"), &address.ip().to_string())?;
        set(configfs, port.join("addr_trsvcid"), &address.port().to_string())?;
    }
    Ok(())
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
    let has_port = items.has_port(configfs);
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
    if has_port {
        match configfs.remove(&port) {
            // Another program has linked its subsystem there.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => attempt("remove", &port, removed),
        }
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
