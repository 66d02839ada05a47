//! Performance counters of a whole CPU or of a unit outside it (`perf_event_open(2)`).
//!
//! Beside the memories, since the call has no safe wrapper among our libraries and `unsafe` stays in few
//! crates. It knows no event: the caller says what is counted.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::{Counter, CounterEvent, CounterReading};
