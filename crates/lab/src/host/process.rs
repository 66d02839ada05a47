//! QEMU as a process that cannot outlive the run.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::{LabError, tools};

const STDERR: &str = "qemu.stderr";

/// A running QEMU; killed when dropped.
pub(super) struct Qemu {
    child: Child,
    /// Readable once the process has ended.
    pub(super) exit: OwnedFd,
    stderr: PathBuf,
    /// Settings of the terminal that QEMU was given.
    terminal: Option<Termios>,
}

impl Qemu {
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        folder: &Path,
        on_terminal: bool,
    ) -> Result<Self, LabError> {
        let program = program.canonicalize().map_err(LabError::io("run", program))?;
        let mut command = tools::bound_command(&program);
        let stderr = folder.join(STDERR);
        let log = File::create(&stderr).map_err(LabError::io("create", &stderr))?;
        command.args(arguments).current_dir(folder).stderr(log);
        let mut terminal = None;
        if on_terminal {
            terminal = tcgetattr(std::io::stdin()).ok();
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let mut child = command.spawn().map_err(LabError::io("run", &program))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let exit = pid
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(LabError::os("watch QEMU"));
        match exit {
            Ok(exit) => Ok(Self { child, exit, stderr, terminal }),
            Err(error) => {
                // Already on the way out with an error that says more.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Waits for the end, which `exit` has announced, or that [`Self::kill`] brings.
    pub(super) fn wait(&mut self) -> Result<ExitStatus, LabError> {
        self.child.wait().map_err(LabError::os("wait for QEMU"))
    }

    pub(super) fn kill(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
    }

    /// The last lines that QEMU wrote to its standard error, on one line.
    pub(super) fn complaint(&self) -> String {
        const LINES: usize = 4;
        let bytes = fs::read(&self.stderr).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("; ")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
        if let Some(settings) = &self.terminal {
            // QEMU restores them itself unless it was killed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, settings);
        }
    }
}
