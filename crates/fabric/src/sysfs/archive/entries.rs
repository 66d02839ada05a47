//! The entries of a tar archive, one by one.
//!
//! Long names of GNU tar and records of the pax format are read here, since a reader that puts these together
//! by itself does so without a bound. Devices and pipes are passed over, and so are files that are too large,
//! unless they lie where discovery would read them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::EntryType;

use super::{ArchiveError, BLOCK, MOST_FOLDERS_ON_TOP, compression};
use crate::sysfs::list;
use crate::{NoPlace, Snapshot, TreeEntry};

/// Of a file no more is read; no attribute of sysfs and no kernel configuration is larger.
const LONGEST_FILE: u64 = 4 << 20;
/// Longest name that the kernel takes (`PATH_MAX`).
const LONGEST_NAME: u64 = 4096;
/// Longest list of pax records of an entry: both names, and times.
const LONGEST_RECORDS: u64 = 16 << 10;
/// Magic word in the first block of a tar archive, and its offset (POSIX.1-2024, pax, ustar
/// interchange format).
const TAR: &[u8] = b"ustar";
const TAR_AT: usize = 257;
/// Place of the checksum in a header, the only mark of older archives.
const SUM: std::ops::Range<usize> = 148..156;
/// The name that GNU tar gives to an entry that holds a long name or link.
const LONG_LINK: &str = "././@LongLink";

/// Returns whether a block is the header of an entry.
pub(super) fn is_header(block: &[u8]) -> bool {
    block.get(TAR_AT..).is_some_and(|rest| rest.starts_with(TAR)) || has_sum(block)
}

/// Returns whether a file that begins with `head` is an archive of a kind that is read here.
pub fn is_archive(head: &[u8]) -> bool {
    compression::is_compressed(head) || is_header(head)
}

/// Returns whether a block holds its own sum, with spaces in its place (pax, ustar, `chksum`).
fn has_sum(block: &[u8]) -> bool {
    let (Some(block), Some(field)) = (block.get(..BLOCK), block.get(SUM)) else { return false };
    let digits = field.iter().copied().skip_while(|&byte| byte == b' ');
    let digits: String = digits.take_while(u8::is_ascii_digit).map(char::from).collect();
    let outside = |at: &usize| !SUM.contains(at);
    let sum: u32 = (0..BLOCK).filter(outside).map(|at| u32::from(block[at])).sum();
    let spaces = u32::from(b' ') * 8;
    u32::from_str_radix(&digits, 8).is_ok_and(|stated| stated == sum + spaces)
}

/// Names that stand before the entry they belong to.
#[derive(Debug, Default)]
struct NamesAhead {
    name: Option<PathBuf>,
    link: Option<PathBuf>,
}

/// Reads every entry.
pub(super) fn read(archive: impl Read) -> Result<Snapshot, ArchiveError> {
    let mut archive = tar::Archive::new(archive);
    let mut content = Snapshot::default();
    let mut ahead = NamesAhead::default();
    for entry in archive.entries().map_err(ArchiveError::of_tar)?.raw(true) {
        let mut entry = entry.map_err(ArchiveError::of_tar)?;
        if ahead.takes(&mut entry)? {
            continue;
        }
        let NamesAhead { name, link } = std::mem::take(&mut ahead);
        let path = match name {
            Some(name) => name,
            None => entry.path().map_err(ArchiveError::of_tar)?.into_owned(),
        };
        // Discovery reads names that are UTF-8.
        if path.to_str().is_none() {
            continue;
        }
        let Some(found) = taken(&mut entry, &path, link, &content)? else { continue };
        // Where an archive has a file twice, the last one counts.
        if !matches!(found, TreeEntry::Folder(_)) {
            content.remove_file(&path);
        }
        content.insert(&path, found).map_err(ArchiveError::Place)?;
    }
    Ok(content)
}

impl NamesAhead {
    /// Keeps names that an entry gives to the next one; `false` for an entry of its own.
    fn takes(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<bool, ArchiveError> {
        let path = entry.path().map_err(ArchiveError::of_tar)?.into_owned();
        match entry.header().entry_type() {
            EntryType::GNULongName => self.name = Some(name_in(entry, &path)?),
            EntryType::GNULongLink => {
                self.link = Some(name_in(entry, &path)?);
                let own = Some(path).filter(|path| path != Path::new(LONG_LINK));
                self.name = self.name.take().or(own);
            }
            EntryType::XHeader => self.records(&short(entry, &path, LONGEST_RECORDS)?)?,
            EntryType::XGlobalHeader => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads pax records, `LENGTH KEY=VALUE` and a line end (POSIX.1-2024, pax, pax extended header).
    fn records(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            let damaged =
                || ArchiveError::Damaged("a record of the pax format is cut off".to_owned());
            let space = bytes.iter().position(|&byte| byte == b' ').ok_or_else(damaged)?;
            let length =
                std::str::from_utf8(&bytes[..space]).ok().and_then(|text| text.parse().ok());
            let record = length.and_then(|length: usize| bytes.get(space + 1..length));
            let record =
                record.and_then(|record| record.strip_suffix(b"\n")).ok_or_else(damaged)?;
            bytes = &bytes[space + 1 + record.len() + 1..];
            let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(damaged)?;
            let value = || path_of(&record[equals + 1..]);
            match &record[..equals] {
                b"path" => self.name = Some(value()),
                b"linkpath" => self.link = Some(value()),
                key if key.starts_with(b"GNU.sparse.") => {
                    let what = "it holds a file with holes; `tar` without --sparse writes none";
                    return Err(ArchiveError::Damaged(what.to_owned()));
                }
                // Times, owners and other attributes.
                _ => {}
            }
        }
        Ok(())
    }
}

/// The content of an entry; `None` for one that is passed over.
fn taken(
    entry: &mut tar::Entry<'_, impl Read>,
    path: &Path,
    link: Option<PathBuf>,
    before: &Snapshot,
) -> Result<Option<TreeEntry>, ArchiveError> {
    let own_link =
        entry.link_name().map_err(ArchiveError::of_tar)?.map(std::borrow::Cow::into_owned);
    let link = link.or(own_link).unwrap_or_default();
    let refused = match entry.header().entry_type() {
        EntryType::Directory => return Ok(Some(TreeEntry::Folder(BTreeMap::new()))),
        EntryType::Symlink => return Ok(Some(TreeEntry::Link(link))),
        EntryType::Link => return same(path, &link, before).map(Some),
        EntryType::Regular | EntryType::Continuous if entry.size() <= LONGEST_FILE => {
            let mode = entry.header().mode().map_err(ArchiveError::of_tar)? & 0o777;
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(ArchiveError::of_tar)?;
            return Ok(Some(TreeEntry::File { bytes, mode }));
        }
        EntryType::Regular | EntryType::Continuous => {
            ArchiveError::TooLong { path: path.to_owned(), bytes: entry.size() }
        }
        kind => ArchiveError::Kind { path: path.to_owned(), kind: kind_name(kind) },
    };
    if is_read(path) { Err(refused) } else { Ok(None) }
}

/// The entry that a hard link names, which comes before it.
fn same(path: &Path, link: &Path, before: &Snapshot) -> Result<TreeEntry, ArchiveError> {
    match before.get(link) {
        Some(found @ (TreeEntry::File { .. } | TreeEntry::Link(_))) => Ok(found.clone()),
        _ if link.components().any(|part| part == std::path::Component::ParentDir) => {
            Err(ArchiveError::Place(NoPlace::Outside(link.to_owned())))
        }
        _ => Err(ArchiveError::Damaged(format!(
            "{} is a hard link to {}, which is not before it",
            path.display(),
            link.display()
        ))),
    }
}

/// Returns whether discovery reads a path, below the folders that an archive may have on top.
fn is_read(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().filter(|part| *part != ".").collect();
    (0..parts.len().min(MOST_FOLDERS_ON_TOP + 1))
        .any(|top| list::item_of(&parts[top..].iter().collect::<PathBuf>()).is_some())
}

/// The name or link that stands in the content of an entry, ended by a zero.
fn name_in(entry: &mut tar::Entry<'_, impl Read>, path: &Path) -> Result<PathBuf, ArchiveError> {
    let mut name = short(entry, path, LONGEST_NAME)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.truncate(end);
    Ok(path_of(&name))
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;

    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

/// A name where the system's names are Unicode.
#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}

/// The content of an entry that must not be longer than `most`.
fn short(
    entry: &mut tar::Entry<'_, impl Read>,
    path: &Path,
    most: u64,
) -> Result<Vec<u8>, ArchiveError> {
    let length = entry.size();
    if length > most {
        return Err(ArchiveError::TooLong { path: path.to_owned(), bytes: length });
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(ArchiveError::of_tar)?;
    Ok(bytes)
}

fn kind_name(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Char => "character device",
        EntryType::Block => "block device",
        EntryType::Fifo => "pipe",
        EntryType::GNUSparse => "file with holes",
        _ => "thing that no capture has",
    }
}
