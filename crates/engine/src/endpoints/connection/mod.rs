//! Connections to drives of other machines, by the kernel's NVMe over Fabrics host.
//!
//! Every run makes connections of its own (`duplicate_connect`), and removes them at its end. A
//! drive that was already connected stays connected.

mod error;
mod host;

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use peerlane_fabric::RemoteDrive;
use peerlane_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{StatVfsMountFlags, inotify};
use rustix::io::Errno;

pub use error::ConnectError;
pub use host::HostNameError;

use crate::endpoints::{RemoteName, RemoteTransport};
use crate::io::ring::fabrics;
use host::HostName;

const ROOT: &str = "/";
const FABRICS: &str = "/dev/nvme-fabrics";
/// Longest wait for the disk of a connected controller, which the kernel adds when it has scanned it.
const SCAN_WAIT: Duration = Duration::from_secs(15);
/// Time between two looks for it.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);
/// Seconds between attempts to connect again.
const RECONNECT_SECONDS: u64 = 2;

/// A connection of this run; it ends when it is dropped, and with the program.
#[derive(Debug)]
pub struct Connection {
    /// The drive.
    pub drive: RemoteName,
    /// Name of its disk here, such as `nvme3n1`.
    pub disk: String,
    _held: fabrics::HeldConnection,
}

/// Connects a drive and waits for its disk. `deadline` bounds everything except the look-up of a
/// host's name. It also bounds how long requests outlast a broken connection. `seed` is a random
/// number.
///
/// # Errors
/// [`ConnectError`]; the drive is not connected then.
pub fn connect(
    drive: &RemoteName,
    deadline: Nanos,
    seed: u64,
    stop_requested: &dyn Fn() -> bool,
) -> Result<Connection, ConnectError> {
    let named = || Box::new(drive.clone());
    if !Path::new(FABRICS).exists() {
        return Err(ConnectError::NoKernelHost { drive: named() });
    }
    if drive.transport() == RemoteTransport::Rdma && !peerlane_nvmet::has_rdma(Path::new(ROOT)) {
        return Err(ConnectError::NoRdma { drive: named() });
    }
    if is_sysfs_read_only() {
        return Err(ConnectError::ReadOnlySysfs);
    }
    let addresses = drive
        .addresses()
        .map_err(|source| ConnectError::Address { host: drive.host().to_owned(), source })?;
    let file = OpenOptions::new().read(true).write(true).open(FABRICS);
    let file = file.map_err(|source| ConnectError::Open { source })?;
    let host = HostName::read_or_create(Path::new(ROOT), seed)?;
    let end = Instant::now() + Duration::from(deadline);
    let mut refused = None;
    for address in addresses {
        let options = options(drive, address, &host, deadline);
        let left = end.saturating_duration_since(Instant::now());
        match fabrics::connect(&file, &options, left, stop_requested) {
            Ok(held) => {
                let controller = format!("nvme{}", held.instance);
                let left = end.saturating_duration_since(Instant::now()).min(SCAN_WAIT);
                let disk = wait_for_disk(drive, &controller, left, stop_requested)?;
                return Ok(Connection { drive: drive.clone(), disk, _held: held });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(ConnectError::Interrupted);
            }
            Err(source) => refused = Some((address, source)),
        }
    }
    let (address, source) = refused.unzip();
    Err(ConnectError::Refused {
        drive: named(),
        address,
        host: host.nqn.to_string(),
        source: source.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
    })
}

/// True if `delete_controller` cannot be written, as in most containers: a connection would stay.
fn is_sysfs_read_only() -> bool {
    let found = rustix::fs::statvfs("/sys/class/nvme");
    found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Options of a connection, as `nvmf_parse_options` reads them (Linux 7.2
/// `drivers/nvme/host/fabrics.c`). Requests fail before the deadline.
fn options(drive: &RemoteName, address: SocketAddr, host: &HostName, deadline: Nanos) -> String {
    let loss = Duration::from(deadline).as_secs().max(2);
    let fail = loss / 2;
    // The kernel takes the number of an interface for its name (`inet_pton_with_scope`, Linux 7.2
    // `net/core/utils.c`).
    let scope = match address {
        SocketAddr::V6(address) if address.scope_id() > 0 => format!("%{}", address.scope_id()),
        _ => String::new(),
    };
    format!(
        "nqn={},transport={},traddr={}{scope},trsvcid={},hostnqn={},hostid={},duplicate_connect,\
         ctrl_loss_tmo={loss},fast_io_fail_tmo={fail},reconnect_delay={}",
        drive.subsystem(),
        drive.transport().as_str(),
        address.ip(),
        address.port(),
        host.nqn,
        host.id,
        RECONNECT_SECONDS.min(fail)
    )
}

/// Waits until the namespace has a disk with a node. A new node wakes it; a path that joins a disk makes
/// none, and is looked for at intervals.
fn wait_for_disk(
    drive: &RemoteName,
    controller: &str,
    wait: Duration,
    stop_requested: &dyn Fn() -> bool,
) -> Result<String, ConnectError> {
    let failed = |errno: Errno| ConnectError::Nodes { source: errno.into() };
    let nodes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .and_then(|nodes| {
            inotify::add_watch(&nodes, "/dev", inotify::WatchFlags::CREATE).map(|_| nodes)
        });
    let nodes = nodes.map_err(failed)?;
    let end = Instant::now() + wait;
    loop {
        // The last look comes after the last wait.
        let is_last = Instant::now() >= end;
        let connected = RemoteDrive::read(Path::new(ROOT), controller);
        let disk = connected.as_ref().and_then(|connected| connected.disk(drive.namespace()));
        if let Some(disk) = disk.filter(|disk| Path::new("/dev").join(disk).exists()) {
            return Ok(disk.to_owned());
        }
        if stop_requested() {
            return Err(ConnectError::Interrupted);
        }
        if is_last {
            let waited = Nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
            return Err(ConnectError::NoNamespace { drive: Box::new(drive.clone()), waited });
        }
        let interval = Timespec::try_from(SCAN_INTERVAL).ok();
        match poll(&mut [PollFd::new(&nodes, PollFlags::IN)], interval.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        // The loop looks for the node itself.
        let _ = rustix::io::read(&nodes, &mut [0; 4096]);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    fn host() -> HostName {
        let root = tempfile::tempdir().unwrap();
        HostName::read_or_create(root.path(), 7).unwrap()
    }

    #[test]
    fn options_fail_requests_before_deadline() {
        let drive: RemoteName = "nvme://[fd00::1]:5/lab".parse().unwrap();
        let address = "[fd00::1]:5".parse().unwrap();
        let text = options(&drive, address, &host(), Nanos::seconds(60));
        assert!(text.starts_with("nqn=lab,transport=tcp,traddr=fd00::1,trsvcid=5,hostnqn="));
        assert!(text.ends_with("ctrl_loss_tmo=60,fast_io_fail_tmo=30,reconnect_delay=2"), "{text}");
        let short = options(&drive, address, &host(), Nanos::seconds(1));
        assert!(short.ends_with("ctrl_loss_tmo=2,fast_io_fail_tmo=1,reconnect_delay=1"), "{short}");
    }

    #[test]
    fn link_local_address_keeps_its_interface() {
        let drive: RemoteName = "nvme://[fe80::1]/lab".parse().unwrap();
        let address = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 4420, 0, 3));
        let text = options(&drive, address, &host(), Nanos::seconds(60));
        assert!(text.contains("traddr=fe80::1%3,trsvcid=4420"), "{text}");
    }
}
