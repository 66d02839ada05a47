//! The streams of a running guest: one loop over QEMU's end and four sockets, one deadline.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::moments::Moments;
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
pub(super) struct Session {
    streams: Vec<Stream>,
    control: Control,
    archive: File,
    /// Where the command's output goes; the run ends when nobody reads it any more.
    output: Option<Arc<OwnedFd>>,
    /// Archive of what the command left.
    pub(super) results: PathBuf,
    /// Controllers as the guest reported them.
    pub(super) controllers: Vec<Controller>,
    /// What happens while the command runs.
    pub(super) moments: Moments,
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
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Time for the guest to power off once the command has ended.
const POWER_OFF: Duration = Duration::from_secs(30);

impl Session {
    /// Makes the sockets that QEMU connects to.
    pub(super) fn listen(
        folder: &Path,
        output: Option<Arc<OwnedFd>>,
        moments: Moments,
    ) -> Result<Self, LabError> {
        // The address of a socket has room for 107 bytes (unix(7)), which a path may exceed.
        let place = File::open(folder).map_err(LabError::io("open", folder))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
        let streams = Port::ALL
            .into_iter()
            .map(|port| {
                let path = socket(folder, port);
                let listener = UnixListener::bind(socket(&short, port))
                    .map_err(LabError::io("listen on socket", &path))?;
                Ok(Stream::Listening(port, listener))
            })
            .collect::<Result<_, LabError>>()?;
        let results = folder.join("out.tar");
        let archive = File::create(&results).map_err(LabError::io("create", &results))?;
        let (control, controllers) = (Control::default(), Vec::new());
        Ok(Self { streams, control, archive, output, results, controllers, moments })
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
            if end.is_none() && self.is_unread()? {
                qemu.kill();
                return Err(LabError::ReaderGone);
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
            if let Some(moment) = self.moments.take_power_cut() {
                qemu.kill();
                self.drain(stdout, stderr)?;
                return Ok(Ended::PowerCut(moment));
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

    /// Whether the reader of the command's output has gone away.
    fn is_unread(&self) -> Result<bool, LabError> {
        let Some(output) = &self.output else { return Ok(false) };
        let mut fds = [PollFd::new(output, PollFlags::empty())];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => Ok(fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(LabError::os("watch the reader of the output")(error)),
        }
    }

    /// Waits for QEMU's end or for streams that are ready, whose positions it returns.
    fn wait(&self, qemu: &Qemu, longest: Duration) -> Result<(bool, Vec<usize>), LabError> {
        let mut positions = Vec::new();
        let mut fds = vec![PollFd::new(&qemu.exit, PollFlags::IN)];
        // Without a wish it wakes up for an error only, and the loop then asks what that was.
        let before = fds.len() + usize::from(self.output.is_some());
        fds.extend(self.output.iter().map(|output| PollFd::new(output, PollFlags::empty())));
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
            .zip(&fds[before..])
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
            Port::Moments => {
                let Stream::Connected(_, stream) = &self.streams[index] else { return Ok(()) };
                let answers = stream.try_clone().map_err(LabError::os("answer the guest"))?;
                self.moments.add(bytes, &answers)
            }
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
    target.write_all(bytes).and_then(|()| target.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => LabError::ReaderGone,
        _ => LabError::os("pass on the command's output")(error),
    })
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
    fn a_reader_that_goes_away_ends_the_run_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        let (reader, writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipe");
        let mut session =
            Session::listen(folder.path(), Some(Arc::new(writer)), Moments::default())
                .expect("session");
        let sleep = crate::tools::in_path("sleep").expect("sleep");
        let mut guest =
            Qemu::start(&sleep, &["100".to_owned()], folder.path(), false).expect("run");
        drop(reader);
        let start = Instant::now();
        let deadline = start + Duration::from_secs(60);
        let interrupt = AtomicBool::new(false);
        let ended =
            session.serve(&mut guest, deadline, &interrupt, &mut Vec::new(), &mut Vec::new());
        assert!(matches!(ended, Err(LabError::ReaderGone)), "{ended:?}");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }

    #[test]
    fn a_folder_with_a_long_path_takes_the_sockets() {
        let folder = tempfile::tempdir().expect("folder");
        let long = folder.path().join("x".repeat(120));
        std::fs::create_dir(&long).expect("a folder");
        let session = Session::listen(&long, None, Moments::default()).expect("sockets");
        assert_eq!(session.streams.len(), Port::ALL.len());
        for port in Port::ALL {
            assert!(socket(&long, port).exists());
        }
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let mut control = Control::default();
        assert!(control.add(&vec![b'x'; Control::LONGEST]).is_ok());
        assert!(control.add(b"x").is_err());
    }
}
