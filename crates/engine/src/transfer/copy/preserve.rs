//! Metadata of a source file that its copy is to have as well: mode, times, owner, extended attributes.
//!
//! As `cp --preserve` does it: access control lists belong to the mode, and the label of a security
//! module is left to the target's policy. Owner and attributes are also tried before the first byte
//! moves, so a lack of permission or of support shows at once. All of it is set before the file
//! takes its name.

use std::ffi::{CStr, CString};
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use peerlane_results::Refusal;
use peerlane_units::Named;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use serde::Deserialize;

use super::CopyError;

/// Most bytes of one attribute, and of the list of their names
/// (Linux 7.2 `include/uapi/linux/limits.h`, `XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const XATTR_MAX: usize = 65536;
/// The access control list of a file: rights beyond its mode.
const ACL: &CStr = c"system.posix_acl_access";
/// Names that belong to the target's own policy, or to directories.
const LEFT_OUT: [&[u8]; 2] = [b"security.selinux", b"system.posix_acl_default"];

/// Metadata that may be preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadatum {
    /// Permissions, and the access control list.
    Mode,
    /// Times of the last access and the last change of content.
    Timestamps,
    /// Owner and group.
    Ownership,
    /// Extended attributes.
    Xattr,
}

impl Named for Metadatum {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("mode", Self::Mode),
        ("timestamps", Self::Timestamps),
        ("ownership", Self::Ownership),
        ("xattr", Self::Xattr),
    ];
}

/// Metadata that a copy takes over from its source, and their origin.
#[derive(Debug)]
pub(super) struct Preserved {
    wanted: Vec<Metadatum>,
    source: File,
    /// As it was before the copy read it.
    facts: Metadata,
}

impl Preserved {
    pub(super) fn read(
        wanted: &[Metadatum],
        source: &File,
        path: &Path,
    ) -> Result<Self, CopyError> {
        let facts = || Ok((source.try_clone()?, source.metadata()?));
        let (source, facts) = facts().map_err(named("look at the metadata of", path))?;
        Ok(Self { wanted: wanted.to_vec(), source, facts })
    }

    fn wants(&self, one: Metadatum) -> bool {
        self.wanted.contains(&one)
    }

    /// Sets metadata that the system may refuse; the file stays for its owner only.
    pub(super) fn try_on(&self, target: &File, path: &Path) -> Result<(), CopyError> {
        if self.wants(Metadatum::Ownership) {
            fchown(target, Some(self.facts.uid()), Some(self.facts.gid()))
                .map_err(named("preserve the ownership of", path))?;
        }
        if self.wants(Metadatum::Xattr) {
            self.xattrs(target).map_err(named("preserve the extended attributes of", path))?;
        }
        Ok(())
    }

    /// Sets all of it; `mode` is for a file that does not get the mode of its source.
    pub(super) fn finish(&self, target: &File, path: &Path, mode: u32) -> Result<(), CopyError> {
        // The owner first, since a change of it takes set-user-ID away (chown(2)).
        self.try_on(target, path)?;
        let wants_mode = self.wants(Metadatum::Mode);
        let mode = if wants_mode { self.facts.mode() & 0o7777 } else { mode };
        target
            .set_permissions(Permissions::from_mode(mode))
            .map_err(named("set the permissions of", path))?;
        if wants_mode {
            self.acl(target).map_err(named("preserve the access control list of", path))?;
        }
        if self.wants(Metadatum::Timestamps) {
            let times = || {
                let times = FileTimes::new().set_accessed(self.facts.accessed()?);
                target.set_times(times.set_modified(self.facts.modified()?))
            };
            times().map_err(named("preserve the timestamps of", path))?;
        }
        Ok(())
    }

    fn xattrs(&self, target: &File) -> io::Result<()> {
        for name in names(&self.source)? {
            let bytes = name.to_bytes();
            if name.as_c_str() == ACL || LEFT_OUT.contains(&bytes) {
                continue;
            }
            self.xattr(target, &name).map_err(|errno| {
                let error = io::Error::from(errno);
                io::Error::new(error.kind(), format!("{}: {error}", name.to_string_lossy()))
            })?;
        }
        Ok(())
    }

    fn xattr(&self, target: &File, name: &CStr) -> Result<(), Errno> {
        let mut value = vec![0; XATTR_MAX];
        let length = fgetxattr(&self.source, name, value.as_mut_slice())?;
        fsetxattr(target, name, &value[..length], XattrFlags::empty())
    }

    /// The source's list, or none: the directory may have given the new file one of its own.
    fn acl(&self, target: &File) -> io::Result<()> {
        let set = match self.xattr(target, ACL) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => fremovexattr(target, ACL),
            set => set,
        };
        match set {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Names of a file's extended attributes; none if its file system has no such thing.
fn names(file: &File) -> io::Result<Vec<CString>> {
    let mut list = vec![0; XATTR_MAX];
    let length = match flistxattr(file, list.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(errno.into()),
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| CString::new(name).map_err(io::Error::other)).collect()
}

fn named(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyError + use<> {
    let path = path.to_owned();
    move |source| CopyError::File { action, path, source }
}

/// A device has no metadata that a file could have, and the other way round.
pub(super) fn refuse_devices(
    wanted: &[Metadatum],
    are_devices: [bool; 2],
    paths: [&str; 2],
) -> Result<(), CopyError> {
    let device = are_devices.into_iter().zip(paths).find(|(is_device, _)| *is_device);
    match device {
        Some((_, path)) if !wanted.is_empty() => Err(CopyError::Refused(vec![Refusal {
            reason: format!("{path} is not a file: it has no metadata to preserve"),
            hint: Some("leave `--preserve` out".to_owned()),
            forceable: false,
        }])),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
