//! Records for people: HTML, Markdown, CSV, traces. One file a format.
//!
//! Leaves out measuring and predicting. The one thing to know: it shows what records hold and never
//! computes a figure that they do not support.
#![forbid(unsafe_code)]

mod chart;
mod ink;
pub mod machine;
mod plain;
mod record;

pub use ink::Paper;
pub use record::{RECORD_MAX, ReadError, Record, SCHEMAS};
