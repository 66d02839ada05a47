//! A program of Prometheus that serves on the loopback interface while a test runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest wait for a program or its answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The folder of unpacked packages, or `None` with a skip.
pub(crate) fn packages() -> Option<PathBuf> {
    let folder = std::env::var_os("PEERLANE_PROMETHEUS").filter(|folder| !folder.is_empty());
    if folder.is_none() {
        let reason = "PEERLANE_PROMETHEUS names no folder of Prometheus, node_exporter and \
                      prometheus_client; tools/fetch-packages prometheus fills one";
        peerlane_testing::skip("prometheus", reason);
    }
    folder.map(PathBuf::from)
}

/// The program, ended with the value.
pub(crate) struct Served {
    child: Child,
    address: String,
}

impl Served {
    /// Starts it on a free port, and waits until its log says which.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that the pipe never fills.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(address) = listening_address(&line) {
                    let _ = sender.send(address);
                }
            }
        });
        let mut served = Self { child, address: String::new() };
        served.address = receiver.recv_timeout(DEADLINE).expect("an address that it listens on");
        served
    }

    /// The answer to a request for a path, with its head.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        // With HTTP/1.0 the end of the answer is the end of the connection.
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in the line of the log that says where it listens.
fn listening_address(line: &str) -> Option<String> {
    let rest = line.split_once("Listening on")?.1.split_once("address=")?.1;
    rest.split_whitespace().next().map(str::to_owned)
}
