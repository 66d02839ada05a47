//! One direction in one word: the best of its mechanisms, with the kernel's decision where one asks.

use std::fmt;

use peerlane_fabric::{Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drivers::rules_by;
use crate::{
    Direction, DriverAnswer, DriverRule, GpuLinkKind, GpuLinkState, MapType, Pair, PeerMemory,
    Reach, gpu_link, rules,
};

/// The route that payload takes, the best first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RouteState {
    /// Between the devices, below the CPU.
    Direct,
    /// Direct, unless an unlikely fact that the reason names holds.
    Expected,
    /// Between the devices, through the CPU's root complex.
    ViaCpu,
    /// A fact that is unknown decides.
    Unknown,
    /// Through host memory.
    Host,
    /// None: a device takes part in nothing.
    #[serde(rename = "no")]
    Impossible,
}

/// The judgement of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The best way that a mechanism has.
    pub state: RouteState,
    /// The facts that decide, of the best mechanism.
    pub facts: Vec<String>,
    /// The same of each further mechanism that comes to the same state.
    pub alternatives: Vec<String>,
    /// The kernel's decision counts: a mechanism asks it, and its driver does not refuse.
    pub asks_kernel: bool,
}

impl Verdict {
    /// The better verdict on a pair's directions, since an initiator reads and writes; `None` without memory for peers.
    pub fn best(fabric: &Fabric, pair: &Pair) -> Option<Self> {
        let judged = pair.payload_directions(fabric).map(|one| Self::new(fabric, one));
        judged.min_by_key(|verdict| verdict.state)
    }

    /// Judges one direction; the rules of its drivers are alternatives, so the best of them counts.
    pub fn new(fabric: &Fabric, direction: &Direction) -> Self {
        let ends = (direction.provider, direction.initiator);
        if let Some(state) = used_gpu_link(fabric, ends.0, ends.1) {
            return Self::by_gpu_link(state);
        }
        let mut verdict = Self::over_pcie(fabric, direction);
        // A confidential guest shares no memory of devices with peers by itself.
        if verdict.state.is_peer_to_peer() && fabric.environment.confidential.is_some() {
            verdict.state = RouteState::Unknown;
        }
        verdict
    }

    fn over_pcie(fabric: &Fabric, direction: &Direction) -> Self {
        let ends = (direction.provider, direction.initiator);
        let kernel = &direction.kernel;
        let mut rules = rules_by(fabric, ends, kernel);
        if fabric.kernel.has_p2pdma == Some(false) {
            rules.iter_mut().for_each(refuse_without_p2pdma);
        }
        rules.sort_by_key(|rule| (by_rule(rule, kernel), rank(rule)));
        let Some(best) = rules.first() else { return Self::without_rule(fabric, direction) };
        let state = by_rule(best, kernel);
        let others = rules.iter().skip(1).filter(|rule| by_rule(rule, kernel) == state);
        let mut alternatives = Vec::new();
        for fact in others.map(|rule| in_words(rule, kernel, state)) {
            if !alternatives.contains(&fact) {
                alternatives.push(fact);
            }
        }
        Self {
            state,
            facts: facts_of(best, kernel, state),
            alternatives,
            asks_kernel: rules
                .iter()
                .any(|rule| asks_kernel(rule) && rule.answer != DriverAnswer::Refused),
        }
    }

    fn by_gpu_link(state: GpuLinkState) -> Self {
        Self {
            state: RouteState::Direct,
            facts: vec![format!("they are {state}")],
            alternatives: Vec::new(),
            asks_kernel: false,
        }
    }

    /// The kernel's decision where no driver has a rule.
    fn without_rule(fabric: &Fabric, direction: &Direction) -> Self {
        let kernel = &direction.kernel;
        let mut facts = vec![kernel.summary()];
        facts.extend(commands(kernel));
        let mut state = RouteState::from(kernel.map);
        if state.is_peer_to_peer() && direction.memory != PeerMemory::Present {
            let word = fabric.device_word(direction.provider);
            facts.insert(0, format!("it is unknown whether {word} has memory that peers can use"));
            state = RouteState::Unknown;
        }
        Self { state, facts, alternatives: Vec::new(), asks_kernel: true }
    }
}

/// Returns the links between two GPUs if payload takes them; `None` for GPUs without links, or with a driver that
/// refuses peer access over NVLink, too (`p2pGetCapsStatus` asks for MIG first).
pub fn used_gpu_link(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
) -> Option<GpuLinkState> {
    let state = gpu_link(fabric, provider, initiator).filter(|state| state.is_linked())?;
    let refuses =
        |rule: DriverRule| rule.mechanism == "peer access" && rule.answer == DriverAnswer::Refused;
    let is_refused = state.kind() == GpuLinkKind::NvLink
        && rules(fabric, provider, initiator).into_iter().any(refuses);
    (!is_refused).then_some(state)
}

impl RouteState {
    /// Returns whether payload passes between the devices, as far as is known.
    pub fn is_peer_to_peer(self) -> bool {
        matches!(self, Self::Direct | Self::Expected | Self::ViaCpu)
    }

    /// The path of packets alone, for a driver that does not ask the kernel.
    fn from_path(kernel: &Reach) -> Self {
        if kernel.crosses_root_complex() {
            Self::ViaCpu
        } else if kernel.map == MapType::Unknown {
            Self::Unknown
        } else {
            Self::Direct
        }
    }
}

impl fmt::Display for RouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::Expected => "expected direct",
            Self::ViaCpu => "via CPU (host bridge)",
            Self::Unknown => "unknown",
            Self::Host => "through host memory",
            Self::Impossible => "not possible",
        })
    }
}

impl From<MapType> for RouteState {
    fn from(map: MapType) -> Self {
        match map {
            MapType::BusAddress => Self::Direct,
            MapType::ThroughHostBridge => Self::ViaCpu,
            MapType::NotSupported => Self::Host,
            MapType::Conditional | MapType::Unknown => Self::Unknown,
        }
    }
}

/// Refuses a mechanism that asks a kernel without P2PDMA: that kernel's only answer is no
/// (`pci_p2pdma_distance_many` in include/linux/pci-p2pdma.h, Linux 7.2).
fn refuse_without_p2pdma(rule: &mut DriverRule) {
    if rule.asks_kernel == Some(true) && rule.answer != DriverAnswer::Refused {
        rule.answer = DriverAnswer::Refused;
        rule.reason = "the kernel is built without CONFIG_PCI_P2PDMA".to_owned();
    }
}

/// The state by one mechanism: the driver's answer, and the kernel's decision; where the kernel is not asked, the
/// path of packets.
fn by_rule(rule: &DriverRule, kernel: &Reach) -> RouteState {
    let own = match rule.answer {
        DriverAnswer::Possible => RouteState::Direct,
        DriverAnswer::Expected => RouteState::Expected,
        DriverAnswer::Conditional | DriverAnswer::NotKnown => RouteState::Unknown,
        DriverAnswer::Refused => RouteState::Host,
    };
    own.max(if asks_kernel(rule) { kernel.map.into() } else { RouteState::from_path(kernel) })
}

/// Returns whether a mechanism depends on the kernel's decision; all do that are unknown to do without.
fn asks_kernel(rule: &DriverRule) -> bool {
    rule.asks_kernel != Some(false)
}

/// The order of rules that lead to one state: those that say most first.
fn rank(rule: &DriverRule) -> u8 {
    match rule.answer {
        DriverAnswer::Possible => 0,
        DriverAnswer::Expected => 1,
        DriverAnswer::Conditional => 2,
        DriverAnswer::Refused => 3,
        DriverAnswer::NotKnown => 4,
    }
}

/// The facts that led from a rule and the kernel's decision to a state.
fn facts_of(rule: &DriverRule, kernel: &Reach, state: RouteState) -> Vec<String> {
    let own = in_words(rule, kernel, state);
    if !asks_kernel(rule) && RouteState::from_path(kernel) == state && state != RouteState::Direct {
        let mut facts = kernel.path_reasons();
        facts.push(own);
        facts.extend(commands(kernel));
        return facts;
    }
    if !asks_kernel(rule) || rule.answer == DriverAnswer::Refused || state == RouteState::Host {
        return vec![own];
    }
    // The fact that settles the state comes first.
    let is_by_kernel = RouteState::from(kernel.map) == state;
    let mut facts =
        if is_by_kernel { vec![kernel.summary(), own] } else { vec![own, kernel.summary()] };
    facts.extend(commands(kernel));
    facts
}

/// A mechanism in one sentence; the kernel's where that refuses although the driver would go along.
fn in_words(rule: &DriverRule, kernel: &Reach, state: RouteState) -> String {
    let is_of_kernel =
        state == RouteState::Host && asks_kernel(rule) && rule.answer != DriverAnswer::Refused;
    if is_of_kernel {
        return kernel.summary();
    }
    format!("{} ({}): {}", rule.mechanism, rule.driver, rule.reason)
}

/// The commands that show the facts that the kernel's decision lacks, in words.
fn commands(kernel: &Reach) -> impl Iterator<Item = String> {
    kernel.commands().into_iter().map(|command| format!("`{command}` shows it"))
}
