//! The streams of a running guest: one loop over QEMU's end and four sockets, one deadline.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::Qemu;
use super::socket;
use crate::LabError;
use crate::protocol::{Message, Port};

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The command ran to its end.
    Exited(i32),
    /// The guest says that it could not run it.
    Failed(String),
    /// QEMU ended and the guest had said nothing.
    Died(String),
    TimedOut,
    Interrupted,
}

/// A controller as the guest reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) translated: bool,
}

/// The host's ends of the ports.
pub(super) struct Session {
    streams: Vec<Stream>,
    control: Control,
    archive: File,
    /// Archive of what the command left.
    pub(super) results: PathBuf,
    /// Controllers as the guest reported them.
    pub(super) controllers: Vec<Controller>,
}

enum Stream {
    Listening(Port, UnixListener),
    Connected(Port, UnixStream),
    Closed,
}

impl Stream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Listening(_, listener) => Some(listener.as_fd()),
            Self::Connected(_, stream) => Some(stream.as_fd()),
            Self::Closed => None,
        }
    }
}

/// Longest pause between two looks at the interrupt flag.
const TICK: Duration = Duration::from_millis(250);
/// Time for the guest to power off once the command has ended.
const POWER_OFF: Duration = Duration::from_secs(30);

impl Session {
    /// Makes the sockets that QEMU connects to.
    pub(super) fn listen(folder: &Path) -> Result<Self, LabError> {
        let streams = Port::ALL
            .into_iter()
            .map(|port| {
                let path = socket(folder, port);
                let listener =
                    UnixListener::bind(&path).map_err(LabError::io("listen on socket", &path))?;
                Ok(Stream::Listening(port, listener))
            })
            .collect::<Result<_, LabError>>()?;
        let results = folder.join("out.tar");
        let archive = File::create(&results).map_err(LabError::io("create", &results))?;
        let (control, controllers) = (Control::default(), Vec::new());
        Ok(Self { streams, control, archive, results, controllers })
    }

    /// Passes streams on until QEMU has ended, time is up or somebody interrupts.
    pub(super) fn serve(
        &mut self,
        qemu: &mut Qemu,
        deadline: Instant,
        interrupt: &AtomicBool,
        stdout: &mut (dyn Write + Send),
        stderr: &mut (dyn Write + Send),
    ) -> Result<Ended, LabError> {
        let mut limit = deadline;
        let mut end = None;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                qemu.kill();
                return Ok(Ended::Interrupted);
            }
            let now = Instant::now();
            if now >= limit {
                qemu.kill();
                return Ok(end.unwrap_or(Ended::TimedOut));
            }
            let (has_ended, ready) = self.wait(qemu, (limit - now).min(TICK))?;
            for index in ready {
                self.advance(index, stdout, stderr)?;
            }
            if end.is_none() {
                end = self.take_messages();
                if end.is_some() {
                    limit = deadline.min(Instant::now() + POWER_OFF);
                }
            }
            if has_ended {
                break;
            }
        }
        self.drain(stdout, stderr)?;
        let status = qemu.wait()?;
        let end = end.or_else(|| self.take_messages());
        if end.is_none() && interrupt.load(Ordering::Relaxed) {
            // Ctrl-C reaches QEMU as well, which may be the first to end.
            return Ok(Ended::Interrupted);
        }
        Ok(end.unwrap_or_else(|| {
            let complaint = qemu.complaint();
            let separator = if complaint.is_empty() { "" } else { ": " };
            Ended::Died(format!("QEMU ended ({status}){separator}{complaint}"))
        }))
    }

    /// Waits for QEMU's end or for streams that are ready, whose positions it returns.
    fn wait(&self, qemu: &Qemu, longest: Duration) -> Result<(bool, Vec<usize>), LabError> {
        let mut positions = Vec::new();
        let mut fds = vec![PollFd::new(&qemu.exit, PollFlags::IN)];
        for (index, stream) in self.streams.iter().enumerate() {
            if let Some(fd) = stream.fd() {
                positions.push(index);
                fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            }
        }
        let timeout = Timespec::try_from(longest)
            .map_err(|error| LabError::os("wait for QEMU")(io::Error::other(error)))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, Vec::new())),
            Err(error) => return Err(LabError::os("wait for QEMU")(error)),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let has_ended = is_ready(&fds[0]);
        let ready = positions
            .into_iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| is_ready(fd))
            .map(|(index, _)| index);
        Ok((has_ended, ready.collect()))
    }

    /// Accepts a connection or passes on one buffer.
    fn advance(
        &mut self,
        index: usize,
        stdout: &mut (dyn Write + Send),
        stderr: &mut (dyn Write + Send),
    ) -> Result<(), LabError> {
        let mut buffer = [0; 64 << 10];
        let (port, read) = match &mut self.streams[index] {
            Stream::Closed => return Ok(()),
            Stream::Listening(port, listener) => {
                let port = *port;
                let (stream, _) = listener.accept().map_err(LabError::os("accept QEMU's port"))?;
                self.streams[index] = Stream::Connected(port, stream);
                return Ok(());
            }
            Stream::Connected(port, stream) => match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                // A killed QEMU resets its sockets.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (*port, 0),
                result => (*port, result.map_err(LabError::os("read a port of the guest"))?),
            },
        };
        if read == 0 {
            self.streams[index] = Stream::Closed;
            return Ok(());
        }
        let bytes = &buffer[..read];
        match port {
            Port::Stdout => pass(stdout, bytes),
            Port::Stderr => pass(stderr, bytes),
            Port::Control => self.control.add(bytes),
            Port::Out => {
                self.archive.write_all(bytes).map_err(LabError::io("write", &self.results))
            }
        }
    }

    /// Reads to the end what QEMU, which has ended, left in the sockets.
    fn drain(
        &mut self,
        stdout: &mut (dyn Write + Send),
        stderr: &mut (dyn Write + Send),
    ) -> Result<(), LabError> {
        for index in 0..self.streams.len() {
            while matches!(self.streams[index], Stream::Connected(..)) {
                self.advance(index, stdout, stderr)?;
            }
        }
        Ok(())
    }

    /// Takes in what the guest said; returns its last word when that has come.
    fn take_messages(&mut self) -> Option<Ended> {
        while let Some(message) = self.control.next() {
            match message {
                Ok(Message::Controller { name, address, translated }) => {
                    self.controllers.push(Controller { name, address, translated });
                }
                Ok(Message::Started) => tracing::debug!("command started"),
                Ok(Message::Exited { status }) => return Some(Ended::Exited(status)),
                Ok(Message::Failed { reason }) => return Some(Ended::Failed(reason)),
                Err(error) => return Some(Ended::Failed(format!("unreadable message: {error}"))),
            }
        }
        None
    }
}

fn pass(target: &mut (dyn Write + Send), bytes: &[u8]) -> Result<(), LabError> {
    target
        .write_all(bytes)
        .and_then(|()| target.flush())
        .map_err(LabError::os("pass on the command's output"))
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
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_whole_in_whatever_pieces_they_come() {
        let text = b"{\"is\":\"started\"}\n{\"is\":\"exited\",\"status\":7}\n";
        for piece in 1..text.len() {
            let mut control = Control::default();
            let mut messages = Vec::new();
            for bytes in text.chunks(piece) {
                control.add(bytes).expect("short");
                while let Some(message) = control.next() {
                    messages.push(message.expect("message"));
                }
            }
            assert_eq!(messages, [Message::Started, Message::Exited { status: 7 }]);
        }
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let mut control = Control::default();
        assert!(control.add(&vec![b'x'; Control::LONGEST]).is_ok());
        assert!(control.add(b"x").is_err());
    }
}
