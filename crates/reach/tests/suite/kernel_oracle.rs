//! The decision once more, in the kernel's shape, for fabrics without unknowns. `Unknown` is
//! checked against every value that an unknown may have.

use peerlane_fabric::{Acs, Bdf, BridgeId, Fabric, FunctionId, FunctionKind, Parent, RootBus};
use peerlane_reach::MapType;
use peerlane_reach::decide;
use proptest::prelude::*;

use crate::random;

fn upstream(fabric: &Fabric, of: FunctionId) -> Option<FunctionId> {
    match fabric.function(of).parent {
        Parent::Function(parent) => Some(parent),
        Parent::Bridge(_) => None,
    }
}

fn has_acs_redirect(fabric: &Fabric, id: FunctionId) -> bool {
    matches!(fabric.function(id).acs, Acs::Present { control } if control & 0x2c != 0)
}

/// Returns whether a bridge above both may be missing: the ends meet nowhere below a bus that is only taken for
/// a root bus.
fn may_lack_bridges(fabric: &Fabric, one: FunctionId, other: FunctionId) -> bool {
    let is_assumed = |id| fabric.bridges[fabric.bridge_of(id).0].root_bus == RootBus::Assumed;
    let above: Vec<_> = fabric.upward(one).collect();
    !fabric.upward(other).any(|id| above.contains(&id)) && (is_assumed(one) || is_assumed(other))
}

/// `calc_map_type_and_dist` with two nested loops, as in drivers/pci/p2pdma.c.
fn kernel_decides(fabric: &Fabric, provider: FunctionId, client: FunctionId) -> (MapType, u32) {
    let (mut distance_a, mut distance_b, mut redirects) = (0, 0, 0);
    let mut a = Some(provider);
    while let Some(on_a) = a {
        distance_b = 0;
        redirects += u32::from(has_acs_redirect(fabric, on_a));
        let mut b = Some(client);
        while let Some(on_b) = b {
            if on_a == on_b {
                let mut below = client;
                while below != on_a {
                    redirects += u32::from(has_acs_redirect(fabric, below));
                    below = upstream(fabric, below).expect("the ancestor is above");
                }
                let map = if redirects == 0 {
                    MapType::BusAddress
                } else {
                    through_host_bridge(fabric, provider, client)
                };
                return (map, distance_a + distance_b);
            }
            b = upstream(fabric, on_b);
            distance_b += 1;
        }
        a = upstream(fabric, on_a);
        distance_a += 1;
    }
    (through_host_bridge(fabric, provider, client), distance_a + distance_b)
}

fn through_host_bridge(fabric: &Fabric, one: FunctionId, other: FunctionId) -> MapType {
    let cpu = &fabric.cpu;
    let is_zen = cpu.vendor.as_deref() == Some("AuthenticAMD") && cpu.family >= Some(0x17);
    let (one, other) = (fabric.bridge_of(one), fabric.bridge_of(other));
    let same = one == other;
    if is_zen || (is_listed(fabric, one, same) && is_listed(fabric, other, same)) {
        MapType::ThroughHostBridge
    } else {
        MapType::NotSupported
    }
}

fn first_on_root_bus(fabric: &Fabric, bridge: BridgeId) -> Option<FunctionId> {
    let mut ids: Vec<FunctionId> = (0..fabric.functions.len()).map(FunctionId).collect();
    ids.retain(|&id| fabric.function(id).parent == Parent::Bridge(bridge));
    ids.sort_by_key(|&id| fabric.function(id).address.map_or(999, |at| i32::from(at.devfn())));
    ids.first().copied()
}

fn is_listed(fabric: &Fabric, bridge: BridgeId, same_bridge: bool) -> bool {
    let Some(id) = first_on_root_bus(fabric, bridge) else { return false };
    let function = fabric.function(id);
    let at_zero = function.address.is_some_and(|address| address.devfn() == 0);
    if !at_zero && function.kind != FunctionKind::RootPort {
        return false;
    }
    match (function.vendor, function.device) {
        (Some(0x8086), Some(0x09a2)) | (Some(0x1ae0), _) => true,
        (Some(0x8086), Some(0x3c00)) => same_bridge,
        (Some(0x10de), Some(0x2f95)) => {
            fabric.kernel.version().is_none_or(|version| version >= (7, 3))
        }
        _ => false,
    }
}

/// Every outcome of a fabric's unknowns that the decision could care about, as pairs that differ in
/// the CPU alone.
fn completions(fabric: &Fabric) -> Vec<[Fabric; 2]> {
    let mut all = Vec::new();
    for acs in [Acs::Absent, Acs::Present { control: 0x1d }] {
        for host_bridge in [0x29c0, 0x09a2] {
            all.push([6, 0x17].map(|family| complete(fabric.clone(), acs, family, host_bridge)));
        }
    }
    all
}

fn complete(mut fabric: Fabric, acs: Acs, family: u32, host_bridge: u16) -> Fabric {
    for function in &mut fabric.functions {
        if function.acs == Acs::Unknown {
            function.acs = acs;
        }
    }
    match fabric.cpu.vendor.as_deref() {
        None => {
            fabric.cpu.vendor = Some("AuthenticAMD".to_owned());
            fabric.cpu.family = Some(family);
        }
        Some("AuthenticAMD") if fabric.cpu.family.is_none() => fabric.cpu.family = Some(family),
        Some(_) => {}
    }
    for bridge in (0..fabric.bridges.len()).map(BridgeId) {
        let Some(FunctionId(first)) = first_on_root_bus(&fabric, bridge) else { continue };
        let is_first = fabric.functions[first].address.is_some_and(|at| at.devfn() == 0);
        let root_bus = fabric.bridges[bridge.0].root_bus;
        if root_bus == RootBus::Assumed {
            // The real root bus is another one.
            let function = &mut fabric.functions[first];
            function.address = Bdf::new(0, 0, 0, 0);
            (function.vendor, function.device) = (Some(0x8086), Some(host_bridge));
            continue;
        }
        if root_bus == RootBus::Partial && !is_first {
            // The text left out the one at 00.0.
            let mut missing = fabric.functions[first].clone();
            missing.address = Bdf::new(0, 0, 0, 0);
            (missing.vendor, missing.device) = (Some(0x8086), Some(host_bridge));
            fabric.functions.push(missing);
            continue;
        }
        let function = &mut fabric.functions[first];
        if function.vendor.is_none() {
            (function.vendor, function.device) = (Some(0x8086), Some(host_bridge));
        }
        if function.address.is_none() && function.kind != FunctionKind::RootPort {
            // A listed device counts only at 00.0; one that turns out unlisted is elsewhere.
            let device = u8::from(host_bridge == 0x29c0);
            function.address = Bdf::new(0, 0, device, 0);
        }
    }
    fabric
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn decision_matches_kernel_for_all_unknowns(
        (fabric, provider, client) in random::fabric_and_pair(),
    ) {
        let reach = decide(&fabric, provider, client);
        let outcomes: Vec<[(MapType, u32); 2]> = completions(&fabric)
            .iter()
            .map(|pair| pair.each_ref().map(|complete| kernel_decides(complete, provider, client)))
            .collect();
        let first = outcomes[0][0].0;
        let by_cpu = [MapType::NotSupported, MapType::ThroughHostBridge];
        let expected = if may_lack_bridges(&fabric, provider, client) {
            MapType::Unknown
        } else if outcomes.iter().flatten().all(|(map, _)| *map == first) {
            first
        } else if outcomes.iter().all(|pair| pair.map(|(map, _)| map) == by_cpu) {
            MapType::Conditional
        } else {
            MapType::Unknown
        };
        prop_assert_eq!(reach.map, expected, "{:?}", reach);
        let is_known = expected != MapType::NotSupported
            && !may_lack_bridges(&fabric, provider, client);
        prop_assert_eq!(reach.distance, is_known.then_some(outcomes[0][0].1));
        prop_assert_eq!(reach.conditions.is_empty(), expected != MapType::Conditional);
        prop_assert_eq!(reach.needs.is_empty(), expected != MapType::Unknown);
    }

    #[test]
    fn decision_is_symmetric(
        (fabric, one, other) in random::fabric_and_pair(),
    ) {
        let (there, back) = (decide(&fabric, one, other), decide(&fabric, other, one));
        prop_assert_eq!(there.map, back.map);
        prop_assert_eq!(there.distance, back.distance);
    }

    #[test]
    fn path_joins_ends_through_neighbours(
        (fabric, provider, initiator) in random::fabric_and_pair(),
    ) {
        let path = decide(&fabric, provider, initiator).path;
        prop_assert_eq!(path.first(), Some(&provider));
        prop_assert_eq!(path.last(), Some(&initiator));
        for pair in path.windows(2) {
            let over_host_bridge = pair.iter().all(|&id| upstream(&fabric, id).is_none());
            let neighbours = upstream(&fabric, pair[0]) == Some(pair[1])
                || upstream(&fabric, pair[1]) == Some(pair[0]);
            prop_assert!(over_host_bridge || neighbours);
        }
    }
}
