//! The machine as records have it.

use peerlane_fabric::Fabric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Warning;

/// PCI vendor of the devices that QEMU makes up.
const QEMU_VENDOR: u16 = 0x1b36;

/// The machine that a command ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Host name, or the machine's name in its description.
    pub name: String,
    /// FNV-1a digest of the fabric's TOML form, hexadecimal.
    pub fabric: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of this program.
    pub program: String,
}

impl From<&Fabric> for Machine {
    fn from(fabric: &Fabric) -> Self {
        Self {
            name: fabric.name.clone(),
            fabric: format!("{:016x}", fnv1a(fabric.to_toml().as_bytes())),
            kernel: fabric.kernel.release.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// FNV-1a, 64 bits (draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Warnings about the machine and the program, for the readers of a record.
pub fn warnings_of_machine(fabric: &Fabric) -> Vec<Warning> {
    let is_made_up = |model: Option<&str>| model.is_some_and(|model| model.contains("QEMU"));
    let sign = fabric.functions.iter().find_map(|function| {
        let model = function.nvme.as_ref().and_then(|nvme| nvme.model.as_deref());
        if is_made_up(model) {
            return model.map(|model| model.trim().to_owned());
        }
        (function.vendor == Some(QEMU_VENDOR)).then(|| format!("{} is QEMU's", function.name))
    });
    let mut warnings: Vec<Warning> =
        sign.map(|sign| Warning::Emulated { sign }).into_iter().collect();
    if cfg!(debug_assertions) {
        warnings.push(Warning::DebugBuild);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
