//! Pools that drivers publish to the kernel: controller memory buffers, by the name `cmb:`, and others.

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind};
use peerlane_units::Bytes;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::{Provider, ProviderKind, ProviderRefusal};
use crate::p2pmem;
use crate::region::Region;

/// The prefix for the controller memory buffer of a drive.
const CMB: &str = "cmb";
/// The prefix for any other pool.
const POOL: &str = "p2pmem";

/// The kernel's pools.
#[derive(Debug)]
pub struct P2pmemProvider;

impl Provider for P2pmemProvider {
    fn forms(&self) -> &'static [&'static str] {
        self.kind().forms()
    }

    fn kind(&self) -> ProviderKind {
        ProviderKind::Pool
    }

    fn lends(&self, fabric: &Fabric, id: FunctionId) -> bool {
        fabric.function(id).p2pmem.is_some()
    }

    fn prefix_for(&self, function: &Function) -> Option<&'static str> {
        match function.kind {
            FunctionKind::Nvme => Some(CMB),
            _ => function.p2pmem.is_some().then_some(POOL),
        }
    }

    fn missing(&self, _fabric: &Fabric, function: &Function) -> Vec<String> {
        let is_unpublished = function.p2pmem.is_some_and(|pool| !pool.published);
        let reason = "it is not published: the device supports only reads or only writes there";
        is_unpublished.then(|| reason.to_owned()).into_iter().collect()
    }

    fn denied(&self, root: &Path, address: &str) -> Option<String> {
        let file = format!("sys/bus/pci/devices/{address}/p2pmem/allocate");
        match access(root.join(&file), Access::READ_OK | Access::WRITE_OK) {
            Err(Errno::ACCESS | Errno::PERM) => Some(format!(
                "no permission to read and write /{file}: docs/privileges.md shows how a group gets it"
            )),
            _ => None,
        }
    }

    fn allocate(
        &self,
        root: &Path,
        address: &str,
        length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        let folder = root.join("sys/bus/pci/devices").join(address).join("p2pmem");
        Ok(p2pmem::allocate(&folder, length)?)
    }
}
