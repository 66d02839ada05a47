//! Drives that the driver `nvme` does not serve, and how it gets them back.
//!
//! Virtual machines and programs such as SPDK take a drive from the kernel by another driver (`vfio-pci`,
//! `uio_pci_generic`). The drive works, and the kernel has no block device of it.

use std::fmt;

use peerlane_fabric::{DriverBinding, Function, FunctionKind, NvmeController};

/// The kernel's driver of NVMe drives.
const DRIVER: &str = "nvme";
/// The fix for a window without address space.
pub const ADDRESS_SPACE_FIX: &str = "switch on \"Above 4G decoding\" in the firmware's settings, or give a \
     virtual machine a larger window for 64-bit devices; where the firmware has no such setting, `pci=realloc` \
     among the kernel's parameters lets Linux assign it again";

/// Reason why the driver `nvme` does not serve a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// The window with its registers has no address space.
    NoAddressSpace,
    /// No driver is bound.
    NoDriver,
    /// This driver is bound.
    OtherDriver(String),
    /// Its controller is in this state.
    NotLive(String),
}

impl Unserved {
    /// Returns why a function is an unserved drive; `None` for a served drive, an unknown one, or
    /// no drive.
    pub fn from_function(function: &Function) -> Option<Self> {
        if function.kind != FunctionKind::Nvme {
            return None;
        }
        match &function.driver {
            DriverBinding::Bound(name) if name != DRIVER => Some(Self::OtherDriver(name.clone())),
            _ if function
                .unassigned_bars
                .iter()
                .any(|bar| bar.index == NvmeController::REGISTERS) =>
            {
                Some(Self::NoAddressSpace)
            }
            DriverBinding::Unbound => Some(Self::NoDriver),
            DriverBinding::Bound(_) | DriverBinding::Unknown => {
                let state = function.nvme.as_ref()?.state.clone()?;
                (state != NvmeController::LIVE).then_some(Self::NotLive(state))
            }
        }
    }

    /// Returns advice.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::NoAddressSpace => ADDRESS_SPACE_FIX,
            Self::NoDriver => "give it to nvme",
            Self::OtherDriver(_) => {
                "give it back to nvme once it is unused; what driverctl or SPDK have set is undone by \
                 `driverctl unset-override` or `scripts/setup.sh reset`"
            }
            Self::NotLive(state) if state == NvmeController::DEAD => "let the kernel find it again",
            Self::NotLive(_) => {
                "wait: the driver works on it; where that does not end, the kernel's log says why"
            }
        }
    }

    /// The commands for that, in order; none where the address of the drive is unknown.
    pub fn commands(&self, function: &Function) -> Vec<String> {
        let Some(address) = function.address else { return Vec::new() };
        let device = format!("/sys/bus/pci/devices/{address}");
        let unbind = format!("echo {address} | sudo tee {device}/driver/unbind");
        // Without it a driver with a dynamic ID for such drives (`new_id`) takes it again.
        let bind = [
            format!("echo {DRIVER} | sudo tee {device}/driver_override"),
            format!("sudo modprobe {DRIVER}"),
            format!("echo {address} | sudo tee /sys/bus/pci/drivers_probe"),
        ];
        match self {
            Self::NoAddressSpace => vec![format!("sudo dmesg | grep {address}")],
            Self::NoDriver => bind.into(),
            Self::OtherDriver(_) => std::iter::once(unbind).chain(bind).collect(),
            Self::NotLive(state) if state == NvmeController::DEAD => vec![
                format!("echo 1 | sudo tee {device}/remove"),
                "echo 1 | sudo tee /sys/bus/pci/rescan".to_owned(),
            ],
            Self::NotLive(_) => vec![format!("sudo dmesg | grep {}", function.name)],
        }
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_BLOCK_DEVICE: &str = "the kernel has no block device of it";
        match self {
            Self::NoAddressSpace => {
                write!(
                    f,
                    "its registers (BAR {}) have no address space, and no driver reaches them",
                    NvmeController::REGISTERS
                )
            }
            Self::NoDriver => write!(f, "no driver is bound to it, and {NO_BLOCK_DEVICE}"),
            Self::OtherDriver(name) if is_for_programs(name) => write!(
                f,
                "{name} has it, for a virtual machine or a program such as SPDK, and {NO_BLOCK_DEVICE}"
            ),
            Self::OtherDriver(name) => {
                write!(f, "{name} has it instead of {DRIVER}, and {NO_BLOCK_DEVICE}")
            }
            Self::NotLive(state) => {
                write!(f, "its controller is in state `{state}` and takes no requests")
            }
        }
    }
}

/// True when a driver hands a device whole to a program (`igb_uio` is of DPDK).
fn is_for_programs(driver: &str) -> bool {
    driver.starts_with("vfio") || driver.contains("uio")
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::Fabric;

    use super::*;

    fn drive(keys: &str) -> Function {
        let text = format!(
            "name = 'm'\n[[function]]\nname = 'b'\nkind = 'nvme'\naddress = '0000:05:00.0'\n{keys}\n"
        );
        Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}")).functions.remove(0)
    }

    #[test]
    fn holder_is_named_with_the_way_back() {
        for (keys, says, first) in [
            ("driver = 'vfio-pci'", "vfio-pci has it, for a virtual machine", "driver/unbind"),
            ("driver = 'uio_pci_generic'", "uio_pci_generic has it, for", "driver/unbind"),
            ("driver = 'odd'", "odd has it instead of nvme", "driver/unbind"),
            ("driver = 'none'", "no driver is bound", "echo nvme"),
            ("state = 'dead'", "state `dead`", "echo 1"),
            ("driver = 'nvme'\nstate = 'connecting'", "state `connecting`", "dmesg"),
            ("bars = [{ index = 0, size = '16K', assigned = false }]", "no address space", "dmesg"),
        ] {
            let drive = drive(keys);
            let found = Unserved::from_function(&drive).unwrap_or_else(|| panic!("{keys}"));
            assert!(found.to_string().contains(says), "{found}");
            let commands = found.commands(&drive);
            assert!(commands[0].contains(first), "{keys}: {commands:?}");
        }
    }

    #[test]
    fn served_drives_and_others_are_no_matter() {
        for keys in ["", "driver = 'nvme'\nstate = 'live'", "driver = 'unknown'"] {
            assert_eq!(Unserved::from_function(&drive(keys)), None, "{keys}");
        }
        let other = Function { kind: FunctionKind::Gpu, ..drive("driver = 'vfio-pci'") };
        assert_eq!(Unserved::from_function(&other), None, "a GPU");
    }
}
