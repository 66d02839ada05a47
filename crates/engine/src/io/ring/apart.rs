//! System calls that may never return, made by a process that can be left behind.
//!
//! A thread that waits for a device in uninterruptible sleep keeps its whole process: no signal
//! ends it, and its parent waits, too. A disconnected NVMe/TCP drive does that for as long as its
//! `ctrl_loss_tmo` (600 s unless set). Reads and writes of a ring do not block; opening, closing, flushing,
//! zeroing and asking a controller do. Those run in a forked child that holds nothing but the files it
//! needs. The caller waits until its deadline, then leaves the child to the kernel.
//!
//! The child makes system calls only: after a fork of a process with threads, nothing else is sound
//! (POSIX.1-2017, fork). It blocks every signal, except in [`interruptible`], and ends when its socket is
//! closed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use peerlane_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    send, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

/// Longest answer of a child, in bytes: a status and an Identify structure.
pub(super) const ANSWER_MAX: usize = 8 + 4096;

/// Wait for an answer whatever the deadline: a busy machine takes a moment to start a process.
const START_WAIT: Duration = Duration::from_secs(1);

/// Longest wait for a child that has answered to end, or for a file to close.
const END_WAIT: Duration = Duration::from_secs(2);

/// Interrupts the system call of a child.
const INTERRUPT: Signal = Signal::USR1;

/// Time between two interrupts of a child.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a path.
///
/// # Errors
/// The system's answer; `TimedOut` after `deadline`.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode, deadline: Nanos) -> io::Result<File> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the closure makes system calls only; what it uses was made before.
    let child = unsafe { Child::start(&[], |socket| open_and_send(socket, &name, flags, mode)) }?;
    child.wait_for_answer(deadline)?;
    let opened = child.take_file();
    child.end();
    opened
}

/// Flushes the data and metadata of a file.
///
/// # Errors
/// The system's answer; `TimedOut` after `deadline`.
pub(crate) fn sync(file: &File, deadline: Nanos) -> io::Result<()> {
    // SAFETY: as in `open`.
    unsafe {
        call_with_answer(file.as_fd(), deadline, &mut [], |file, _| {
            rustix::fs::fsync(file).map(|()| 0)
        })
    }
    .map(drop)
}

/// Makes one system call on a file that fills `answer`, and returns its number.
///
/// # Safety
/// `act` makes system calls only: it neither allocates nor takes a lock nor panics. `answer` has at most
/// [`ANSWER_MAX`] bytes less eight.
pub(super) unsafe fn call_with_answer(
    file: BorrowedFd<'_>,
    deadline: Nanos,
    answer: &mut [u8],
    act: impl FnOnce(BorrowedFd<'_>, &mut [u8]) -> Result<u64, Errno>,
) -> io::Result<u64> {
    let length = answer.len().min(ANSWER_MAX - 8);
    let body = |socket: BorrowedFd<'_>| {
        let mut bytes = [0; ANSWER_MAX];
        let (status, rest) = bytes.split_at_mut(8);
        let result = act(file, &mut rest[..length]);
        status.copy_from_slice(&encode(result).to_le_bytes());
        let _ = send(socket, &bytes[..8 + length], SendFlags::NOSIGNAL);
    };
    // SAFETY: the caller's; encoding and sending make no other calls.
    let child = unsafe { Child::start(&[file.as_raw_fd()], body) }?;
    child.wait_for_answer(deadline)?;
    let mut bytes = [0; ANSWER_MAX];
    let (received, _) = recv(&child.socket, &mut bytes, RecvFlags::DONTWAIT)?;
    child.end();
    let status = bytes[..received].first_chunk().ok_or_else(ended_early)?;
    answer[..length].copy_from_slice(&bytes[8..8 + length]);
    Ok(decode(i64::from_le_bytes(*status))?)
}

/// A child that has the last descriptor of a file, so closing it here returns at once. The last
/// close waits for all dirty pages of the device, also for those of other programs.
#[derive(Debug)]
pub(crate) struct Closer(Option<Child>);

impl Closer {
    /// Starts a child that keeps `file` open until the closer is dropped, which is after `file` is closed here.
    pub(crate) fn start(file: &File) -> Self {
        // SAFETY: as in `open`.
        let child = unsafe {
            Child::start(&[file.as_raw_fd()], |socket| {
                let _ = recv(socket, &mut [0u8; 1][..], RecvFlags::empty());
            })
        };
        // Where there can be no child, the file is closed here.
        Self(child.ok())
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            child.end();
        }
    }
}

/// The child's side of [`open`].
fn open_and_send(socket: BorrowedFd<'_>, name: &CStr, flags: OFlags, mode: Mode) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let opened = rustix::fs::open(name, flags | OFlags::CLOEXEC, mode);
    let descriptors;
    let status = match &opened {
        Ok(file) => {
            descriptors = [file.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            encode(Ok(0))
        }
        Err(errno) => encode(Err(*errno)),
    };
    let bytes = status.to_le_bytes();
    let _ = sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
}

/// A result as a number: an errno is negative.
pub(super) fn encode(result: Result<u64, Errno>) -> i64 {
    match result {
        Ok(number) => i64::try_from(number).unwrap_or(i64::MAX),
        Err(errno) => -i64::from(errno.raw_os_error()),
    }
}

pub(super) fn decode(status: i64) -> Result<u64, Errno> {
    u64::try_from(status).map_err(|_| {
        let errno = status.checked_neg().and_then(|errno| i32::try_from(errno).ok());
        Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
    })
}

pub(super) fn ended_early() -> io::Error {
    io::Error::other("the process that was to ask ended without an answer")
}

/// A forked child, and the socket to it.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) socket: OwnedFd,
    pub(super) pid: Pid,
}

impl Child {
    /// Forks a child that keeps `kept` and its socket open, runs `body` and ends.
    ///
    /// # Safety
    /// `body` makes system calls only: it neither allocates nor takes a lock nor panics.
    pub(super) unsafe fn start(
        kept: &[RawFd],
        body: impl FnOnce(BorrowedFd<'_>),
    ) -> io::Result<Self> {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let mut keep = [-1; 4];
        for (place, descriptor) in
            keep.iter_mut().zip([theirs.as_raw_fd()].iter().chain(kept.iter()))
        {
            *place = *descriptor;
        }
        let blocked = BlockedSignals::new();
        // SAFETY: the child makes system calls only, which is what a fork of a process with threads allows.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            close_all_but(&keep);
            body(theirs.as_fd());
            // SAFETY: ends the child at once, and runs nothing of the program it was forked from.
            unsafe { libc::_exit(0) };
        }
        let error = io::Error::last_os_error();
        drop(blocked);
        let pid = Pid::from_raw(pid.max(0)).ok_or(error)?;
        Ok(Self { socket: ours, pid })
    }

    /// Waits until there is an answer, or until the child is gone.
    fn wait_for_answer(&self, deadline: Nanos) -> io::Result<()> {
        if wait(self.socket.as_fd(), Duration::from(deadline).max(START_WAIT))? {
            return Ok(());
        }
        let reason = format!("no answer in {deadline}");
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    }

    /// The file that the child has opened.
    fn take_file(&self) -> io::Result<File> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        let buffers = &mut [io::IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, buffers, &mut control, flags)?;
        if received.bytes != 8 || received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ended_early());
        }
        decode(i64::from_le_bytes(bytes))?;
        let files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        files.flatten().next().map(File::from).ok_or_else(ended_early)
    }

    /// Lets the child end, and collects it; one that does not end is left behind.
    pub(super) fn end(self) {
        let Self { socket, pid } = self;
        let watched = pidfd_open(pid, PidfdFlags::empty());
        drop(socket);
        if watched.is_ok_and(|child| matches!(wait(child.as_fd(), END_WAIT), Ok(true))) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Interrupts what the child does in [`interruptible`], and collects the child. Returns whether it
    /// has ended; one that does not end is left behind.
    pub(super) fn cancel(self) -> bool {
        let Ok(watched) = pidfd_open(self.pid, PidfdFlags::empty()) else { return false };
        let end = Instant::now() + END_WAIT;
        // A signal that comes just before the system call interrupts nothing: it is sent again.
        while Instant::now() < end {
            let _ = kill_process(self.pid, INTERRUPT);
            if matches!(wait(watched.as_fd(), CANCEL_INTERVAL), Ok(true)) {
                let _ = waitpid(Some(self.pid), WaitOptions::NOHANG);
                return true;
            }
        }
        false
    }
}

/// Runs a system call that [`Child::cancel`] interrupts, with `EINTR`, where the kernel waits
/// interruptibly. For children only: it sets a signal handler.
pub(super) fn interruptible<T>(call: impl FnOnce() -> T) -> T {
    extern "C" fn ignore(_: libc::c_int) {}
    let set_mask = |how: libc::c_int| {
        let mut signal = MaybeUninit::uninit();
        // SAFETY: fills a local.
        unsafe { libc::sigemptyset(signal.as_mut_ptr()) };
        // SAFETY: adds a valid signal to the set that was filled.
        unsafe { libc::sigaddset(signal.as_mut_ptr(), INTERRUPT.as_raw()) };
        // SAFETY: reads that set.
        unsafe { libc::pthread_sigmask(how, signal.as_ptr(), std::ptr::null_mut()) };
    };
    // SAFETY: all zeroes are a valid action: no flags, so that the call is not restarted.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing, and this process is a child that runs nothing else.
    unsafe { libc::sigaction(INTERRUPT.as_raw(), &raw const action, std::ptr::null_mut()) };
    set_mask(libc::SIG_UNBLOCK);
    let result = call();
    set_mask(libc::SIG_BLOCK);
    result
}

/// Waits until a descriptor is readable; false after `time`.
pub(super) fn wait(descriptor: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Closes every descriptor of this process but some.
pub(super) fn close_all_but(kept: &[RawFd]) {
    let mut next = 0;
    loop {
        let after = kept.iter().copied().filter(|one| *one >= next).min();
        let last = after.map_or(RawFd::MAX, |one| one.wrapping_sub(1));
        if last >= next {
            // SAFETY: called in a child that uses no other descriptor. A kernel without the call, before
            // Linux 5.9, closes nothing.
            unsafe { libc::syscall(libc::SYS_close_range, next, last, 0) };
        }
        match after {
            Some(one) => next = one.wrapping_add(1),
            None => return,
        }
    }
}

/// All signals of this thread, blocked until it is dropped: a child inherits them so.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: fills a local.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: reads the set that was filled, and fills another local.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: filled by the call, which fails for none of these arguments.
        Self(unsafe { before.assume_init() })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the system gave.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const SOON: Nanos = Nanos(50_000_000);
    const LATE: Nanos = Nanos::seconds(30);

    #[test]
    fn opened_files_are_handed_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let flags = OFlags::RDWR | OFlags::CREATE;
        let mut file = open(&path, flags, Mode::RUSR | Mode::WUSR, LATE).unwrap();
        file.write_all(b"abc").unwrap();
        sync(&file, LATE).unwrap();
        let closer = Closer::start(&file);
        drop(file);
        drop(closer);
        let mut text = String::new();
        let mut again = open(&path, OFlags::RDONLY, Mode::empty(), LATE).unwrap();
        again.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
    }

    #[test]
    fn failed_open_keeps_its_errno() {
        let error = open(Path::new("/nonexistent/x"), OFlags::RDONLY, Mode::empty(), LATE);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn blocked_open_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let begun = Instant::now();
        let error = open(&path, OFlags::RDONLY, Mode::empty(), SOON).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= Duration::from(SOON));
        // Lets the child that was left behind end.
        rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    }

    #[test]
    fn cancelled_call_is_interrupted() {
        // SAFETY: system calls only.
        let child = unsafe {
            Child::start(&[], |socket| {
                let waited = interruptible(|| recv(socket, &mut [0u8; 1][..], RecvFlags::empty()));
                if waited.map(drop) != Err(Errno::INTR) {
                    let _ = recv(socket, &mut [0u8; 1][..], RecvFlags::empty());
                }
            })
        };
        assert!(child.unwrap().cancel());
    }

    #[test]
    fn unanswered_call_times_out() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        // SAFETY: one system call, which waits until `ours` is closed.
        let waited = unsafe {
            call_with_answer(theirs.as_fd(), SOON, &mut [0; 8], |socket, bytes| {
                recv(socket, bytes, RecvFlags::empty()).map(|(count, _)| count as u64)
            })
        };
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(ours);
    }
}
