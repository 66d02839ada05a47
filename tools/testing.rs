//! Needs of several crates' tests on the machine that they run on, and the loud way to go without.
//!
//! Included by its path, since a crate for it would be a line of its own in who may depend on whom.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Notes that the running test cannot run here, in the file that `PEERLANE_SKIP_LOG` names; a failure where
/// `PEERLANE_REQUIRE` names the thing that is missing.
pub(crate) fn skip(thing: &str, reason: &str) {
    let required = std::env::var("PEERLANE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|word| word.trim() == thing), "required: {thing}: {reason}");
    let thread = std::thread::current();
    let reason = reason.trim().replace('\n', " ");
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).expect("standard error");
    if let Some(log) = std::env::var_os("PEERLANE_SKIP_LOG") {
        let log = std::fs::File::options().create(true).append(true).open(log);
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("PEERLANE_SKIP_LOG");
    }
}

/// A program that signals stop: what runs the tests may have been started to ignore them, as by `nohup` or in the
/// background of a script, and programs inherit that.
pub(crate) fn heeding(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", program]);
    command
}

/// Copies a program into a folder, to be run there; its path.
///
/// By another program: what this process writes is open for writing in all that other tests start, until they run,
/// and a program that somebody may write does not run (`ETXTBSY`, execve(2)).
pub(crate) fn copy_program(program: &Path, folder: &Path) -> PathBuf {
    let status = Command::new("cp").arg(program).arg(folder).status().expect("cp");
    assert!(status.success(), "cp: {status}");
    folder.join(program.file_name().expect("a name"))
}

/// Output of a system program; `None`, with a skip, where it fails.
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
/// A program that a test starts has all open that its process has, until it runs: what another test has closed
/// meanwhile is in use for longer, and a device that is to be opened exclusively is refused.
pub(crate) struct Turn;

static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    static MINE: RefCell<(usize, Option<MutexGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

impl Turn {
    /// Waits until no other test has one; for a test that starts a program beside those that open devices.
    pub(crate) fn take() -> Self {
        MINE.with_borrow_mut(|(count, guard)| {
            if *count == 0 {
                *guard = Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
            }
            *count += 1;
        });
        Self
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
pub(crate) struct Loop(pub(crate) PathBuf, Turn);

impl Loop {
    /// `None`, with a skip, where none can be made.
    pub(crate) fn over(file: &Path) -> Option<Self> {
        let turn = Turn::take();
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(file);
        printed("loop", &mut command).map(|path| Self(path.into(), turn))
    }

    /// As a person types it.
    pub(crate) fn typed(&self) -> &str {
        self.0.to_str().expect("a name of the kernel's")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A tmpfs, unmounted on drop. A test that has one runs alone in its process.
pub(crate) struct Tmpfs(pub(crate) PathBuf, Turn);

impl Tmpfs {
    /// Mounts over a folder, which is created; `None`, with a skip, where nothing can be mounted.
    pub(crate) fn on(folder: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let turn = Turn::take();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "none"]).arg(folder);
        printed("mount", &mut command).map(|_| Self(folder.to_owned(), turn))
    }

    /// Unmounts it. Returns an error when it is busy; the mount is then detached on drop.
    pub(crate) fn unmount(mut self) -> Result<(), String> {
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
