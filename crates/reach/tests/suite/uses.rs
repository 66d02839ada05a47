//! Groups of pairs hold every pair of a use once, with the answer that it has alone.

use std::collections::{BTreeSet, HashMap};

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind};
use peerlane_reach::{JudgedPairs, MapType, Use, judged_between, judged_pairs};
use proptest::prelude::*;

use crate::{handmade, random};

type Pair = (Use, FunctionId, FunctionId);

/// The groups by pair, the function that comes first in the fabric first; each with the owner of the memory.
fn by_pair(
    judged: &[JudgedPairs],
) -> Result<HashMap<Pair, (&JudgedPairs, FunctionId)>, TestCaseError> {
    let mut found: HashMap<Pair, (&JudgedPairs, FunctionId)> = HashMap::new();
    for group in judged {
        let mut count = 0;
        for (one, other) in group.group.pairs() {
            let pair = (group.of_use, one.min(other), one.max(other));
            if let Some((known, owner)) = found.insert(pair, (group, one)) {
                let is_reversed = std::ptr::eq(known, group) && owner == other;
                prop_assert!(is_reversed, "{pair:?} is in two groups");
            } else {
                count += 1;
            }
        }
        prop_assert_eq!(count, group.group.count, "{:?}", group);
        let example = group.group.example();
        prop_assert!(group.group.pairs().any(|pair| pair == example));
    }
    Ok(found)
}

/// The kernel's decisions of the legs.
fn decisions(pairs: &JudgedPairs) -> Vec<(MapType, Option<u32>)> {
    pairs.legs.iter().map(|leg| (leg.kernel.map, leg.kernel.distance)).collect()
}

fn holds(fabric: &Fabric) -> Result<usize, TestCaseError> {
    let judged = judged_pairs(fabric);
    let grouped = by_pair(&judged)?;
    for ((of_use, one, other), (group, owner)) in &grouped {
        let initiator = if owner == one { other } else { one };
        let alone = judged_between(fabric, *initiator, *owner);
        let alone = alone.iter().find(|alone| alone.of_use == *of_use);
        prop_assert!(alone.is_some(), "{of_use:?} of {one:?} and {other:?} is none");
        let Some(alone) = alone else { continue };
        prop_assert_eq!(group.state, alone.state, "{:?} {:?}", group, alone);
        // Of several memories that are as good, two drives may take another one than their group.
        if *of_use == Use::DriveToDrive {
            continue;
        }
        prop_assert_eq!(group.facts.len(), alone.facts.len(), "{:?} {:?}", group, alone);
        prop_assert_eq!(decisions(group), decisions(alone), "{:?} {:?}", group, alone);
        let redirecting = |one: &JudgedPairs| -> BTreeSet<FunctionId> {
            one.legs.iter().flat_map(|leg| leg.redirecting.clone()).collect()
        };
        prop_assert!(redirecting(group).is_superset(&redirecting(alone)), "{group:?} {alone:?}");
    }
    let ids: Vec<FunctionId> = fabric.iter().map(|(id, _)| id).collect();
    let mut count = 0;
    for (place, &one) in ids.iter().enumerate() {
        for &other in &ids[place + 1..] {
            count += judged_between(fabric, one, other).len();
        }
    }
    prop_assert_eq!(grouped.len(), count);
    Ok(count)
}

/// Makes all functions of one kind equal but for their place and their ACS.
fn with_twins(fabric: &mut Fabric) {
    let mut first: HashMap<FunctionKind, Function> = HashMap::new();
    for function in &mut fabric.functions {
        let model = first.entry(function.kind).or_insert_with(|| function.clone()).clone();
        let (name, address) = (std::mem::take(&mut function.name), function.address);
        *function = Function { name, address, parent: function.parent, acs: function.acs, ..model };
    }
}

/// Takes away the links, and what `nvidia-smi` said, of all functions or of those that are no GPUs.
fn without_links(fabric: &mut Fabric, of_all: bool) {
    if of_all {
        (fabric.nvlinks, fabric.xgmi) = (None, None);
        fabric.peer_access.clear();
        return;
    }
    let functions = &fabric.functions;
    let are_gpus = |(one, other): (FunctionId, FunctionId)| {
        [one, other].iter().all(|id| functions[id.0].kind == FunctionKind::Gpu)
    };
    for links in [&mut fabric.nvlinks, &mut fabric.xgmi].into_iter().flatten() {
        links.retain(|link| are_gpus(link.gpus));
    }
    fabric.peer_access.retain(|access| are_gpus(access.gpus));
}

proptest! {
    #[test]
    fn random_machines_group_their_pairs(mut fabric in random::fabric(), is_linked in any::<bool>()) {
        without_links(&mut fabric, !is_linked);
        holds(&fabric)?;
        with_twins(&mut fabric);
        holds(&fabric)?;
    }
}

#[test]
fn equal_devices_below_equal_switches_are_one_group() {
    let mut tree = "cpu = { vendor = 'GenuineIntel', family = 6 }".to_owned();
    for switch in 0..3 {
        tree += &format!(
            "\nroot{switch} root-port 8086:1901 acs = 'absent'\n up{switch} upstream-port acs = 'absent'"
        );
        for port in 0..4 {
            let end = if port < 2 { "gpu 10de:2331" } else { "nvme" };
            tree += &format!(
                "\n  port{switch}{port} downstream-port acs = 'absent'\n   e{switch}{port} {end} acs = 'absent'"
            );
        }
    }
    let judged = judged_pairs(&peerlane_testing::machine(&tree));
    let storage = judged.iter().filter(|one| one.of_use == Use::StorageToGpu);
    let counts: Vec<usize> = storage.map(|one| one.group.count).collect();
    // Below each switch, and between switches.
    assert_eq!(counts.iter().sum::<usize>(), 36);
    assert_eq!(counts.len(), 4, "{counts:?}");
}

/// A GPU and two drives below one switch; ACS of the switch, and of the port above the second drive.
fn one_switch(switch: &str, port: &str) -> Fabric {
    peerlane_testing::machine(&format!(
        "cpu = {{ vendor = 'GenuineIntel', family = 6 }}
         root root-port 8086:1901 acs = 'absent'
           up upstream-port acs = {switch}
             port-a downstream-port acs = 'absent'
               a gpu 10de:2331 acs = 'absent'
             port-b downstream-port acs = 'absent'
               b nvme acs = 'absent'
             port-c downstream-port acs = {port}
               c nvme acs = 'absent'"
    ))
}

/// For each group of drives and GPUs its pairs, and names of the ports that redirect.
fn redirected(fabric: &Fabric) -> Vec<(usize, Vec<&str>)> {
    let judged = judged_pairs(fabric);
    let storage = judged.iter().filter(|one| one.of_use == Use::StorageToGpu);
    let ports = |one: &JudgedPairs| {
        let ports = one.legs.iter().flat_map(|leg| &leg.redirecting);
        ports.map(|&id| fabric.function(id).name.as_str()).collect()
    };
    storage.map(|one| (one.group.count, ports(one))).collect()
}

#[test]
fn drives_below_ports_that_differ_are_apart() {
    let fabric = one_switch("'absent'", "{ control = 0x1d }");
    assert_eq!(redirected(&fabric), [(1, vec![]), (1, vec!["port-c"])]);
}

#[test]
fn port_where_pairs_meet_may_redirect() {
    let fabric = one_switch("{ control = 0x1d }", "'absent'");
    assert_eq!(redirected(&fabric), [(2, vec!["up"])]);
}

#[test]
fn handmade_machines_group_their_pairs() {
    let pairs: usize = handmade::all().iter().map(|machine| holds(machine).unwrap()).sum();
    assert!(pairs > 100, "{pairs}");
}
