//! QEMU's monitor: changes to a running machine from outside.
//!
//! Each request has a connection of its own and a thread of its own, since a guest may take seconds to
//! let a drive go and its output has to be passed on meanwhile.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::network::NETWORK;
use crate::short_path::ShortFolder;

/// Socket in the run's folder.
pub(super) const SOCKET: &str = "qmp";
/// Longest wait for a guest that is to let a drive go; its driver waits 30 s for requests.
const DEADLINE: Duration = Duration::from_secs(90);

/// Arguments of QEMU that open the monitor.
pub(super) fn arguments() -> [String; 4] {
    [
        "-chardev".to_owned(),
        format!("socket,id=qmp,path={SOCKET},server=on,wait=off"),
        "-mon".to_owned(),
        "chardev=qmp,mode=control".to_owned(),
    ]
}

/// Pulls a device out and waits until it is gone (QEMU's event `DEVICE_DELETED`).
///
/// # Errors
/// When QEMU refuses, or the guest does not let it go in time.
pub(super) fn unplug(folder: &Path, device: &str) -> io::Result<()> {
    let mut monitor = Monitor::open(folder)?;
    monitor.ask(&json!({ "execute": "device_del", "arguments": { "id": device } }))?;
    monitor.until(|message| {
        message["event"] == "DEVICE_DELETED" && message["data"]["device"] == device
    })?;
    Ok(())
}

/// Takes the network link down or up.
///
/// # Errors
/// When QEMU refuses.
pub(super) fn set_link(folder: &Path, is_up: bool) -> io::Result<()> {
    let mut monitor = Monitor::open(folder)?;
    monitor.ask(&json!({ "execute": "set_link", "arguments": { "name": NETWORK, "up": is_up } }))
}

struct Monitor {
    lines: BufReader<UnixStream>,
    deadline: Instant,
    /// Events that came before they were waited for.
    early: Vec<Value>,
}

impl Monitor {
    fn open(folder: &Path) -> io::Result<Self> {
        let folder = ShortFolder::open(folder)?;
        Self::new(UnixStream::connect(folder.join(SOCKET))?)
    }

    fn new(stream: UnixStream) -> io::Result<Self> {
        let deadline = Instant::now() + DEADLINE;
        let mut monitor = Self { lines: BufReader::new(stream), deadline, early: Vec::new() };
        monitor.until(|message| !message["QMP"].is_null())?;
        monitor.ask(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    fn ask(&mut self, request: &Value) -> io::Result<()> {
        writeln!(self.lines.get_mut(), "{request}")?;
        let answer =
            self.until(|message| !message["return"].is_null() || !message["error"].is_null())?;
        match answer["error"]["desc"].as_str() {
            Some(reason) => Err(io::Error::other(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Reads up to the first message that is wanted.
    fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> io::Result<Value> {
        if let Some(at) = self.early.iter().position(&is_wanted) {
            return Ok(self.early.remove(at));
        }
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the guest keeps the drive"));
            }
            self.lines.get_ref().set_read_timeout(Some(left))?;
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let message: Value = serde_json::from_str(&line)?;
            if is_wanted(&message) {
                return Ok(message);
            }
            self.early.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A monitor that answers each request with the next of `answers`.
    fn answering(
        answers: &'static [&'static str],
    ) -> (tempfile::TempDir, std::thread::JoinHandle<String>) {
        let folder = tempfile::tempdir().expect("folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("socket");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
            writeln!(stream, "{{\"QMP\": {{\"version\": {{}}}}}}").expect("greeting");
            let mut asked = String::new();
            for answer in answers {
                lines.read_line(&mut asked).expect("a request");
                stream.write_all(answer.as_bytes()).expect("an answer");
            }
            asked
        });
        (folder, thread)
    }

    #[test]
    fn device_is_gone_after_qemu_event() {
        let (folder, thread) = answering(&[
            "{\"return\": {}}\n",
            "{\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"other\"}}\n{\"return\": {}}\n\
             {\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"fn4\"}}\n",
        ]);
        unplug(folder.path(), "fn4").expect("unplugged");
        let asked = thread.join().expect("a monitor");
        assert!(asked.contains("device_del") && asked.contains("\"fn4\""), "{asked}");
    }

    #[test]
    fn refusal_keeps_words_of_qemu() {
        let (folder, thread) = answering(&[
            "{\"return\": {}}\n",
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"Bus does not support hotplugging\"}}\n",
        ]);
        let error = unplug(folder.path(), "fn4").expect_err("refused");
        assert!(error.to_string().contains("does not support hotplugging"), "{error}");
        thread.join().expect("a monitor");
        assert!(unplug(folder.path(), "fn4").is_err(), "a monitor that is gone");
    }
}
