//! A tree of files in memory: of an archive, of a discovery, or of a fixture.
//!
//! Links are kept as texts and lead nowhere. Depth, count and size are bounded, since an archive may
//! come from anybody.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Most files, folders and links of a tree; ten thousand functions have about 250,000.
pub(crate) const MOST_ENTRIES: usize = 1 << 20;
/// Most bytes of all files of a tree; ten thousand configuration spaces have 40 MiB.
pub(crate) const MOST_BYTES: usize = 256 << 20;
/// Folders one below another: 256 buses, and the folders of a controller.
pub(crate) const DEEPEST: usize = 300;

/// A file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    /// A regular file.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link, with its text.
    Link(PathBuf),
    /// A folder.
    Folder(BTreeMap<String, TreeEntry>),
}

/// A tree of files in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    top: TreeEntry,
    entries: usize,
    bytes: usize,
}

/// The reason why something has no place in a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// The path is absolute, leads upwards, or is not UTF-8.
    #[error("`{}` leads out of the tree", .0.display())]
    Outside(PathBuf),
    /// A file stands where a folder should be, or the other way round, or the path is taken.
    #[error("`{}` already exists as something else", .0.display())]
    Taken(PathBuf),
    /// The path has too many folders.
    #[error("`{}` is more than {DEEPEST} folders deep", .0.display())]
    TooDeep(PathBuf),
    /// The tree has too many files.
    #[error("there are more than {MOST_ENTRIES} files")]
    TooMany,
    /// The files are too large together.
    #[error("there are more than {} MiB in files", MOST_BYTES >> 20)]
    TooLarge,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { top: TreeEntry::Folder(BTreeMap::new()), entries: 0, bytes: 0 }
    }
}

impl Snapshot {
    /// Puts an entry at a path below the root, with the folders above it.
    ///
    /// A folder may be put where one is; its entries stay.
    ///
    /// # Errors
    /// When it has no place there, or the tree would grow beyond its bounds.
    pub fn insert(&mut self, path: &Path, entry: TreeEntry) -> Result<(), NoPlace> {
        let names = names(path)?;
        let Some((last, above)) = names.split_last() else {
            return match entry {
                TreeEntry::Folder(_) => Ok(()),
                _ => Err(NoPlace::Taken(path.to_owned())),
            };
        };
        let bytes = match &entry {
            TreeEntry::File { bytes, .. } => bytes.len(),
            TreeEntry::Link(_) | TreeEntry::Folder(_) => 0,
        };
        if self.bytes + bytes > MOST_BYTES {
            return Err(NoPlace::TooLarge);
        }
        let mut folder = &mut self.top;
        let mut made = 0;
        for name in above {
            let TreeEntry::Folder(entries) = folder else {
                return Err(NoPlace::Taken(path.to_owned()));
            };
            if self.entries + made >= MOST_ENTRIES {
                return Err(NoPlace::TooMany);
            }
            folder = entries.entry((*name).to_owned()).or_insert_with(|| {
                made += 1;
                TreeEntry::Folder(BTreeMap::new())
            });
        }
        let TreeEntry::Folder(entries) = folder else {
            return Err(NoPlace::Taken(path.to_owned()));
        };
        match (entries.get(*last), &entry) {
            (None, _) => {
                if self.entries + made >= MOST_ENTRIES {
                    return Err(NoPlace::TooMany);
                }
                entries.insert((*last).to_owned(), entry);
                made += 1;
            }
            (Some(TreeEntry::Folder(_)), TreeEntry::Folder(_)) => {}
            _ => return Err(NoPlace::Taken(path.to_owned())),
        }
        self.entries += made;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes away the file or link at a path, if there is one.
    pub(crate) fn remove_file(&mut self, path: &Path) {
        let names = names(path).unwrap_or_default();
        let Some((last, above)) = names.split_last() else { return };
        let mut folder = &mut self.top;
        for name in above {
            let TreeEntry::Folder(entries) = folder else { return };
            let Some(entry) = entries.get_mut(*name) else { return };
            folder = entry;
        }
        let TreeEntry::Folder(entries) = folder else { return };
        match entries.get(*last) {
            Some(TreeEntry::File { bytes, .. }) => self.bytes -= bytes.len(),
            Some(TreeEntry::Link(_)) => {}
            Some(TreeEntry::Folder(_)) | None => return,
        }
        entries.remove(*last);
        self.entries -= 1;
    }

    /// Puts a file with sysfs's line end, readable by all.
    ///
    /// # Errors
    /// As [`Snapshot::insert`].
    pub fn text(&mut self, path: impl AsRef<Path>, text: &str) -> Result<(), NoPlace> {
        let entry = TreeEntry::File { bytes: format!("{text}\n").into_bytes(), mode: 0o444 };
        self.insert(path.as_ref(), entry)
    }

    /// The entry at a path; links on the way lead nowhere.
    pub fn get(&self, path: &Path) -> Option<&TreeEntry> {
        let mut at = &self.top;
        for name in names(path).ok()? {
            let TreeEntry::Folder(entries) = at else { return None };
            at = entries.get(name)?;
        }
        Some(at)
    }

    /// The tree below a folder of this one; an empty one where there is no such folder.
    pub(crate) fn below(mut self, folder: &Path) -> Self {
        let mut at = std::mem::replace(&mut self.top, TreeEntry::Folder(BTreeMap::new()));
        for name in names(folder).unwrap_or_default() {
            let TreeEntry::Folder(mut entries) = at else { return Self::default() };
            let Some(entry) = entries.remove(name) else { return Self::default() };
            at = entry;
        }
        match at {
            top @ TreeEntry::Folder(_) => Self { top, ..self },
            TreeEntry::File { .. } | TreeEntry::Link(_) => Self::default(),
        }
    }

    /// Every entry with its path, folders before their entries, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (PathBuf, &TreeEntry)> {
        let mut waiting = vec![(PathBuf::new(), &self.top)];
        std::iter::from_fn(move || {
            let (path, entry) = waiting.pop()?;
            if let TreeEntry::Folder(entries) = entry {
                waiting.extend(entries.iter().rev().map(|(name, at)| (path.join(name), at)));
            }
            Some((path, entry))
        })
        .skip(1)
    }
}

fn names(path: &Path) -> Result<Vec<&str>, NoPlace> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or_else(|| NoPlace::Outside(path.to_owned()))?);
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(NoPlace::Outside(path.to_owned()));
            }
        }
    }
    if names.len() > DEEPEST { Err(NoPlace::TooDeep(path.to_owned())) } else { Ok(names) }
}
