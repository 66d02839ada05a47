//! Drives and block devices of a fabric: plain data, no files, no decisions.

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::notation::{hex, is_default, size};

/// An NVMe controller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvmeController {
    /// Kernel name, `nvme2`; `None` in a description.
    pub name: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// State that the driver reports, `live` when all is well.
    pub state: Option<String>,
    /// The registers that describe its CMB; `None` where it has none, or no driver.
    pub cmb: Option<CmbRegisters>,
    /// Its temperature and the limits that it states, in thousandths of a degree Celsius.
    pub temperature: Option<Temperature>,
    /// Its namespaces as block devices.
    pub namespaces: Vec<Namespace>,
}

impl NvmeController {
    /// State of a controller that its driver has given up (`nvme_sysfs_show_state()` in
    /// drivers/nvme/host/sysfs.c, Linux 7.2).
    pub const DEAD: &str = "dead";
    /// State of a controller that takes requests (as above).
    pub const LIVE: &str = "live";
    /// The window with its registers (NVM Express PCIe Transport Specification 1.1, MLBAR).
    pub const REGISTERS: u8 = 0;
}

/// The registers CMBLOC and CMBSZ (NVM Express Base Specification 2.0, sections 3.1.3.11 and 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CmbRegisters {
    /// Controller Memory Buffer Location.
    #[serde(with = "hex")]
    pub location: u32,
    /// Controller Memory Buffer Size.
    #[serde(with = "hex")]
    pub size: u32,
}

impl CmbRegisters {
    /// Number of the base address register that it lies in (CMBLOC.BIR).
    pub fn bar(self) -> u8 {
        (self.location & 7) as u8
    }

    /// Offset in that window (CMBLOC.OFST in units of CMBSZ.SZU).
    pub fn offset(self) -> Bytes {
        Bytes(u64::from(self.location >> 12) * self.unit())
    }

    /// Its size (CMBSZ.SZ in units of CMBSZ.SZU).
    pub fn size(self) -> Bytes {
        Bytes(u64::from(self.size >> 12) * self.unit())
    }

    /// Returns whether data that the drive reads from its medium may lie in it (CMBSZ.RDS).
    pub fn takes_read_data(self) -> bool {
        self.size & 1 << 3 != 0
    }

    /// Returns whether data that the drive writes may lie in it (CMBSZ.WDS).
    pub fn takes_write_data(self) -> bool {
        self.size & 1 << 4 != 0
    }

    /// Returns whether submission queues may lie in it (CMBSZ.SQS).
    pub fn takes_submission_queues(self) -> bool {
        self.size & 1 != 0
    }

    /// Units are 4 KiB times a power of sixteen; those beyond 64 GiB are reserved.
    fn unit(self) -> u64 {
        1 << (12 + 4 * (self.size >> 8 & 0xf).min(6))
    }
}

/// A temperature and its limits in thousandths of a degree Celsius (`hwmon`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temperature {
    /// The temperature when it was read (`temp1_input`).
    pub current: i32,
    /// Above this the drive warns, and may slow down (`temp1_max`).
    pub warning: Option<i32>,
    /// Above this it slows down or stops (`temp1_crit`).
    pub critical: Option<i32>,
}

/// A namespace as a block device.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Block device name, `nvme2n1`; `None` in a description.
    pub name: Option<String>,
    /// Namespace identifier.
    pub nsid: Option<u32>,
    /// Capacity.
    pub size: Bytes,
    /// Limits of one request.
    pub limits: QueueLimits,
    /// Set when the block device chooses among the paths of several controllers.
    pub is_multipath_head: bool,
    /// True when pages must not change while they are written (`queue/stable_writes`).
    pub stable_writes: Option<bool>,
    /// Protection information settings; `None` where the device has none.
    pub integrity: Option<Integrity>,
    /// Partitions, in order of start.
    pub partitions: Vec<Partition>,
}

/// Protection information that the kernel itself makes or checks; for either, the CPU reads the
/// payload (`block/bio-integrity-auto.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integrity {
    /// `integrity/write_generate`.
    pub write_generate: bool,
    /// `integrity/read_verify`.
    pub read_verify: bool,
}

/// A partition of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Block device name, `nvme2n1p1`.
    pub name: String,
    /// Offset from the start of the device.
    #[serde(serialize_with = "size")]
    pub start: Bytes,
    /// Capacity.
    #[serde(serialize_with = "size")]
    pub size: Bytes,
}

/// Request limits of a block device (`queue/` in sysfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Logical block size.
    pub logical_block: Bytes,
    /// Physical block size.
    pub physical_block: Bytes,
    /// Largest request (`max_sectors_kb`).
    pub max_request: Option<Bytes>,
    /// Largest request that the drive takes (`max_hw_sectors_kb`): its MDTS, or the IOMMU's limit.
    pub max_hw_request: Option<Bytes>,
    /// Most segments in a request (`max_segments`); each peer-to-peer page is one.
    pub max_segments: Option<u32>,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            logical_block: Bytes(512),
            physical_block: Bytes(512),
            max_request: None,
            max_hw_request: None,
            max_segments: None,
        }
    }
}

/// A block device made of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackedDevice {
    /// Kernel name, `dm-0` or `md127`.
    pub name: String,
    /// The layer that makes it: `lvm`, `crypt`, `mpath` and other prefixes of `dm/uuid`, or
    /// `md/level` (`raid1`); `None` where neither is there.
    pub kind: Option<String>,
    /// Kernel names of the devices that it lies on.
    pub below: Vec<String>,
}

/// A mounted block device (`/proc/self/mountinfo`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Kernel name of the device: a namespace, a partition, or a stacked device.
    pub device: String,
    /// The mount point.
    pub point: String,
    /// Type of file system.
    pub file_system: String,
    /// Set when it is mounted read-only.
    #[serde(default, rename = "read_only", skip_serializing_if = "is_default")]
    pub is_read_only: bool,
}
