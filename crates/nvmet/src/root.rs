//! Bounded reads below a root, without following symbolic links.
//!
//! Configfs and sysfs need no link to be followed. A link in a made-up or captured tree can
//! therefore lead nowhere else.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{ReadError, is_absence};

/// Largest attribute of configfs (`SIMPLE_ATTR_SIZE`, fs/configfs/file.c).
pub(crate) const MAX_ATTRIBUTE_BYTES: u64 = 4096;

/// Most entries of a folder that are read. A subsystem serves at most 1024 namespaces
/// (`NVMET_MAX_NAMESPACES`, drivers/nvme/target/nvmet.h); subsystems have no bound.
pub(crate) const MAX_FOLDER_ENTRIES: usize = 16 * 1024;

/// A folder that stands for `/`.
#[derive(Debug)]
pub(crate) struct NvmetRoot {
    path: PathBuf,
}

impl NvmetRoot {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns whether paths below the root are those of this machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// Returns the full path of `path`, for messages.
    pub(crate) fn full(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// Reads the first line of an attribute, without its newline.
    pub(crate) fn attribute(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let mut bytes = self.file(path, MAX_ATTRIBUTE_BYTES)?;
        bytes.truncate(bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len()));
        Ok(bytes)
    }

    /// Reads a regular file of at most `limit` bytes.
    pub(crate) fn file(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        let error = |source| ReadError::Io { path: self.full(path), source };
        let full = self.find(path, Metadata::is_file, "not a regular file").map_err(error)?;
        let mut bytes = Vec::new();
        read_at_most(&full, limit, &mut bytes).map_err(error)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
            return Ok(bytes);
        }
        Err(ReadError::TooLarge { path: full, limit })
    }

    /// Returns the names in a folder, sorted.
    pub(crate) fn names(&self, path: &Path) -> Result<Vec<OsString>, ReadError> {
        let error = |source| ReadError::Io { path: self.full(path), source };
        let full = self.find(path, Metadata::is_dir, "not a folder").map_err(error)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&full).map_err(error)? {
            if names.len() == MAX_FOLDER_ENTRIES {
                return Err(ReadError::TooManyEntries { path: full, limit: MAX_FOLDER_ENTRIES });
            }
            names.push(entry.map_err(error)?.file_name());
        }
        names.sort();
        Ok(names)
    }

    /// Returns the text of a symbolic link.
    pub(crate) fn link(&self, path: &Path) -> Result<PathBuf, ReadError> {
        self.find(path, Metadata::is_symlink, "not a symbolic link")
            .and_then(fs::read_link)
            .map_err(|source| ReadError::Io { path: self.full(path), source })
    }

    /// Returns whether a folder is there.
    pub(crate) fn has_folder(&self, path: &Path) -> Result<bool, ReadError> {
        match self.find(path, Metadata::is_dir, "not a folder") {
            Ok(_) => Ok(true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(source) => Err(ReadError::Io { path: self.full(path), source }),
        }
    }

    /// Returns the full path of something whose parents are real folders.
    fn find(
        &self,
        path: &Path,
        is_expected: impl Fn(&Metadata) -> bool,
        fault: &'static str,
    ) -> io::Result<PathBuf> {
        let mut full = self.path.clone();
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let Component::Normal(name) = component else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not below the root"));
            };
            full.push(name);
            let found = fs::symlink_metadata(&full)?;
            if components.peek().is_none() && !is_expected(&found) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
            }
            if components.peek().is_some() && found.is_symlink() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "below a symbolic link"));
            }
        }
        Ok(full)
    }
}

/// Reads at most one byte more than `limit`, to let the caller detect a longer file.
fn read_at_most(path: &Path, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    // Neither a link nor a pipe that took the file's place in between can lead away or block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    file.take(limit.saturating_add(1)).read_to_end(bytes)?;
    Ok(())
}

/// Returns bytes of a file as a path.
pub(crate) fn to_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Returns a path from `/` as one below the root.
pub(crate) fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
