//! Windows of packets: sets of flows that are active together, on the TLP engine, for percentiles and for the
//! difference of both engines.

use std::collections::{BTreeMap, HashMap, HashSet};

use peerlane_results::Percentiles;
use peerlane_units::{ByteRate, Bytes, Nanos};
use rayon::prelude::*;

use super::alike::Part;
use super::case::{Found, Model, Set};
use super::names;
use crate::flow::rates::Rates;
use crate::flow::run::Pace;
use crate::flow::solve::Settings;
use crate::model::{Arrival, FlowSpec, Picos};
use crate::tlp::{
    self, Extent, FlowOutcome, LatencyHistogram, TlpError, TlpOutcome, Train, simulate,
    simulate_beside,
};
use crate::way::as_f64;

/// Rates of one flow that differ by less are the same, and those that differ by more are far from each other.
const SAME: f64 = 0.01;
const FAR: f64 = 0.1;
/// Windows of a case.
const MOST_WINDOWS: usize = 16;
/// A set is looked at for flows that another set has shown, too, where it has such a share of the payload of one: what
/// has less cannot move its 99th percentile far.
const SHARE: f64 = 0.01;
/// Payload of the windows of such sets with all that may come before it, so that a case stays within seconds.
const AGAIN: f64 = 4e9;
/// Flows in a window at most.
const MOST_FLOWS: usize = 256;
/// Payload of a window at most: enough commands for percentiles, and little enough for seconds.
const PAYLOAD: (f64, f64) = (4e6, 1e8);
/// Commands of a window at most.
const COMMANDS: f64 = 2_000.0;
/// Commands of each flow, so that one in a hundred is there, and the payload of a flow and of all up to
/// which that holds.
const OF_EACH: (f64, f64, f64) = (256.0, 1.4e8, 7e8);
/// The same of the shortest window, and of the shortest time before it.
const OF_EACH_AT_LEAST: (f64, f64, f64) = (128.0, 7e7, 2.5e8);
/// Commands of each flow in a window whatever their payload.
const AT_LEAST: f64 = 4.0;
/// Windows until rates have settled, and the payload up to which that holds: a window of large blocks is long.
const UNTIL_SETTLED: (f64, f64) = (10.0, 1e9);
/// Depth up to which gaps between commands decide whom they meet, for longer than a window otherwise is, and by
/// how much a window is longer then.
const FEW_SLOTS: u32 = 2;
const MORE_BY_CHANCE: u64 = 4;
/// Payload under way from which on depth is left out, and the depth that is left.
const UNDER_WAY: f64 = 2.5e8;
const SHALLOW: u32 = 4;

/// What windows showed.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Latency of blocks of the flows that were in one.
    pub(super) latency: BTreeMap<usize, Percentiles>,
    /// How much slower those were than the flow engine says of the same flows, on average over time: 1 where both agree.
    pub(super) slower: BTreeMap<usize, f64>,
    /// Largest difference of the sum over a window between the engines, relative to the TLP engine.
    pub(super) difference: f64,
    /// Whether all of them were stable.
    pub(super) is_settled: bool,
    /// Sets of flows with a window, and all that there were.
    pub(super) count: (usize, usize),
}

/// The windows of a case that are to be run.
#[derive(Debug)]
pub(super) struct Planned {
    /// Sets of flows, the part of the machine that each is on, and what is the same for parts that are alike.
    pub(super) parts: Vec<(Set, Part, String)>,
    /// Sets of flows that there are.
    of: usize,
    /// For each flow without a window one that does the same in some set, whose place it takes in another.
    like: Vec<(usize, usize)>,
}

/// Which windows a case has: of sets in order of the time that they last, first of those in which a flow is that no longer
/// one has, then of those in which one is far from its rates in all before.
pub(super) fn plan(model: &Model, found: &Found) -> Planned {
    let (keys, rates) = (HashSet::new(), BTreeMap::new());
    let mut plan = Plan { model, parts: Vec::new(), keys, rates };
    let fits = found.sets.iter().filter(|set| set.members.len() <= MOST_FLOWS);
    let (mut again, mut left) = (Vec::new(), AGAIN);
    for set in fits {
        if set.members.iter().any(|(flow, _)| !plan.rates.contains_key(flow)) {
            plan.take(set, f64::INFINITY);
        } else {
            again.push(set);
        }
    }
    for set in again {
        if plan.shows_more(set, found) {
            left -= plan.take(set, left);
        }
    }
    let like = plan.like();
    Planned { parts: plan.parts, of: found.sets_in_all, like }
}

/// Windows on the way to a plan.
struct Plan<'a> {
    model: &'a Model,
    parts: Vec<(Set, Part, String)>,
    keys: HashSet<String>,
    /// Flows that are in one, each with its rates there.
    rates: BTreeMap<usize, Vec<f64>>,
}

impl Plan<'_> {
    /// Whether a flow is far from all its rates so far, and moves enough meanwhile to be looked at.
    fn shows_more(&self, set: &Set, found: &Found) -> bool {
        set.members.iter().any(|&(flow, moved)| {
            let rates = self.rates.get(&flow).map_or(&[][..], Vec::as_slice);
            let is_far = |rate: &f64| (moved / set.time / rate).ln().abs() > FAR;
            moved >= SHARE * found.flows[flow].bytes && rates.iter().all(is_far)
        })
    }

    /// Takes a set in, where there is room for another window, of no more than so much payload. Returns how much it is.
    fn take(&mut self, set: &Set, most: f64) -> f64 {
        let spec = |&(flow, _): &(usize, f64)| &self.model.flows[flow].spec;
        let part = Part::of(&self.model.topology, set.members.iter().map(spec));
        let key = part.key();
        let is_known = self.keys.contains(&key);
        let payload = if is_known { 0.0 } else { at_most(&shallow(&part.flows)) };
        if !is_known && self.keys.len() >= MOST_WINDOWS || payload > most {
            return 0.0;
        }
        self.keys.insert(key.clone());
        for &(flow, moved) in &set.members {
            self.rates.entry(flow).or_default().push(moved / set.time);
        }
        self.parts.push((set.clone(), part, key));
        payload
    }

    /// Of flows that do the same, a set has as many as were active, and names those that were first.
    fn like(&self) -> Vec<(usize, usize)> {
        let flows = &self.model.flows;
        let does = |flow: usize| {
            let spec = flows[flow].spec.clone();
            FlowSpec { name: String::new(), start: Picos::ZERO, bytes: Bytes::ZERO, ..spec }
        };
        let without = (0..flows.len()).filter(|flow| !self.rates.contains_key(flow));
        let like =
            |flow| Some((flow, *self.rates.keys().find(|&&other| does(other) == does(flow))?));
        without.filter_map(like).collect()
    }
}

/// Windows that were run, by the part of a machine that they are of: parts that are alike have one.
pub(super) type Shown<'a> = HashMap<&'a str, Window>;

/// Runs the windows of cases, each with its name. Of each, so many legs of commands are written down at most.
pub(super) fn run<'a>(
    cases: impl Iterator<Item = (&'a str, &'a Planned)>,
    log: usize,
) -> Result<Shown<'a>, (&'a str, TlpError)> {
    let mut jobs: Vec<(&str, &str, &Part)> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for (name, planned) in cases {
        let new = planned.parts.iter().filter(|(_, _, key)| known.insert(key));
        jobs.extend(new.map(|(_, part, key)| (name, key.as_str(), part)));
    }
    let shown = jobs.par_iter().map(|&(name, key, part)| match window(part, log) {
        Ok(window) => Ok((key, window)),
        Err(error) => Err((name, error)),
    });
    shown.collect()
}

/// What the windows of one case showed.
pub(super) fn of(planned: &Planned, shown: &Shown<'_>, found: &Found) -> Windows {
    let mut windows = Windows {
        is_settled: true,
        count: (planned.parts.len(), planned.of),
        ..Windows::default()
    };
    let mut seen: BTreeMap<usize, Vec<Seen<'_>>> = BTreeMap::new();
    for (set, _, key) in &planned.parts {
        let Some(Window { outcome, behind, fluids, .. }) = shown.get(key.as_str()) else {
            continue;
        };
        let mut sum = 0.0;
        for (at, &(index, moved)) in set.members.iter().enumerate() {
            let one = &outcome.flows[at];
            let rate = as_f64(one.bytes) / super::nanos(outcome.measured.to_nanos());
            sum += rate;
            let (behind, fluid) = (behind[at], fluids[at]);
            let slower = (rate > 0.0 && fluid > 0.0).then(|| fluid / rate);
            let latency = &one.latency;
            let seen = seen.entry(index).or_default();
            seen.push(Seen { latency, behind, rate: moved / set.time, slower, time: set.time });
        }
        let fluids: f64 = fluids.iter().sum();
        windows.difference = windows.difference.max((fluids / sum.max(1e-9) - 1.0).abs());
        windows.is_settled &= outcome.is_settled;
    }
    for &(flow, other) in &planned.like {
        if let Some(of_other) = seen.get(&other).cloned() {
            seen.insert(flow, of_other);
        }
    }
    for (index, seen) in seen {
        windows.latency.insert(index, mixed(&seen, &found.flows[index].paces));
        let known = || seen.iter().filter_map(|one| Some((one.slower?, one.time)));
        let time: f64 = known().map(|(_, time)| time).sum();
        if time > 0.0 {
            let slower = known().map(|(slower, time)| slower * time).sum::<f64>() / time;
            windows.slower.insert(index, slower);
        }
    }
    windows
}

/// What one window showed of one flow.
#[derive(Debug, Clone)]
struct Seen<'a> {
    latency: &'a LatencyHistogram,
    /// Nanoseconds that commands took longer.
    behind: f64,
    /// Payload a nanosecond that the flow moved in this set, by fluids.
    rate: f64,
    /// By how much it was slower than fluids, where both moved something.
    slower: Option<f64>,
    /// How long the set lasted.
    time: f64,
}

/// Percentiles of a flow over all the time that it ran. What it moved at another rate than in any window is taken from
/// the window in which its rate was nearest: as many commands as then are under way, and so they take as much longer as
/// the rate is lower (Little's law).
fn mixed(seen: &[Seen<'_>], paces: &[Pace]) -> Percentiles {
    let parts: Vec<(&Seen<'_>, f64, f64)> = paces.iter().map(|pace| nearest(seen, pace)).collect();
    let is_one =
        |(one, longer, _): &(&Seen<'_>, f64, f64)| *longer == 1.0 && std::ptr::eq(*one, parts[0].0);
    match (parts.first(), seen.first()) {
        (Some((one, ..)), _) if parts.iter().all(is_one) => {
            return later(&one.latency.percentiles(), one.behind);
        }
        (None, Some(one)) => return later(&one.latency.percentiles(), one.behind),
        _ => {}
    }
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (one, longer, bytes) in &parts {
        let count = as_f64(Bytes(one.latency.count())).max(1.0);
        let step = |(time, commands): (Picos, u64)| {
            let nanos = (crate::way::picos(time.0) + one.behind) * longer;
            (nanos, as_f64(Bytes(commands)) * bytes / count)
        };
        steps.extend(one.latency.steps().map(step));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = steps.iter().map(|(_, weight)| weight).sum();
    let at = |share: f64| {
        let mut sum = 0.0;
        let reached = |(_, weight): &&(f64, f64)| {
            sum += weight;
            sum >= all * share * (1.0 - 1e-9)
        };
        Nanos(steps.iter().find(reached).map_or(0, |&(nanos, _)| super::setting::whole(nanos)))
    };
    Percentiles {
        count: seen.iter().map(|one| one.latency.count()).sum(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: at(1.0),
    }
}

/// The window in which the rate of a flow was nearest to that of a pace, by how much longer commands take at the pace,
/// and its payload. Rates that are solved again differ within [`SAME`].
fn nearest<'a, 's>(seen: &'s [Seen<'a>], pace: &Pace) -> (&'s Seen<'a>, f64, f64) {
    let far = |one: &Seen<'_>| (one.rate / pace.rate()).ln().abs();
    let (first, rest) = seen.split_first().expect("whoever is seen was in a window");
    let nearest =
        rest.iter().fold(first, |near, one| if far(one) < far(near) { one } else { near });
    let longer = nearest.rate / pace.rate();
    (nearest, if far(nearest) < SAME { 1.0 } else { longer }, pace.bytes)
}

/// Percentiles of commands that took so many nanoseconds longer.
fn later(percentiles: &Percentiles, nanos: f64) -> Percentiles {
    let later = |time: Nanos| Nanos(time.0.saturating_add(super::setting::whole(nanos)));
    Percentiles {
        count: percentiles.count,
        p50_ns: later(percentiles.p50_ns),
        p90_ns: later(percentiles.p90_ns),
        p99_ns: later(percentiles.p99_ns),
        p999_ns: later(percentiles.p999_ns),
        max_ns: later(percentiles.max_ns),
    }
}

/// What one window showed of its flows.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) outcome: TlpOutcome,
    /// Commands that each flow had under way.
    pub(super) depths: Vec<u32>,
    /// Nanoseconds that commands took longer, by depth that was left out.
    behind: Vec<f64>,
    /// What the flow engine says of the same flows, payload a nanosecond each.
    fluids: Vec<f64>,
}

/// One window, and what the flow engine says of the same flows.
///
/// Where packets agree with fluids, shorter trains would show no other rates, and depth beyond what keeps a
/// flow at its rate `x` only adds commands that wait for the others of their own flow: `n / x` each (Little's
/// law). Where they do not agree, neither is taken for granted; where rates of packets go on changing, more of them
/// would only take longer to do so, and the window is told to be less sure.
fn window(Part { topology, flows: specs }: &Part, log: usize) -> Result<Window, TlpError> {
    let rates = Rates::of(topology, specs, Settings::default());
    let fluids = rates.map_or_else(|_| vec![0.0; specs.len()], |rates| rates.solution.rates);
    let flow: f64 = fluids.iter().sum();
    let found: Vec<ByteRate> = fluids.iter().map(|&rate| names::per_second(rate)).collect();
    let shallow = shallow(specs);
    let depths = |specs: &[FlowSpec]| specs.iter().map(|spec| spec.depth).collect();
    let settings = |specs| tlp::Settings { log, ..settings(specs, flow) };
    let whole = settings(specs);
    let settings = settings(&shallow);
    let is_of_chance = specs.len() > 1 && specs.iter().any(|spec| spec.depth <= FEW_SLOTS);
    let settings = if is_of_chance { longer(settings) } else { settings };
    let (outcome, agrees) = simulate_beside(topology, &shallow, &settings, &found)?;
    if agrees || !outcome.is_settled {
        let left_out = specs.iter().zip(&shallow).map(|(whole, kept)| whole.depth - kept.depth);
        let behind = left_out.zip(specs).zip(&outcome.flows).map(|((depth, spec), one)| {
            f64::from(depth) * as_f64(spec.request) / as_f64(Bytes(one.rate.0)).max(1.0) * 1e9
        });
        let (depths, behind) = (depths(&shallow), behind.collect());
        return Ok(Window { outcome, depths, behind, fluids });
    }
    let (depths, behind) = (depths(specs), vec![0.0; specs.len()]);
    if is_of_chance && outcome.train > 1 && shallow == *specs {
        // Rates differ by whom commands met, too, so that trains may agree no better than that.
        let settings = tlp::Settings { train: Train::Fixed(outcome.train / 2), ..settings };
        let finer = simulate(topology, specs, &settings)?;
        if outcome.flows.iter().zip(&finer.flows).all(|(one, other)| are_alike(one, other)) {
            return Ok(Window { outcome: finer, depths, behind, fluids });
        }
    }
    let outcome = simulate(topology, specs, &whole)?;
    Ok(Window { outcome, depths, behind, fluids })
}

/// Whether two runs say the same of a flow, as far as they can: within what trains may cost, and three
/// standard errors of the mean time of a command, of which its rate is the inverse (Little's law).
fn are_alike(one: &FlowOutcome, other: &FlowOutcome) -> bool {
    let [one_rate, other_rate] = [one, other].map(|flow| as_f64(Bytes(flow.rate.0)).max(1.0));
    let error = one.latency.relative_error().hypot(other.latency.relative_error());
    (one_rate / other_rate - 1.0).abs() <= tlp::AGREEMENT + 3.0 * error
}

/// A window for commands that meet by chance.
fn longer(mut settings: tlp::Settings) -> tlp::Settings {
    if let Extent::Even { least, window, .. } = &mut settings.extent {
        *least = Picos(least.0.saturating_mul(MORE_BY_CHANCE));
        *window = Picos(window.0.saturating_mul(MORE_BY_CHANCE));
    }
    settings
}

/// The flows with less depth, where their commands hold more payload than a window should take to begin. Of what waits
/// before it begins nobody knows how much is under way, and so what to add for what is left out.
fn shallow(specs: &[FlowSpec]) -> Vec<FlowSpec> {
    let kept = (UNDER_WAY / under_way(specs)).min(1.0);
    let depth = |spec: &FlowSpec| {
        if let Arrival::Paced { .. } = spec.arrival {
            return spec.depth;
        }
        let depth = super::setting::whole(f64::from(spec.depth) * kept);
        u32::try_from(depth).unwrap_or(u32::MAX).max(SHALLOW).min(spec.depth)
    };
    specs.iter().map(|spec| FlowSpec { depth: depth(spec), ..spec.clone() }).collect()
}

fn under_way(specs: &[FlowSpec]) -> f64 {
    specs.iter().map(|spec| as_f64(spec.request) * f64::from(spec.depth)).sum::<f64>().max(1.0)
}

/// Payload of so many commands of each flow, as far as it is not too much for each and for all.
fn of_each(specs: &[FlowSpec], (commands, each, all): (f64, f64, f64)) -> f64 {
    ((commands * largest(specs)).min(each) * count(specs)).min(all)
}

fn largest(specs: &[FlowSpec]) -> f64 {
    specs.iter().map(|spec| as_f64(spec.request)).fold(1.0, f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred flows")]
fn count(specs: &[FlowSpec]) -> f64 {
    specs.len() as f64
}

/// Payload of a window, where its length is that of few flows.
fn together(specs: &[FlowSpec]) -> f64 {
    (COMMANDS * largest(specs)).clamp(PAYLOAD.0, PAYLOAD.1)
}

/// Payload before a window, at least, and of a window of many flows.
fn at_least(specs: &[FlowSpec]) -> f64 {
    together(specs).max(of_each(specs, OF_EACH_AT_LEAST))
}

/// Payload of a window, at most.
fn payload(specs: &[FlowSpec]) -> f64 {
    together(specs).max(of_each(specs, OF_EACH))
}

/// Payload before a window, at most.
fn until_settled(specs: &[FlowSpec]) -> f64 {
    let payload = payload(specs);
    let until = (UNTIL_SETTLED.0 * payload).min(UNTIL_SETTLED.1).max(2.0 * payload);
    until.max(2.0 * under_way(specs))
}

/// Payload that is simulated for a window, at most.
fn at_most(specs: &[FlowSpec]) -> f64 {
    until_settled(specs) + payload(specs)
}

/// How long a window is for flows of these rates together.
fn settings(specs: &[FlowSpec], rate: f64) -> tlp::Settings {
    let payload = payload(specs);
    let least = of_each(specs, OF_EACH_AT_LEAST);
    let least = least.max(AT_LEAST * largest(specs) * count(specs)).min(payload);
    let time = |payload: f64| picos(payload / rate.max(1e-3));
    let extent = Extent::Even {
        after: time(at_least(specs)),
        least: time(least),
        window: time(payload),
        most: Picos(time(until_settled(specs)).0.saturating_add(1_000_000_000)),
    };
    tlp::Settings { extent, ..tlp::Settings::default() }
}

fn picos(nanos: f64) -> Picos {
    Picos::nanos(super::setting::whole(nanos))
}

#[cfg(test)]
mod tests {
    use peerlane_results::{CaseSpec, Flow};

    use super::*;
    use crate::generate::{Draws, pods, tree};
    use crate::model::{Endpoint, NodeIndex, NodeKind, Topology};

    #[derive(serde::Deserialize)]
    struct Table {
        flow: Flow,
    }

    /// Ten drives with media that several flows of one drive share.
    fn drives() -> (Topology, Vec<NodeIndex>) {
        let mut machine = tree(10);
        let drives = machine.groups.remove(0);
        for &drive in &drives {
            let posts = Some(ByteRate(5_000_000_000));
            let fetches = Some(ByteRate(3_000_000_000));
            machine.topology.node_mut(drive).kind =
                NodeKind::Endpoint(Endpoint { posts, fetches, ..Endpoint::default() });
        }
        (machine.topology, drives)
    }

    /// Flows with blocks of so many KiB and so much depth, behind a drive of 80 us.
    fn blocks(mut flows: Vec<FlowSpec>, kib: u64, depth: u32) -> Vec<FlowSpec> {
        for flow in &mut flows {
            flow.first.latency = Picos::micros(80);
            (flow.request, flow.depth) = (Bytes::kib(kib), depth);
        }
        flows
    }

    /// Percentiles at full depth over a window of many commands.
    fn long(part: &Part) -> (Vec<Percentiles>, bool) {
        let (topology, flows) = (&part.topology, &part.flows);
        let extent = Extent::Steady { window: Picos::millis(200), most: Picos::millis(400) };
        let settings =
            tlp::Settings { extent, train: Train::Fixed(16), ..tlp::Settings::default() };
        let outcome = simulate(topology, flows, &settings).unwrap();
        let percentiles = outcome.flows.iter().map(|one| one.latency.percentiles());
        (percentiles.collect(), outcome.is_settled)
    }

    fn error(found: Nanos, expected: Nanos) -> f64 {
        (super::super::nanos(found) / super::super::nanos(expected) - 1.0).abs()
    }

    #[test]
    fn short_windows_at_little_depth_have_the_percentiles_of_long_ones_at_all_of_it() {
        let (topology, d) = drives();
        let incast = || (1..6).map(|at| FlowSpec::write("in", d[at], d[0])).collect();
        let pairs = || (0..5).map(|at| FlowSpec::read("pair", d[at], d[at + 5])).collect();
        let all = || -> Vec<FlowSpec> {
            let others = |one: usize| (0..4).filter(move |&other| other != one);
            let flow = |one: usize, other: usize| FlowSpec::relay("all", d[one], d[9], d[other]);
            (0..4).flat_map(|one| others(one).map(move |other| flow(one, other))).collect()
        };
        // Where depth leaves gaps, flows find turns in which they meet less, for longer than a window is.
        let cases = [
            ("incast, deep", blocks(incast(), 128, 32), 0.02),
            ("incast, shallow", blocks(incast(), 64, 2), 0.06),
            ("pairs", blocks(pairs(), 128, 8), 0.02),
            ("all to all", blocks(all(), 128, 16), 0.02),
            ("blocks so large that depth is left out", blocks(pairs(), 8192, 16), 0.02),
        ];
        for (name, flows, most) in cases {
            let part = Part::of(&topology, flows.iter());
            let found = window(&part, 0).unwrap();
            let (long, is_settled) = long(&part);
            assert!(is_settled && found.outcome.is_settled, "{name} has not settled");
            for ((one, &behind), long) in found.outcome.flows.iter().zip(&found.behind).zip(long) {
                let short = later(&one.latency.percentiles(), behind);
                let median = error(short.p50_ns, long.p50_ns);
                let last = error(short.p99_ns, long.p99_ns);
                assert!(median < most && last < most, "{name}: {short:?} {long:?}");
            }
            let is_shallow = found.behind.iter().any(|&behind| behind > 0.0);
            assert_eq!(is_shallow, name.contains("left out"), "{name}");
        }
    }

    /// Nine drives that fill the memory beside a tenth, one block of 1 MiB each at a time.
    fn incast_at_depth_1() -> Part {
        let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/r7515-10-smartssd.toml");
        let text = std::fs::read_to_string(machine).unwrap();
        let fabric = peerlane_fabric::Fabric::from_toml(&text).unwrap();
        let parameters = super::super::parameters(None).unwrap();
        let numbers = parameters.values();
        let setting = super::super::setting::Setting::new(&parameters, &numbers);
        let topology = setting.topology(&fabric).unwrap();
        let case = |at: u32| {
            let flow = format!(
                "{{ source = 'drive{at}', target = 'drive0', path = 'p2p', block = '1M', depth = 1, \
                 order = 'sequential', offset = 0, target_offset = 0, bytes = '1G', start_ns = 0 }}"
            );
            toml::from_str::<Table>(&format!("flow = {flow}")).unwrap().flow
        };
        let flows = (1..10).map(case).collect();
        let case = CaseSpec { name: "in".to_owned(), flows, time_ns: None };
        let model = Model::new(&fabric, &topology, &setting, &case).unwrap();
        Part::of(&model.topology, model.flows.iter().map(|flow| &flow.spec))
    }

    #[test]
    fn at_depth_1_percentiles_do_not_hang_on_when_a_window_looks() {
        let part = incast_at_depth_1();
        let base = longer(settings(&part.flows, 1.9));
        let at = |times: u64| {
            let mut settings = tlp::Settings { train: Train::Fixed(8), ..base.clone() };
            if let Extent::Even { after, .. } = &mut settings.extent {
                *after = Picos(after.0 * times);
            }
            let outcome = simulate(&part.topology, &part.flows, &settings).unwrap();
            outcome.flows.iter().map(|flow| flow.latency.percentiles()).collect::<Vec<_>>()
        };
        let (early, late) = (at(1), at(2));
        for (early, late) in early.iter().zip(&late) {
            let median = error(early.p50_ns, late.p50_ns);
            let last = error(early.p99_ns, late.p99_ns);
            assert!(median < 0.03 && last < 0.08, "{early:?} {late:?}");
        }
    }

    #[test]
    fn a_part_of_a_machine_gives_the_same_figures_as_the_whole() {
        let machine = pods(3, 5);
        let mut draws = Draws::new(2);
        let settings = tlp::Settings {
            extent: Extent::Steady { window: Picos::micros(500), most: Picos::millis(1) },
            train: Train::Fixed(8),
            ..tlp::Settings::default()
        };
        for _ in 0..8 {
            let (source, target) = machine.pair(&mut draws);
            let (other, memory) = machine.pair(&mut draws);
            let flows = [FlowSpec::read("r", source, target), FlowSpec::write("w", other, memory)];
            let part = Part::of(&machine.topology, flows.iter());
            assert!(part.topology.nodes().len() < machine.topology.nodes().len());
            let whole = simulate(&machine.topology, &flows, &settings).unwrap();
            let alone = simulate(&part.topology, &part.flows, &settings).unwrap();
            assert_eq!(whole.events, alone.events);
            for (whole, alone) in whole.flows.iter().zip(&alone.flows) {
                assert_eq!((whole.bytes, &whole.latency), (alone.bytes, &alone.latency));
            }
        }
    }

    #[test]
    fn pairs_of_drives_that_are_alike_have_one_window() {
        let (topology, d) = drives();
        let key = |from: usize, to: usize, kib: u64| {
            let flows = blocks(vec![FlowSpec::write("w", d[from], d[to])], kib, 4);
            Part::of(&topology, flows.iter()).key()
        };
        // Eight switches: drives 0 and 8 hang from one, the others do not share theirs.
        assert_eq!(key(1, 2, 64), key(5, 3, 64));
        assert_ne!(key(1, 2, 64), key(0, 8, 64));
        assert_ne!(key(1, 2, 64), key(1, 2, 128));
    }
}
