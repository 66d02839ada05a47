//! Memory of GPUs, by the name `gpu:`. It is not mapped: cuFile or a copy engine moves payload there.

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId, MemoryKind};
use peerlane_units::Bytes;

use super::{Provider, ProviderKind, ProviderRefusal, Reason};
use crate::region::Region;

/// GPUs with CUDA.
#[derive(Debug)]
pub(super) struct CudaProvider;

/// A region was asked for in memory that is not mapped.
#[derive(Debug, thiserror::Error)]
#[error("memory of GPU {0} is not mapped for drives")]
struct NotMapped(String);

impl Reason for NotMapped {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "`peerlane bench stream --source FILE --target gpu:{}` goes by cuFile",
            self.0
        ))
    }
}

impl Provider for CudaProvider {
    fn forms(&self) -> &'static [&'static str] {
        self.kind().forms()
    }

    fn kind(&self) -> ProviderKind {
        ProviderKind::Gpu
    }

    fn find(&self, fabric: &Fabric, name: &str) -> Option<FunctionId> {
        fabric.find_gpu(name)
    }

    fn lends(&self, fabric: &Fabric, id: FunctionId) -> bool {
        fabric.memory(id).is_some_and(|memory| memory.kind == MemoryKind::Gpu)
    }

    fn prefix_for(&self, _function: &Function) -> Option<&'static str> {
        None
    }

    fn allocate(
        &self,
        _root: &Path,
        address: &str,
        _length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        Err(NotMapped(address.to_owned()).into())
    }
}
