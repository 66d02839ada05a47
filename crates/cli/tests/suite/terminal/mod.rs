//! The program at a terminal.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Longest wait for the program to say or do something.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A program whose standard input and standard error are a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) keys: File,
    pub(crate) child: Child,
    pub(crate) shown: String,
}

impl Terminal {
    /// Starts `peerlane` with `typed` typed already.
    pub(crate) fn start(folder: &Path, words: &[&str], typed: &str) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&main).expect("leave to use it");
        unlockpt(&main).expect("leave to open it");
        let name = ptsname(&main, Vec::new()).expect("its name");
        let name = name.to_str().expect("a plain name");
        let open = || File::options().read(true).write(true).open(name).expect("the other side");
        let side = open();
        let mut keys = File::from(main);
        keys.write_all(typed.as_bytes()).expect("room for keys");
        let child = peerlane_testing::heeding("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_peerlane")])
            .args(words)
            .current_dir(folder)
            .env("NO_COLOR", "1")
            // One that can go back in a line, whatever the tests are run from.
            .env("TERM", "xterm")
            .stdin(OwnedFd::from(open()))
            .stderr(OwnedFd::from(open()))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        drop(side);
        Self { keys, child, shown: String::new() }
    }

    /// Reads until `end` was shown, or until the program lets go of the terminal.
    pub(crate) fn read_until(&mut self, end: &str) -> bool {
        let start = Instant::now();
        while !self.shown.contains(end) {
            let left = DEADLINE.checked_sub(start.elapsed()).expect("an answer in time");
            let left = Timespec::try_from(left).expect("a short time");
            let mut events = [PollFd::new(&self.keys, PollFlags::IN)];
            poll(&mut events, Some(&left)).expect("a terminal");
            let mut bytes = [0; 4096];
            match self.keys.read(&mut bytes) {
                // Linux answers so where nobody has the other side open.
                Err(error) if error.raw_os_error() == Some(5) => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => {
                    let text = &bytes[..length.expect("text")];
                    self.shown.push_str(&String::from_utf8_lossy(text).replace('\r', ""));
                }
            }
        }
        true
    }

    /// Waits for the question, answers it, and returns all that was shown and the exit status.
    pub(crate) fn answer(mut self, keys: &str) -> (String, Option<i32>) {
        assert!(self.read_until("stops: "), "{}", self.shown);
        self.keys.write_all(keys.as_bytes()).expect("room for keys");
        self.end()
    }

    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        assert!(!self.read_until("\0"));
        let status = self.child.wait().expect("an end");
        (self.shown, status.code())
    }

    /// Ends the program as Ctrl-C does.
    pub(crate) fn interrupt(mut self) {
        self.keys.write_all(b"\x03").expect("room for keys");
        self.end();
    }
}
