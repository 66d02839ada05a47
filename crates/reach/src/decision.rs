//! The kernel's peer-to-peer decision as a pure function that returns its reasons.
//!
//! Mirrors `drivers/pci/p2pdma.c` of Linux 7.2 (`calc_map_type_and_dist`,
//! `pci_p2pdma_distance_many`). It predicts the kernel's answer for a pair, which is not whether
//! data arrives: the kernel tests no route, and it caches its answer until the provider's driver is
//! unbound, so ACS bits changed since then do not count. The IOMMU mode is no input: an IOMMU acts
//! only through the ACS bits that the kernel sets once it finds one.

use std::borrow::Cow;
use std::fmt;

use peerlane_fabric::{
    Acs, BridgeId, Fabric, FunctionId, FunctionKind, HostBridge, Parent, RootBus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allow_list::{self, Listing};
use crate::fact::{Fact, KernelList, UnreadRegister, in_words};
use crate::open_fact::{Need, UnknownFact};

/// First AMD CPU family that forwards between root ports (`cpu_supports_p2pdma`): Zen.
const AMD_ZEN: u32 = 0x17;

/// The way by which the kernel lets an initiator reach the memory of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MapType {
    /// By PCI bus address; transactions turn round in the switch below the root
    /// (`PCI_P2PDMA_MAP_BUS_ADDR`).
    BusAddress,
    /// Up to the host bridge and down again (`PCI_P2PDMA_MAP_THRU_HOST_BRIDGE`).
    ThroughHostBridge,
    /// Not at all: requests fail (`PCI_P2PDMA_MAP_NOT_SUPPORTED`).
    #[serde(rename = "refused")]
    NotSupported,
    /// One fact that is unknown, the CPU, decides between the others.
    Conditional,
    /// Facts that are unknown would change the answer.
    Unknown,
}

impl MapType {
    /// Returns whether facts that are unknown decide.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Conditional | Self::Unknown)
    }

    /// The place where requests turn, as a sentence about a path ends.
    pub fn turning_point(self) -> &'static str {
        match self {
            Self::BusAddress => "inside the switch",
            Self::ThroughHostBridge => "through the host bridge",
            Self::NotSupported => "refused",
            Self::Conditional => "depends on the CPU",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for MapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BusAddress => "direct, below the host bridge",
            Self::ThroughHostBridge => "permitted, through the host bridge",
            Self::NotSupported => "refused",
            Self::Conditional => "depends on the CPU",
            Self::Unknown => "unknown",
        })
    }
}

/// The decision for one provider and one initiator, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The kernel's decision.
    pub map: MapType,
    /// Hops from provider to initiator as the kernel counts them; `None` when the kernel refuses the
    /// route, or when the bridges above an end are unknown.
    pub distance: Option<u32>,
    /// The facts behind the decision, in the order that the kernel checks them.
    pub facts: Vec<Fact>,
    /// The functions passed, provider first and initiator last; through the host bridge when it
    /// has no function above the two ends.
    pub path: Vec<FunctionId>,
    /// The functions on the way that redirect peer traffic to the root complex.
    pub redirecting: Vec<FunctionId>,
    /// The outcomes of [`MapType::Conditional`]; empty otherwise.
    pub conditions: Vec<Condition>,
    /// The facts that [`MapType::Unknown`] lacks; empty otherwise.
    pub needs: Vec<Need>,
}

/// One outcome of a conditional decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The fact that is unknown.
    pub fact: UnknownFact,
    /// The value that leads to `verdict`, in words.
    pub equals: Cow<'static, str>,
    /// The decision then.
    pub verdict: MapType,
}

impl Reach {
    /// Returns whether the kernel permits the route.
    pub fn is_permitted(&self) -> bool {
        matches!(self.map, MapType::BusAddress | MapType::ThroughHostBridge)
    }

    /// Returns whether packets go up to the root complex: the two share no switch, or a port redirects.
    pub(crate) fn crosses_root_complex(&self) -> bool {
        let is_apart = |fact: &Fact| matches!(fact, Fact::SeparateRootPorts { .. });
        !self.redirecting.is_empty() || self.facts.iter().any(is_apart)
    }

    /// The facts that decide, in words.
    pub fn reasons(&self) -> Vec<String> {
        in_words(self.facts.iter().filter(|fact| is_reason(fact, self.map)))
    }

    /// The facts of the path of packets, in words: ports that redirect or may do so, and root ports apart.
    pub(crate) fn path_reasons(&self) -> Vec<String> {
        in_words(self.facts.iter().filter(|fact| {
            matches!(
                fact,
                Fact::AcsRedirect { .. }
                    | Fact::AcsUnknown { .. }
                    | Fact::SeparateRootPorts { .. }
                    | Fact::BridgesUnknown { .. }
            )
        }))
    }

    /// The commands that show the facts that are unknown.
    pub fn commands(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.needs.iter().map(Need::command).collect();
        all.extend(self.conditions.iter().map(|one| one.fact.command()));
        all.dedup();
        all
    }

    /// The decision and its reason in one sentence.
    pub fn summary(&self) -> String {
        let verdict = match self.map {
            MapType::BusAddress => "the route is direct, below the host bridge",
            MapType::ThroughHostBridge => "the route is permitted through the host bridge",
            MapType::NotSupported => "the kernel refuses the route",
            MapType::Conditional => {
                "the kernel permits the route through the host bridge if the CPU is an AMD Zen or \
                 later, and refuses it otherwise"
            }
            MapType::Unknown => "the kernel's decision is unknown",
        };
        let reasons = self.reasons();
        if reasons.is_empty() {
            verdict.to_owned()
        } else {
            format!("{verdict}: {}", reasons.join("; "))
        }
    }
}

/// Returns whether a fact is a reason for a decision, rather than one that did not settle it.
fn is_reason(fact: &Fact, map: MapType) -> bool {
    match fact {
        Fact::SameFunction { .. } | Fact::CommonAncestor { .. } => map == MapType::BusAddress,
        Fact::SeparateRootPorts { .. } | Fact::AcsRedirect { .. } => true,
        Fact::AcsUnknown { .. } | Fact::BridgesUnknown { .. } | Fact::HostBridgeUnknown { .. } => {
            map == MapType::Unknown
        }
        Fact::CpuUnknown => matches!(map, MapType::Conditional | MapType::Unknown),
        Fact::CpuForwards { .. } | Fact::HostBridgeListed { .. } => {
            map == MapType::ThroughHostBridge
        }
        Fact::CpuDoesNotForward { .. } | Fact::OtherMachine { .. } => map == MapType::NotSupported,
        Fact::HostBridgeNotListed { .. }
        | Fact::SameBridgeOnly { .. }
        | Fact::HostBridgeWithoutTestDevice { .. } => {
            matches!(map, MapType::NotSupported | MapType::Conditional)
        }
    }
}

/// Decides whether and how `initiator` may reach memory of `provider`.
///
/// Map type and distance are the same with the two exchanged, as they are in the kernel; facts and
/// path come in the other order.
///
/// # Panics
/// When an identifier comes from another fabric.
pub fn decide(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> Reach {
    decide_by(fabric, provider, initiator, &|bridge| test_device(fabric, bridge))
}

/// The function that identifies a host bridge to the kernel.
type TestDevice<'a> = dyn Fn(BridgeId) -> Option<FunctionId> + 'a;

/// As [`decide`], with test devices of host bridges that were looked up once.
pub(crate) fn decide_by(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
    test_device: &TestDevice<'_>,
) -> Reach {
    let walk = Walk::new(fabric, provider, initiator);
    let mut found = Reach {
        map: MapType::BusAddress,
        distance: None,
        facts: vec![walk.shape_fact(fabric)],
        path: Vec::new(),
        redirecting: Vec::new(),
        conditions: Vec::new(),
        needs: Vec::new(),
    };
    if !fabric.are_in_one_machine(provider, initiator) {
        let name = |id| fabric.function(id).name.clone();
        let (provider, initiator) = (name(provider), name(initiator));
        found.facts = vec![Fact::OtherMachine { provider, initiator }];
        found.map = MapType::NotSupported;
        found.path = walk.path();
        return found;
    }
    let detached = walk.detached(fabric, (provider, initiator));
    if let Some(&bridge) = detached.first() {
        let name = fabric.bridges[bridge.0].name.clone();
        found.facts = vec![Fact::BridgesUnknown { bus: name }];
        found.needs = detached.into_iter().map(Need::Bridges).collect();
        found.map = MapType::Unknown;
        found.path = walk.path();
        return found;
    }
    let redirect =
        if walk.ancestor.is_some() { walk.redirect(fabric, &mut found) } else { Tri::Yes };
    found.map = match redirect {
        Tri::No => MapType::BusAddress,
        Tri::Unknown => MapType::Unknown,
        Tri::Yes => through_host_bridge(fabric, (provider, initiator), test_device, &mut found),
    };
    if found.map != MapType::Unknown {
        found.needs.clear();
    }
    found.distance = (found.map != MapType::NotSupported).then_some(walk.distance);
    found.path = walk.path();
    found
}

/// Yes, no, or unknown from this machine. The greatest answers "any of these?", the least "all of these?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tri {
    No,
    Unknown,
    Yes,
}

impl From<Option<bool>> for Tri {
    fn from(known: Option<bool>) -> Self {
        match known {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

/// The way up from both ends to their nearest common function, if there is one.
pub(crate) struct Walk {
    /// Provider first; ends with the common ancestor or with the top.
    pub(crate) provider_side: Vec<FunctionId>,
    /// Initiator first; ends below the common ancestor or with the top.
    pub(crate) initiator_side: Vec<FunctionId>,
    pub(crate) ancestor: Option<FunctionId>,
    pub(crate) distance: u32,
}

impl Walk {
    pub(crate) fn new(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> Self {
        let above_initiator: Vec<_> = fabric.upward(initiator).collect();
        let mut provider_side = Vec::new();
        let mut meeting = None;
        for function in fabric.upward(provider) {
            provider_side.push(function);
            meeting = above_initiator.iter().position(|&other| other == function);
            if meeting.is_some() {
                break;
            }
        }
        let hops = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let initiator_hops = meeting.unwrap_or(above_initiator.len());
        let provider_hops = provider_side.len() - usize::from(meeting.is_some());
        Self {
            ancestor: meeting.map(|at| above_initiator[at]),
            initiator_side: above_initiator[..initiator_hops].to_vec(),
            distance: hops(provider_hops).saturating_add(hops(initiator_hops)),
            provider_side,
        }
    }

    fn path(self) -> Vec<FunctionId> {
        self.provider_side.into_iter().chain(self.initiator_side.into_iter().rev()).collect()
    }

    /// The functions whose ACS counts: those on the way, both ends and the ancestor.
    pub(crate) fn tested(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.provider_side.iter().chain(&self.initiator_side).copied()
    }

    fn shape_fact(&self, fabric: &Fabric) -> Fact {
        let name = |id: Option<&FunctionId>| {
            id.map(|&id| fabric.function(id).name.clone()).unwrap_or_default()
        };
        let provider = name(self.provider_side.first());
        let initiator = name(self.initiator_side.first());
        match self.ancestor {
            Some(_) if self.distance == 0 => Fact::SameFunction { function: provider },
            Some(ancestor) => Fact::CommonAncestor {
                initiator: if initiator.is_empty() { name(Some(&ancestor)) } else { initiator },
                provider,
                ancestor: name(Some(&ancestor)),
            },
            None => Fact::SeparateRootPorts {
                provider,
                initiator,
                provider_top: name(self.provider_side.last()),
                initiator_top: name(self.initiator_side.last()),
            },
        }
    }

    /// The root buses that may not be one, when the two ends meet only above them.
    fn detached(&self, fabric: &Fabric, (one, other): (FunctionId, FunctionId)) -> Vec<BridgeId> {
        if self.ancestor.is_some() {
            return Vec::new();
        }
        let mut bridges = vec![fabric.bridge_of(one), fabric.bridge_of(other)];
        bridges.dedup();
        bridges.retain(|bridge| fabric.bridges[bridge.0].root_bus == RootBus::Assumed);
        bridges
    }

    /// Returns whether any function on the way redirects; notes those that do, and those unknown.
    fn redirect(&self, fabric: &Fabric, found: &mut Reach) -> Tri {
        let mut unknown = Vec::new();
        for id in self.tested() {
            let function = fabric.function(id);
            match function.acs {
                Acs::Present { control } if control & Acs::REDIRECT != 0 => {
                    let function = function.name.clone();
                    found.facts.push(Fact::AcsRedirect { function, control });
                    found.redirecting.push(id);
                }
                Acs::Unknown => {
                    let register = UnreadRegister::from_function(fabric, function);
                    let function = function.name.clone();
                    found.facts.push(Fact::AcsUnknown { function, register });
                    unknown.push(id);
                }
                Acs::Present { .. } | Acs::Absent | Acs::NotRedirecting => {}
            }
        }
        match (found.redirecting.is_empty(), unknown.is_empty()) {
            (false, _) => Tri::Yes,
            (true, true) => Tri::No,
            (true, false) => {
                found.needs.push(Need::Acs(unknown));
                Tri::Unknown
            }
        }
    }
}

/// `map_through_host_bridge` in the kernel: the CPU, then the list of host bridges.
fn through_host_bridge(
    fabric: &Fabric,
    (provider, initiator): (FunctionId, FunctionId),
    test_device: &TestDevice<'_>,
    found: &mut Reach,
) -> MapType {
    let (cpu, fact) = cpu_forwards(fabric);
    found.facts.push(fact);
    if cpu == Tri::Yes {
        return MapType::ThroughHostBridge;
    }
    let (one, other) = (fabric.bridge_of(provider), fabric.bridge_of(initiator));
    let both = if one == other { vec![one] } else { vec![one, other] };
    let mut unknown = Vec::new();
    let mut listed = Tri::Yes;
    for &bridge in &both {
        let (answer, fact) = bridge_forwards(fabric, bridge, test_device(bridge), one == other);
        found.facts.push(fact);
        unknown.extend((answer == Tri::Unknown).then_some(Need::HostBridge(bridge)));
        listed = listed.min(answer);
    }
    let map = forwarded(cpu, listed);
    match map {
        MapType::Conditional => found.conditions = cpu_conditions(),
        MapType::Unknown => {
            found.needs = unknown;
            found.needs.extend((cpu == Tri::Unknown).then_some(Need::Cpu));
        }
        _ => {}
    }
    map
}

/// The decision on packets that pass the root complex, by CPU and host bridges.
pub(crate) fn forwarded(cpu: Tri, listed: Tri) -> MapType {
    match (cpu, listed) {
        (Tri::Yes, _) | (_, Tri::Yes) => MapType::ThroughHostBridge,
        (Tri::No, Tri::No) => MapType::NotSupported,
        (Tri::Unknown, Tri::No) => MapType::Conditional,
        (_, Tri::Unknown) => MapType::Unknown,
    }
}

/// The outcomes of a decision that the CPU alone settles.
pub(crate) fn cpu_conditions() -> Vec<Condition> {
    let outcome = |equals, verdict| Condition {
        fact: UnknownFact::Cpu,
        equals: Cow::Borrowed(equals),
        verdict,
    };
    vec![
        outcome("AuthenticAMD, family 0x17 (Zen) or later", MapType::ThroughHostBridge),
        outcome("any other", MapType::NotSupported),
    ]
}

/// Returns whether the CPU forwards between root ports, and the fact behind it.
pub(crate) fn cpu_forwards(fabric: &Fabric) -> (Tri, Fact) {
    match (fabric.cpu.vendor.as_deref(), fabric.cpu.family) {
        (Some("AuthenticAMD"), Some(family)) if family >= AMD_ZEN => {
            (Tri::Yes, Fact::CpuForwards { family })
        }
        (None, _) | (Some("AuthenticAMD"), None) => (Tri::Unknown, Fact::CpuUnknown),
        (Some(vendor), family) => {
            (Tri::No, Fact::CpuDoesNotForward { vendor: vendor.to_owned(), family })
        }
    }
}

/// Returns whether the kernel trusts a host bridge to forward, and the fact behind it.
pub(crate) fn bridge_forwards(
    fabric: &Fabric,
    bridge: BridgeId,
    test_device: Option<FunctionId>,
    same_bridge: bool,
) -> (Tri, Fact) {
    let HostBridge { name, root_bus, .. } = &fabric.bridges[bridge.0];
    let name = name.clone();
    let at_zero = |id| fabric.function(id).address.is_some_and(|address| address.devfn() == 0);
    let is_known = match root_bus {
        RootBus::Whole => true,
        // Functions that a text left out can only come before one that is not at 00.0.
        RootBus::Partial => test_device.is_some_and(at_zero),
        RootBus::Assumed => false,
    };
    if !is_known {
        return (Tri::Unknown, Fact::HostBridgeUnknown { bridge: name });
    }
    let Some(id) = test_device else {
        return (Tri::No, Fact::HostBridgeWithoutTestDevice { bridge: name });
    };
    let function = fabric.function(id);
    let (Some(vendor), Some(device)) = (function.vendor, function.device) else {
        return (Tri::Unknown, Fact::HostBridgeUnknown { bridge: name });
    };
    let counts_anywhere = function.kind == FunctionKind::RootPort;
    let version = fabric.kernel.version();
    let list = if version.is_some() { KernelList::OfMachine } else { KernelList::Newest };
    match allow_list::look_up(vendor, device, version) {
        Listing::NotListed => {
            (Tri::No, Fact::HostBridgeNotListed { bridge: name, vendor, device, list })
        }
        Listing::SameBridgeOnly if !same_bridge => {
            (Tri::No, Fact::SameBridgeOnly { bridge: name, vendor, device, list })
        }
        Listing::Listed | Listing::SameBridgeOnly
            if function.address.is_none() && !counts_anywhere =>
        {
            (Tri::Unknown, Fact::HostBridgeUnknown { bridge: name })
        }
        Listing::Listed | Listing::SameBridgeOnly => {
            (Tri::Yes, Fact::HostBridgeListed { bridge: name, vendor, device, list })
        }
    }
}

/// The function that identifies a host bridge to the kernel (`pci_host_bridge_dev`).
///
/// The kernel takes the first of the root bus; the lowest device and function number is the same
/// wherever enumeration went in order. It counts only at 00.0 or when it is a root port. Functions
/// without an address come after those with one, in the order of the description; whether such a
/// one is at 00.0 is for the caller to doubt.
fn test_device(fabric: &Fabric, bridge: BridgeId) -> Option<FunctionId> {
    let on_root_bus = fabric.iter().filter(|(_, one)| one.parent == Parent::Bridge(bridge));
    first_of_root_bus(fabric, on_root_bus.map(|(id, _)| id))
}

/// The test device among the functions of a root bus.
pub(crate) fn first_of_root_bus(
    fabric: &Fabric,
    functions: impl Iterator<Item = FunctionId>,
) -> Option<FunctionId> {
    let place = |id: &FunctionId| {
        fabric.function(*id).address.map_or(u16::MAX, |address| u16::from(address.devfn()))
    };
    let id = functions.min_by_key(place)?;
    let first = fabric.function(id);
    let at_zero = first.address.is_none_or(|address| address.devfn() == 0);
    (at_zero || first.kind == FunctionKind::RootPort).then_some(id)
}
