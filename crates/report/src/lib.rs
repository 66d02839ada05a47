//! Records for people: HTML, Markdown, CSV, traces. One file a format.
//!
//! Leaves out measuring and predicting. The one thing to know: it shows what records hold and never
//! computes a figure that they do not support.
#![forbid(unsafe_code)]

pub mod trace;
