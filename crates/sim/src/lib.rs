//! The fabric as a model: what a workload would do on a machine, before the machine is there.
//!
//! Leaves out what a machine really did, which is measured elsewhere. Every parameter says where it
//! comes from, and every prediction is labelled as one.
#![forbid(unsafe_code)]

mod closed;
mod devices;
pub mod flow;
pub mod generate;
mod media;
pub mod model;
pub mod parameters;
pub mod predict;
pub mod reproduce;
mod threads;
pub mod tlp;
mod way;
mod work;
