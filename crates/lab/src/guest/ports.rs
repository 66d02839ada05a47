//! Opening virtio-serial ports by name, and waiting for device files to appear.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::protocol::{GuestPort, WORKERS_DIR};

/// Opens a port for writing, once the kernel has made it.
pub(super) fn open(port: GuestPort, deadline: Instant) -> io::Result<File> {
    open_as(port, File::options().write(true), deadline)
}

/// Opens a port for writing and reading, once the kernel has made it.
pub(super) fn open_both_ways(port: GuestPort, deadline: Instant) -> io::Result<File> {
    open_as(port, File::options().read(true).write(true), deadline)
}

fn open_as(port: GuestPort, options: &fs::OpenOptions, deadline: Instant) -> io::Result<File> {
    options.open(wait_for(port.name(), deadline)?)
}

/// Names a port in [`WORKERS_DIR`], once the kernel has made it.
pub(super) fn link(port: &str, deadline: Instant) -> io::Result<()> {
    fs::create_dir_all(WORKERS_DIR)?;
    std::os::unix::fs::symlink(wait_for(port, deadline)?, Path::new(WORKERS_DIR).join(port))
}

fn wait_for(port: &str, deadline: Instant) -> io::Result<PathBuf> {
    let mut changes = Changes::of_devices()?;
    loop {
        if let Some(path) = find(port) {
            return Ok(path);
        }
        if !changes.wait(deadline)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the port did not appear"));
        }
    }
}

/// Bytes of an answer: a line that names moments or repeats QEMU.
const LONGEST_ANSWER: usize = 64 << 10;

/// The line that the host answers, without its end.
pub(super) fn answer(port: &mut (impl Read + AsFd), deadline: Instant) -> io::Result<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the host is silent")),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [0; 4096];
        let read = port.read(&mut buffer)?;
        if read == 0 || answer.len() > LONGEST_ANSWER {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Counts the bytes sent through a port.
pub(super) struct Counted {
    port: File,
    pub(super) sent: u64,
}

impl Counted {
    pub(super) fn new(port: File) -> Self {
        Self { port, sent: 0 }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.port.write(bytes)?;
        self.sent += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.port.flush()
    }
}

/// Device file of a port.
fn find(port: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().find_map(|entry| {
        let name = fs::read_to_string(entry.path().join("name")).ok()?;
        let device = Path::new("/dev").join(entry.file_name());
        (name.trim() == port && device.exists()).then_some(device)
    })
}

/// Changes of the folder of device files.
pub(super) struct Changes {
    watch: OwnedFd,
}

impl Changes {
    /// Longest pause between two looks: changes in `/sys` make no events here.
    const LOOK_AGAIN: Duration = Duration::from_millis(50);

    pub(super) fn of_devices() -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, "/dev", inotify::WatchFlags::CREATE)?;
        Ok(Self { watch })
    }

    /// Waits for a change or a short while; `false` once the deadline has passed.
    pub(super) fn wait(&mut self, deadline: Instant) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec::try_from(left.min(Self::LOOK_AGAIN)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.watch, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        while events.next().is_ok() {}
        Ok(true)
    }
}
