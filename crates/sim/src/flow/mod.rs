//! The flow engine: transfers as fluids that share links, memories and drives.
//!
//! Leaves out single packets, and so the distribution of latency, see `tlp`. The one thing to know: rates are not max-min
//! fair. PCIe takes turns among input ports and pushes back with credits, and `solve` finds where that settles.

pub mod build;
#[cfg(test)]
pub(crate) mod compare;
pub mod network;
pub mod parts;
pub mod rates;
pub mod run;
pub mod solve;
