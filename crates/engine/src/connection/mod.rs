//! Connections to drives of other machines, by the kernel's NVMe over Fabrics host.
//!
//! Every run makes connections of its own (`duplicate_connect`), and removes them however it ends. A drive that somebody else has connected
//! stays connected.

mod error;
mod host;

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use peerlane_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

pub use error::ConnectError;
pub use host::HostNameError;

use crate::endpoint::{RemoteName, RemoteTransport, namespace_disk};
use crate::ring::fabrics;
use crate::system::System;
use host::HostName;

const ROOT: &str = "/";
const FABRICS: &str = "/dev/nvme-fabrics";
/// Longest wait for the disk of a connected controller, which the kernel adds when it has scanned it.
const SCAN_WAIT: Nanos = Nanos::seconds(15);
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

/// Connects a drive and waits for its disk. `deadline` bounds each wait, and the time for which
/// requests outlast a broken connection. `seed` is a random number.
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
    if drive.transport() == RemoteTransport::Rdma && !has_rdma_device(Path::new(ROOT)) {
        return Err(ConnectError::NoRdma { drive: named() });
    }
    let address = reach(drive, deadline)?;
    let file = OpenOptions::new().read(true).write(true).open(FABRICS);
    let file = file.map_err(|source| ConnectError::Open { source })?;
    let host = HostName::read_or_create(Path::new(ROOT), seed)?;
    if stop_requested() {
        return Err(ConnectError::Interrupted);
    }
    let options = options(drive, address, &host, deadline);
    let held = fabrics::connect(&file, &options, deadline).map_err(|source| {
        ConnectError::Refused { drive: named(), host: host.nqn.to_string(), source }
    })?;
    let controller = format!("nvme{}", held.instance);
    let disk = wait_for_disk(drive, &controller, SCAN_WAIT.min(deadline), stop_requested)?;
    Ok(Connection { drive: drive.clone(), disk, _held: held })
}

/// True if the kernel knows an RDMA device.
fn has_rdma_device(root: &Path) -> bool {
    let devices = fs::read_dir(root.join("sys/class/infiniband"));
    devices.is_ok_and(|mut devices| devices.next().is_some())
}

/// Returns the first address that takes connections. The kernel itself would wait for minutes.
fn reach(drive: &RemoteName, deadline: Nanos) -> Result<SocketAddr, ConnectError> {
    let addresses = drive
        .addresses()
        .map_err(|source| ConnectError::Address { host: drive.host().to_owned(), source })?;
    let mut last = None;
    for address in addresses {
        if drive.transport() == RemoteTransport::Rdma {
            return Ok(address);
        }
        match TcpStream::connect_timeout(&address, Duration::from(deadline)) {
            Ok(_) => return Ok(address),
            Err(source) => last = Some(ConnectError::Unreachable { address, source }),
        }
    }
    Err(last.unwrap_or_else(|| ConnectError::Address {
        host: drive.host().to_owned(),
        source: io::ErrorKind::NotFound.into(),
    }))
}

/// Options of a connection, as `nvmf_parse_options` reads them (Linux 7.2
/// `drivers/nvme/host/fabrics.c`). Requests fail before the deadline, so that it is not they that wait.
fn options(drive: &RemoteName, address: SocketAddr, host: &HostName, deadline: Nanos) -> String {
    let loss = Duration::from(deadline).as_secs().max(2);
    let fail = loss / 2;
    format!(
        "nqn={},transport={},traddr={},trsvcid={},hostnqn={},hostid={},duplicate_connect,\
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

/// Waits until the namespace has a disk with a node.
fn wait_for_disk(
    drive: &RemoteName,
    controller: &str,
    wait: Nanos,
    stop_requested: &dyn Fn() -> bool,
) -> Result<String, ConnectError> {
    let system = System::at(Path::new(ROOT));
    let failed = |source: io::Error| ConnectError::Nodes { source };
    let nodes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .and_then(|nodes| {
            inotify::add_watch(&nodes, "/dev", inotify::WatchFlags::CREATE).map(|_| nodes)
        });
    let nodes = nodes.map_err(|errno| failed(errno.into()))?;
    let end = Instant::now() + Duration::from(wait);
    loop {
        let disk = namespace_disk(&system, controller, drive.namespace());
        if let Some(disk) = disk.filter(|disk| Path::new("/dev").join(disk).exists()) {
            return Ok(disk);
        }
        if stop_requested() {
            return Err(ConnectError::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&nodes, PollFlags::IN)], left.as_ref()) {
            Ok(0) => {
                return Err(ConnectError::NoNamespace {
                    drive: Box::new(drive.clone()),
                    waited: wait,
                });
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        // The loop looks for the node itself.
        let _ = rustix::io::read(&nodes, &mut [0; 4096]);
    }
}

#[cfg(test)]
mod tests {
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
    fn closed_port_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let drive: RemoteName = format!("nvme://127.0.0.1:{port}/lab").parse().unwrap();
        let error = reach(&drive, Nanos::seconds(5)).unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    }
}
