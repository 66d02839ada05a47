//! Loop devices and mounts, for one test at a time.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::skip;

/// Output of a system program; `None`, with a skip, if it fails.
fn printed(thing: &str, command: &mut Command) -> Option<String> {
    let reason = match command.output() {
        Ok(output) if output.status.success() => {
            return Some(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skip(thing, &format!("{}: {reason}", command.get_program().to_string_lossy()));
    None
}

/// Keeps other tests of this process from devices and mounts, whatever this one has of them.
///
/// A program that a test starts has all files of its process open until it runs: a device that
/// another test has closed meanwhile stays in use, and an exclusive open of it is refused.
#[derive(Debug)]
pub struct Turn(());

static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    static MINE: RefCell<(usize, Option<MutexGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

impl Turn {
    /// Waits until no other test has one; for a test that starts a program while others open devices.
    pub fn take() -> Self {
        MINE.with_borrow_mut(|(count, guard)| {
            if *count == 0 {
                *guard = Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
            }
            *count += 1;
        });
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        MINE.with_borrow_mut(|(count, guard)| {
            *count -= 1;
            if *count == 0 {
                *guard = None;
            }
        });
    }
}

/// A loop device over a file, given back at the end. A test that has one is the only one of its process.
#[derive(Debug)]
pub struct Loop(
    /// The device.
    pub PathBuf,
    Turn,
);

impl Loop {
    /// `None`, with a skip, if none can be made.
    pub fn over(file: &Path) -> Option<Self> {
        let turn = Turn::take();
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(file);
        printed("loop", &mut command).map(|path| Self(path.into(), turn))
    }

    /// As a person types it.
    pub fn typed(&self) -> &str {
        self.0.to_str().expect("a name of the kernel's")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A tmpfs, unmounted on drop. A test that has one runs alone in its process.
#[derive(Debug)]
pub struct Tmpfs(
    /// The folder that it is mounted on.
    pub PathBuf,
    Turn,
);

impl Tmpfs {
    /// Mounts over a folder, which is created; `None`, with a skip, if nothing can be mounted.
    pub fn on(folder: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let turn = Turn::take();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "none"]).arg(folder);
        printed("mount", &mut command).map(|_| Self(folder.to_owned(), turn))
    }

    /// Unmounts it; the mount is otherwise detached on drop.
    ///
    /// # Errors
    /// The words of `umount` where it is busy.
    pub fn unmount(mut self) -> Result<(), String> {
        let output = Command::new("umount").arg(&self.0).output().expect("umount");
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() {
            self.0.clear();
            return Ok(());
        }
        Err(said)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        }
    }
}
