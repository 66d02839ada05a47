//! Two devices as a record: for each direction the path, the kernel's decision and the drivers' rules.

use std::path::Path;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, names};
use peerlane_memory::provider::PROVIDERS;
use peerlane_reach::{
    Condition, Direction, GpuLinkKind, MapType, NEWEST_LIST, NetworkDriveMemory, Pair, Reach, Turn,
    environment_notes, gpu_link, guest, nature, rules,
};
use peerlane_results::{
    Answer, DriverRule, Explanation, ExplanationStep, GuestRecord, KernelDecision, PairDevice,
    PairDirection, PairRecord, PairTurn, PathLink, Plan, ReachCondition, ReachVerdict,
};

use crate::plan::initiator;

mod slow_path;

/// The functions that two words name; `None` where one of them names none.
///
/// The ends of a plan are taken where there is one, so that a file stands for the drive below it.
pub fn pair_ends(
    fabric: &Fabric,
    plan: Option<&Plan>,
    words: (&str, &str),
) -> Option<(FunctionId, FunctionId)> {
    let end =
        |facts: Option<FunctionId>, word: &str| facts.or_else(|| PROVIDERS.find(fabric, word));
    let first = end(plan.and_then(|plan| initiator(fabric, &plan.source)), words.0)?;
    let second = end(plan.and_then(|plan| initiator(fabric, &plan.target)), words.1)?;
    Some((first, second))
}

/// Returns whether two words name devices between which nothing is copied: one is neither a drive nor a GPU, or
/// both are GPUs.
pub fn is_no_copy(fabric: &Fabric, words: (&str, &str)) -> bool {
    let kind = |word: &str| {
        let is_file = fabric.is_this_machine() && Path::new(word).exists();
        let id = PROVIDERS.find(fabric, word).filter(|_| !is_file)?;
        Some(fabric.function(id).kind)
    };
    match (kind(words.0), kind(words.1)) {
        (Some(FunctionKind::Gpu), Some(FunctionKind::Gpu)) => true,
        (one, other) => {
            let is_copied = |kind: Option<FunctionKind>| {
                matches!(kind, None | Some(FunctionKind::Nvme | FunctionKind::Gpu))
            };
            !is_copied(one) || !is_copied(other)
        }
    }
}

/// Reasons why a pair is slow although nothing is wrong with it.
pub(crate) fn slow_notes(
    fabric: &Fabric,
    (first, second): (FunctionId, FunctionId),
) -> Vec<String> {
    slow_path::notes(fabric, &Pair::new(fabric, first, second))
}

/// Judges two functions, both directions; `for_guest` adds what holds in a virtual machine.
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
        guest: for_guest.then(|| guest_record(fabric, &pair, (first, second))),
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
            steps: peerlane_reach::explain(fabric, one.provider, one.initiator)
                .into_iter()
                .map(|step| ExplanationStep {
                    finding: step.finding,
                    source: step.source.to_owned(),
                })
                .collect(),
        })
        .collect()
}

/// The word for a decision in records.
pub fn reach_verdict(map: MapType) -> ReachVerdict {
    match map {
        MapType::BusAddress => ReachVerdict::BusAddress,
        MapType::ThroughHostBridge => ReachVerdict::ThroughHostBridge,
        MapType::NotSupported => ReachVerdict::Refused,
        MapType::Conditional => ReachVerdict::Conditional,
        MapType::Unknown => ReachVerdict::Unknown,
    }
}

/// An outcome of a conditional decision as a record.
pub fn condition(condition: &Condition) -> ReachCondition {
    ReachCondition {
        fact: condition.fact.name().to_owned(),
        equals: condition.equals.to_owned(),
        verdict: reach_verdict(condition.verdict),
    }
}

fn device(fabric: &Fabric, id: FunctionId) -> PairDevice {
    let function = fabric.function(id);
    PairDevice {
        name: fabric.device_word(id),
        address: function.address.map(|address| address.to_string()),
        product: names::look_up(function),
        driver: function.driver.name().map(str::to_owned),
    }
}

fn direction_record(fabric: &Fabric, pair: &Pair, one: &Direction) -> PairDirection {
    let path = &pair.path;
    let (turn, turn_at) = match path.turn {
        None => (None, None),
        Some(Turn::Device(id)) => (Some(PairTurn::Device), Some(id)),
        Some(Turn::Switch(id)) => (Some(PairTurn::Switch), Some(id)),
        Some(Turn::RootComplex) => (Some(PairTurn::RootComplex), None),
        Some(Turn::SocketLink) => (Some(PairTurn::SocketLink), None),
    };
    let place = |id: FunctionId| fabric.function(id).address_or_name();
    PairDirection {
        initiator: fabric.device_word(one.initiator),
        provider: fabric.device_word(one.provider),
        memory: fabric.memory(one.provider).and_then(|memory| memory.size),
        verdict: reach_verdict(one.kernel.map),
        turn,
        turn_at: turn_at.map(place),
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
        drivers: rules(fabric, one.provider, one.initiator).into_iter().map(driver_rule).collect(),
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
        conditions: reach.conditions.iter().map(condition).collect(),
        needs: reach.needs.iter().map(|need| need.in_words(fabric)).collect(),
        commands: reach.commands().into_iter().map(str::to_owned).collect(),
    }
}

fn driver_rule(rule: peerlane_reach::DriverRule) -> DriverRule {
    DriverRule {
        driver: rule.driver,
        mechanism: rule.mechanism,
        asks_kernel: rule.asks_kernel,
        answer: answer(rule.answer),
        reason: rule.reason,
        source: rule.source,
    }
}

fn answer(answer: peerlane_reach::DriverAnswer) -> Answer {
    match answer {
        peerlane_reach::DriverAnswer::Possible => Answer::Possible,
        peerlane_reach::DriverAnswer::Expected => Answer::Expected,
        peerlane_reach::DriverAnswer::Refused => Answer::Refused,
        peerlane_reach::DriverAnswer::Conditional => Answer::Conditional,
        peerlane_reach::DriverAnswer::NotKnown => Answer::NotKnown,
    }
}

/// The host's verdict for a guest, on the direction that exists.
fn guest_record(
    fabric: &Fabric,
    pair: &Pair,
    (first, second): (FunctionId, FunctionId),
) -> GuestRecord {
    let (provider, initiator) =
        pair.directions().next().map_or((second, first), |one| (one.provider, one.initiator));
    let verdict = guest(fabric, provider, initiator);
    GuestRecord { verdict: answer(verdict.verdict), reasons: verdict.reasons, needs: verdict.needs }
}
