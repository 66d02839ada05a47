//! A network between two machines: each sends datagrams to the socket of the other, in a folder that both name, so
//! that neither has to be there first and no network of the host is touched.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::LabError;

/// What QEMU calls the network; its link is set by this name.
pub(crate) const NETWORK: &str = "network";
/// Slot of its controller on the root bus, where a machine has a network.
pub(crate) const NETWORK_SLOT: u8 = 0x1e;
/// Link to the folder in that of a run, so that names of sockets stay below the 107 bytes of unix(7).
const LINK: &str = "network";
/// Modules of the guest.
pub(crate) const MODULES: [&str; 1] = ["virtio_net"];

/// One end of a network of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The folder of both ends.
    pub folder: PathBuf,
    /// Which end.
    pub role: Role,
}

/// Which of the two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// 10.0.0.1.
    First,
    /// 10.0.0.2.
    Second,
}

/// Why a text is no end of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write FOLDER=1 for one machine and FOLDER=2 for the other")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    /// Reads `FOLDER=1` or `FOLDER=2`.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (folder, role) = text.rsplit_once('=').ok_or(NotANetwork)?;
        let role = match role {
            "1" => Role::First,
            "2" => Role::Second,
            _ => return Err(NotANetwork),
        };
        if folder.is_empty() {
            return Err(NotANetwork);
        }
        Ok(Self { folder: folder.into(), role })
    }
}

impl Role {
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

impl Network {
    /// Makes the folder known to a run, whose own folder is `run`.
    pub(crate) fn prepare(&self, run: &Path) -> Result<(), LabError> {
        fn failed(path: &Path) -> impl FnOnce(io::Error) -> LabError {
            LabError::io("use as a network", path)
        }
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let folder = self.folder.canonicalize().map_err(failed(&self.folder))?;
        let own = folder.join(self.role.socket());
        // QEMU makes its socket and takes no name that is there.
        match fs::symlink_metadata(&own) {
            Ok(found) if found.file_type().is_socket() => {
                fs::remove_file(&own).map_err(failed(&own))?;
            }
            Ok(_) => return Err(failed(&own)(io::Error::other("it is no socket"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&own)(error)),
        }
        symlink(&folder, run.join(LINK)).map_err(failed(&folder))
    }

    /// Arguments of QEMU.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let (own, other) = (self.role.socket(), self.role.other().socket());
        let number = self.role.number();
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

    /// Removes what the run left in the folder.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(self.folder.join(self.role.socket()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_folder_and_a_number() {
        let end = "a=b/net=2".parse::<Network>().expect("an end");
        assert_eq!((end.folder, end.role), (PathBuf::from("a=b/net"), Role::Second));
        for wrong in ["", "net", "net=", "net=3", "=1"] {
            assert_eq!(wrong.parse::<Network>(), Err(NotANetwork), "{wrong}");
        }
    }

    #[test]
    fn each_end_sends_to_the_other() {
        let ends = [Role::First, Role::Second].map(|role| {
            let [_, net, _, nic] = Network { folder: "net".into(), role }.arguments();
            (net, nic)
        });
        assert!(ends[0].0.contains("local.path=network/machine-1,"), "{}", ends[0].0);
        assert!(ends[0].0.ends_with("remote.path=network/machine-2"), "{}", ends[0].0);
        assert!(ends[1].0.contains("local.path=network/machine-2,"), "{}", ends[1].0);
        assert_ne!(ends[0].1, ends[1].1, "addresses of hardware");
    }

    #[test]
    fn a_socket_of_an_earlier_run_is_replaced_and_a_file_is_not() {
        let (folder, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let network = Network { folder: folder.path().to_owned(), role: Role::First };
        let own = folder.path().join("machine-1");
        drop(std::os::unix::net::UnixDatagram::bind(&own).unwrap());
        network.prepare(run.path()).unwrap();
        assert!(!own.exists());
        fs::write(&own, "").unwrap();
        fs::remove_file(run.path().join(LINK)).unwrap();
        let error = network.prepare(run.path()).unwrap_err();
        assert!(own.exists(), "{error}");
    }
}
