//! What tests need root for, and a loud way to go without.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that a test did not run and why, and notes it in the file that `PEERLANE_SKIP_LOG` names.
fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {}\n", reason.trim().replace('\n', " "));
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("PEERLANE_SKIP_LOG") {
        let mut log = std::fs::File::options().create(true).append(true).open(path).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

/// Runs a program as root; `None`, with a loud skip, where it must not or does not work.
fn as_root(test: &str, what: &str, command: &mut Command) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        skip(test, &format!("needs root to {what}"));
        return None;
    }
    match command.output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            skip(test, &format!("cannot {what}: {reason}"));
            None
        }
        Err(error) => {
            skip(test, &format!("cannot {what}: {error}"));
            None
        }
    }
}

/// A loop device over a file, given back at the end.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    pub(crate) fn over(test: &str, file: &Path) -> Option<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(file);
        as_root(test, "set up a loop device", &mut command).map(|path| Self(path.into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A file system in memory, taken down at the end.
pub(crate) struct Tmpfs(PathBuf);

impl Tmpfs {
    pub(crate) fn on(test: &str, folder: &Path, options: &str) -> Option<Self> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder);
        as_root(test, "mount a file system", &mut command).map(|_| Self(folder.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
