//! A tree as a tar archive compressed with Zstandard, and back.
//!
//! What is written is the same for the same tree, byte for byte: names in order, no times, no owners.
//! What is read may come from anybody: everything that grows is bounded, only files, folders and
//! links are taken, and nothing is written to disk.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::EntryType;

use crate::sysfs::snapshot::MOST_BYTES;
use crate::{Entry, NoPlace, Snapshot};

/// Of a file no more is read; no attribute of sysfs and no kernel configuration is larger.
const LONGEST_FILE: u64 = 4 << 20;
/// Most bytes of the tar archive itself: its files, and two blocks of head for each of a machine.
const MOST_UNPACKED: u64 = MOST_BYTES as u64 * 2;
/// The first bytes of a Zstandard frame (RFC 8878 section 3.1.1).
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What stands in the first block of a tar archive (POSIX.1-2024, pax, ustar interchange format), and
/// where.
const TAR: &[u8] = b"ustar";
const TAR_AT: usize = 257;
/// Length of a block.
const BLOCK: u64 = 512;
/// Longest name that the kernel takes (`PATH_MAX`).
const LONGEST_NAME: u64 = 4096;
/// The name that GNU tar gives to an entry that holds a long name or link.
const LONG_LINK: &str = "././@LongLink";

/// Why something is no archive of a capture.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It could not be read.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// It is neither compressed nor a tar archive.
    #[error("it is neither a tar archive nor one that is compressed with Zstandard")]
    NoArchive,
    /// It is damaged.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// It is not compressed as it should be.
    #[error("cannot uncompress the archive: {0}")]
    Compression(String),
    /// Something in it has no place in a tree.
    #[error("cannot use the archive")]
    Place(#[source] NoPlace),
    /// Something in it is neither a file nor a folder nor a symbolic link.
    #[error("cannot use the archive: `{}` is a {kind}", path.display())]
    Kind {
        /// Its path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A file in it is larger than any that a capture has.
    #[error("cannot use the archive: `{}` has {bytes} bytes, which is more than a capture has there", path.display())]
    TooLong {
        /// Its path.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
}

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
            Entry::Folder(_) => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                header.set_size(0);
                builder.append_data(&mut header, &path, io::empty())?;
            }
            Entry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                builder.append_link(&mut header, &path, target)?;
            }
            Entry::File { bytes, mode } => {
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
/// When it is no archive, holds what a tree does not, or grows beyond its bounds.
pub fn unpack(mut bytes: impl Read) -> Result<Snapshot, ArchiveError> {
    let mut head = Vec::new();
    bytes.by_ref().take(BLOCK).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    let is_compressed = head.starts_with(&ZSTANDARD);
    let is_tar = head.get(TAR_AT..).is_some_and(|rest| rest.starts_with(TAR));
    if !is_compressed && !is_tar && !head.is_empty() {
        return Err(ArchiveError::NoArchive);
    }
    let whole = io::Cursor::new(head).chain(bytes);
    if is_compressed {
        let frame = StreamingDecoder::new(whole)
            .map_err(|error| ArchiveError::Compression(error.to_string()))?;
        entries(frame.take(MOST_UNPACKED))
    } else {
        entries(whole.take(MOST_UNPACKED))
    }
}

/// Reads the entries one by one, long names among them, since a reader that puts these together by
/// itself does so without a bound.
fn entries(archive: impl Read) -> Result<Snapshot, ArchiveError> {
    let mut archive = tar::Archive::new(archive);
    let mut content = Snapshot::default();
    let (mut long_name, mut long_link) = (None, None);
    for entry in archive.entries().map_err(damage)?.raw(true) {
        let mut entry = entry.map_err(damage)?;
        let path = match long_name.take() {
            Some(path) => path,
            None => entry.path().map_err(damage)?.into_owned(),
        };
        let kind = entry.header().entry_type();
        let found = match kind {
            EntryType::GNULongName => {
                long_name = Some(PathBuf::from(OsString::from_vec(name_in(&mut entry, &path)?)));
                continue;
            }
            EntryType::GNULongLink => {
                long_link = Some(PathBuf::from(OsString::from_vec(name_in(&mut entry, &path)?)));
                long_name = Some(path).filter(|path| path != Path::new(LONG_LINK));
                continue;
            }
            EntryType::Directory => Entry::Folder(std::collections::BTreeMap::new()),
            EntryType::Symlink => {
                let target = entry.link_name().map_err(damage)?;
                let target = target.map(std::borrow::Cow::into_owned).unwrap_or_default();
                Entry::Link(long_link.take().unwrap_or(target))
            }
            EntryType::Regular | EntryType::Continuous => file(&mut entry, &path)?,
            EntryType::XGlobalHeader => continue,
            kind => return Err(ArchiveError::Kind { path, kind: kind_name(kind) }),
        };
        content.insert(&path, found).map_err(ArchiveError::Place)?;
        long_link = None;
    }
    Ok(content)
}

fn file(entry: &mut tar::Entry<'_, impl Read>, path: &Path) -> Result<Entry, ArchiveError> {
    let length = entry.size();
    if length > LONGEST_FILE {
        return Err(ArchiveError::TooLong { path: path.to_owned(), bytes: length });
    }
    let mode = entry.header().mode().map_err(damage)? & 0o777;
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(damage)?;
    Ok(Entry::File { bytes, mode })
}

/// The name or link that stands in the content of an entry, ended by a zero.
fn name_in(entry: &mut tar::Entry<'_, impl Read>, path: &Path) -> Result<Vec<u8>, ArchiveError> {
    let length = entry.size();
    if length > LONGEST_NAME {
        return Err(ArchiveError::TooLong { path: path.to_owned(), bytes: length });
    }
    let mut name = Vec::new();
    entry.read_to_end(&mut name).map_err(damage)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.truncate(end);
    Ok(name)
}

/// What the system says of a file stands for itself; what the archive makes the reader say holds pieces
/// of it, and is cut to a line.
fn damage(error: io::Error) -> ArchiveError {
    const LONGEST: usize = 80;
    if error.raw_os_error().is_some() {
        return ArchiveError::Read(error);
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    ArchiveError::Damaged(line.chars().take(LONGEST).collect())
}

fn kind_name(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "hard link",
        EntryType::Char => "character device",
        EntryType::Block => "block device",
        EntryType::Fifo => "pipe",
        EntryType::GNUSparse => "file with holes",
        EntryType::XHeader => "head of the pax format; `tar --format=gnu` writes none",
        _ => "thing that no capture has",
    }
}

/// Writes a tree into a folder, which is made and must not be there.
///
/// # Errors
/// When it is there, or a file cannot be written.
pub fn write_folder(content: &Snapshot, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (path, entry) in content.iter() {
        let path = folder.join(path);
        match entry {
            Entry::Folder(_) => fs::create_dir(&path)?,
            Entry::Link(target) => symlink(target, &path)?,
            Entry::File { bytes, mode } => {
                let mut file = fs::File::create_new(&path)?;
                // One who captures must be able to look at it and to delete it.
                file.set_permissions(fs::Permissions::from_mode(mode | 0o600))?;
                io::Write::write_all(&mut file, bytes)?;
            }
        }
    }
    Ok(())
}
