//! Machines and workloads by notation and seed: for sweeps over sizes, tests and benchmarks.
//!
//! Equal notations give equal results. Names of `servers` and `pods` begin with the machine and a slash (`s3/d7`), and
//! nothing joins machines. Addresses, identifiers and a kernel are left out.

mod draws;
mod machine_file;
mod notation;

#[cfg(test)]
mod tests;

pub use draws::Draws;
pub use notation::{LenderNames, NotationError, fabric, workload};
