//! A tree as an archive, and back.
//!
//! Captures are tar archives compressed with Zstandard, the same for the same tree, byte for byte: names in
//! order, no times, no owners. Archives of other tools are read too, whatever compresses them and whatever
//! folder they have on top. Everything that grows is bounded, only files, folders and links are taken, and
//! nothing is written to disk.

mod compression;
mod entries;
mod error;
#[cfg(unix)]
mod folder;
mod top;

use std::io::{self, Read};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::EntryType;

pub use entries::is_archive;
pub use error::ArchiveError;
#[cfg(unix)]
pub use folder::write_folder;
pub(crate) use top::{MOST_FOLDERS_ON_TOP, folders_with_devices};

use crate::sysfs::snapshot::MOST_BYTES;
use crate::{Snapshot, TreeEntry};

/// Most bytes of the tar archive itself: its files, and two blocks of head for each of a machine.
const MOST_UNPACKED: u64 = MOST_BYTES as u64 * 2;
/// Length of a block of a tar archive.
const BLOCK: usize = 512;

/// Writes a tree as an archive.
///
/// # Errors
/// When a path has no place in a tar archive.
pub fn pack(content: &Snapshot) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, entry) in content.iter() {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        match entry {
            TreeEntry::Folder(_) => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                header.set_size(0);
                builder.append_data(&mut header, &path, io::empty())?;
            }
            TreeEntry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                builder.append_link(&mut header, &path, target)?;
            }
            TreeEntry::File { bytes, mode } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, &path, bytes.as_slice())?;
            }
        }
    }
    Ok(compress_to_vec(builder.into_inner()?.as_slice(), CompressionLevel::Fastest))
}

/// Reads a tree from an archive, compressed or not.
///
/// # Errors
/// When it is not an archive, holds entries that a tree cannot, or grows beyond its bounds.
pub fn unpack(bytes: impl Read) -> Result<Snapshot, ArchiveError> {
    let mut archive = compression::plain(bytes)?.take(MOST_UNPACKED);
    let mut head = Vec::new();
    archive.by_ref().take(BLOCK as u64).read_to_end(&mut head).map_err(ArchiveError::of_stream)?;
    // An archive of nothing begins with its end, blocks of zeros.
    let is_end = head.iter().all(|&byte| byte == 0);
    if !is_end && !entries::is_header(&head) {
        return Err(ArchiveError::NoArchive);
    }
    let mut whole = io::Cursor::new(head).chain(archive);
    let content = entries::read(&mut whole);
    let (_, mut archive) = whole.into_inner();
    // A reader that is cut off takes the archive for damaged.
    if content.is_err() && archive.limit() == 0 {
        return Err(ArchiveError::TooLarge);
    }
    let content = content?;
    // Sums of what was compressed stand behind the end of the archive in it.
    io::copy(&mut archive, &mut io::sink()).map_err(ArchiveError::of_stream)?;
    Ok(content)
}

/// Reads the machine in an archive: the tree below the folder that has `sys/devices`, which may be a folder
/// on top, such as `host-2024`.
///
/// # Errors
/// As [`unpack`], and when no folder has one, or several have.
pub fn unpack_machine(bytes: impl Read) -> Result<Snapshot, ArchiveError> {
    top::of_machine(unpack(bytes)?)
}
