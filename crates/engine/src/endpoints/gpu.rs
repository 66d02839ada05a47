//! GPUs of this machine, as CUDA shows them.

use peerlane_memory::cuda::{Cuda, CudaError, GpuFacts};

use super::GpuName;

/// Finds a GPU by its name.
///
/// # Errors
/// [`CudaError`] without CUDA or such a GPU.
pub fn find_gpu(name: GpuName) -> Result<(Cuda, GpuFacts), CudaError> {
    let cuda = Cuda::load()?;
    let gpus = cuda.gpus()?;
    let is_it = |one: &&GpuFacts| match name {
        GpuName::Index(index) => one.index == index,
        GpuName::Address(address) => one.address == address,
    };
    match gpus.iter().find(is_it) {
        Some(facts) => Ok((cuda, facts.clone())),
        None => {
            let asked = format!("gpu:{name}");
            let shown = gpus.iter().map(|one| one.address.to_string()).collect();
            Err(CudaError::NoSuchGpu { asked, shown })
        }
    }
}
