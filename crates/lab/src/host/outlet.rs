//! A stream of the guest's command on its way to the caller, whose reader may stand still.
//!
//! A thread writes the content of a pipe. While the pipe is full, no more is read from the guest:
//! its command waits as at a pipe of its own, and the run goes on. Bytes taken are counted, so the
//! number of lost bytes is known.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use super::background::Writing;
use crate::LabError;
use crate::protocol::GuestPort;

/// Writer for a stream of the guest's command; it may block.
pub type Output = Box<dyn Write + Send>;

/// Bytes of one write: a pipe takes so many all or none (`PIPE_BUF`, pipe(7)), so none is taken uncounted.
const PIECE: usize = 4096;

/// The command's outputs, on their way to the caller.
pub(super) struct Outlets {
    pub(super) stdout: Outlet,
    pub(super) stderr: Outlet,
    /// Final reader of standard output; the run ends when it goes away.
    pub(super) reader: Option<Arc<OwnedFd>>,
}

impl Outlets {
    pub(super) fn new(
        stdout: Output,
        stderr: Output,
        reader: Option<Arc<OwnedFd>>,
    ) -> Result<Self, LabError> {
        let (stdout, stderr) = (Outlet::new("stdout", stdout)?, Outlet::new("stderr", stderr)?);
        Ok(Self { stdout, stderr, reader })
    }

    pub(super) fn get_mut(&mut self, port: GuestPort) -> Option<&mut Outlet> {
        match port {
            GuestPort::Stdout => Some(&mut self.stdout),
            GuestPort::Stderr => Some(&mut self.stderr),
            GuestPort::Control | GuestPort::Out | GuestPort::Moments => None,
        }
    }

    pub(super) fn is_full(&self, port: GuestPort) -> bool {
        match port {
            GuestPort::Stdout => self.stdout.is_full(),
            GuestPort::Stderr => self.stderr.is_full(),
            GuestPort::Control | GuestPort::Out | GuestPort::Moments => false,
        }
    }
}

/// One output of the command, written by a thread of its own.
pub(super) struct Outlet {
    /// Pipe to the writing thread; closed when all is there.
    pipe: Option<File>,
    /// Bytes that the pipe had no room for.
    held: Vec<u8>,
    given: u64,
    taken: Arc<AtomicU64>,
    writing: Writing,
}

impl Outlet {
    pub(super) fn new(name: &str, target: Output) -> Result<Self, LabError> {
        let failed = LabError::os("make a pipe for the command's output");
        let make = || -> io::Result<Self> {
            let (from, pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            fcntl_setfl(&from, OFlags::empty())?;
            let taken = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&taken);
            let writing = Writing::start(name, move || pass_on(from.into(), target, &count))?;
            Ok(Self { pipe: Some(pipe.into()), held: Vec::new(), given: 0, taken, writing })
        };
        make().map_err(failed)
    }

    /// Descriptor that becomes ready when a full pipe has room, and when the reader is gone.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// True when it can take no more now.
    pub(super) fn is_full(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes given to it.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Passes bytes on as far as possible without a wait, and keeps the rest.
    ///
    /// # Errors
    /// When the bytes before these could not be written.
    pub(super) fn give(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        self.given += bytes.len() as u64;
        self.held.extend_from_slice(bytes);
        self.go_on()
    }

    /// Goes on after [`Outlet::fd`] became ready: where there was room already, with why nothing goes on.
    ///
    /// # Errors
    /// As [`Outlet::give`].
    pub(super) fn advance(&mut self) -> Result<(), LabError> {
        if self.is_full() { self.go_on() } else { self.writing.result().map_err(failure) }
    }

    fn go_on(&mut self) -> Result<(), LabError> {
        while let (Some(pipe), false) = (&mut self.pipe, self.held.is_empty()) {
            match pipe.write(&self.held) {
                Ok(count) => drop(self.held.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The thread has ended, and knows why.
                Err(error) => return Err(failure(self.writing.result().err().unwrap_or(error))),
            }
        }
        Ok(())
    }

    /// Waits until all of it is taken, as [`Writing::wait`] does; returns how many bytes were not.
    ///
    /// # Errors
    /// When they could not be written.
    pub(super) fn finish(
        &mut self,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<u64, LabError> {
        self.pipe = None;
        if let Ok(result) = self.writing.wait(deadline, interrupt) {
            result.map_err(failure)?;
        }
        Ok(self.given - self.taken.load(Ordering::Relaxed))
    }
}

/// Error for an output that cannot go on.
fn failure(error: io::Error) -> LabError {
    match error.kind() {
        ErrorKind::BrokenPipe => LabError::ReaderGone,
        _ => LabError::os("pass on the command's output")(error),
    }
}

fn pass_on(mut from: File, mut target: Output, taken: &AtomicU64) -> io::Result<()> {
    let mut buffer = [0; PIECE];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        };
        target.write_all(&buffer[..read])?;
        target.flush()?;
        taken.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// More than two pipes hold (64 KiB each, pipe(7)).
    const MORE: usize = 1 << 20;

    fn outlet() -> (File, Outlet) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let target = Box::new(File::from(writer));
        (reader.into(), Outlet::new("stdout", target).expect("an outlet"))
    }

    fn in_a_day() -> Instant {
        Instant::now() + Duration::from_secs(86_400)
    }

    fn content() -> Vec<u8> {
        (0..MORE).map(|at| u8::try_from(at % 251).expect("a byte")).collect()
    }

    #[test]
    fn stalled_reader_leaves_counted_bytes() {
        let (mut reader, mut outlet) = outlet();
        outlet.give(&content()).expect("it is kept");
        assert!(outlet.is_full());
        let left = outlet.finish(Instant::now(), &AtomicBool::new(false)).expect("no failure");
        drop(outlet);
        let mut found = vec![0; MORE - usize::try_from(left).expect("a size")];
        reader.read_exact(&mut found).expect("all that was counted as taken");
        assert!(found[..] == content()[..found.len()] && left > 0);
    }

    #[test]
    fn resumed_reader_gets_all_in_order() {
        let (mut reader, mut outlet) = outlet();
        outlet.give(&content()).expect("it is kept");
        let reading = thread::spawn(move || {
            let mut found = Vec::new();
            reader.read_to_end(&mut found).map(|_| found)
        });
        while outlet.is_full() {
            let pipe = outlet.fd().expect("it is open");
            let mut fds =
                [rustix::event::PollFd::from_borrowed_fd(pipe, rustix::event::PollFlags::OUT)];
            rustix::event::poll(&mut fds, None).expect("room");
            outlet.advance().expect("it is read");
        }
        assert_eq!(outlet.finish(in_a_day(), &AtomicBool::new(false)).expect("no failure"), 0);
        assert!(reading.join().expect("no panic").expect("it") == content());
    }

    #[test]
    fn closed_reader_differs_from_full_place() {
        // Unlike a pipe, whose reader a program that another test is starting may still have.
        let (reader, writer) = UnixStream::pair().expect("sockets");
        reader.shutdown(Shutdown::Both).expect("a socket");
        let mut outlet = Outlet::new("stdout", Box::new(writer)).expect("an outlet");
        outlet.give(b"x").expect("nobody knows yet");
        let gone = outlet.finish(in_a_day(), &AtomicBool::new(false));
        assert!(matches!(gone, Err(LabError::ReaderGone)), "{gone:?}");

        let full = File::options().write(true).open("/dev/full").expect("it");
        let mut outlet = Outlet::new("stdout", Box::new(full)).expect("an outlet");
        let mut given = Ok(());
        while given.is_ok() {
            given = outlet.give(&[b'x'; PIECE]);
        }
        let Err(LabError::Os { source, .. }) = given else { panic!("{given:?}") };
        assert_eq!(source.kind(), ErrorKind::StorageFull);
    }
}
