//! The search on images, on the mock of CUDA and with the real NVRTC: one program, which is linked once.

#[path = "../../../memory/mock-cuda/mod.rs"]
mod mock;
#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../../../memory/tests/real_nvrtc/mod.rs"]
mod real_nvrtc;
#[path = "../../../../tools/testing.rs"]
mod testing;

mod gpu;
mod gpu_batches;
mod images;
mod kinds;
mod nvrtc;
