use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use super::super::outlet::Output;
use super::*;

#[test]
fn split_messages_are_read_whole() {
    let text = b"{\"is\":\"started\"}\n{\"is\":\"failed\",\"reason\":\"x\"}\n";
    for piece in 1..text.len() {
        let mut control = Control::default();
        let mut messages = Vec::new();
        for bytes in text.chunks(piece) {
            control.add(bytes).expect("short");
            while let Some(message) = control.next() {
                messages.push(message.expect("message"));
            }
        }
        assert_eq!(messages, [Message::Started, Message::Failed { reason: "x".to_owned() }]);
    }
}

const A_DAY: Duration = Duration::from_secs(86_400);
/// More than pipes and sockets on the way hold.
const MORE: usize = 4 << 20;

fn session(folder: &Path, stdout: Output, reader: Option<Arc<OwnedFd>>) -> GuestSession {
    let outlets = Outlets::new(stdout, Box::new(io::sink()), reader).expect("outlets");
    GuestSession::listen(folder, outlets, Moments::default(), CardWorkers::default())
        .expect("a session")
}

fn connect(folder: &Path, port: GuestPort) -> UnixStream {
    UnixStream::connect(folder.join(port.name())).expect("the host listens")
}

fn qemu(program: &str, arguments: &[&str], folder: &Path) -> Qemu {
    let program = crate::tools::in_path(program).expect("a program");
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    Qemu::start(&program, &arguments, folder, false).expect("it runs")
}

fn pipe() -> (File, File) {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    (reader.into(), writer.into())
}

#[test]
fn closed_reader_ends_run_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let (reader, writer) = pipe();
    let watched = Some(Arc::new(writer.into()));
    let mut session = session(folder.path(), Box::new(io::sink()), watched);
    let mut guest = qemu("sleep", &["100"], folder.path());
    drop(reader);
    let deadline = Instant::now() + A_DAY;
    let ended = session.serve(&mut guest, deadline, &AtomicBool::new(false));
    assert!(matches!(ended, Err(LabError::ReaderGone)), "{ended:?}");
}

#[test]
fn stalled_reader_ends_at_deadline() {
    let folder = tempfile::tempdir().expect("folder");
    let (mut reader, writer) = pipe();
    let mut session = session(folder.path(), Box::new(writer), None);
    let mut guest = qemu("sleep", &["100"], folder.path());
    let mut stdout = connect(folder.path(), GuestPort::Stdout);
    // As much as the socket takes is there before the time begins to run.
    stdout.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    while let Ok(length) = stdout.write(&vec![b'x'; MORE - sent]) {
        sent += length;
    }
    stdout.set_nonblocking(false).expect("a socket");
    let writing = std::thread::spawn(move || {
        // It does not end before the session does.
        let _ = stdout.write_all(&vec![b'x'; MORE - sent]);
    });
    let (deadline, interrupt) = (Instant::now() + 4 * TICK, AtomicBool::new(false));
    let ended = session.serve(&mut guest, deadline, &interrupt).expect("an end");
    assert_eq!(ended, GuestEnd::TimedOut);
    let unread = session.finish(deadline, &interrupt);
    let Err(LabError::Unread { stdout: left, stderr: 0, end: None }) = unread else {
        panic!("{unread:?}")
    };
    let given = session.outlets.stdout.given();
    drop(session);
    let taken = usize::try_from(given - left).expect("a size");
    reader.read_exact(&mut vec![0; taken]).expect("what was not left was taken");
    assert!(left > 0 && given < MORE as u64, "{given} of {MORE} were taken from the guest");
    writing.join().expect("no panic");
}

#[test]
fn guest_is_released_after_last_byte() {
    let folder = tempfile::tempdir().expect("folder");
    let at = folder.path();
    assert!(std::process::Command::new("mkfifo").arg(at.join("end")).status().is_ok());
    let (mut reader, writer) = pipe();
    let mut session = session(at, Box::new(writer), None);
    let mut guest = qemu("cat", &["end"], at);
    let mut ports = [GuestPort::Stdout, GuestPort::Control].map(|port| connect(at, port));
    let end = at.join("end");
    let acting = std::thread::spawn(move || {
        let [stdout, control] = &mut ports;
        let sent = Sent { stdout: MORE as u64, ..Sent::default() };
        let last = Message::Exited { status: 7, sent };
        let last = serde_json::to_string(&last).expect("JSON");
        writeln!(control, "{last}").expect("room");
        stdout.write_all(&vec![b'x'; MORE - 1]).expect("the host takes it");
        control.set_nonblocking(true).expect("a socket");
        let early = control.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(early, Err(io::ErrorKind::WouldBlock), "a byte is missing");
        control.set_nonblocking(false).expect("a socket");
        stdout.write_all(b"x").expect("the host takes it");
        let mut answer = [0; DONE.len()];
        control.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *DONE.as_bytes());
        // Its end is that of what stands for QEMU.
        drop(File::options().write(true).open(end).expect("it is read"));
    });
    let reading = std::thread::spawn(move || {
        let mut found = Vec::new();
        reader.read_to_end(&mut found).map(|_| found.len())
    });
    let (deadline, interrupt) = (Instant::now() + A_DAY, AtomicBool::new(false));
    let ended = session.serve(&mut guest, deadline, &interrupt).expect("an end");
    assert_eq!(ended, GuestEnd::Exited(7));
    session.finish(deadline, &interrupt).expect("all is read");
    drop(session);
    acting.join().expect("it was let go");
    assert_eq!(reading.join().expect("no panic").expect("it"), MORE);
}

#[test]
fn long_folder_path_takes_sockets() {
    let folder = tempfile::tempdir().expect("folder");
    let long = folder.path().join("x".repeat(120));
    std::fs::create_dir(&long).expect("a folder");
    let session = session(&long, Box::new(io::sink()), None);
    assert_eq!(session.streams.len(), GuestPort::ALL.len());
    for port in GuestPort::ALL {
        assert!(long.join(port.name()).exists());
    }
}

#[test]
fn a_message_without_end_is_refused() {
    let mut control = Control::default();
    assert!(control.add(&vec![b'x'; Control::LONGEST]).is_ok());
    assert!(control.add(b"x").is_err());
}
