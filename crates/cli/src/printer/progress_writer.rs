//! Lines written by a thread of their own: a reader that is slow, or never reads, keeps no one
//! waiting. It gets the latest line and misses those between.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The longest wait for the last line to be taken.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// A queue of lines to write, with room for one.
pub(super) struct ProgressWriter(Arc<SharedLine>);

#[derive(Default)]
struct SharedLine {
    state: Mutex<WriterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WriterState {
    line: Option<String>,
    is_closed: bool,
    is_over: bool,
}

impl ProgressWriter {
    /// Starts a thread that writes the lines given to it.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(write: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(SharedLine::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("progress".to_owned()).spawn(move || theirs.serve(write))?;
        Ok(Self(shared))
    }

    /// Replaces the line that waits.
    pub(super) fn set(&self, line: String) {
        self.0.lock().line = Some(line);
        self.0.changed.notify_all();
    }

    /// Writes the last line and ends; a reader that does not take it is waited for a second.
    pub(super) fn close(&self, line: String) {
        let mut state = self.0.lock();
        (state.line, state.is_closed) = (Some(line), true);
        self.0.changed.notify_all();
        let waits = |state: &mut WriterState| !state.is_over;
        let _ = self.0.changed.wait_timeout_while(state, LAST_WAIT, waits);
    }
}

impl SharedLine {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, write: impl Fn(&str)) {
        loop {
            let mut state = self.lock();
            while state.line.is_none() && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(line) = state.line.take() else {
                state.is_over = true;
                self.changed.notify_all();
                return;
            };
            drop(state);
            write(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn slow_reader_blocks_nobody_and_gets_latest() {
        let (started, wait_started) = mpsc::channel();
        let (go, wait_go) = mpsc::channel::<()>();
        let (written, lines) = mpsc::channel();
        let writer = ProgressWriter::start(move |line: &str| {
            let _ = started.send(());
            let _ = wait_go.recv();
            let _ = written.send(line.to_owned());
        })
        .unwrap();
        writer.set("first".to_owned());
        wait_started.recv().unwrap();
        // The writer is stuck in the first line now.
        for number in 0..1000 {
            writer.set(number.to_string());
        }
        drop(go);
        writer.close("last".to_owned());
        drop(writer);
        let lines: Vec<String> = lines.iter().collect();
        assert_eq!(
            (lines.first().unwrap().as_str(), lines.last().unwrap().as_str()),
            ("first", "last")
        );
        assert!(lines.len() <= 3, "{lines:?}");
    }
}
