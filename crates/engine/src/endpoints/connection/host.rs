//! Names of this machine as a host of remote drives.
//!
//! The names of nvme-cli, so the other machine sees both programs as one host. The kernel
//! refuses an NQN that comes with two identifiers (`nvmf_host_add`, Linux 7.2
//! `drivers/nvme/host/fabrics.c`).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use peerlane_nvmet::Nqn;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::io::uuid;

const FOLDER: &str = "etc/nvme";
const UUID_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// NQN and identifier of this machine as a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName {
    pub(super) nqn: Nqn,
    pub(super) id: String,
}

/// A file of `/etc/nvme` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}", path.display())]
pub struct HostNameError {
    verb: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl HostName {
    /// Reads the names below a root, and creates the NQN if there is none. `seed` is a random
    /// number.
    pub(super) fn read_or_create(root: &Path, seed: u64) -> Result<Self, HostNameError> {
        let folder = root.join(FOLDER);
        let path = folder.join("hostnqn");
        let nqn = match line_of(&path)? {
            Some(line) => line,
            None => {
                let made = format!("{UUID_NQN}{}", uuid::from_text(&seed.to_string()));
                let error = |source| HostNameError { verb: "write", path: path.clone(), source };
                create(&folder, &path, &made).map_err(error)?;
                line_of(&path)?.unwrap_or(made)
            }
        };
        let id_path = folder.join("hostid");
        let id = line_of(&id_path)?;
        let id = id.unwrap_or_else(|| match nqn.strip_prefix(UUID_NQN) {
            Some(uuid) => uuid.to_owned(),
            None => uuid::from_text(&nqn),
        });
        let invalid = |path: &Path, error: String| HostNameError {
            verb: "use",
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        };
        // A comma would begin another option.
        if id.contains(|letter: char| !letter.is_ascii_hexdigit() && letter != '-') {
            return Err(invalid(&id_path, format!("{id:?} is not a UUID")));
        }
        Ok(Self { nqn: Nqn::new(&nqn).map_err(|error| invalid(&path, error.to_string()))?, id })
    }
}

/// Reads the first line with text; `None` without a file or a line.
fn line_of(path: &Path) -> Result<Option<String>, HostNameError> {
    match fs::read_to_string(path) {
        Ok(text) => {
            Ok(text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HostNameError { verb: "read", path: path.to_owned(), source }),
    }
}

/// Writes a file that another program may create at the same time; the first one stays.
fn create(folder: &Path, path: &Path, line: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let new = folder.join(format!("hostnqn.{}", std::process::id()));
    let written = File::create(&new).and_then(|mut file| {
        writeln!(file, "{line}")?;
        file.sync_all()
    });
    let named = written.and_then(|()| {
        renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE).map_err(io::Error::from)
    });
    if named.is_err() {
        let _ = fs::remove_file(&new);
    }
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        named => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        for (name, text) in files {
            fs::write(root.path().join(FOLDER).join(name), text).unwrap();
        }
        root
    }

    #[test]
    fn missing_name_is_created_once() {
        let root = tempfile::tempdir().unwrap();
        let first = HostName::read_or_create(root.path(), 7).unwrap();
        assert!(first.nqn.as_str().starts_with(UUID_NQN));
        assert!(first.nqn.as_str().ends_with(&first.id));
        assert_eq!(HostName::read_or_create(root.path(), 8).unwrap(), first);
        assert_eq!(fs::read_dir(root.path().join(FOLDER)).unwrap().count(), 1);
    }

    #[test]
    fn names_of_nvme_cli_are_used() {
        let root = root(&[("hostnqn", "\nnqn.x:lab\n"), ("hostid", "1b4e28ba-2fa1\n")]);
        let host = HostName::read_or_create(root.path(), 7).unwrap();
        assert_eq!((host.nqn.as_str(), host.id.as_str()), ("nqn.x:lab", "1b4e28ba-2fa1"));
    }

    #[test]
    fn names_with_options_are_refused() {
        for files in [
            [("hostnqn", "nqn.x,queue_size=1\n"), ("hostid", "1\n")],
            [("hostnqn", "nqn.x\n"), ("hostid", "1,queue_size=1\n")],
        ] {
            let error = HostName::read_or_create(root(&files).path(), 7).unwrap_err();
            assert!(error.to_string().starts_with("cannot use"), "{error}");
        }
    }
}
