//! Payload on its way: what carries a plan out, proves its route, reads, loads, compares, exports.

pub(crate) mod copy;
pub mod export;
pub mod load;
pub(crate) mod peer_proof;
pub mod prove;
pub mod read;
pub mod relay;
pub(crate) mod scrub;
pub mod shares;
pub mod stages;
pub mod verify;
