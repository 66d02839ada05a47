//! A tree written to disk.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::{Snapshot, TreeEntry};

/// Writes a tree into a folder, which is made and must not be there.
///
/// # Errors
/// When it is there, or a file cannot be written.
pub fn write_folder(content: &Snapshot, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (path, entry) in content.iter() {
        let path = folder.join(path);
        match entry {
            TreeEntry::Folder(_) => fs::create_dir(&path)?,
            TreeEntry::Link(target) => symlink(target, &path)?,
            TreeEntry::File { bytes, mode } => {
                let mut file = fs::File::create_new(&path)?;
                // The person who captures must be able to read and to delete it.
                file.set_permissions(fs::Permissions::from_mode(mode | 0o600))?;
                io::Write::write_all(&mut file, bytes)?;
            }
        }
    }
    Ok(())
}
