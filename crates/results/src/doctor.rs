//! The uses of peer-to-peer traffic on a machine, obstacles to them, and the steps that remove those.

use std::fmt;

use peerlane_reach::{RouteState, Use, UseAnswer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evidence, Machine, PairProof};

/// Schema of [`DoctorRecord`].
pub const DOCTOR_SCHEMA: &str = "peerlane.doctor/1";

/// A machine examined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorRecord {
    /// [`DOCTOR_SCHEMA`].
    pub schema: String,
    /// The machine that was examined.
    pub machine: Machine,
    /// Source and target, as typed, where a pair was asked for.
    pub pair: Option<[String; 2]>,
    /// Boot configuration taken as in force, with `--assume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<AssumedSetting>,
    /// The answer in one sentence.
    pub verdict: String,
    /// State of the pair that was asked for; null for a whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RouteState>,
    /// The proof between two GPUs, with `--probe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<PairProof>,
    /// Reason why devices of uses may be missing here; null where the kinds of all functions are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_devices: Option<String>,
    /// The uses that the devices allow; several entries of one use where its pairs differ.
    pub uses: Vec<UseAnswer>,
    /// Of two devices: memory that payload between a network controller and a drive may rest in, each with its command;
    /// reasons why a pair is slow although nothing is wrong with it. Of a machine: ports of RDMA devices, and
    /// network controllers that lack a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Obstacles, the most costly first.
    pub findings: Vec<Finding>,
    /// The plan: what to do, in order.
    pub steps: Vec<PlanStep>,
    /// Settings of libraries that bear on routes and force none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<LibrarySetting>,
    /// Variables of NCCL that follow from the pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nccl: Vec<NcclSetting>,
    /// Facts that could not be read.
    pub unknown: Vec<Unknown>,
}

impl DoctorRecord {
    /// Returns whether nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    /// True for a finding that refuses the copy between both devices, not one route.
    pub fn is_of_copy(&self, finding: &Finding) -> bool {
        let object = self.pair.as_ref().map(|[source, target]| format!("{source} to {target}"));
        finding.kind == FindingKind::CopyRefused && object.as_ref() == Some(&finding.object)
    }

    /// Returns whether the answer is neither negative nor unknown: the pair is peer to peer, and a copy between both
    /// is not refused; or the machine has no open fix, and the states of its uses are known.
    pub fn is_positive(&self) -> bool {
        match self.state {
            Some(state) => {
                state.is_peer_to_peer() && !self.findings.iter().any(|one| self.is_of_copy(one))
            }
            None => {
                self.steps.is_empty()
                    && self.hidden_devices.is_none()
                    && self.uses.iter().all(|one| one.state != RouteState::Unknown)
            }
        }
    }
}

/// A setting of the boot configuration taken as in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssumedSetting {
    /// The setting, as written.
    pub setting: String,
    /// Its effect on the machine, in words; a reason where it has none.
    pub effect: String,
    /// The machine is judged otherwise with it.
    pub changes: bool,
}

/// An obstacle to peer-to-peer traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Kind of obstacle.
    pub kind: FindingKind,
    /// Cost of leaving it.
    pub cost: Cost,
    /// A function, a device, a file, or the machine.
    pub object: String,
    /// Description in one sentence.
    pub what: String,
    /// Observations that it rests on.
    pub evidence: Vec<Evidence>,
    /// The uses that it bears on.
    pub uses: Vec<Use>,
    /// Number of pairs of these uses that it bears on.
    pub pairs: u64,
    /// The fix; `None` where none is known.
    pub fix: Option<Fix>,
}

/// Cost of an obstacle, worst first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Some devices cannot reach each other, or one cannot take part.
    Routes,
    /// A possible route is slower than it could be.
    Speed,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
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
    /// The kernel is built without an option that peers of a GPU take.
    KernelOptionMissing,
    /// A drive has a memory buffer that the kernel did not take.
    MemoryNotRegistered,
    /// A memory is not offered to peers: its drive supports only reads or only writes there.
    MemoryNotPublished,
    /// Submission queues lie in a memory and take of it.
    QueuesInMemory,
    /// A memory is all in use.
    MemoryInUse,
    /// The user may not take the memory.
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
    /// A window lies above the addresses that a peer can send.
    WindowOutOfReach,
    /// The module that lets network controllers reach memory of GPUs is not loaded.
    PeerModuleMissing,
    /// The driver of a GPU keeps its memory from peers until options are set.
    GpuMemoryNotLent,
    /// `/etc/cufile.json` forces another route.
    CufileConfiguration,
    /// The software of a GPU that storage reaches directly is not there.
    GpuStackMissing,
    /// The software of an FPGA card that lends its memory is not there.
    FpgaStackMissing,
    /// The peer-to-peer window of an FPGA card is off.
    FpgaWindowOff,
    /// The kernel mistakes the window of an FPGA card for another kind of memory.
    FpgaKernel,
    /// Switch and DNA name different drives on the board of an FPGA.
    FpgaPairing,
    /// The driver `nvme` does not serve a drive: another one has it, or none.
    DriveNotServed,
    /// The controller of a drive takes no requests.
    DriveNotLive,
    /// A window of a device has no address space.
    WindowUnassigned,
    /// A device does not answer: its registers read as ones.
    DeviceSilent,
    /// The maker of a GPU keeps it from every direct path.
    GpuExcluded,
    /// A drive is too hot, or has slowed itself down.
    DriveHot,
    /// The copy would be refused, whatever the route.
    CopyRefused,
    /// The kernel still holds a decision that the machine has outgrown.
    StaleDecision,
}

impl FindingKind {
    /// The word for it in records: `acs-redirect`.
    pub fn code(self) -> String {
        let word = serde_json::to_value(self).ok();
        word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

/// Steps that remove an obstacle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// Description in words.
    pub what: String,
    /// Commands, in order; empty where no command does it.
    pub commands: Vec<String>,
    /// The protection that it weakens.
    pub weakens: Option<String>,
    /// The moment when it takes effect.
    pub needs: Needs,
    /// Settings of the boot configuration that do the same for good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
}

/// A setting of the boot configuration.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// A parameter of the kernel: `iommu=pt`.
    KernelParameter(String),
    /// Options of a module: `nvidia NVreg_...=...`.
    ModuleOptions(String),
    /// A module loaded at boot.
    Module(String),
    /// A udev rule.
    UdevRule(String),
    /// A key of `/etc/cufile.json` by its dotted name, and its value.
    CufileKey(String, bool),
}

/// A step of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    /// Position, from 1.
    pub order: u32,
    /// It is in force only after a restart of the machine; all of these share one.
    pub reboot: bool,
    /// The moment when it takes effect.
    pub needs: Needs,
    /// Description in words.
    pub what: String,
    /// Objects of the findings that it removes.
    pub objects: Vec<String>,
    /// Shell commands, one a line; empty where no command does it.
    pub command: String,
    /// The uses that it repairs or makes faster.
    pub uses: Vec<Use>,
    /// Number of pairs of these uses.
    pub pairs: u64,
    /// The protection that it weakens.
    pub weakens: Option<String>,
    /// Settings of the boot configuration that do the same for good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
}

/// The moment when a fix takes effect.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// At once.
    Nothing,
    /// The driver of a device bound again: its users stop.
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
            Self::Rebind => "when the driver is bound again",
            Self::Reboot => "after a reboot",
            Self::Hardware => "with other hardware, firmware or another slot",
        })
    }
}

/// A setting of a library: a key of `/etc/cufile.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LibrarySetting {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Its effect on the route.
    pub consequence: String,
    /// Recommended setting.
    pub advice: String,
    /// First version of the library that has it.
    pub since: String,
}

/// A variable of NCCL that follows from the pairs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclSetting {
    /// Its name in the environment.
    pub name: String,
    /// The value to set; null where it is best left alone.
    pub value: Option<String>,
    /// The fact that it follows from.
    pub because: String,
    /// NCCL's own rule: version, file and function.
    pub source: String,
}

/// A fact that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// The fact.
    pub what: String,
    /// A command that answers it, or what to look at.
    pub needs: String,
}
