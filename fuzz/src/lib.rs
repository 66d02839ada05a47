//! Everything that reads bytes which somebody else wrote, as one function each.
//!
//! The fuzz targets call these, and so does a test of the main workspace with seeded damage to the
//! same corpora, so that both always judge the same thing. A function panics when the program would,
//! or when something is not as it says.
#![forbid(unsafe_code)]

mod targets;

pub use targets::*;
