//! Memory of one GPU, used by another.
//!
//! The one thing to know: that the driver grants access is no proof that stores arrive.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::PeerAccess;
