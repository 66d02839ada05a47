//! Connections of the kernel's NVMe over Fabrics host, each made and removed by a child.
//!
//! Connecting may take minutes, and the kernel makes one connection at a time (`nvmf_dev_mutex`, Linux
//! 7.2 `drivers/nvme/host/fabrics.c`): the child of a connection that is given up is interrupted, which
//! ends the waits that are interruptible, as over RDMA. The child outlives a program that is killed. It
//! has a session and a name of its own: a signal to the program's group, terminal or name leaves the
//! child to disconnect. Only killing the whole control group ends both.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::apart::{Child, decode, encode, ended_early, interruptible, wait};

/// Time between two looks for a requested stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Name of the child in lists of processes.
const CHILD_NAME: &CStr = c"nvme-connection";

/// A connection. Dropping it disconnects; so does the end of the program.
#[derive(Debug)]
pub(crate) struct HeldConnection {
    /// Number of the controller: 3 for `nvme3`.
    pub(crate) instance: u32,
    child: Option<Child>,
}

/// Connects by the open `/dev/nvme-fabrics`.
///
/// # Errors
/// The kernel's answer; `TimedOut` after `deadline`, `Interrupted` when a stop is requested: a connection
/// that the kernel makes later is removed at once.
pub(crate) fn connect(
    fabrics: &File,
    options: &str,
    deadline: Duration,
    stop_requested: &dyn Fn() -> bool,
) -> io::Result<HeldConnection> {
    // SAFETY: the closure makes system calls only; what it uses is on its stack or was made before.
    let child = unsafe {
        Child::start(&[fabrics.as_raw_fd()], |socket| hold(socket, fabrics, options.as_bytes()))
    }?;
    let end = Instant::now() + deadline;
    while !wait(child.socket.as_fd(), STOP_INTERVAL)? {
        if stop_requested() {
            child.cancel();
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() >= end {
            child.cancel();
            let reason = format!("no answer in {:.1} s", deadline.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
    }
    let mut bytes = [0; 8];
    let (received, _) = recv(&child.socket, &mut bytes, RecvFlags::DONTWAIT)?;
    if received != bytes.len() {
        return Err(ended_early());
    }
    let instance = decode(i64::from_le_bytes(bytes))?;
    let instance = u32::try_from(instance).map_err(io::Error::other)?;
    Ok(HeldConnection { instance, child: Some(child) })
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            child.end();
        }
    }
}

/// The child: connects, answers, waits for the end of the program, disconnects.
fn hold(socket: BorrowedFd<'_>, fabrics: &File, options: &[u8]) {
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(CHILD_NAME);
    let connected = create(fabrics, options);
    let status =
        connected.as_ref().map(|(instance, _)| u64::from(*instance)).map_err(|errno| *errno);
    let _ = send(socket, &encode(status).to_le_bytes(), SendFlags::NOSIGNAL);
    let Ok((_, end)) = connected else { return };
    let _ = recv(socket, &mut [0u8; 1][..], RecvFlags::empty());
    let _ = rustix::io::write(&end, b"1");
}

/// Connects, and opens the file that disconnects. Open, it is of this controller, also when the number
/// has gone to another.
fn create(fabrics: &File, options: &[u8]) -> Result<(u32, OwnedFd), Errno> {
    let mut answer = [0; 64];
    interruptible(|| rustix::io::write(fabrics, options))?;
    let length = rustix::io::read(fabrics, &mut answer)?;
    let instance = answer.get(..length).and_then(instance_of).ok_or(Errno::PROTO)?;
    let mut path = [0; 64];
    let written = write!(&mut path[..], "/sys/class/nvme/nvme{instance}/delete_controller\0");
    let path = CStr::from_bytes_until_nul(&path).ok().filter(|_| written.is_ok());
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let end = rustix::fs::open(path.ok_or(Errno::PROTO)?, flags, Mode::empty())?;
    Ok((instance, end))
}

/// Number of the controller in `instance=3,cntlid=1` (`nvmf_dev_show`, Linux 7.2
/// `drivers/nvme/host/fabrics.c`).
fn instance_of(answer: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(answer).ok()?;
    text.trim().split(',').find_map(|part| part.strip_prefix("instance=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_the_controller() {
        assert_eq!(instance_of(b"instance=3,cntlid=1\n"), Some(3));
        for answer in [&b"cntlid=1\n"[..], b"instance=", b"instance=x", b"\xff", b""] {
            assert_eq!(instance_of(answer), None);
        }
    }

    #[test]
    fn other_answers_are_errors() {
        let file = tempfile::tempfile().unwrap();
        let error = connect(&file, "nqn=lab", Duration::from_secs(30), &|| false).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::PROTO));
    }
}
