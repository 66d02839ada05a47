//! Memory of devices by its drivers and their mocks, and libblkid: one program, which is linked once.

#[path = "../blkid_images/mod.rs"]
mod blkid_images;
#[path = "../../mock-cuda/mod.rs"]
mod mock;
#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../real_nvrtc/mod.rs"]
mod real_nvrtc;
#[allow(dead_code, reason = "each crate whose tests use it needs a part of it")]
#[path = "../xrt_mock/mod.rs"]
mod xrt_mock;

mod blkid;
mod chunk_digest;
mod chunk_kernels;
mod cuda;
mod cufile;
mod nvrtc;
mod toy_provider;
mod xrt;
mod xrt_kernels;
