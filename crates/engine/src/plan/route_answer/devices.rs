//! The route between two functions, by the kernel's decision and each driver's own rule.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{
    Direction, Pair, PeerMemory, Verdict, decide, environment_notes, used_gpu_link,
};

use super::{RouteAnswer, RouteWord};

/// Judges two functions: the better of the two directions, since an initiator both reads and writes.
pub(super) fn answer(fabric: &Fabric, first: FunctionId, second: FunctionId) -> RouteAnswer {
    let (one, other) = (fabric.device_word(first), fabric.device_word(second));
    if first == second {
        return itself(fabric, first, &one);
    }
    if let Some(state) = used_gpu_link(fabric, first, second) {
        return RouteAnswer::new(RouteWord::P2p, format!("{one} and {other} are {state}"));
    }
    let pair = Pair::new(fabric, first, second);
    let best = pair
        .payload_directions(fabric)
        .map(|direction| direction_answer(fabric, direction))
        .min_by_key(|answer| answer.word);
    let Some(mut best) = best else {
        let reason = format!("neither {one} nor {other} has memory that peers can use");
        return RouteAnswer::new(RouteWord::Host, reason);
    };
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
    format!("it is unknown whether {word} has memory that peers can use")
}

/// Judges one direction.
fn direction_answer(fabric: &Fabric, direction: &Direction) -> RouteAnswer {
    let verdict = Verdict::new(fabric, direction);
    let (initiator, provider) =
        (fabric.device_word(direction.initiator), fabric.device_word(direction.provider));
    let reason = format!("{initiator} to memory of {provider}: {}", verdict.facts.join("; "));
    RouteAnswer::new(verdict.state.into(), reason)
}

/// The kernel's decision on memory of `provider`, with the commands that show its missing facts.
pub(super) fn open_facts(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
) -> Vec<String> {
    let kernel = decide(fabric, provider, initiator);
    let mut facts = vec![kernel.summary()];
    let commands = kernel.commands().into_iter();
    facts.extend(commands.map(|command| format!("`{command}` shows it")));
    facts
}
