//! Two ends in one state and one sentence: the first line of `plan` and of `doctor` alike.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{NetworkDriveMemory, Pair, Verdict};
use peerlane_results::RouteState;

/// State of two ends, and the answer in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndsVerdict {
    /// The state of the route between them.
    pub state: RouteState,
    /// `SOURCE -> TARGET: STATE: reason`.
    pub sentence: String,
}

impl EndsVerdict {
    /// Names both ends, the state, and the deciding ones of `facts`.
    pub fn new(ends: &[String; 2], state: RouteState, facts: &[String]) -> Self {
        let [one, other] = ends;
        let reason = match deciding(state, facts) {
            reason if reason.is_empty() => reason,
            reason => format!(": {reason}"),
        };
        Self { state, sentence: format!("{one} -> {other}: {state}{reason}") }
    }
}

/// The first fact, and the first command if the first fact names none and something is unknown.
fn deciding(state: RouteState, facts: &[String]) -> String {
    let Some(first) = facts.first() else { return String::new() };
    let is_open = matches!(state, RouteState::Unknown | RouteState::Expected);
    let command = facts.iter().find(|fact| fact.contains('`'));
    match command.filter(|_| is_open && !first.contains('`')) {
        Some(command) => format!("{first}; {command}"),
        None => first.clone(),
    }
}

/// The verdict on two functions; the better of both directions counts, since an initiator reads and writes.
pub fn devices_verdict(
    fabric: &Fabric,
    (one, other): (FunctionId, FunctionId),
    typed: &[String; 2],
) -> EndsVerdict {
    let pair = Pair::new(fabric, one, other);
    if let Some(best) = Verdict::best(fabric, &pair) {
        return EndsVerdict::new(typed, best.state, &best.facts);
    }
    let third = NetworkDriveMemory::new(fabric, one, other).and_then(|memory| memory.third);
    let reason = match third {
        Some(third) => format!(
            "neither has memory for peers; memory of {} can lie between them",
            fabric.device_word(third)
        ),
        None => "neither has memory for peers".to_owned(),
    };
    EndsVerdict::new(typed, RouteState::Host, &[reason])
}
