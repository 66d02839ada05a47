//! A stream of a GPU, its events and the start of a copy: the parts of lanes and queues.
//!
//! A stream keeps no memory. Its user keeps the memory that its work needs, and abandons the stream
//! where the work does not end.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::StreamMark;
pub(super) use ffi::{CudaEvent, CudaStream, Timing, settles};
