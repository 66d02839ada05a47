//! What lanes and queues are made of: a stream of a GPU, its events, and how a copy is handed to it.
//!
//! The one thing to know: a stream knows no memory. Whoever gives it work keeps what that works on, and
//! abandons the stream where the work does not end.

#[allow(unsafe_code)]
mod ffi;

pub(super) use ffi::{Event, Stream, Timing, settles};
