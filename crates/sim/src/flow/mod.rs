//! The flow engine: transfers as fluids that share links, memories and drives.
//!
//! Leaves out single packets, and so the distribution of latency, which the TLP engine has. The one
//! thing to know: rates are not max-min fair. PCIe takes turns among input ports and pushes back with
//! credits, and `solve` finds where that settles.

pub mod build;
pub mod compare;
pub mod network;
pub mod parts;
pub mod rates;
pub mod run;
pub mod settle;
pub mod solve;
