//! Performance counters of a whole CPU or of a unit outside it (`perf_event_open(2)`).
//!
//! It is in this crate since the call has no safe wrapper among our libraries and `unsafe` stays in
//! few crates. It knows no event: the caller chooses one.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::{Counter, CounterEvent, CounterReading};
