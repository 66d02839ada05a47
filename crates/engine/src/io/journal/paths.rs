//! Paths of journals.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::{DeviceIdentity, JournalError};

/// Longest file name, in bytes (`NAME_MAX`, include/uapi/linux/limits.h).
const NAME_MAX: usize = 255;

/// Bytes that the store adds to a name while it works.
const ROOM_FOR_ENDINGS: usize = ".lock".len();

/// The environment variables for the folder of state; passed in, since the engine reads none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateEnvironment {
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
}

/// Returns the journal's path for a target that is a file: `.NAME.peerlane-journal` next to it, with a
/// hash for a name that would become too long.
///
/// # Errors
/// [`JournalError::NoFileName`] when `target` ends in no name.
pub(crate) fn beside_file(target: &Path) -> Result<PathBuf, JournalError> {
    let name =
        target.file_name().ok_or_else(|| JournalError::NoFileName { path: target.to_owned() })?;
    let ending = ".peerlane-journal";
    let mut journal = OsString::from(".");
    if 1 + name.len() + ending.len() + ROOM_FOR_ENDINGS <= NAME_MAX {
        journal.push(name);
    } else {
        journal.push(hash(name.as_bytes()));
    }
    journal.push(ending);
    Ok(target.with_file_name(journal))
}

/// Returns the directory that journals of devices are kept in: `peerlane` below `XDG_STATE_HOME`, or
/// below `~/.local/state` (XDG Base Directory Specification 0.8; it says to ignore relative paths).
///
/// # Errors
/// [`JournalError::NoStateDirectory`] when the environment names none.
pub(crate) fn state_directory(environment: &StateEnvironment) -> Result<PathBuf, JournalError> {
    let absolute = |value: &Option<OsString>| {
        value.as_deref().map(PathBuf::from).filter(|path| path.is_absolute())
    };
    absolute(&environment.xdg_state_home)
        .or_else(|| absolute(&environment.home).map(|home| home.join(".local/state")))
        .map(|state| state.join("peerlane"))
        .ok_or(JournalError::NoStateDirectory)
}

/// Returns the journal's path for a target that is a device: in `directory`, named after the
/// device's stable name, so it is found again under another kernel name.
///
/// # Errors
/// [`JournalError::NoStableId`] when the device has no stable name.
pub(crate) fn for_device(
    directory: &Path,
    device: &DeviceIdentity,
) -> Result<PathBuf, JournalError> {
    let id = device
        .primary_id()
        .ok_or_else(|| JournalError::NoStableId { name: device.name.clone() })?;
    let start = device.partition.map_or_else(String::new, |part| format!("-at-{}", part.start.0));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // The hash tells apart what the readable part, which is shortened and simplified, does not.
    let readable: String = id.value.chars().map(plain).take(48).collect();
    let digest = hash(format!("{} {}{start}", id.kind, id.value).as_bytes());
    Ok(directory.join(format!("{readable}{start}-{digest}.json")))
}

fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
}

/// Returns `name` with `ending` added.
pub(super) fn with_ending(name: &OsStr, ending: &str) -> OsString {
    let mut whole = name.to_owned();
    whole.push(ending);
    whole
}

#[cfg(test)]
mod tests {
    use peerlane_units::Bytes;

    use super::super::{IdKind, PartitionRange, StableId};
    use super::*;

    fn device(name: &str, serial: &str) -> DeviceIdentity {
        let ids = vec![StableId { kind: IdKind::Serial, value: serial.to_owned() }];
        DeviceIdentity {
            name: name.to_owned(),
            model: None,
            ids,
            size: Bytes::mib(1),
            partition: None,
        }
    }

    #[test]
    fn a_journal_of_a_file_is_hidden_beside_it() {
        let path = beside_file(Path::new("/data/set.bin")).unwrap();
        assert_eq!(path, Path::new("/data/.set.bin.peerlane-journal"));
        assert!(beside_file(Path::new("/")).is_err());
        assert!(beside_file(Path::new("/data/..")).is_err());
    }

    #[test]
    fn long_name_leaves_room_for_endings() {
        for length in 220..=255 {
            let name = "n".repeat(length);
            let path = beside_file(&Path::new("/data").join(&name)).unwrap();
            let journal = path.file_name().unwrap();
            assert!(journal.len() + ROOM_FOR_ENDINGS <= NAME_MAX, "{length}");
        }
        let one = beside_file(&Path::new("/").join("n".repeat(254))).unwrap();
        let other = beside_file(&Path::new("/").join("n".repeat(255))).unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn state_is_kept_where_the_environment_says() {
        let find = |xdg: Option<&str>, home: Option<&str>| {
            let environment = StateEnvironment {
                xdg_state_home: xdg.map(Into::into),
                home: home.map(Into::into),
            };
            state_directory(&environment).ok()
        };
        assert_eq!(find(Some("/s"), Some("/h")), Some("/s/peerlane".into()));
        assert_eq!(find(Some("s"), Some("/h")), Some("/h/.local/state/peerlane".into()));
        assert_eq!(find(None, Some("/h")), Some("/h/.local/state/peerlane".into()));
        assert_eq!(find(Some(""), Some("h")), None);
        assert_eq!(find(None, None), None);
    }

    #[test]
    fn a_device_has_one_journal_whatever_its_name() {
        let directory = Path::new("/s");
        let one = for_device(directory, &device("nvme0n1", "A/1 b")).unwrap();
        assert_eq!(one, for_device(directory, &device("nvme3n1", "A/1 b")).unwrap());
        assert_eq!(one.parent(), Some(directory));
        assert_ne!(one, for_device(directory, &device("nvme0n1", "A-1-b")).unwrap());
        let mut part = device("nvme0n1p1", "A/1 b");
        part.partition = Some(PartitionRange { start: Bytes::mib(1), size: Bytes::mib(1) });
        assert_ne!(one, for_device(directory, &part).unwrap());
        let mut unknown = device("loop0", "");
        unknown.ids.clear();
        assert!(matches!(
            for_device(directory, &unknown),
            Err(JournalError::NoStableId { name }) if name == "loop0"
        ));
    }
}
