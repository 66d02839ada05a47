//! Memory of FPGA cards that XRT maps, by the name `fpga:`.

use std::path::Path;

use peerlane_fabric::{DriverBinding, Fabric, Function, FunctionId, FunctionKind};
use peerlane_units::Bytes;

use super::{Provider, ProviderKind, ProviderRefusal};
use crate::region::Region;
use crate::xrt;

/// The driver of cards that lends their memory.
const DRIVER: &str = "xocl";
/// Environment variable that names the image whose memory groups are taken.
const XCLBIN: &str = "PEERLANE_XCLBIN";

/// Cards with XRT.
#[derive(Debug)]
pub(super) struct XrtProvider;

impl Provider for XrtProvider {
    fn forms(&self) -> &'static [&'static str] {
        self.kind().forms()
    }

    fn kind(&self) -> ProviderKind {
        ProviderKind::Card
    }

    fn lends(&self, fabric: &Fabric, id: FunctionId) -> bool {
        fabric.function(id).kind == FunctionKind::Fpga && fabric.memory(id).is_some()
    }

    fn prefix_for(&self, function: &Function) -> Option<&'static str> {
        (function.kind == FunctionKind::Fpga && function.p2pmem.is_none()).then_some("fpga")
    }

    fn missing(&self, fabric: &Fabric, function: &Function) -> Vec<String> {
        let mut missing = Vec::new();
        missing.extend(other_driver(&function.driver));
        if function.fpga_p2p == Some(false) {
            missing.push("the card does not lend its memory: p2p_enable is 0".to_owned());
        }
        let is_absent = |list: &Vec<String>| !list.iter().any(|name| name == xrt::LIBRARY);
        if fabric.libraries.as_ref().is_some_and(is_absent) {
            missing.push(format!("there is no {} (XRT) to ask for it", xrt::LIBRARY));
        }
        missing
    }

    fn allocate(
        &self,
        root: &Path,
        address: &str,
        length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        let mut card = xrt::Xrt::load()?.open(root, address)?;
        if let Some(image) = std::env::var_os(XCLBIN).filter(|image| !image.is_empty()) {
            card.load(Path::new(&image))?;
        }
        Ok(card.allocate(length)?)
    }
}

/// The reason why the driver of a card lends no memory; `None` for `xocl`.
fn other_driver(driver: &DriverBinding) -> Option<String> {
    match driver {
        DriverBinding::Bound(name) if name == DRIVER => None,
        DriverBinding::Bound(name) => {
            Some(format!("its driver is {name}, not xocl, which lends the memory"))
        }
        DriverBinding::Unbound => {
            Some("it has no driver, and only xocl lends the memory".to_owned())
        }
        DriverBinding::Unknown => {
            Some("its driver is unknown, and only xocl lends the memory".to_owned())
        }
    }
}
