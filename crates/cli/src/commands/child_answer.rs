//! Questions that may crash or hang their process, answered by this program in another one.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_units::Nanos;
use serde::de::DeserializeOwned;

/// Pause between two looks whether the process has ended.
const NAP: Duration = Duration::from_millis(5);

/// Standard output of the process, and its exit status.
#[derive(Debug)]
pub(super) struct ChildAnswer {
    output: Vec<u8>,
    /// `None` for a process that was ended at the deadline.
    status: Option<ExitStatus>,
    deadline: Nanos,
}

impl ChildAnswer {
    /// Runs a hidden command with `--json`; `add` gives it its name, arguments and environment.
    ///
    /// # Errors
    /// When no process can be started.
    pub(super) fn from_command(
        deadline: Nanos,
        add: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let output = folder.path().join("answer");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--json").stdin(Stdio::null()).stderr(Stdio::null());
        add(command.stdout(File::create(&output)?));
        let status = wait(command.spawn()?, deadline)?;
        Ok(Self { output: fs::read(&output)?, status, deadline })
    }

    /// The object that was printed; `None` where the process ended before.
    pub(super) fn object<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.output).ok()
    }

    pub(super) fn is_late(&self) -> bool {
        self.status.is_none()
    }

    /// The reason for there being no object; `who` ended the process, or did not answer.
    pub(super) fn fault(&self, who: &str) -> String {
        match self.status.map(|status| status.signal()) {
            Some(Some(signal)) => format!("{who} ended its process (signal {signal})"),
            Some(None) => format!("{who} ended its process"),
            None => format!("{who} did not answer within {} s", self.deadline.0 / 1_000_000_000),
        }
    }
}

/// Waits until the process has ended, and ends it at the deadline: `None` then. A process in the driver may outlive that.
fn wait(mut child: Child, deadline: Nanos) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < Duration::from(deadline) {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(NAP);
    }
    child.kill()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_process_is_ended() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait(child, Nanos(20_000_000)).unwrap(), None);
        let child = Command::new("true").spawn().unwrap();
        assert!(wait(child, Nanos::seconds(60)).unwrap().is_some_and(|status| status.success()));
    }
}
