//! Writing to a file or stream that may take bytes slowly or never.
//!
//! A thread of its own does it, and ends with the program if the bytes have no reader. Non-blocking
//! mode is no way out: other processes may have the stream open and need it blocking. And only a
//! blocking write tells how much a terminal takes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use super::session::TICK;

/// Something that is being written.
pub(super) struct Writing(Receiver<io::Result<()>>);

/// Reason to give up waiting for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    Late,
    Interrupted,
}

impl Writing {
    /// Begins to write.
    pub(super) fn start(
        name: &str,
        write: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (done, written) = mpsc::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // An error means that no one waits for it any more.
            let _ = done.send(write());
        })?;
        Ok(Self(written))
    }

    /// Waits until `deadline` or a signal, and a moment longer: a reader that keeps up has all of
    /// it in any case.
    pub(super) fn wait(
        &self,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<io::Result<()>, GivenUp> {
        loop {
            // Looked at before the wait, so that each way out has waited once.
            let (is_over, is_interrupted) =
                (Instant::now() >= deadline, interrupt.load(Ordering::Relaxed));
            match self.0.recv_timeout(TICK) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) if is_interrupted => {
                    return Err(GivenUp::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if is_over => return Err(GivenUp::Late),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(ended())),
            }
        }
    }

    /// Result of a write that has ended or is about to.
    pub(super) fn result(&self) -> io::Result<()> {
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> io::Error {
    io::Error::other("what wrote it has ended")
}
