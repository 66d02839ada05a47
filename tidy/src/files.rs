//! The files of the repository: those git tracks or would track, else all below the root.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file with its content.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// Size in bytes.
    pub size: usize,
    /// Content; `None` when it is not UTF-8.
    pub text: Option<String>,
}

impl SourceFile {
    /// Makes a file out of a path and a text, for checks on planted content.
    #[must_use]
    pub fn planted(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), size: text.len(), text: Some(text.to_owned()) }
    }

    /// Returns the text, or nothing for a file that is not text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Returns whether the path ends in one of `extensions`.
    #[must_use]
    pub fn is_one_of(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().unwrap_or_default();
        extensions.iter().any(|wanted| extension == *wanted)
    }

    /// Returns whether the file is a script by its first line.
    #[must_use]
    pub fn is_script(&self) -> bool {
        self.text().starts_with("#!")
    }
}

/// Reads every file of the repository at `root`.
///
/// # Errors
/// When a folder or a file cannot be read.
pub fn read_all(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut paths = match list_by_git(root) {
        Some(paths) => paths,
        None => list_below(root)?,
    };
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let full = root.join(&path);
        // A file that git knows may be deleted in the working tree, or be a link.
        if !full.symlink_metadata().is_ok_and(|data| data.is_file()) {
            continue;
        }
        let bytes = std::fs::read(&full)?;
        let path = path.to_string_lossy().into_owned();
        files.push(SourceFile { path, size: bytes.len(), text: String::from_utf8(bytes).ok() });
    }
    Ok(files)
}

/// Asks git for tracked files and new ones that it would not ignore.
fn list_by_git(root: &Path) -> Option<Vec<PathBuf>> {
    // The owner of a clone may be another user; listing names runs nothing from it.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// Lists all files below `root` but build output, for a source tree without git.
fn list_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() && name != "target" && name != ".git" && name != ".lab" {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                paths.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_without_git_skips_target() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("target/debug")).unwrap();
        std::fs::create_dir_all(root.path().join("crates/x")).unwrap();
        std::fs::write(root.path().join("target/debug/a.rs"), "").unwrap();
        std::fs::write(root.path().join("crates/x/b.rs"), "fn b() {}\n").unwrap();
        std::fs::write(root.path().join("picture"), [0xff, 0xfe]).unwrap();
        let files = read_all(root.path()).unwrap();
        let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["crates/x/b.rs", "picture"]);
        assert_eq!(files[0].text(), "fn b() {}\n");
        assert!(files[1].text.is_none());
    }
}
