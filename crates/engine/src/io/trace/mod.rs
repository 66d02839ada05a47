//! Notes the requests of a ring and the times of its answers, without slowing it.
//!
//! A [`Tracer`] is passed in; each ring that works for it keeps a `NoteLog` of its own in memory
//! taken beforehand: a request costs two notes of 48 bytes, no allocation, no lock and no system
//! call. A full log counts the notes that it leaves out. [`Tracer::finish`] pairs the notes
//! afterwards. Without a tracer, `Traced` is a branch that is never taken.
//!
//! A request is timed from the moment at which it is handed to the kernel to the moment at which
//! the engine sees its end.

mod log;
mod requests;
mod tally;
mod traced;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use peerlane_results::Trace;

use crate::io::clock::Clock;
pub(crate) use log::NoteLog;
pub(crate) use traced::Traced;

/// Notes that a tracer has room for, unless its maker says otherwise: 48 MiB, which is enough for
/// about 200 000 blocks that are read and written.
pub const ROOM: usize = 1 << 20;

/// Collects the logs of all rings that work for it. Clones are the same tracer.
#[derive(Clone)]
pub struct Tracer(Arc<SharedTrace>);

pub(super) struct SharedTrace {
    clock: Arc<dyn Clock + Send + Sync>,
    books: Mutex<Books>,
    /// Rings that may work at the same time; they share the room.
    at_once: usize,
}

struct Books {
    /// Notes that are neither used nor lent.
    room: usize,
    /// Notes that were handed over, in the order of their end.
    ended: Vec<log::Notes>,
}

impl Tracer {
    /// A tracer with room for `room` notes, for so many copies at a time. The clock is the one that
    /// the copies are given.
    pub fn new(clock: impl Clock + Send + Sync + 'static, room: usize, at_once: usize) -> Self {
        let books = Mutex::new(Books { room, ended: Vec::new() });
        Self(Arc::new(SharedTrace { clock: Arc::new(clock), books, at_once: at_once.max(1) }))
    }

    /// A log for one ring.
    pub fn log(&self, name: String) -> NoteLog {
        let room = {
            let mut books = self.0.books.lock().unwrap_or_else(PoisonError::into_inner);
            let room = books.room.min(books.room.div_ceil(self.0.at_once));
            books.room -= room;
            room
        };
        NoteLog::new(name, Box::new(Arc::clone(&self.0.clock)), room, Some(Arc::clone(&self.0)))
    }

    /// Returns the traces, in the order of their beginnings, without logs of rings that still work.
    pub fn finish(&self) -> Vec<Trace> {
        let mut books = self.0.books.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = std::mem::take(&mut books.ended);
        drop(books);
        ended.sort_by_key(|notes| notes.begin);
        ended.into_iter().map(log::Notes::read).collect()
    }
}

impl SharedTrace {
    fn take(&self, notes: log::Notes, unused: usize) {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.room += unused;
        books.ended.push(notes);
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
