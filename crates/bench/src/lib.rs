//! Measures: carries workloads out, often enough, and states the evidence behind a figure.
//!
//! Leaves out how figures are shown. A result whose evidence contradicts its route is an error
//! here, never a figure.
#![forbid(unsafe_code)]

pub mod attach;
pub mod compare;
pub mod guards;
pub mod length;
pub mod record;
pub mod run;
pub mod statistics;
pub mod workload;

#[cfg(test)]
mod testing;
