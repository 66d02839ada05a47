//! A file as a block device.

use std::path::Path;
use std::process::Command;

use crate::lab::skip;

/// A loop device over a file, given back at the end.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    /// `None`, with the reason in the skip log, where none can be made.
    pub(crate) fn over(file: &Path) -> Option<Self> {
        match Command::new("losetup").args(["--find", "--show"]).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
            }
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr);
                skip("loop", &format!("no loop device: {}", reason.trim()));
                None
            }
            Err(error) => {
                skip("loop", &format!("no losetup: {error}"));
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
