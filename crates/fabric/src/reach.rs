//! The kernel's peer-to-peer decision as a pure function that returns its reasons.
//!
//! Mirrors `drivers/pci/p2pdma.c` of Linux 7.2 (`calc_map_type_and_dist`,
//! `pci_p2pdma_distance_many`). It says what the kernel will do with a pair, which is not whether
//! data arrives: the kernel tests no route, and it caches its answer until the provider's driver is
//! unbound, so ACS bits changed since then do not count. The IOMMU mode is no input: an IOMMU acts
//! only through the ACS bits that the kernel sets once it finds one.

mod explain;

use crate::allow_list::{self, Listing};
use crate::fact::Fact;
use crate::{Acs, BridgeId, Fabric, FunctionId, Kind};
pub use explain::{Step, explain};

/// ACS Request Redirect, Completion Redirect and Egress Control (`pci_bridge_has_acs_redir`).
pub(crate) const ACS_REDIRECT: u16 = 0x04 | 0x08 | 0x20;

/// First AMD CPU family that forwards between root ports (`cpu_supports_p2pdma`): Zen.
const AMD_ZEN: u32 = 0x17;

/// How the kernel lets an initiator reach the memory of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapType {
    /// By PCI bus address; transactions turn round in the switch below the root
    /// (`PCI_P2PDMA_MAP_BUS_ADDR`).
    BusAddress,
    /// Up to the host bridge and down again (`PCI_P2PDMA_MAP_THRU_HOST_BRIDGE`).
    ThroughHostBridge,
    /// Not at all: requests fail (`PCI_P2PDMA_MAP_NOT_SUPPORTED`).
    NotSupported,
    /// Something that could not be read would change the answer.
    Unknown,
}

/// The decision for one provider and one initiator, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// What the kernel decides.
    pub map: MapType,
    /// Hops from provider to initiator as the kernel counts them, when the route is permitted;
    /// `None` when the kernel refuses it.
    pub distance: Option<u32>,
    /// What the decision rests on, in the order in which the kernel looks.
    pub facts: Vec<Fact>,
    /// The functions passed, provider first and initiator last; through the host bridge when it
    /// has no function above the two ends.
    pub path: Vec<FunctionId>,
}

impl Reach {
    /// Whether the kernel permits the route.
    pub fn is_permitted(&self) -> bool {
        matches!(self.map, MapType::BusAddress | MapType::ThroughHostBridge)
    }

    /// One sentence: what the kernel decides, and why.
    pub fn summary(&self) -> String {
        let verdict = match self.map {
            MapType::BusAddress => "the route is direct, below the host bridge",
            MapType::ThroughHostBridge => "the route is permitted through the host bridge",
            MapType::NotSupported => "the kernel refuses the route",
            MapType::Unknown => "whether the kernel permits the route cannot be told from here",
        };
        let reasons: Vec<String> =
            self.facts.iter().filter(|fact| fact.decides(self.map)).map(Fact::to_string).collect();
        if reasons.is_empty() {
            verdict.to_owned()
        } else {
            format!("{verdict}: {}", reasons.join("; "))
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

/// Decides many pairs of one fabric, for which the host bridges are looked up once.
#[derive(Debug)]
pub struct Decisions<'a> {
    fabric: &'a Fabric,
    tested: Vec<Option<FunctionId>>,
}

impl<'a> Decisions<'a> {
    /// Of a fabric.
    pub fn new(fabric: &'a Fabric) -> Self {
        let bridges = (0..fabric.bridges.len()).map(BridgeId);
        Self { fabric, tested: bridges.map(|bridge| test_device(fabric, bridge)).collect() }
    }

    /// As [`decide`].
    pub fn decide(&self, provider: FunctionId, initiator: FunctionId) -> Reach {
        decide_by(self.fabric, provider, initiator, &|bridge| self.tested[bridge.0])
    }
}

/// The function by which the kernel knows a host bridge.
type TestDevice<'a> = dyn Fn(BridgeId) -> Option<FunctionId> + 'a;

/// As [`decide`], with the test devices of host bridges from somebody who looks them up once.
fn decide_by(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
    test_device: &TestDevice<'_>,
) -> Reach {
    let walk = Walk::new(fabric, provider, initiator);
    let mut facts = vec![walk.shape_fact(fabric)];
    let redirect =
        if walk.ancestor.is_some() { walk.redirect(fabric, &mut facts) } else { Tri::Yes };
    let map = match redirect {
        Tri::No => MapType::BusAddress,
        Tri::Unknown => MapType::Unknown,
        Tri::Yes => {
            let ends = (provider, initiator);
            through_host_bridge(fabric, ends, test_device, &mut facts)
        }
    };
    let distance = (map != MapType::NotSupported).then_some(walk.distance);
    Reach { map, distance, facts, path: walk.path() }
}

/// Yes, no, or not to be seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tri {
    Yes,
    No,
    Unknown,
}

/// The way up from both ends to their nearest common function, if there is one.
struct Walk {
    /// Provider first; ends with the common ancestor or with the top.
    provider_side: Vec<FunctionId>,
    /// Initiator first; ends below the common ancestor or with the top.
    initiator_side: Vec<FunctionId>,
    ancestor: Option<FunctionId>,
    distance: u32,
}

impl Walk {
    fn new(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> Self {
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
    fn tested(&self) -> impl Iterator<Item = FunctionId> + '_ {
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

    /// Whether any function on the way redirects.
    fn redirect(&self, fabric: &Fabric, facts: &mut Vec<Fact>) -> Tri {
        let mut answer = Tri::No;
        for id in self.tested() {
            let function = fabric.function(id);
            match function.acs {
                Acs::Present { control } if control & ACS_REDIRECT != 0 => {
                    facts.push(Fact::AcsRedirect { function: function.name.clone(), control });
                    answer = Tri::Yes;
                }
                Acs::Unknown => {
                    facts.push(Fact::AcsUnknown { function: function.name.clone() });
                    if answer == Tri::No {
                        answer = Tri::Unknown;
                    }
                }
                Acs::Present { .. } | Acs::Absent => {}
            }
        }
        answer
    }
}

/// `map_through_host_bridge` in the kernel: the CPU, then the list of host bridges.
fn through_host_bridge(
    fabric: &Fabric,
    (provider, initiator): (FunctionId, FunctionId),
    test_device: &TestDevice<'_>,
    facts: &mut Vec<Fact>,
) -> MapType {
    let cpu = cpu_forwards(fabric, facts);
    if cpu == Tri::Yes {
        return MapType::ThroughHostBridge;
    }
    let (one, other) = (fabric.bridge_of(provider), fabric.bridge_of(initiator));
    let mut forwards = |bridge: BridgeId| {
        bridge_forwards(fabric, (bridge, test_device(bridge)), one == other, facts)
    };
    let listed = if one == other {
        forwards(one)
    } else {
        match (forwards(one), forwards(other)) {
            (Tri::No, _) | (_, Tri::No) => Tri::No,
            (Tri::Yes, Tri::Yes) => Tri::Yes,
            _ => Tri::Unknown,
        }
    };
    match (cpu, listed) {
        (_, Tri::Yes) => MapType::ThroughHostBridge,
        (Tri::No, Tri::No) => MapType::NotSupported,
        _ => MapType::Unknown,
    }
}

fn cpu_forwards(fabric: &Fabric, facts: &mut Vec<Fact>) -> Tri {
    let (answer, fact) = match (fabric.cpu.vendor.as_deref(), fabric.cpu.family) {
        (Some("AuthenticAMD"), Some(family)) if family >= AMD_ZEN => {
            (Tri::Yes, Fact::CpuForwards { family })
        }
        (None, _) | (Some("AuthenticAMD"), None) => (Tri::Unknown, Fact::CpuUnknown),
        (Some(vendor), family) => {
            (Tri::No, Fact::CpuDoesNotForward { vendor: vendor.to_owned(), family })
        }
    };
    facts.push(fact);
    answer
}

fn bridge_forwards(
    fabric: &Fabric,
    (bridge, test_device): (BridgeId, Option<FunctionId>),
    same_bridge: bool,
    facts: &mut Vec<Fact>,
) -> Tri {
    let name = fabric.bridges[bridge.0].name.clone();
    let Some(id) = test_device else {
        facts.push(Fact::HostBridgeWithoutTestDevice { bridge: name });
        return Tri::No;
    };
    let function = fabric.function(id);
    let (Some(vendor), Some(device)) = (function.vendor, function.device) else {
        facts.push(Fact::HostBridgeUnknown { bridge: name });
        return Tri::Unknown;
    };
    let counts_anywhere = function.kind == Kind::RootPort;
    let (answer, fact) = match allow_list::look_up(vendor, device, fabric.kernel.version()) {
        Listing::NotListed => (Tri::No, Fact::HostBridgeNotListed { bridge: name, vendor, device }),
        Listing::SameBridgeOnly if !same_bridge => {
            (Tri::No, Fact::SameBridgeOnly { bridge: name, vendor, device })
        }
        Listing::Listed | Listing::SameBridgeOnly
            if function.address.is_none() && !counts_anywhere =>
        {
            (Tri::Unknown, Fact::HostBridgeUnknown { bridge: name })
        }
        Listing::Listed | Listing::SameBridgeOnly => {
            (Tri::Yes, Fact::HostBridgeListed { bridge: name, vendor, device })
        }
    };
    facts.push(fact);
    answer
}

/// The function by which the kernel knows a host bridge (`pci_host_bridge_dev`).
///
/// The kernel takes the first of the root bus; the lowest device and function number is the same
/// wherever enumeration went in order. It counts only at 00.0 or when it is a root port. Functions
/// without an address come after those with one, in the order of the description; whether such a
/// one is at 00.0 is for the caller to doubt.
fn test_device(fabric: &Fabric, bridge: BridgeId) -> Option<FunctionId> {
    let on_root_bus =
        fabric.iter().filter(|(_, function)| function.parent == crate::Parent::Bridge(bridge));
    let (id, first) = on_root_bus
        .min_by_key(|(_, function)| function.address.map_or(u16::MAX, |a| u16::from(a.devfn())))?;
    let at_zero = first.address.is_none_or(|address| address.devfn() == 0);
    (at_zero || first.kind == Kind::RootPort).then_some(id)
}
