//! Elapsed time of work that reports no progress: a line with the seconds so far on a terminal,
//! else nothing.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::{CountLine, Printer};

/// Time between two changes, and before the line is shown: shorter work needs none.
const INTERVAL: Duration = Duration::from_secs(1);

/// A line on standard error, which goes when this is dropped.
pub(crate) struct Elapsed {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Elapsed {
    /// A line of progress in the words of `words`; none with `-q`, if standard error is not a
    /// terminal, or if no thread is left to write it.
    pub(crate) fn start(printer: Printer, words: impl Fn() -> String + Send + 'static) -> Self {
        let mut count = CountLine::new(printer);
        let (end, is_over) = channel();
        let start = Instant::now();
        let show = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                count.set(|| format!("{}, {} s so far", words(), start.elapsed().as_secs()));
            }
            count.finish();
        };
        let thread =
            CountLine::is_wanted(printer).then(|| Builder::new().spawn(show).ok()).flatten();
        Self { end: Some(end), thread }
    }
}

impl Drop for Elapsed {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A line that could not be shown is no loss.
            let _ = thread.join();
        }
    }
}
