//! The choice of the route, and its reason in words.

use peerlane_fabric::Fabric;
use peerlane_memory::provider::PROVIDERS;
use peerlane_reach::kernel_refusal;
use peerlane_results::{Asked, Candidate, MemoryFacts, MemoryKind, Route, RouteChoice, Tail};
use peerlane_units::Bytes;

use super::candidates::Via;
use super::shape::PlanEnds;
use super::{by_node, card, gpu};
use crate::endpoints::{Endpoint, is_old_head};

/// Input of the choice, besides the candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) asked: &'a Asked,
    pub(super) via: &'a Via,
    pub(super) ends: PlanEnds<'a>,
    pub(super) tail: Tail,
    pub(super) length: Bytes,
}

/// Result of the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) route: Option<Route>,
    pub(super) memory: Option<MemoryFacts>,
    pub(super) reason: String,
    /// Set when a peer-to-peer route was looked for and not found: why.
    pub(super) fell_back: Option<String>,
}

/// Chooses the route; `candidates` come best first.
pub(super) fn choose(question: Question<'_>, candidates: &[Candidate]) -> Choice {
    let Question { asked, via, .. } = question;
    let by_host = |reason: &str| Choice {
        route: Some(Route::Host),
        memory: Some(host_memory()),
        reason: reason.to_owned(),
        fell_back: None,
    };
    if *via == Via::Host {
        return by_host("`--via host` asks for it");
    }
    if let (Via::Gpu(..), RouteChoice::Host) = (via, asked.route) {
        return into_gpu_and_out(candidates);
    }
    match (asked.route, obstacle(question, candidates)) {
        (RouteChoice::Host, _) => by_host("`--route host` asks for it"),
        (_, Ok(best)) => Choice {
            route: Some(Route::P2p),
            memory: Some(best.memory.clone()),
            reason: praise(question, best),
            fell_back: None,
        },
        (RouteChoice::Auto, Err(reason)) => {
            Choice { fell_back: Some(reason.clone()), ..by_host(&reason) }
        }
        (RouteChoice::P2p, Err(reason)) => {
            Choice { route: None, memory: None, reason, fell_back: None }
        }
    }
}

/// Through pinned host memory into a GPU and out of it again: taken only if asked for by name.
fn into_gpu_and_out(candidates: &[Candidate]) -> Choice {
    let pinned = candidates.iter().find(|one| one.memory.kind == MemoryKind::Host);
    let refusal = match pinned {
        Some(one) => one.refusals.first(),
        None => candidates.iter().find_map(|one| one.refusals.first()),
    };
    match (pinned, refusal) {
        (Some(one), None) => Choice {
            route: Some(Route::Host),
            memory: Some(one.memory.clone()),
            reason: "`--route host` asks for it, and `--via` that it goes by the GPU".to_owned(),
            fell_back: None,
        },
        (_, refusal) => Choice {
            route: None,
            memory: None,
            reason: refusal.cloned().unwrap_or_default(),
            fell_back: None,
        },
    }
}

/// Host memory as the memory between the ends.
pub(crate) fn host_memory() -> MemoryFacts {
    MemoryFacts {
        name: "host".to_owned(),
        kind: MemoryKind::Host,
        address: None,
        size: None,
        available: None,
    }
}

/// The best candidate, or why no peer-to-peer route is possible.
fn obstacle<'a>(
    question: Question<'_>,
    candidates: &'a [Candidate],
) -> Result<&'a Candidate, String> {
    let Question { fabric, asked, ends, .. } = question;
    if let Via::Gpu(..) = question.via {
        let mut direct = candidates.iter().filter(|one| one.memory.kind == MemoryKind::Gpu);
        let best = direct.find(|one| one.refusals.is_empty());
        let best = best.ok_or_else(|| gpu::why_not_direct(candidates))?;
        return whole_or_merged(question, best);
    }
    let by_rules = kernel_refusal(&fabric.kernel);
    let own_way = card::is_by_own_way(fabric, question.via);
    if let Some(reason) = by_rules.clone().filter(|_| !own_way) {
        return Err(reason);
    }
    for end in [ends.source, ends.target] {
        let is_of_the_rules = own_way && end.facts.refusal == by_rules;
        if let Some(reason) = end.facts.refusal.as_ref().filter(|_| !is_of_the_rules) {
            let way_out = match by_node::command(asked, ends) {
                Some(command) if is_old_head(fabric, end) => format!(": `{command}`"),
                _ => String::new(),
            };
            return Err(format!("{} cannot take part: {reason}{way_out}", end.facts.path));
        }
    }
    let best = candidates.first().ok_or_else(|| match &asked.via {
        Some(typed) => format!("nothing is known of the memory of {typed}"),
        None => "no device of this machine offers peer-to-peer memory".to_owned(),
    })?;
    if let Some(reason) = best.refusals.first() {
        let name = &best.memory.name;
        // The reason of the kernel names the memory already.
        let is_named = reason.contains(&format!("cannot reach {name}:"));
        return Err(if is_named { reason.clone() } else { format!("{name}: {reason}") });
    }
    whole_or_merged(question, best)
}

/// The candidate, unless the end of the copy would have to pass host memory and must not.
fn whole_or_merged<'a>(
    question: Question<'_>,
    best: &'a Candidate,
) -> Result<&'a Candidate, String> {
    let Question { asked, ends, tail, length, .. } = question;
    if tail == Tail::MergeInHost && asked.route == RouteChoice::P2p {
        return Err(odd_tail(ends.target, length));
    }
    Ok(best)
}

fn odd_tail(target: &Endpoint, length: Bytes) -> String {
    let block = target.facts.block;
    let whole = length.round_down(block);
    let way_out = match whole {
        Bytes::ZERO => "use `--route auto`".to_owned(),
        whole => format!("use `--length {}` or `--route auto`", whole.0),
    };
    format!(
        "the last {} bytes are no whole block of {} ({} bytes), and a device moves whole blocks: \
         {way_out}",
        length.0 - whole.0,
        target.facts.path,
        block.0,
    )
}

fn praise(question: Question<'_>, best: &Candidate) -> String {
    let Question { fabric, ends, .. } = question;
    let name = |end: &Endpoint| {
        let only = end.initiator.filter(|_| end.further.is_empty());
        only.map_or_else(|| end.facts.path.clone(), |id| fabric.function(id).name.clone())
    };
    let (source, target) = (name(ends.source), name(ends.target));
    let memory = &best.memory.name;
    if best.memory.kind == MemoryKind::Gpu {
        return gpu::left_to_cufile(fabric, &best.memory);
    }
    if best.source.is_open() || best.target.is_open() {
        return format!(
            "{memory} may be reached by {source} and {target}: whether the kernel permits it cannot \
             be told from here, and a probe before the copy decides"
        );
    }
    let is_own = |end: &str| PROVIDERS.lender(memory) == Some(end);
    if source == target && is_own(&source) {
        return format!("{source} reads and writes by its own memory");
    }
    if is_own(&source) {
        return format!(
            "{source} reads into its own memory, {target} reaches it {}",
            best.target.turning_point()
        );
    }
    if is_own(&target) {
        return format!(
            "{target} writes out of its own memory, {source} reaches it {}",
            best.source.turning_point()
        );
    }
    if source == target {
        return format!("{source} reaches {memory} {}", best.source.turning_point());
    }
    if best.source == best.target {
        return format!("{source} and {target} reach {memory} {}", best.source.turning_point());
    }
    let (by_source, by_target) = (best.source.turning_point(), best.target.turning_point());
    format!("{source} reaches {memory} {by_source}, {target} {by_target}")
}
