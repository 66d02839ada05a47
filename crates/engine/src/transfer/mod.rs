//! Carries plans out: copies, proofs of a route, reads, loads, comparisons, exports.

pub(crate) mod copy;
pub mod export;
pub mod load;
pub(crate) mod peer_proof;
pub mod prove;
pub mod read;
pub mod relay;
pub mod shares;
pub mod stages;
pub mod verify;
