//! Changes of configfs: a folder is an item, a file an attribute, a link a reference to another item.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Changes below the folder `nvmet` of configfs; paths are relative to it.
pub(crate) trait ConfigTree {
    fn make(&self, folder: &Path) -> io::Result<()>;
    fn write(&self, attribute: &Path, text: &str) -> io::Result<()>;
    fn read(&self, attribute: &Path) -> io::Result<String>;
    /// Links one item into a folder of another, under the name of the first.
    fn link(&self, item: &Path, into: &Path) -> io::Result<()>;
    fn unlink(&self, link: &Path) -> io::Result<()>;
    fn remove(&self, folder: &Path) -> io::Result<()>;
    fn has(&self, path: &Path) -> bool;
}

/// The configfs of the kernel.
#[derive(Debug)]
pub(crate) struct Configfs {
    /// Absolute.
    pub(crate) nvmet: PathBuf,
}

impl ConfigTree for Configfs {
    fn make(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(self.nvmet.join(folder))
    }

    fn write(&self, attribute: &Path, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.nvmet.join(attribute), flags, Mode::empty())?;
        // An attribute takes its text in one write.
        File::from(file).write_all(text.as_bytes())
    }

    fn read(&self, attribute: &Path) -> io::Result<String> {
        Ok(fs::read_to_string(self.nvmet.join(attribute))?.trim_end().to_owned())
    }

    fn link(&self, item: &Path, into: &Path) -> io::Result<()> {
        let name = item.file_name().unwrap_or_default();
        symlink(self.nvmet.join(item), self.nvmet.join(into).join(name))
    }

    fn unlink(&self, link: &Path) -> io::Result<()> {
        fs::remove_file(self.nvmet.join(link))
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(self.nvmet.join(folder))
    }

    fn has(&self, path: &Path) -> bool {
        self.nvmet.join(path).symlink_metadata().is_ok()
    }
}
