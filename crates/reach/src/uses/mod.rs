//! The uses of peer-to-peer traffic that the devices of a machine could have, and the state of each.
//!
//! A use is two kinds of device, `storage to GPU`. Its pairs are judged group by group: equal functions
//! below equal ports that meet at one place get the same answer. A thousand drives below one
//! switch are judged once.

mod answer;
mod class;
mod devices;
mod drive_pair;
mod group;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use peerlane_fabric::{Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use answer::{UseAnswer, answers};
pub use group::PairGroup;

use crate::decision::Tri;
use crate::{Decisions, Direction, PeerMemory, Reach, RouteState, Verdict};
use class::Apart;
use devices::Devices;
use drive_pair::Lenders;
use group::pair_groups;

/// A use of peer-to-peer traffic: which kinds of device exchange payload.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Use {
    /// Drives read and write memory of GPUs.
    #[serde(rename = "storage-gpu")]
    StorageToGpu,
    /// Network controllers read and write memory of GPUs.
    #[serde(rename = "network-gpu")]
    NetworkToGpu,
    /// GPUs read and write each other's memory.
    #[serde(rename = "gpu-gpu")]
    GpuToGpu,
    /// Drives exchange payload through memory of a device.
    #[serde(rename = "drive-drive")]
    DriveToDrive,
    /// Network controllers read and write memory that drives lend.
    #[serde(rename = "network-drive")]
    NetworkToDrive,
    /// Drives read and write memory of FPGA cards.
    #[serde(rename = "storage-fpga")]
    StorageToFpga,
}

impl Use {
    /// All uses, in report order.
    pub const ALL: [Self; 6] = [
        Self::StorageToGpu,
        Self::NetworkToGpu,
        Self::GpuToGpu,
        Self::DriveToDrive,
        Self::NetworkToDrive,
        Self::StorageToFpga,
    ];

    /// The word for it in commands and records: `storage-gpu`.
    pub fn name(self) -> &'static str {
        match self {
            Self::StorageToGpu => "storage-gpu",
            Self::NetworkToGpu => "network-gpu",
            Self::GpuToGpu => "gpu-gpu",
            Self::DriveToDrive => "drive-drive",
            Self::NetworkToDrive => "network-drive",
            Self::StorageToFpga => "storage-fpga",
        }
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StorageToGpu => "storage to GPU",
            Self::NetworkToGpu => "network to GPU",
            Self::GpuToGpu => "GPU to GPU",
            Self::DriveToDrive => "drive to drive",
            Self::NetworkToDrive => "network to drive",
            Self::StorageToFpga => "storage to FPGA",
        })
    }
}

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("no use is called `{text}`: one of {names}"))
    }
}

/// Pairs of one use that get the same answer.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedPairs {
    /// The use.
    pub of_use: Use,
    /// The pairs.
    pub group: PairGroup,
    /// The way that payload takes.
    pub state: RouteState,
    /// The facts that decide, each a sentence, the weightiest first.
    pub facts: Vec<String>,
    /// The kernel's decisions that bear on the state; empty where no mechanism asks the kernel.
    pub legs: Vec<UseLeg>,
}

/// One initiator reaching one memory, for every pair of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseLeg {
    /// The kernel's decision.
    pub kernel: Reach,
    /// The ports that redirect, of every pair.
    pub redirecting: Vec<FunctionId>,
}

/// Judges every pair of every use that the devices of a machine could have.
pub fn judged_pairs(fabric: &Fabric) -> Vec<JudgedPairs> {
    let devices = Devices::new(fabric);
    let all = Use::ALL.into_iter();
    all.flat_map(|of_use| judged(fabric, of_use, &devices.of_use(of_use))).collect()
}

/// Judges the pairs that a function has with every other.
pub fn judged_of(fabric: &Fabric, one: FunctionId) -> Vec<JudgedPairs> {
    let devices = Devices::new(fabric);
    let of_use = |of_use| {
        let (providers, initiators) = devices.of_use(of_use);
        if initiators.contains(&one) {
            (providers, vec![one])
        } else if providers.contains(&one) {
            (vec![one], initiators)
        } else {
            (Vec::new(), Vec::new())
        }
    };
    Use::ALL.into_iter().flat_map(|one| judged(fabric, one, &of_use(one))).collect()
}

/// Judges the pairs of uses that two functions have; empty where they have none.
pub fn judged_between(fabric: &Fabric, one: FunctionId, other: FunctionId) -> Vec<JudgedPairs> {
    let devices = Devices::new(fabric);
    let all = Use::ALL.into_iter();
    let between = |of_use| {
        let (providers, initiators) = devices.of_use(of_use);
        let is_between =
            |provider, initiator| providers.contains(&provider) && initiators.contains(&initiator);
        if is_between(other, one) {
            (vec![other], vec![one])
        } else if is_between(one, other) {
            (vec![one], vec![other])
        } else {
            (Vec::new(), Vec::new())
        }
    };
    all.flat_map(|of_use| judged(fabric, of_use, &between(of_use))).collect()
}

fn judged(
    fabric: &Fabric,
    of_use: Use,
    (providers, initiators): &(Vec<FunctionId>, Vec<FunctionId>),
) -> Vec<JudgedPairs> {
    if providers.is_empty() || initiators.is_empty() {
        return Vec::new();
    }
    let lenders = Lenders::new(fabric);
    // What `nvidia-smi` said of two GPUs, and links, hold for these two alone.
    let has_links =
        fabric.nvlinks.is_some() || fabric.xgmi.is_some() || !fabric.peer_access.is_empty();
    let apart = match of_use {
        Use::GpuToGpu if has_links => Apart::Each,
        Use::DriveToDrive if !lenders.all().is_empty() => {
            Apart::ByWay([providers, initiators, lenders.all()].concat())
        }
        _ => Apart::Alike,
    };
    let groups = pair_groups(fabric, providers, initiators, apart);
    let decisions = Decisions::new(fabric);
    let judge = |group: PairGroup| {
        if let Some(reason) = unusable(fabric, &group) {
            return impossible(of_use, group, reason);
        }
        match of_use {
            Use::DriveToDrive => drive_pair::judge(fabric, &decisions, &lenders, group),
            _ => direct(fabric, &decisions, of_use, group),
        }
    };
    groups.into_iter().map(judge).collect()
}

fn unusable(fabric: &Fabric, group: &PairGroup) -> Option<String> {
    let (provider, initiator) = group.example();
    [provider, initiator].into_iter().find_map(|end| devices::unusable(fabric, end))
}

fn impossible(of_use: Use, group: PairGroup, reason: String) -> JudgedPairs {
    let facts = vec![reason];
    JudgedPairs { of_use, group, state: RouteState::Impossible, facts, legs: Vec::new() }
}

/// Judges pairs whose initiator reaches memory of the provider itself.
fn direct(
    fabric: &Fabric,
    decisions: &Decisions<'_>,
    of_use: Use,
    group: PairGroup,
) -> JudgedPairs {
    let (provider, initiator) = group.example();
    let kernel = decisions.decide(provider, initiator);
    let memory = PeerMemory::new(fabric, provider);
    let direction = Direction { initiator, provider, memory, kernel };
    let verdict = Verdict::new(fabric, &direction);
    let Direction { kernel, .. } = direction;
    let state = verdict.state;
    let mut facts = verdict.facts;
    if state != RouteState::Direct {
        let new = verdict.alternatives.into_iter().filter(|fact| !facts.contains(fact));
        let new: Vec<String> = new.collect();
        facts.extend(new);
    }
    let redirecting = redirecting(fabric, decisions, &group);
    let is_redirected = !redirecting.is_empty();
    let leg = UseLeg { kernel, redirecting: redirecting.into_iter().collect() };
    // A redirected path goes through the root complex, whatever mechanism asked.
    let legs = if verdict.asks_kernel || is_redirected { vec![leg] } else { Vec::new() };
    JudgedPairs { of_use, group, state, facts, legs }
}

/// The ports that redirect for any pair of a group: those from its ends up to the port where they meet.
fn redirecting(
    fabric: &Fabric,
    decisions: &Decisions<'_>,
    group: &PairGroup,
) -> BTreeSet<FunctionId> {
    let Some(port) = group.port else { return BTreeSet::new() };
    let up = |id| fabric.upward(id).take_while(move |&above| above != port);
    let passed = group.providers().chain(group.initiators()).flat_map(up).chain([port]);
    passed.filter(|&id| decisions.redirects(id) == Tri::Yes).collect()
}

#[cfg(test)]
mod tests;
