//! The flow engine: transfers as fluids that share links, memories and drives.
//!
//! Leaves out single packets, and so the distribution of latency, see `tlp`. Rates are not max-min
//! fair. PCIe takes turns among input ports and pushes back with credits, and `solve` finds where
//! that settles.

pub(crate) mod build;
#[cfg(test)]
pub(crate) mod compare;
pub(crate) mod network;
pub(crate) mod parts;
pub mod rates;
pub(crate) mod run;
pub mod solve;
