//! Host memory, by the name `host`.

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId};
use peerlane_units::Bytes;

use super::{Provider, ProviderKind, ProviderRefusal};
use crate::region::Region;

/// Host memory: a bounce buffer.
#[derive(Debug)]
pub(super) struct HostProvider;

impl Provider for HostProvider {
    fn forms(&self) -> &'static [&'static str] {
        self.kind().forms()
    }

    fn kind(&self) -> ProviderKind {
        ProviderKind::Host
    }

    fn find(&self, _fabric: &Fabric, _name: &str) -> Option<FunctionId> {
        None
    }

    fn lends(&self, _fabric: &Fabric, _id: FunctionId) -> bool {
        false
    }

    fn prefix_for(&self, _function: &Function) -> Option<&'static str> {
        None
    }

    fn allocate(
        &self,
        _root: &Path,
        _address: &str,
        length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        Ok(crate::host::allocate(length)?)
    }
}
