//! What the windows of a prediction did, request by request: a trace of each transfer.
//!
//! Leaves out everything before and behind a window, and what no window has. The one thing to know: windows are drawn
//! one behind the other, in the order of the predicted times at which their transfers run together, and those of parts
//! of the machine that share nothing side by side if they do so at one moment. The trace says when that is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peerlane_fabric::{Fabric, Kind};
use peerlane_results::{
    CaseSpec, Flow, KnownEnds, MemoryKind, PhaseKind, Route, Span, Trace, TraceAction, TraceMemory,
    TraceOutcome, TracePhase, TraceRequest, TraceWindow,
};
use peerlane_units::Nanos;

use super::case::{Model, QUANTUM, Set};
use super::setting::whole;
use super::windows::{Planned, Shown, Window};
use super::{PredictError, Prepared};
use crate::model::{Leg, Op, Picos};
use crate::tlp::CommandLeg;

/// Requests for which a trace has room unless its maker says otherwise.
pub const ROOM: usize = 1 << 18;
/// What host memory is called in every trace.
const HOST: &str = "host memory";
/// Transfers that a remark names.
const NAMED: usize = 12;

/// What each window has of the room for so many requests, one at least.
///
/// # Errors
/// When no case has a window.
pub(super) fn of_each(room: usize, cases: &[Prepared<'_>]) -> Result<usize, PredictError> {
    let windows = cases.iter().filter_map(|case| case.windows.as_ref());
    match windows.map(|planned| planned.parts.len()).sum::<usize>() {
        0 => Err(PredictError::NoPackets {
            why: "too many transfers run at a time for packets",
            hint: "`peerlane sim --engine tlp` simulates up to 256 transfers at a time, `auto` up to 128 of a case",
        }),
        windows => Ok((room / windows).max(1)),
    }
}

/// The traces of all cases, one case behind the other.
pub(super) fn of(fabric: &Fabric, cases: &[Prepared<'_>], shown: &Shown<'_>) -> Vec<Trace> {
    let (mut traces, mut remarks, mut now) = (Vec::new(), Vec::new(), Nanos(0));
    for case in cases {
        let before = traces.len();
        if let Some(planned) = &case.windows {
            let drawing = Drawing { fabric, case: case.asked, model: &case.model, shown };
            now = drawing.draw(planned, now, &mut traces);
        }
        let unseen: Vec<String> = unseen(case).into_iter().collect();
        match traces.get_mut(before) {
            Some(first) => first.remarks = unseen,
            None => remarks.extend(unseen),
        }
    }
    if let Some(first) = traces.first_mut() {
        first.remarks.splice(..0, remarks);
    }
    traces
}

/// Says which transfers of a case are in no window.
fn unseen(case: &Prepared<'_>) -> Option<String> {
    let parts = case.windows.iter().flat_map(|planned| &planned.parts);
    let members = parts.flat_map(|(set, ..)| &set.members);
    let seen: BTreeSet<usize> = members.map(|&(flow, _)| flow).collect();
    let names = names(&case.asked.flows);
    let unseen: Vec<&str> = (0..names.len())
        .filter(|flow| !seen.contains(flow))
        .map(|flow| names[flow].as_str())
        .collect();
    let others = unseen.len().checked_sub(NAMED).filter(|&others| others > 0);
    let others = others.map_or_else(String::new, |others| format!(" and {others} more"));
    let named = unseen[..unseen.len().min(NAMED)].join(", ");
    let (count, of, case) = (unseen.len(), names.len(), &case.asked.name);
    (count > 0).then(|| {
        format!("{case}: {count} of {of} transfers are in no window and not in this trace: {named}{others}")
    })
}

/// Names of transfers, each of which is there once.
pub(super) fn names(flows: &[Flow]) -> Vec<String> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let mut name = |flow: &Flow| {
        let name = format!("{} to {}", flow.source, flow.target);
        let times = times.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 { format!("{name} ({times})") } else { name }
    };
    flows.iter().map(&mut name).collect()
}

/// Windows that are drawn side by side, since there is a moment at which the transfers of all of them run: none of those
/// is in two.
fn moments(sets: &[&Set]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by(|&one, &other| sets[one].first.total_cmp(&sets[other].first));
    let mut moments: Vec<(f64, BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for index in order {
        let set = sets[index];
        let (flows, end) = (set.members.iter().map(|&(flow, _)| flow), set.first + set.time);
        match moments.last_mut() {
            Some((until, members, windows))
                if set.first < *until && flows.clone().all(|flow| !members.contains(&flow)) =>
            {
                *until = until.min(end);
                members.extend(flows);
                windows.push(index);
            }
            _ => moments.push((end, flows.collect(), vec![index])),
        }
    }
    moments.into_iter().map(|(.., windows)| windows).collect()
}

/// One case on its way into traces.
struct Drawing<'a> {
    fabric: &'a Fabric,
    case: &'a CaseSpec,
    model: &'a Model,
    shown: &'a Shown<'a>,
}

impl Drawing<'_> {
    /// Draws all windows of the case from `now` on; returns when the next case may be drawn.
    fn draw(&self, planned: &Planned, mut now: Nanos, traces: &mut Vec<Trace>) -> Nanos {
        let names = names(&self.case.flows);
        let sets: Vec<&Set> = planned.parts.iter().map(|(set, ..)| set).collect();
        for moment in moments(&sets) {
            let mut longest = Nanos(0);
            for index in moment {
                let (set, _, key) = &planned.parts[index];
                let Some(window) = self.shown.get(key.as_str()) else { continue };
                let mut legs = by_flow(window);
                for (position, &(flow, _)) in set.members.iter().enumerate() {
                    let legs = legs.remove(&position).unwrap_or_default();
                    let part = Seen { set, window, position, flow, legs, now };
                    traces.push(self.trace(names[flow].clone(), &part));
                }
                longest = longest.max(window.outcome.measured.to_nanos());
            }
            // A gap, so that one sees where the next begins.
            now = Nanos(now.0 + longest.0 + longest.0 / 10);
        }
        now
    }

    fn trace(&self, name: String, part: &Seen<'_>) -> Trace {
        let flow = &self.model.flows[part.flow];
        let outcome = &part.window.outcome;
        let node = |leg: &Leg| self.model.topology.node(leg.initiator).name.clone();
        let span = part.span(outcome.warm_up, Picos(outcome.warm_up.0 + outcome.measured.0));
        let commands = outcome.commands.as_ref();
        Trace {
            name,
            drives: flow.spec.legs().map(node).collect(),
            memories: vec![self.memory(part.flow)],
            slots: part.window.depths[part.position],
            phases: vec![TracePhase { kind: PhaseKind::Move, span }],
            requests: part.legs.iter().map(|leg| self.request(part, leg)).collect(),
            waits: Vec::new(),
            left_out: commands.map_or(0, |commands| commands.left_out[part.position]),
            window: Some(TraceWindow {
                case: self.case.name.clone(),
                // A set begins where all that happens within a quantum has happened.
                from: Nanos(whole(part.set.first - QUANTUM)),
                out_of: Nanos(whole(part.set.time)),
                warm_up: outcome.warm_up.to_nanos(),
                is_settled: outcome.is_settled,
                train: outcome.train,
                depth: flow.spec.depth,
            }),
            remarks: Vec::new(),
        }
    }

    /// The memory that a transfer goes through.
    fn memory(&self, flow: usize) -> TraceMemory {
        let flow = &self.model.flows[flow];
        if flow.route == Route::Host {
            return TraceMemory { name: HOST.to_owned(), kind: MemoryKind::Host };
        }
        let owner = &self.model.topology.node(flow.spec.memory).name;
        let owner = self.fabric.functions.iter().find(|function| function.name == *owner);
        let is_gpu = owner.is_some_and(|owner| owner.kind == Kind::Gpu);
        let kind = if is_gpu { MemoryKind::Gpu } else { MemoryKind::P2pmem };
        TraceMemory { name: flow.memory.clone(), kind }
    }

    fn request(&self, part: &Seen<'_>, leg: &CommandLeg) -> TraceRequest {
        let (flow, asked) = (&self.model.flows[part.flow], &self.case.flows[part.flow]);
        let second = flow.spec.second.as_ref().filter(|_| leg.is_second);
        // Of an initiator that writes to a memory, which it does with what it has read.
        let (action, base) = match second.unwrap_or(&flow.spec.first).op {
            Op::Write => (TraceAction::Read, asked.offset),
            Op::Read => (TraceAction::Write, asked.target_offset),
        };
        let from = part.window.outcome.warm_up;
        let until = Picos(from.0 + part.window.outcome.measured.0);
        let is_whole = leg.begin >= from && leg.end.is_some();
        // A window goes on where the bytes of its transfer would have come to an end.
        let blocks = (asked.bytes.0 / leg.bytes.max(1)).max(1);
        TraceRequest {
            action,
            drive: usize::from(leg.is_second),
            memory: Some(0),
            slot: Some(leg.slot.into()),
            offset: base.0.saturating_add(leg.number % blocks * leg.bytes),
            bytes: leg.bytes,
            span: part.span(leg.begin.max(from), leg.end.unwrap_or(until)),
            known: KnownEnds::Both,
            outcome: if is_whole { TraceOutcome::Full } else { TraceOutcome::Partly(leg.moved) },
        }
    }
}

/// A transfer in a window.
struct Seen<'a> {
    set: &'a Set,
    window: &'a Window,
    /// Which of the transfers of the window it is, and which of the case.
    position: usize,
    flow: usize,
    legs: Vec<CommandLeg>,
    /// When its window is drawn.
    now: Nanos,
}

impl Seen<'_> {
    /// When something is drawn that lies in the window.
    fn span(&self, begin: Picos, end: Picos) -> Span {
        let from = self.window.outcome.warm_up.0;
        let at = |time: Picos| Nanos(self.now.0 + Picos(time.0.saturating_sub(from)).to_nanos().0);
        Span { begin: at(begin), end: at(end) }
    }
}

/// What was written down, by the position of the flow in its window.
fn by_flow(window: &Window) -> HashMap<usize, Vec<CommandLeg>> {
    let mut flows: HashMap<usize, Vec<CommandLeg>> = HashMap::new();
    for leg in window.outcome.commands.iter().flat_map(|commands| &commands.legs) {
        flows.entry(leg.flow).or_default().push(*leg);
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_side_by_side_where_they_run_at_one_moment() {
        let set = |flows: &[usize], first: f64, time: f64| Set {
            members: flows.iter().map(|&flow| (flow, 1.0)).collect(),
            time,
            first,
        };
        // One part with three sets, another one that runs beside the first two of them, a third one later.
        let sets = [
            set(&[0], 20.0, 5.0),
            set(&[0, 1], 0.0, 10.0),
            set(&[1], 10.0, 10.0),
            set(&[2, 3], 1.0, 18.0),
            set(&[4], 30.0, 1.0),
        ];
        let found = moments(&sets.iter().collect::<Vec<_>>());
        assert_eq!(found, [vec![1, 3], vec![2], vec![0], vec![4]]);
    }
}
