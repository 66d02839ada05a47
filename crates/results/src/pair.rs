//! Two PCI functions: whether, how and why one reaches memory of the other.

use peerlane_reach::{Condition, DriverRule, GuestVerdict, MapType, Turn};
use peerlane_units::{ByteRate, Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Two PCI functions, both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairRecord {
    /// The first function.
    pub first: PairDevice,
    /// The second function.
    pub second: PairDevice,
    /// The first reaches memory of the second; null where that has none for peers.
    pub forward: Option<PairDirection>,
    /// The second reaches memory of the first; null where that has none for peers.
    pub backward: Option<PairDirection>,
    /// NVLink between two NVIDIA GPUs, in words; null for other pairs.
    pub nvlink: Option<String>,
    /// XGMI between two GPUs, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xgmi: Option<String>,
    /// Both devices passed to one virtual machine, with `--guest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestVerdict>,
    /// The device whose memory can lie between a network controller and a drive, by its word in commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<String>,
    /// Facts that bear on both directions: memory in between, hypervisor, MIG, virtual functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl PairRecord {
    /// The NVLinks or XGMI that connect the two, in words; `None` where no such link is known.
    pub fn links(&self) -> Option<&str> {
        let all = [self.nvlink.as_deref(), self.xgmi.as_deref()];
        all.into_iter().flatten().find(|words| words.starts_with("connected"))
    }
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairDevice {
    /// The word for it in commands: `gpu:0`, `mlx5_0`, `nvme2`.
    pub name: String,
    /// PCI address.
    pub address: Option<String>,
    /// Product, by the PCI ID repository.
    pub product: Option<String>,
    /// Bound driver; null where none is bound or it is unknown.
    pub driver: Option<String>,
}

/// One function reaching memory of the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairDirection {
    /// The function that reads and writes.
    pub initiator: String,
    /// The provider: the function whose memory it is.
    pub provider: String,
    /// Size of that memory; null where it, or its existence, is unknown.
    pub memory: Option<Bytes>,
    /// The kernel's decision, for drivers that ask it.
    pub verdict: MapType,
    /// The place where packets turn; null where it is unknown.
    pub turn: Option<Turn>,
    /// The function that turns them: a port of a switch; null for the root complex.
    pub turn_at: Option<String>,
    /// PIX, PXB, PHB, NODE or SYS, as `nvidia-smi topo -m` says; null where it is unknown.
    pub class: Option<String>,
    /// Hops as the kernel counts them; null where bridges on the path are unknown.
    pub distance: Option<u32>,
    /// Addresses of the ports that redirect to the root complex, and so decide.
    pub ports: Vec<String>,
    /// The slowest link on the path whose speed is known.
    pub slowest_link: Option<PathLink>,
    /// Functions whose link is on the path, and whose speed is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_links: Vec<String>,
    /// The kernel's decision in detail.
    pub kernel: KernelDecision,
    /// Each driver's own rule.
    pub drivers: Vec<DriverRule>,
}

/// A link on the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathLink {
    /// The function below it.
    pub function: String,
    /// Speed and width: `32GT/s x16`.
    pub speed: String,
    /// Bytes per second in each direction after line encoding, packet headers included.
    pub bytes_per_second: ByteRate,
    /// Trained to less than both ends support.
    pub downgraded: bool,
}

/// The kernel's decision in detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelDecision {
    /// The facts that decide, in words.
    pub reasons: Vec<String>,
    /// The kernel whose list of host bridges was taken, where the version is unknown: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_kernel: Option<String>,
    /// The outcomes of a conditional decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The facts that an unknown decision lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Commands that show the facts that are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}
