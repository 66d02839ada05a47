//! A network between two machines, by datagram sockets in a shared folder.
//!
//! Each machine sends to the socket of the other, so either may start first. No network of the host takes part.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::short_path::ShortFolder;

/// QEMU's name of the network.
pub(crate) const NETWORK: &str = "network";
/// Slot of the network controller on the root bus.
pub(crate) const NETWORK_SLOT: u8 = 0x1e;
/// Link in the folder of a run to the shared folder: socket paths stay below the 107 bytes of unix(7).
const LINK: &str = "network";
/// Kernel module of the guest.
pub(crate) const MODULE: &str = "virtio_net";

/// A network of two machines, seen from one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabNetwork {
    /// The shared folder.
    pub folder: PathBuf,
    /// The end of this machine.
    pub end: NetworkEnd,
}

/// An end of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkEnd {
    /// 10.0.0.1.
    First,
    /// 10.0.0.2.
    Second,
}

/// A text that is not an end of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write FOLDER=1 for one machine and FOLDER=2 for the other")]
pub struct NotANetwork;

impl FromStr for LabNetwork {
    type Err = NotANetwork;

    /// Reads `FOLDER=1` or `FOLDER=2`.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (folder, end) = text.rsplit_once('=').ok_or(NotANetwork)?;
        let end = match end {
            "1" => NetworkEnd::First,
            "2" => NetworkEnd::Second,
            _ => return Err(NotANetwork),
        };
        if folder.is_empty() {
            return Err(NotANetwork);
        }
        Ok(Self { folder: folder.into(), end })
    }
}

impl NetworkEnd {
    /// 1 or 2.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.number())
    }

    fn socket(self) -> String {
        format!("machine-{}", self.number())
    }
}

impl LabNetwork {
    /// Links the shared folder into the folder of a run.
    ///
    /// # Errors
    /// When the folder cannot be used, or another run has this end.
    pub(crate) fn prepare(&self, run: &Path) -> Result<(), LabError> {
        fn failed(path: &Path) -> impl FnOnce(io::Error) -> LabError {
            LabError::io("use as a network", path)
        }
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let folder = self.folder.canonicalize().map_err(failed(&self.folder))?;
        let own = folder.join(self.end.socket());
        // QEMU refuses a name that exists.
        match fs::symlink_metadata(&own) {
            Ok(found) if found.file_type().is_socket() => {
                if is_served(&folder, &self.end.socket()) {
                    let error = io::Error::from(io::ErrorKind::AddrInUse);
                    return Err(failed(&own)(error));
                }
                fs::remove_file(&own).map_err(failed(&own))?;
            }
            Ok(_) => return Err(failed(&own)(io::Error::other("it is not a socket"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&own)(error)),
        }
        symlink(&folder, run.join(LINK)).map_err(failed(&folder))
    }

    /// Arguments of QEMU.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let (own, other) = (self.end.socket(), self.end.other().socket());
        let number = self.end.number();
        [
            "-netdev".to_owned(),
            format!(
                "dgram,id={NETWORK},local.type=unix,local.path={LINK}/{own},\
                 remote.type=unix,remote.path={LINK}/{other}"
            ),
            "-device".to_owned(),
            format!(
                "virtio-net-pci,netdev={NETWORK},mac=52:54:00:00:00:0{number},bus=pcie.0,\
                 addr={NETWORK_SLOT:02x}.0,romfile="
            ),
        ]
    }

    /// Removes the socket of this end.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(self.folder.join(self.end.socket()));
    }
}

/// True if a program has the socket open.
fn is_served(folder: &Path, socket: &str) -> bool {
    let Ok(folder) = ShortFolder::open(folder) else { return false };
    let Ok(probe) = UnixDatagram::unbound() else { return false };
    probe.connect(folder.join(socket)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_folder_and_number() {
        let network = "a=b/net=2".parse::<LabNetwork>().expect("an end");
        assert_eq!((network.folder, network.end), (PathBuf::from("a=b/net"), NetworkEnd::Second));
        for wrong in ["", "net", "net=", "net=3", "=1"] {
            assert_eq!(wrong.parse::<LabNetwork>(), Err(NotANetwork), "{wrong}");
        }
    }

    #[test]
    fn ends_send_to_each_other() {
        let ends = [NetworkEnd::First, NetworkEnd::Second].map(|end| {
            let [_, net, _, nic] = LabNetwork { folder: "net".into(), end }.arguments();
            (net, nic)
        });
        assert!(ends[0].0.contains("local.path=network/machine-1,"), "{}", ends[0].0);
        assert!(ends[0].0.ends_with("remote.path=network/machine-2"), "{}", ends[0].0);
        assert!(ends[1].0.contains("local.path=network/machine-2,"), "{}", ends[1].0);
        assert_ne!(ends[0].1, ends[1].1, "addresses of hardware");
    }

    #[test]
    fn only_stale_sockets_are_replaced() {
        let (folder, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let network = LabNetwork { folder: folder.path().to_owned(), end: NetworkEnd::First };
        let own = folder.path().join("machine-1");
        let served = UnixDatagram::bind(&own).unwrap();
        network.prepare(run.path()).unwrap_err();
        assert!(own.exists(), "the socket of another run is gone");
        drop(served);
        network.prepare(run.path()).unwrap();
        assert!(!own.exists());
        fs::write(&own, "").unwrap();
        fs::remove_file(run.path().join(LINK)).unwrap();
        let error = network.prepare(run.path()).unwrap_err();
        assert!(own.exists(), "{error}");
    }
}
