//! The flow engine: transfers as fluids that share links, memories and drives.
//!
//! Leaves out single packets, and so the distribution of latency, see `tlp`. Rates are not max-min
//! fair. PCIe takes turns among input ports and pushes back with credits, and `solve` finds where
//! that settles.

pub(crate) mod build;
pub(crate) mod network;
mod rates;
pub(crate) mod run;
pub(crate) mod solve;
#[cfg(test)]
pub(crate) mod tests;

pub use network::NotPositive;
pub(crate) use rates::build;
pub use rates::{FlowRates, RatesError};
pub use solve::SolverSettings;
