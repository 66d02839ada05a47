//! A process that is sent a signal at a moment, and its output.

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for the program.
const DEADLINE: Duration = Duration::from_secs(120);

/// Time of the signal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// A time after progress said that so many bytes are moved.
    Moved { bytes: u64, then: Duration },
    /// A time after the start.
    Time(Duration),
    /// After so many names were made, moved or removed in the target's directory.
    Names(u32),
}

/// End of a process.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) status: ExitStatus,
    /// Standard error without progress.
    pub(crate) said: String,
    /// True when the signal was sent before it ended.
    pub(crate) is_struck: bool,
}

/// Runs a command in `folder` and sends it `signals`, one directly after the other, at the moment.
pub(crate) fn strike(
    command: &mut Command,
    folder: &Path,
    moment: Moment,
    signals: &[Signal],
) -> EndedProcess {
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let events = inotify::init(flags).expect("inotify");
    let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
    inotify::add_watch(&events, folder, watched).expect("a watch");
    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stderr = File::from(OwnedFd::from(child.stderr.take().expect("a pipe")));
    let mut watch = WatchedProcess { events, stderr, said: String::new(), moved: 0, names: 0 };
    let is_struck = watch.wait_for(moment);
    if is_struck {
        for &signal in signals {
            // It may have ended in this moment, and is not waited for yet: the signal harms nobody.
            kill_process(Pid::from_child(&child), signal).expect("a process to signal");
        }
    }
    watch.read_to_end();
    let status = child.wait().expect("an end");
    EndedProcess { status, said: watch.words(), is_struck }
}

struct WatchedProcess {
    events: OwnedFd,
    stderr: File,
    said: String,
    moved: u64,
    names: u32,
}

impl WatchedProcess {
    /// Waits for the moment; false when the process ended before.
    fn wait_for(&mut self, moment: Moment) -> bool {
        let start = Instant::now();
        let mut reached = None;
        loop {
            let strike_at = match moment {
                Moment::Time(after) => Some(start + after),
                Moment::Moved { bytes, then } => {
                    if reached.is_none() && self.moved >= bytes {
                        reached = Some(Instant::now());
                    }
                    reached.map(|reached| reached + then)
                }
                Moment::Names(count) if self.names >= count => return true,
                Moment::Names(_) => None,
            };
            let until = strike_at.unwrap_or(start + DEADLINE);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                assert!(strike_at.is_some(), "the program hangs: {}", self.said);
                return true;
            }
            if !self.look(left) {
                return false;
            }
        }
    }

    /// Waits for news; false when the process closed its standard error.
    fn look(&mut self, left: Duration) -> bool {
        let left = Timespec::try_from(left).expect("a short time");
        let mut news =
            [PollFd::new(&self.stderr, PollFlags::IN), PollFd::new(&self.events, PollFlags::IN)];
        poll(&mut news, Some(&left)).expect("news");
        let [said, named] = news.map(|one| !one.revents().is_empty());
        if named {
            let mut room = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(&self.events, &mut room);
            while events.next().is_ok() {
                self.names += 1;
            }
        }
        !said || self.read()
    }

    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let length = self.stderr.read(&mut bytes).expect("a pipe");
        self.said.push_str(&String::from_utf8_lossy(&bytes[..length]));
        let last = self.said.lines().rev().find_map(done);
        self.moved = last.unwrap_or(0);
        length > 0
    }

    fn read_to_end(&mut self) {
        while self.look(DEADLINE) {}
    }

    fn words(&self) -> String {
        let lines = self.said.lines().filter(|line| !line.starts_with('{'));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Bytes that a line of progress says are moved.
fn done(line: &str) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    (line["phase"] == "move").then(|| line["done"].as_u64())?
}
