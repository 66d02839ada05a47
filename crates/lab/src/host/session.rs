//! The streams of a running guest: one loop over QEMU's end and four sockets, one deadline.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::moments::Moments;
use super::outlet::{Outlet, Outlets};
use super::process::Qemu;
use super::workers::CardWorkers;
use crate::LabError;
use crate::protocol::{DONE, GuestPort, Message, Sent};
use crate::short_path::ShortFolder;

/// End of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestEnd {
    /// The command ran to its end.
    Exited(i32),
    /// The guest says that it could not run it.
    Failed(String),
    /// QEMU ended and the guest had said nothing.
    Died(String),
    TimedOut,
    Interrupted,
    /// The power was cut at this moment.
    PowerCut(String),
}

/// A controller as the guest reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) translated: bool,
}

/// The host's ends of the ports.
pub(super) struct GuestSession {
    streams: Vec<PortStream>,
    control: Control,
    archive: File,
    /// Bytes in it.
    archived: u64,
    outlets: Outlets,
    /// Sizes that the guest reported at its end, until they are acknowledged.
    awaited: Option<Sent>,
    /// Archive of the command's files.
    pub(super) results: PathBuf,
    /// Controllers as the guest reported them.
    pub(super) controllers: Vec<Controller>,
    /// Events while the command runs.
    pub(super) moments: Moments,
    /// Programs that work on the memory of cards.
    pub(super) workers: CardWorkers,
}

enum PortStream {
    Listening(GuestPort, UnixListener),
    /// The port of the worker at this position.
    AwaitingWorker(usize, UnixListener),
    Connected(GuestPort, UnixStream),
    Closed,
}

impl PortStream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Listening(_, listener) | Self::AwaitingWorker(_, listener) => {
                Some(listener.as_fd())
            }
            Self::Connected(_, stream) => Some(stream.as_fd()),
            Self::Closed => None,
        }
    }
}

/// Longest pause between two looks at the interrupt flag.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Time for the guest to power off once the command has ended.
const POWER_OFF: Duration = Duration::from_secs(30);

/// Something that can go on.
#[derive(Debug, Clone, Copy)]
enum ReadyStream {
    /// The stream at this position.
    Stream(usize),
    /// The outlet of this port.
    Outlet(GuestPort),
}

impl GuestSession {
    /// Makes the sockets that QEMU connects to.
    pub(super) fn listen(
        folder: &Path,
        outlets: Outlets,
        moments: Moments,
        workers: CardWorkers,
    ) -> Result<Self, LabError> {
        let short = ShortFolder::open(folder).map_err(LabError::io("open", folder))?;
        let bind = |name: &str| {
            let failed = LabError::io("listen on socket", folder.join(name));
            UnixListener::bind(short.join(name)).map_err(failed)
        };
        let mut streams = Vec::new();
        for port in GuestPort::ALL {
            streams.push(PortStream::Listening(port, bind(port.name())?));
        }
        for index in 0..workers.count() {
            streams.push(PortStream::AwaitingWorker(index, bind(&CardWorkers::socket(index))?));
        }
        let results = folder.join("out.tar");
        let archive = File::create(&results).map_err(LabError::io("create", &results))?;
        let (control, controllers) = (Control::default(), Vec::new());
        let (archived, awaited) = (0, None);
        Ok(Self {
            streams,
            control,
            archive,
            archived,
            outlets,
            awaited,
            results,
            controllers,
            moments,
            workers,
        })
    }

    /// Passes streams on until QEMU has ended, time is up or a signal comes. QEMU has ended then,
    /// and its last bytes in the sockets are read as far as they can be passed on.
    pub(super) fn serve(
        &mut self,
        qemu: &mut Qemu,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<GuestEnd, LabError> {
        let end = self.until_over(qemu, deadline, interrupt);
        qemu.kill();
        let end = end?;
        self.drain(deadline, interrupt)?;
        let status = qemu.wait()?;
        let end = end.or_else(|| self.take_messages());
        if end.is_none() && interrupt.load(Ordering::Relaxed) {
            // Ctrl-C reaches QEMU as well, which may be the first to end.
            return Ok(GuestEnd::Interrupted);
        }
        Ok(end.unwrap_or_else(|| {
            let complaint = qemu.complaint();
            let separator = if complaint.is_empty() { "" } else { ": " };
            GuestEnd::Died(format!("QEMU ended ({status}){separator}{complaint}"))
        }))
    }

    /// The loop of [`Session::serve`]; `None` when QEMU has ended and the guest had said nothing.
    fn until_over(
        &mut self,
        qemu: &Qemu,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<Option<GuestEnd>, LabError> {
        let mut limit = deadline;
        let mut end = None;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Ok(Some(GuestEnd::Interrupted));
            }
            let now = Instant::now();
            if now >= limit {
                let end = end.filter(|_| self.awaited.is_none());
                return Ok(Some(end.unwrap_or(GuestEnd::TimedOut)));
            }
            if end.is_none() && self.is_unread()? {
                return Err(LabError::ReaderGone);
            }
            let (has_ended, ready) = self.wait(Some(qemu), (limit - now).min(TICK))?;
            for ready in ready {
                self.advance(ready)?;
            }
            if end.is_none() {
                end = self.take_messages();
                if !has_ended {
                    self.workers.note_early_ends();
                }
            }
            if self.answer() {
                limit = deadline.min(Instant::now() + POWER_OFF);
            }
            if let Some(moment) = self.moments.take_power_cut() {
                return Ok(Some(GuestEnd::PowerCut(moment)));
            }
            if has_ended {
                return Ok(end);
            }
        }
    }

    /// Lets the guest power off once all that it sent has come; returns whether that was now.
    fn answer(&mut self) -> bool {
        let (stdout, stderr) = (self.outlets.stdout.given(), self.outlets.stderr.given());
        let has_come = |sent: Sent| {
            stdout >= sent.stdout && stderr >= sent.stderr && self.archived >= sent.out
        };
        if !self.awaited.is_some_and(has_come) {
            return false;
        }
        self.awaited = None;
        for stream in &mut self.streams {
            if let PortStream::Connected(GuestPort::Control, stream) = stream {
                // A guest that is gone needs no answer.
                let _ = writeln!(stream, "{DONE}");
            }
        }
        true
    }

    /// Waits until the readers have all bytes, as long as for a console. Bytes that they do not
    /// take are an error, and so are bytes that never came.
    ///
    /// # Errors
    /// [`LabError::Unread`], and when an output cannot be written.
    pub(super) fn finish(
        &mut self,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<(), LabError> {
        let Outlets { stdout, stderr, .. } = &mut self.outlets;
        let sent = self.awaited.unwrap_or_default();
        let left = |outlet: &mut Outlet, sent: u64| {
            let never = sent.saturating_sub(outlet.given());
            Ok(never + outlet.finish(deadline, interrupt)?)
        };
        let (stdout, stderr) = (left(stdout, sent.stdout)?, left(stderr, sent.stderr)?);
        if stdout + stderr == 0 {
            return Ok(());
        }
        Err(LabError::Unread { stdout, stderr, end: None })
    }

    /// True when the reader of the command's output has gone away.
    fn is_unread(&self) -> Result<bool, LabError> {
        let Some(output) = &self.outlets.reader else { return Ok(false) };
        let mut fds = [PollFd::new(output, PollFlags::empty())];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => Ok(fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(LabError::os("watch the reader of the output")(error)),
        }
    }

    /// Waits for QEMU's end, or for a stream that is ready.
    fn wait(
        &self,
        qemu: Option<&Qemu>,
        longest: Duration,
    ) -> Result<(bool, Vec<ReadyStream>), LabError> {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        fds.extend(qemu.map(|qemu| PollFd::new(&qemu.exit, PollFlags::IN)));
        // Without a wish it wakes up for an error only, and the loop then asks what that was.
        let reader = qemu.and(self.outlets.reader.as_ref());
        fds.extend(reader.map(|reader| PollFd::new(reader, PollFlags::empty())));
        let before = fds.len();
        let mut waiting = Vec::new();
        for (fd, flags, ready) in self.sources() {
            waiting.push(ready);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        let timeout = Timespec::try_from(longest)
            .map_err(|error| LabError::os("wait for QEMU")(io::Error::other(error)))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, Vec::new())),
            Err(error) => return Err(LabError::os("wait for QEMU")(error)),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let has_ended = qemu.is_some() && is_ready(&fds[0]);
        let ready = waiting.into_iter().zip(&fds[before..]).filter(|(_, fd)| is_ready(fd));
        Ok((has_ended, ready.map(|(ready, _)| ready).collect()))
    }

    /// Descriptors to poll: streams for input, except those whose outlet is full, and outlets for
    /// room and for their end.
    fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags, ReadyStream)> {
        let Outlets { stdout, stderr, .. } = &self.outlets;
        let outlets = [(GuestPort::Stdout, stdout), (GuestPort::Stderr, stderr)];
        let outlets = outlets.into_iter().filter_map(|(port, outlet)| {
            let wish = if outlet.is_full() { PollFlags::OUT } else { PollFlags::empty() };
            Some((outlet.fd()?, wish, ReadyStream::Outlet(port)))
        });
        let streams = self.streams.iter().enumerate().filter_map(|(index, stream)| {
            let fd = stream.fd().filter(|_| !self.is_held_back(stream))?;
            Some((fd, PollFlags::IN, ReadyStream::Stream(index)))
        });
        outlets.chain(streams)
    }

    fn is_held_back(&self, stream: &PortStream) -> bool {
        matches!(stream, PortStream::Connected(port, _) if self.outlets.is_full(*port))
    }

    fn advance(&mut self, ready: ReadyStream) -> Result<(), LabError> {
        match ready {
            ReadyStream::Stream(index) => self.advance_stream(index),
            ReadyStream::Outlet(port) => self.outlets.get_mut(port).map_or(Ok(()), Outlet::advance),
        }
    }

    /// Accepts a connection or passes on one buffer.
    fn advance_stream(&mut self, index: usize) -> Result<(), LabError> {
        let mut buffer = [0; 64 << 10];
        let (port, read) = match &mut self.streams[index] {
            PortStream::Closed => return Ok(()),
            PortStream::Listening(port, listener) => {
                let port = *port;
                let (stream, _) = listener.accept().map_err(LabError::os("accept QEMU's port"))?;
                self.streams[index] = PortStream::Connected(port, stream);
                return Ok(());
            }
            PortStream::AwaitingWorker(worker, listener) => {
                let worker = *worker;
                let (stream, _) = listener.accept().map_err(LabError::os("accept QEMU's port"))?;
                self.streams[index] = PortStream::Closed;
                return self.workers.start(worker, stream);
            }
            PortStream::Connected(port, stream) => match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                // A killed QEMU resets its sockets.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (*port, 0),
                result => (*port, result.map_err(LabError::os("read a port of the guest"))?),
            },
        };
        if read == 0 {
            self.streams[index] = PortStream::Closed;
            return Ok(());
        }
        let bytes = &buffer[..read];
        match port {
            GuestPort::Stdout | GuestPort::Stderr => {
                self.outlets.get_mut(port).map_or(Ok(()), |outlet| outlet.give(bytes))
            }
            GuestPort::Control => self.control.add(bytes),
            GuestPort::Moments => {
                let PortStream::Connected(_, stream) = &self.streams[index] else { return Ok(()) };
                let answers = stream.try_clone().map_err(LabError::os("answer the guest"))?;
                self.moments.add(bytes, &answers)
            }
            GuestPort::Out => {
                self.archived += bytes.len() as u64;
                self.archive.write_all(bytes).map_err(LabError::io("write", &self.results))
            }
        }
    }

    /// Reads the rest that QEMU, which has ended, left in the sockets; bytes not taken by the
    /// deadline, or a moment after an interrupt, stay there.
    fn drain(&mut self, deadline: Instant, interrupt: &AtomicBool) -> Result<(), LabError> {
        let until = deadline.max(Instant::now() + TICK);
        let is_open = |stream: &PortStream| matches!(stream, PortStream::Connected(..));
        while self.streams.iter().any(is_open) {
            let now = Instant::now();
            let is_over = now >= until || interrupt.load(Ordering::Relaxed);
            let (_, ready) = self.wait(None, TICK.min(until.saturating_duration_since(now)))?;
            if ready.is_empty() && is_over {
                break;
            }
            for ready in ready {
                self.advance(ready)?;
            }
        }
        Ok(())
    }

    /// Takes in the guest's messages; returns the last one when it has come.
    fn take_messages(&mut self) -> Option<GuestEnd> {
        while let Some(message) = self.control.next() {
            match message {
                Ok(Message::Controller { name, address, translated }) => {
                    self.controllers.push(Controller { name, address, translated });
                }
                Ok(Message::Started) => tracing::debug!("command started"),
                Ok(Message::Exited { status, sent }) => {
                    self.awaited = Some(sent);
                    return Some(GuestEnd::Exited(status));
                }
                Ok(Message::Failed { reason }) => {
                    self.awaited = Some(Sent::default());
                    return Some(GuestEnd::Failed(reason));
                }
                Err(error) => {
                    return Some(GuestEnd::Failed(format!("unreadable message: {error}")));
                }
            }
        }
        None
    }
}

/// Lines of the control port.
#[derive(Default)]
struct Control {
    pending: Vec<u8>,
}

impl Control {
    /// The longest line a guest of this lab sends is far below this.
    const LONGEST: usize = 1 << 20;

    fn add(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        if self.pending.len() + bytes.len() > Self::LONGEST {
            let error = io::Error::new(io::ErrorKind::InvalidData, "message without an end");
            return Err(LabError::os("read the control port of the guest")(error));
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn next(&mut self) -> Option<serde_json::Result<Message>> {
        let end = self.pending.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Some(serde_json::from_slice(&line))
    }
}

#[cfg(test)]
mod tests;
