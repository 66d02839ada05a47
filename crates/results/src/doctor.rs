//! What stands in the way of peer-to-peer traffic, and what to do about it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evidence, Machine};

/// Schema of [`DoctorRecord`].
pub const DOCTOR_SCHEMA: &str = "peerlane.doctor/1";

/// A machine examined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorRecord {
    /// [`DOCTOR_SCHEMA`].
    pub schema: String,
    /// Which machine.
    pub machine: Machine,
    /// Source and target, as typed, where a pair was asked for.
    pub pair: Option<[String; 2]>,
    /// The answer in one sentence.
    pub verdict: String,
    /// What was found, the most costly first.
    pub findings: Vec<Finding>,
    /// What could not be known from here.
    pub unknown: Vec<Unknown>,
}

impl DoctorRecord {
    /// Whether nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Something that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which of the known ones.
    pub kind: FindingKind,
    /// What it costs.
    pub cost: Cost,
    /// On what: a function, a device, a file, or the machine.
    pub object: String,
    /// What is the matter, in a sentence.
    pub what: String,
    /// What that rests on.
    pub evidence: Vec<Evidence>,
    /// What to do; `None` where nothing helps.
    pub fix: Option<Fix>,
}

/// What a finding costs, worst first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// There is no peer-to-peer traffic at all.
    Everything,
    /// Some devices cannot reach each other, or one cannot take part.
    Routes,
    /// What is possible is slower than it could be.
    Speed,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Everything => "no peer-to-peer at all",
            Self::Routes => "no route",
            Self::Speed => "slower",
        })
    }
}

/// Every finding there can be.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The kernel is older than the first with mappable peer-to-peer memory.
    KernelTooOld,
    /// The kernel is built without `CONFIG_PCI_P2PDMA`.
    KernelWithoutP2pdma,
    /// There is no drive to move data to or from.
    NoDrive,
    /// No device lends memory.
    NoMemory,
    /// A drive has a memory buffer that the kernel did not take.
    MemoryNotRegistered,
    /// A memory is not offered to peers: its drive supports only reads or only writes there.
    MemoryNotPublished,
    /// Submission queues lie in a memory and take of it.
    QueuesInMemory,
    /// A memory is all in use.
    MemoryInUse,
    /// Whoever runs this may not take the memory.
    MemoryNotPermitted,
    /// Ports redirect peer traffic up to the root complex.
    AcsRedirect,
    /// A host bridge is not one that the kernel trusts to forward.
    HostBridgeNotListed,
    /// An IOMMU translates and limits requests to 128 KiB.
    IommuTranslates,
    /// A link runs below what both its ends support.
    LinkTrainedLow,
    /// A multipath head of a kernel that passes no peer-to-peer pages through one.
    MultipathHead,
    /// A device whose queue takes no peer-to-peer pages.
    QueueRefuses,
    /// A file whose file system takes no peer-to-peer pages, or touches the data.
    FileRefuses,
    /// Requests are smaller than they could be.
    SmallRequests,
    /// A drive itself takes only small requests.
    DriveTakesLittle,
    /// A window onto device memory is smaller than the memory.
    SmallWindow,
    /// The software of a GPU that storage reaches directly is not there.
    GpuStackMissing,
    /// The software of an FPGA card that lends its memory is not there.
    FpgaStackMissing,
    /// The peer-to-peer window of an FPGA card is off.
    FpgaWindowOff,
    /// The kernel takes the window of an FPGA card for what it is not.
    FpgaKernel,
    /// Switch and DNA say different things of which drive shares its board with an FPGA.
    FpgaPairing,
    /// The driver `nvme` does not serve a drive: another one has it, or none.
    DriveNotServed,
    /// The controller of a drive takes no requests.
    DriveNotLive,
    /// A window of a device has no address space.
    WindowUnassigned,
    /// The maker of a GPU keeps it from every direct way.
    GpuExcluded,
    /// A drive is too hot, or has slowed itself down.
    DriveHot,
    /// The copy would be refused, whatever the route.
    CopyRefused,
    /// The kernel still holds a decision that the machine has outgrown.
    StaleDecision,
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// In words.
    pub what: String,
    /// Commands, in order; empty where it is no matter of commands.
    pub commands: Vec<String>,
    /// What it weakens.
    pub weakens: Option<String>,
    /// What it takes to come into force.
    pub needs: Needs,
}

/// What a fix takes to come into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// Nothing more.
    Nothing,
    /// The driver of a device bound anew: whoever uses the device stops.
    Rebind,
    /// A restart of the machine.
    Reboot,
    /// Other hardware, firmware or another slot.
    Hardware,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "at once",
            Self::Rebind => "when the driver is bound anew",
            Self::Reboot => "after a reboot",
            Self::Hardware => "with other hardware, firmware or another slot",
        })
    }
}

/// What could not be known from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// What.
    pub what: String,
    /// What it would take to know.
    pub needs: String,
}
