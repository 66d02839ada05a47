//! Memory of one GPU, used by another.
//!
//! Access that the driver grants is no proof that stores arrive.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::PeerAccess;
