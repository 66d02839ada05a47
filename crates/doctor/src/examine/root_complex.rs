//! Devices of one machine that meet only in a root complex that the kernel lets no peer traffic
//! through.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::FunctionId;
use peerlane_reach::{Fact, JudgedPairs, MapType, RouteState, Use, UseLeg};
use peerlane_results::{Cost, Finding, FindingKind, Needs};

use super::{BearsOn, Examination, finding, fix, saw};

pub(super) fn examine(on: &mut Examination<'_>) {
    let refused: Vec<&JudgedPairs> = on
        .judged
        .iter()
        .filter(|pairs| pairs.legs.iter().any(|leg| is_refused(pairs, leg)))
        .collect();
    let Some(first) = refused.first() else { return };
    let fabric = on.fabric;
    let (provider, initiator) = first.group.example();
    let mut counted: BTreeMap<Use, usize> = BTreeMap::new();
    for pairs in &refused {
        *counted.entry(pairs.of_use).or_insert(0) += pairs.group.count;
    }
    let ends = |pairs: &&&JudgedPairs| -> Vec<FunctionId> {
        let legs = pairs.legs.iter().filter(|leg| is_refused(pairs, leg));
        legs.flat_map(|leg| &leg.kernel.path).copied().collect()
    };
    let bridges: BTreeSet<&str> = refused
        .iter()
        .flat_map(|pairs| ends(&pairs))
        .map(|id| fabric.bridges[fabric.bridge_of(id).0].name.as_str())
        .collect();
    let facts: BTreeSet<String> =
        refused.iter().flat_map(|pairs| &pairs.legs).flat_map(facts_of_bridges).collect();
    let found = Finding {
        evidence: facts
            .into_iter()
            .map(|fact| saw("the list of host bridges in drivers/pci/p2pdma.c", fact))
            .collect(),
        fix: Some(fix(way_out(&refused), Needs::Hardware)),
        ..finding(
            FindingKind::HostBridgeNotListed,
            Cost::Routes,
            format!("host bridge {}", bridges.into_iter().collect::<Vec<_>>().join(", ")),
            format!(
                "the kernel refuses P2P through the CPU's root complex ({}): e.g. {} -> {}",
                super::counted(counted.values().sum(), "pair"),
                fabric.device_word(initiator),
                fabric.device_word(provider),
            ),
        )
    };
    on.add(found, BearsOn::Counted(counted));
}

/// The fix, and a note if a patched list of host bridges is known not to be one.
fn way_out(refused: &[&JudgedPairs]) -> String {
    /// Host bridge of Rocket Lake.
    const ROCKET_LAKE: (u16, u16) = (0x8086, 0x4c43);
    let mut facts = refused.iter().flat_map(|pairs| &pairs.legs).flat_map(|leg| &leg.kernel.facts);
    let is_of_rocket_lake = |fact: &Fact| {
        matches!(fact, Fact::HostBridgeNotListed { vendor, device, .. }
            if (*vendor, *device) == ROCKET_LAKE)
    };
    let forced = match facts.any(is_of_rocket_lake) {
        true => {
            "; a kernel patched to list this host bridge reports success and copies wrong data \
             (intel/compute-runtime #935)"
        }
        false => "",
    };
    format!("Put the devices below one switch; no kernel setting changes this{forced}")
}

/// Returns whether the kernel refuses a route for its host bridge, and payload takes host memory for it.
fn is_refused(pairs: &JudgedPairs, leg: &UseLeg) -> bool {
    pairs.state == RouteState::Host
        && leg.kernel.map == MapType::NotSupported
        && leg.redirecting.is_empty()
        && !leg.kernel.facts.iter().any(|fact| matches!(fact, Fact::OtherMachine { .. }))
}

fn facts_of_bridges(leg: &UseLeg) -> impl Iterator<Item = String> + '_ {
    let is_of_bridge = |fact: &&Fact| {
        matches!(
            fact,
            Fact::HostBridgeNotListed { .. }
                | Fact::SameBridgeOnly { .. }
                | Fact::HostBridgeWithoutTestDevice { .. }
        )
    };
    leg.kernel.facts.iter().filter(is_of_bridge).map(Fact::to_string)
}
