//! A question to a person, answered at the terminal.
//!
//! Text typed before the question could be read is no answer to it, and an unfinished line is none
//! either. A signal ends the wait.

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use signal_hook::SigId;
use signal_hook::low_level::{pipe, unregister};

use super::Printer;
use crate::signals;

/// Longest answer that is read, in bytes; a terminal gives no more in one line (`N_TTY_BUF_SIZE`,
/// Linux 7.2 `drivers/tty/n_tty.c`).
const ANSWER_MAX: usize = 4096;

/// Answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `yes`, in full.
    Yes,
    /// Anything else, and the end of input.
    No,
    /// A signal that ends the program came instead.
    Stopped,
}

impl Printer {
    /// True when input and error output are terminals: a person can read and answer.
    pub(crate) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Puts a question, also with `-q`, and waits for a line; `is_stopped` says whether a signal came
    /// before.
    ///
    /// # Errors
    /// When signals cannot be listened for, or the terminal not be read.
    pub(crate) fn ask(
        self,
        question: &str,
        is_stopped: impl FnOnce() -> bool,
    ) -> io::Result<Reply> {
        let signals = Signals::listen()?;
        let input = io::stdin();
        tcflush(&input, QueueSelector::IFlush)?;
        self.stderr(&super::visible(question));
        if is_stopped() {
            return Ok(Reply::Stopped);
        }
        let answer = answer(&input, &signals)?;
        if answer == Reply::Stopped {
            self.stderr("\n");
        }
        Ok(answer)
    }
}

fn answer(input: &io::Stdin, signals: &Signals) -> io::Result<Reply> {
    let mut events = [
        PollFd::new(input, PollFlags::IN),
        PollFd::from_borrowed_fd(signals.reader.as_fd(), PollFlags::IN),
    ];
    loop {
        match poll(&mut events, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        if !events[1].revents().is_empty() {
            return Ok(Reply::Stopped);
        }
        if !events[0].revents().is_empty() {
            break;
        }
    }
    let mut line = [0; ANSWER_MAX];
    // A terminal that hung up cannot be read: that is an end of input.
    let length = input.lock().read(&mut line).unwrap_or(0);
    Ok(judge(&line[..length]))
}

fn judge(line: &[u8]) -> Reply {
    match line.strip_suffix(b"\n") {
        Some(word) if word.trim_ascii() == b"yes" => Reply::Yes,
        _ => Reply::No,
    }
}

/// Signals that end the program, as bytes that can be waited for.
struct Signals {
    reader: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        let mut signals = Self { reader, ids: Vec::new() };
        for signal in signals::heeded() {
            signals.ids.push(pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_yes_line_is_yes() {
        for line in ["yes\n", " yes \n", "yes\r\n"] {
            assert_eq!(judge(line.as_bytes()), Reply::Yes, "{line:?}");
        }
        for line in ["", "\n", "y\n", "yes", "YES\n", "yes yes\n", "yes\0\n", "no\n", "yes\nno\n"] {
            assert_eq!(judge(line.as_bytes()), Reply::No, "{line:?}");
        }
    }
}
