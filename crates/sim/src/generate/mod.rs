//! Machines and flows by generator: for benchmarks, for sweeps over sizes, and to look for cases in
//! which the engines differ.
//!
//! Leaves out real machines, which machine files have. The one thing to know: the same arguments give
//! the same result, always.

mod draws;
mod fabrics;
mod machines;

pub use draws::Draws;
pub use fabrics::{NotationError, fabric, workload};
pub use machines::{Machine, pods, servers, tree};

#[cfg(test)]
mod tests;
