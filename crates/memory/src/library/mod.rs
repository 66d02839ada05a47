//! Libraries of makers, opened when the program runs, so that nothing is linked.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub(crate) mod ffi;
