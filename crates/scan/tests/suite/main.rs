//! The search on images, on the mock of CUDA and with the real NVRTC: one program, which is linked once.

mod gpu;
mod gpu_batches;
mod images;
mod kinds;
#[path = "../../../memory/mock-cuda/mod.rs"]
mod mock;
mod nvrtc;
#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../../../memory/tests/real_nvrtc/mod.rs"]
mod real_nvrtc;

// The file of another package above is where it is used.
use peerlane_testing as _;
