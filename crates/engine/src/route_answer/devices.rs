//! The route between two functions, by the kernel's decision and each driver's own rule.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{
    Answer, Direction, DriverRule, MapType, NvLinkState, Pair, PeerMemory, Reach, decide,
    environment_notes, nvlink, rules,
};

use super::{RouteAnswer, RouteWord};

/// Judges two functions: the better of the two directions, since an initiator both reads and writes.
pub(super) fn answer(fabric: &Fabric, first: FunctionId, second: FunctionId) -> RouteAnswer {
    let (one, other) = (fabric.device_word(first), fabric.device_word(second));
    if first == second {
        return itself(fabric, first, &one);
    }
    if let Some(state @ NvLinkState::Links(_)) = nvlink(fabric, first, second) {
        return RouteAnswer::new(RouteWord::P2p, format!("{one} and {other} are {state}"));
    }
    let pair = Pair::new(fabric, first, second);
    let best = pair
        .directions()
        .map(|direction| direction_answer(fabric, direction))
        .min_by_key(|answer| answer.word);
    let Some(mut best) = best else {
        let reason = format!("neither {one} nor {other} has memory that peers can use");
        return RouteAnswer::new(RouteWord::Host, reason);
    };
    // A confidential guest shares no memory of devices with peers by itself.
    if best.word == RouteWord::P2p && fabric.environment.confidential.is_some() {
        best.word = RouteWord::Unknown;
    }
    if best.word != RouteWord::Host {
        let notes = environment_notes(fabric);
        best.reason.extend(notes.iter().map(|note| format!("; {note}")));
    }
    best
}

/// One function named twice.
fn itself(fabric: &Fabric, id: FunctionId, word: &str) -> RouteAnswer {
    match PeerMemory::new(fabric, id) {
        PeerMemory::Present => RouteAnswer::new(
            RouteWord::P2p,
            format!("both are {word}, which has memory of its own"),
        ),
        PeerMemory::Unknown => RouteAnswer::new(RouteWord::Unknown, memory_not_known(word)),
        PeerMemory::Absent => {
            let reason = format!("both are {word}, which has no memory that payload can rest in");
            RouteAnswer::new(RouteWord::Host, reason)
        }
    }
}

fn memory_not_known(word: &str) -> String {
    format!("it is not known whether {word} has memory that peers can use")
}

/// Judges one direction: the rules are alternatives, so the best of them counts.
fn direction_answer(fabric: &Fabric, direction: &Direction) -> RouteAnswer {
    let rules = rules(fabric, direction.provider, direction.initiator);
    let kernel = &direction.kernel;
    let (word, facts) = match rules.iter().min_by_key(|rule| (by_rule(rule, kernel), rank(rule))) {
        None => without_rule(fabric, direction),
        Some(best) => {
            let word = by_rule(best, kernel);
            (word, facts_of(best, kernel, word))
        }
    };
    let (initiator, provider) =
        (fabric.device_word(direction.initiator), fabric.device_word(direction.provider));
    let reason = format!("{initiator} to memory of {provider}: {}", facts.join("; "));
    RouteAnswer::new(word, reason)
}

/// The kernel's decision where no driver has a rule.
fn without_rule(fabric: &Fabric, direction: &Direction) -> (RouteWord, Vec<String>) {
    let kernel = &direction.kernel;
    let mut facts = vec![kernel.summary()];
    facts.extend(commands(kernel));
    let word = by_kernel(kernel);
    if word == RouteWord::P2p && direction.memory != PeerMemory::Present {
        facts.insert(0, memory_not_known(&fabric.device_word(direction.provider)));
        return (RouteWord::Unknown, facts);
    }
    (word, facts)
}

/// The word for one mechanism: the driver's answer, and the kernel's decision unless it is not asked.
fn by_rule(rule: &DriverRule, kernel: &Reach) -> RouteWord {
    let own = match rule.answer {
        Answer::Possible => RouteWord::P2p,
        Answer::Conditional | Answer::NotKnown => RouteWord::Unknown,
        Answer::Refused => RouteWord::Host,
    };
    if asks_kernel(rule) { own.max(by_kernel(kernel)) } else { own }
}

fn by_kernel(kernel: &Reach) -> RouteWord {
    match kernel.map {
        MapType::BusAddress | MapType::ThroughHostBridge => RouteWord::P2p,
        MapType::NotSupported => RouteWord::Host,
        MapType::Conditional | MapType::Unknown => RouteWord::Unknown,
    }
}

/// Returns whether a mechanism depends on the kernel's decision; all do that are not known to do without.
fn asks_kernel(rule: &DriverRule) -> bool {
    rule.asks_kernel != Some(false)
}

/// The order of rules that lead to one word: those that say most first.
fn rank(rule: &DriverRule) -> u8 {
    match rule.answer {
        Answer::Possible => 0,
        Answer::Conditional => 1,
        Answer::Refused => 2,
        Answer::NotKnown => 3,
    }
}

/// The facts that led from a rule and the kernel's decision to a word.
fn facts_of(rule: &DriverRule, kernel: &Reach, word: RouteWord) -> Vec<String> {
    let own = format!("{} ({}): {}", rule.mechanism, rule.driver, rule.reason);
    if !asks_kernel(rule) || rule.answer == Answer::Refused {
        return vec![own];
    }
    if word == RouteWord::Host {
        return vec![kernel.summary()];
    }
    let mut facts = vec![kernel.summary(), own];
    facts.extend(commands(kernel));
    facts
}

/// The kernel's decision on memory of `provider`, with the commands that show what it lacks.
pub(super) fn open_facts(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
) -> Vec<String> {
    let kernel = decide(fabric, provider, initiator);
    let mut facts = vec![kernel.summary()];
    facts.extend(commands(&kernel));
    facts
}

/// The commands that show the facts that the kernel's decision lacks, in words.
fn commands(kernel: &Reach) -> impl Iterator<Item = String> {
    kernel.commands().into_iter().map(|command| format!("`{command}` shows it"))
}
