//! Target files that were not there: made with their whole room before anything moves, to find a
//! full disk at once, and removed again if the measurement fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::planned::PlannedFlow;
use super::{MeasureError, Result};
use crate::endpoints::PathNode;
use crate::transfer::copy::grow;

/// Files that were made; they are removed when this is dropped, unless they are kept.
#[derive(Debug, Default)]
pub struct Made(Vec<MadeFile>);

#[derive(Debug)]
struct MadeFile {
    typed: String,
    path: PathBuf,
    file: File,
}

impl Made {
    /// Makes the target files of these flows that were not there when they were looked at, each with room
    /// for all that is written to it.
    ///
    /// # Errors
    /// When a file came into being meanwhile, cannot be made, or has no room; files made so far are
    /// removed.
    pub fn targets<'a>(flows: impl IntoIterator<Item = &'a PlannedFlow>) -> Result<Self> {
        let mut ends: Vec<(&str, &Path, u64)> = Vec::new();
        for flow in flows {
            let live = flow.target.storage().and_then(|end| end.live.as_ref());
            let Some(live) = live.filter(|live| live.node == PathNode::NewFile) else { continue };
            let end = flow.flow.target_offset.0.saturating_add(flow.flow.bytes.0);
            match ends.iter_mut().find(|one| one.1 == live.path) {
                Some(one) => one.2 = one.2.max(end),
                None => ends.push((&flow.flow.target, &live.path, end)),
            }
        }
        let mut made = Self::default();
        for (typed, path, end) in ends {
            let failed = |action| MeasureError::file(action, path);
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create_new(true);
            let file = options.open(path).map_err(failed("make"))?;
            made.0.push(MadeFile { typed: typed.to_owned(), path: path.to_owned(), file });
            let Some(one) = made.0.last() else { continue };
            grow(&one.file, end).map_err(failed("reserve space for"))?;
        }
        Ok(made)
    }

    /// The names of the files, as typed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.typed.as_str())
    }

    /// Leaves the files where they are.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for one in &self.0 {
            // A name that is another file's by now is left alone, and so is one that is gone.
            if is_still(one).unwrap_or(false) {
                let _ = std::fs::remove_file(&one.path);
            }
        }
    }
}

fn is_still(one: &MadeFile) -> io::Result<bool> {
    let (made, named) = (one.file.metadata()?, std::fs::symlink_metadata(&one.path)?);
    Ok((made.dev(), made.ino()) == (named.dev(), named.ino()))
}
