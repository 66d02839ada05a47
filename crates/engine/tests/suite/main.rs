//! The engine on real files, on the mocks of CUDA and XRT, and its published results: one program, which is linked once.

#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../memory/mock-cuda/mod.rs"]
mod mock;
#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../../../memory/tests/xrt_mock/mod.rs"]
mod xrt_mock;

mod gpu;
mod load;
mod reliability;
mod uring;
mod xrt;

use peerlane_testing as testing;
