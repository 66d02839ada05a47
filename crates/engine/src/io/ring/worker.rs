//! Flushes and zeroes of a file, made by a child that can be left behind.
//!
//! io_uring has requests for both, and carries them out in threads of the process, whose end waits for them
//! (`io_wq_exit_workers`, io_uring/io-wq.c). A ring polls the socket of the child instead.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::apart::{Child, close_all_but, decode, encode};

/// Task of a [`Worker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// The data of the file, and the metadata needed to read it again, are made durable.
    Flush,
    /// A range reads as zeroes; as `fallocate` with this mode.
    Zero { mode: u32, offset: u64, length: u64 },
}

/// Bytes of a task, and of its answer.
const TASK: usize = 32;
const TASK_ANSWER: usize = 16;

impl Task {
    fn to_bytes(self, number: u64) -> [u8; TASK] {
        let (mode, offset, length) = match self {
            Self::Flush => (u64::MAX, 0, 0),
            Self::Zero { mode, offset, length } => (mode.into(), offset, length),
        };
        let mut bytes = [0; TASK];
        for (place, value) in bytes.chunks_exact_mut(8).zip([number, mode, offset, length]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

/// A child that works on one file, task after task, for as long as a ring has it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    /// Tasks that are not answered, by number.
    open: Vec<u64>,
}

impl Worker {
    /// Starts a child for a file. It opens the file once more, so a child that is left behind holds
    /// no exclusive claim.
    pub(super) fn start(file: BorrowedFd<'_>) -> io::Result<Self> {
        let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        // SAFETY: as in `open`.
        let child = unsafe {
            Child::start(&[file.as_raw_fd()], |socket| {
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                match rustix::fs::open(&*name, flags, Mode::empty()) {
                    Ok(own) => {
                        close_all_but(&[socket.as_raw_fd(), own.as_raw_fd()]);
                        work(socket, own.as_fd());
                    }
                    Err(_) => work(socket, file),
                }
            })
        }?;
        Ok(Self { child, open: Vec::new() })
    }

    /// Returns the socket that becomes readable when a task is answered.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.child.socket.as_fd()
    }

    /// Tasks that are not answered.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Hands a task over; it is answered by its number.
    ///
    /// # Errors
    /// `EAGAIN` if the child has too much to do; any other answer if it is gone.
    pub(super) fn ask(&mut self, number: u64, task: Task) -> Result<(), Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        send(&self.child.socket, &task.to_bytes(number), flags)?;
        self.open.push(number);
        Ok(())
    }

    /// The next answer. A child that is gone has failed everything that it was asked for.
    pub(super) fn answer(&mut self) -> Option<(u64, Result<(), Errno>)> {
        let mut bytes = [0; TASK_ANSWER];
        match recv(&self.child.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((TASK_ANSWER, _)) => {
                let (number, result) = bytes.split_at(8);
                let number = u64::from_le_bytes(number.try_into().ok()?);
                let result = decode(i64::from_le_bytes(result.try_into().ok()?));
                self.open.retain(|one| *one != number);
                Some((number, result.map(drop)))
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            _ => self.open.pop().map(|number| (number, Err(Errno::IO))),
        }
    }

    /// Ends the child, or leaves it behind if it is not done.
    pub(super) fn end(self) {
        if self.open.is_empty() {
            self.child.end();
        }
    }
}

/// The child's side of a [`Worker`].
fn work(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) {
    let mut task = [0; TASK];
    while let Ok((TASK, _)) = recv(socket, &mut task[..], RecvFlags::empty()) {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&task[8 * at..8 * at + 8]);
            u64::from_le_bytes(bytes)
        };
        let result = match word(1) {
            u64::MAX => rustix::fs::fdatasync(file),
            mode => {
                #[allow(clippy::cast_possible_truncation)]
                let mode = FallocateFlags::from_bits_retain(mode as u32);
                rustix::fs::fallocate(file, mode, word(2), word(3))
            }
        };
        let mut answer = [0; TASK_ANSWER];
        answer[..8].copy_from_slice(&word(0).to_le_bytes());
        answer[8..].copy_from_slice(&encode(result.map(|()| 0)).to_le_bytes());
        if send(socket, &answer, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

    use super::super::apart::wait;
    use super::*;

    const LATE: Duration = Duration::from_secs(30);

    #[test]
    fn worker_answers_by_number() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let mut worker = Worker::start(file.as_fd()).unwrap();
        let mode = crate::io::extents::ZERO_MODE.bits();
        worker.ask(5, Task::Zero { mode, offset: 4096, length: 4096 }).unwrap();
        worker.ask(6, Task::Flush).unwrap();
        let mut answered = Vec::new();
        while answered.len() < 2 {
            assert!(wait(worker.socket(), LATE).unwrap());
            answered.extend(worker.answer());
        }
        assert_eq!(worker.open(), 0);
        worker.end();
        assert_eq!(answered[1], (6, Ok(())));
        let mut bytes = [0; 8192];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        let zeroed = match answered[0].1 {
            Ok(()) => 0,
            Err(Errno::OPNOTSUPP) => 7,
            Err(errno) => panic!("{errno}"),
        };
        assert!(bytes[..4096].iter().all(|byte| *byte == 7));
        assert!(bytes[4096..].iter().all(|byte| *byte == zeroed));
    }

    #[test]
    fn dead_worker_fails_its_tasks() {
        let file = tempfile::tempfile().unwrap();
        let mut worker = Worker::start(file.as_fd()).unwrap();
        kill_process(worker.child.pid, Signal::KILL).unwrap();
        waitpid(Some(worker.child.pid), WaitOptions::empty()).unwrap();
        match worker.ask(1, Task::Flush) {
            Ok(()) => assert_eq!(worker.answer(), Some((1, Err(Errno::IO)))),
            Err(errno) => assert_eq!(errno, Errno::PIPE),
        }
    }
}
