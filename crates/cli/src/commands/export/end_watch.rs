//! The wait for the end of an export.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use signal_hook::low_level::pipe;

use crate::error::{Failure, Tried};
use crate::signals;

/// Reason for the end of an export.
pub(super) enum EndReason {
    Signal,
    DriveGone,
}

/// Waits for the end of an export.
pub(super) struct EndWatch {
    signal: UnixStream,
}

impl EndWatch {
    pub(super) fn new() -> Result<Self, Failure> {
        let listened = UnixStream::pair().and_then(|(signal, told)| {
            for number in signals::heeded() {
                pipe::register(number, told.try_clone()?)?;
            }
            Ok(Self { signal })
        });
        listened.map_err(Tried::to("listen for signals"))
    }

    /// Waits for a signal, or for the removal of the drive's node.
    pub(super) fn wait_for(&self, node: &Path) -> Result<EndReason, Failure> {
        self.wait(node).map_err(Tried::to(format!("watch {}", node.display())))
    }

    fn wait(&self, node: &Path) -> io::Result<EndReason> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let nodes = inotify::init(flags)?;
        let folder = node.parent().unwrap_or(Path::new("/dev"));
        inotify::add_watch(&nodes, folder, inotify::WatchFlags::DELETE)?;
        loop {
            if !node.exists() {
                return Ok(EndReason::DriveGone);
            }
            let ends =
                &mut [PollFd::new(&self.signal, PollFlags::IN), PollFd::new(&nodes, PollFlags::IN)];
            match poll(ends, None) {
                Err(Errno::INTR) | Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !ends[0].revents().is_empty() {
                return Ok(EndReason::Signal);
            }
            // The loop looks for the node itself.
            let _ = rustix::io::read(nodes.as_fd(), &mut [0; 4096]);
        }
    }
}
