//! Readers of untrusted bytes, as one function each.
//!
//! The fuzz targets call these, and so does a test of the main workspace with seeded damage to the
//! same corpora: both always judge the same thing. A function panics when the program would, or
//! when a result is not as it says.
#![forbid(unsafe_code)]

mod targets;

pub use targets::*;
