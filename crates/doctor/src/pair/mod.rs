//! Two devices as a record: for each direction the path, the kernel's decision and the drivers' rules.

use peerlane_fabric::{Fabric, FunctionId, pci_names};
use peerlane_reach::{
    Direction, GpuLinkKind, GuestVerdict, NEWEST_LIST, NetworkDriveMemory, Pair, Reach,
    environment_notes, gpu_link, guest, nature, rules,
};
use peerlane_results::{
    Explanation, KernelDecision, PairDevice, PairDirection, PairRecord, PathLink,
};

mod slow_path;

/// Reasons why a pair is slow although nothing is wrong with it.
pub(crate) fn slow_notes(
    fabric: &Fabric,
    (first, second): (FunctionId, FunctionId),
) -> Vec<String> {
    slow_path::notes(fabric, &Pair::new(fabric, first, second))
}

/// Judges two functions, both directions; `for_guest` adds the facts for a virtual machine.
pub fn pair_record(
    fabric: &Fabric,
    (first, second): (FunctionId, FunctionId),
    for_guest: bool,
) -> PairRecord {
    let pair = Pair::new(fabric, first, second);
    let direction = |one: &Direction| direction_record(fabric, &pair, one);
    let mut notes = environment_notes(fabric);
    let mut both = vec![first, second];
    both.dedup();
    notes.extend(slow_path::notes(fabric, &pair));
    let between = NetworkDriveMemory::new(fabric, first, second);
    notes.extend(between.iter().flat_map(|memory| memory.advice.clone()));
    notes.extend(
        both.into_iter().filter_map(|id| {
            Some(format!("{} is {}", fabric.device_word(id), nature(fabric, id)?))
        }),
    );
    let state = gpu_link(fabric, first, second);
    let links = |kind| state.filter(|state| state.kind() == kind).map(|state| state.to_string());
    PairRecord {
        first: device(fabric, first),
        second: device(fabric, second),
        forward: pair.forward.as_ref().map(direction),
        backward: pair.backward.as_ref().map(direction),
        nvlink: links(GpuLinkKind::NvLink),
        xgmi: links(GpuLinkKind::Xgmi),
        guest: for_guest.then(|| for_guests(fabric, &pair, (first, second))),
        between: between.and_then(|memory| memory.third).map(|id| fabric.device_word(id)),
        notes,
    }
}

/// The kernel's decision on each direction, step by step.
pub fn explain_pair(fabric: &Fabric, ends: (FunctionId, FunctionId)) -> Vec<Explanation> {
    let pair = Pair::new(fabric, ends.0, ends.1);
    pair.directions()
        .map(|one| Explanation {
            question: format!(
                "may {} reach memory of {}?",
                fabric.device_word(one.initiator),
                fabric.device_word(one.provider)
            ),
            steps: peerlane_reach::explain(fabric, one.provider, one.initiator),
        })
        .collect()
}

fn device(fabric: &Fabric, id: FunctionId) -> PairDevice {
    let function = fabric.function(id);
    PairDevice {
        name: fabric.device_word(id),
        address: function.address.map(|address| address.to_string()),
        product: pci_names::look_up(function),
        driver: function.driver.name().map(str::to_owned),
    }
}

fn direction_record(fabric: &Fabric, pair: &Pair, one: &Direction) -> PairDirection {
    let path = &pair.path;
    let place = |id: FunctionId| fabric.function(id).address_or_name();
    PairDirection {
        initiator: fabric.device_word(one.initiator),
        provider: fabric.device_word(one.provider),
        memory: fabric.memory(one.provider).and_then(|memory| memory.size),
        verdict: one.kernel.map,
        turn: path.turn,
        turn_at: path.turn_at.map(place),
        class: path.class.map(|class| class.name().to_owned()),
        distance: path.distance,
        ports: ports(fabric, &one.kernel),
        slowest_link: path.slowest_link.map(|link| PathLink {
            function: place(link.function),
            speed: link.speed.to_string(),
            bytes_per_second: link.speed.raw_rate(),
            downgraded: link.is_downgraded,
        }),
        unknown_links: path.unknown_links.iter().map(|&id| place(id)).collect(),
        kernel: kernel_decision(fabric, &one.kernel),
        drivers: rules(fabric, one.provider, one.initiator).into_iter().collect(),
    }
}

/// The ports that redirect, by address.
fn ports(fabric: &Fabric, reach: &Reach) -> Vec<String> {
    let mut ids = reach.redirecting.clone();
    ids.sort_by_key(|&id| (fabric.function(id).address, id));
    ids.into_iter().map(|id| fabric.function(id).address_or_name()).collect()
}

fn kernel_decision(fabric: &Fabric, reach: &Reach) -> KernelDecision {
    let (major, minor) = NEWEST_LIST;
    let is_assumed = fabric.kernel.version().is_none();
    KernelDecision {
        reasons: reach.reasons(),
        assumed_kernel: is_assumed.then(|| format!("{major}.{minor}")),
        conditions: reach.conditions.clone(),
        needs: reach.needs.iter().map(|need| need.in_words(fabric)).collect(),
        commands: reach.commands().into_iter().map(str::to_owned).collect(),
    }
}

/// The host's verdict for a guest, on the direction that exists.
fn for_guests(
    fabric: &Fabric,
    pair: &Pair,
    (first, second): (FunctionId, FunctionId),
) -> GuestVerdict {
    let (provider, initiator) =
        pair.directions().next().map_or((second, first), |one| (one.provider, one.initiator));
    guest(fabric, provider, initiator)
}
