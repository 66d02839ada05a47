//! A run from the first command to the last account: warm-up, window, draining.

use std::collections::BTreeMap;

use peerlane_units::{ByteRate, Bytes};

use super::check::{self, Check};
use super::commands::{FEW_SLOTS, FlowState, LegState, varies_by};
use super::engine::Engine;
use super::network::{self, Network};
use super::outcome::{
    FlowOutcome, LatencyHistogram, LinkOutcome, MemoryOutcome, TlpError, TlpOutcome,
};
use super::parts::{PortCount, Slab};
use super::queue::{EventQueue, Heap, Wheel};
use super::settings::{Extent, Queue, Settings};
use super::threads::Thread;
use crate::model::{FlowSpec, NodeIndex, Picos, Topology};
use crate::work::Shared;

/// First step of the warm-up: 20 us.
const FIRST_STEP: u64 = 20_000_000;
/// Rates of two steps in a row that differ by less are stable.
const STABLE_PER_MILLE: u64 = 10;

/// Runs once with trains of `packets` at most.
pub(super) fn run(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
    packets: u32,
) -> Result<TlpOutcome, TlpError> {
    let mut network = network::build(topology, flows)?;
    let packets = packets.clamp(1, network.longest_train);
    // As many trains as packets, or rows of trains would stand in front of others where rows of packets do not.
    network.ports.iter_mut().for_each(|port| port.ahead *= u64::from(packets));
    let between = between_events(&network, packets);
    match settings.queue {
        Queue::Wheel => {
            Run::new(topology, flows, settings, network, packets, Wheel::new(between)).go()
        }
        Queue::Heap => Run::new(topology, flows, settings, network, packets, Heap::default()).go(),
    }
}

/// The longest train that these flows allow.
pub(super) fn longest_train(topology: &Topology, flows: &[FlowSpec]) -> Result<u32, TlpError> {
    Ok(network::build(topology, flows)?.longest_train)
}

/// Mean time between events when every port that is used sends full trains: three events for each.
fn between_events(network: &Network, packets: u32) -> u64 {
    let hops = network.hops.iter().map(|hop| (hop.port, hop.unit_shift));
    let used: BTreeMap<u32, u32> = hops.collect();
    let mut per_ms = 0;
    for (port, unit) in used {
        let bytes = (u64::from(packets) << unit) + 24;
        let time = (bytes * network.ports[port as usize].picos_per_kib) >> 10;
        // What is inside a chip is faster than anything that feeds it.
        per_ms += 3_000_000_000 / time.max(10_000);
    }
    1_000_000_000 / per_ms.max(1)
}

struct Run<'a, Q> {
    topology: &'a Topology,
    settings: &'a Settings,
    packets: u32,
    /// Whether latencies of any flow vary.
    varies: bool,
    engine: Engine<Q>,
}

/// Counts at the beginning of the window.
struct Mark {
    time: u64,
    moved: Vec<u64>,
    ports: Vec<PortCount>,
    memories: Vec<(u64, u64)>,
}

impl<'a, Q: EventQueue> Run<'a, Q> {
    fn new(
        topology: &'a Topology,
        specs: &[FlowSpec],
        settings: &'a Settings,
        mut net: Network,
        packets: u32,
        queue: Q,
    ) -> Self {
        let shared = Shared::from_flows(topology, specs.iter());
        let is_endless = !matches!(settings.extent, Extent::Whole { .. });
        let varies = |spec: &FlowSpec| specs.len() > 1 && spec.depth <= FEW_SLOTS;
        let mut legs = Vec::with_capacity(net.routes.len());
        let mut flows = Vec::with_capacity(specs.len());
        for (flow, spec) in (0u32..).zip(specs) {
            let first = u32::try_from(legs.len()).unwrap_or(u32::MAX);
            for leg in spec.legs() {
                let varies_by = if varies(spec) { varies_by(topology, spec, leg) } else { 0 };
                let route = &net.routes[legs.len()];
                legs.push(LegState::new(flow, (leg, varies_by), route, packets));
            }
            let thread = Thread::of(topology, spec, &shared, &mut net);
            flows.push(FlowState::new(spec, thread, (u64::from(flow), first), is_endless));
        }
        let varies = legs.iter().any(|leg| leg.varies_by > 0);
        let engine = Engine {
            queue,
            now: 0,
            events: 0,
            net,
            slab: Slab::default(),
            legs,
            flows,
            seed: settings.seed,
            is_measuring: false,
            is_draining: false,
            kicked: Vec::new(),
        };
        Self { topology, settings, packets, varies, engine }
    }

    /// Runs, drains, and looks at the accounts, in every build: whoever calls this has sound figures or none.
    fn go(mut self) -> Result<TlpOutcome, TlpError> {
        self.engine.start();
        let (mark, end, is_settled) = match self.settings.extent {
            Extent::Steady { window, most } => {
                let (time, is_settled) = self.settle(0, most.0);
                let mark = self.mark(time);
                self.measure();
                self.engine.run_until(time + window.0);
                (mark, time + window.0, is_settled)
            }
            Extent::Even { after, brief, least, window, most } => {
                let (time, is_settled) = self.settle(after.0, most.0);
                let affordable = self.affordable(time).max(brief.0);
                let [least, window] = [least, window].map(|length| length.0.min(affordable));
                let mark = self.mark(time);
                self.measure();
                let end = self.until_even(time, least.min(window), window);
                (mark, end, is_settled)
            }
            Extent::Whole { most } => {
                let mark = self.mark(0);
                self.measure();
                self.engine.run_until(most.0);
                let is_done = self.engine.flows.iter().all(FlowState::is_done);
                (mark, self.engine.now, is_done)
            }
        };
        self.engine.is_measuring = false;
        let mut outcome = self.outcome(&mark, end, is_settled);
        self.engine.is_draining = true;
        self.engine.run_until(u64::MAX / 4);
        let check = check::drained(&self.engine);
        outcome.check.compared += check.compared;
        outcome.check.faults.extend(check.faults);
        match outcome.check.faults.first() {
            None => Ok(outcome),
            Some(first) => {
                Err(TlpError::Account { count: outcome.check.faults.len(), source: first.clone() })
            }
        }
    }

    /// How long a window may be so that a run takes its events, if it goes on as in the time before.
    fn affordable(&self, before: u64) -> u64 {
        let spent = self.engine.events.max(1);
        let left = self.settings.events.saturating_sub(spent);
        let time = u128::from(before) * u128::from(left) / u128::from(spent);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Begins to take figures.
    fn measure(&mut self) {
        self.engine.is_measuring = true;
    }

    /// Measures until commands of each flow took as long in one half of the window as in the other: when.
    fn until_even(&mut self, from: u64, least: u64, most: u64) -> u64 {
        let latencies = |run: &Self| -> Vec<LatencyHistogram> {
            run.engine.flows.iter().map(|flow| flow.latency.clone()).collect()
        };
        self.engine.run_until(from + least / 2);
        let (mut first, mut length) = (latencies(self), least);
        loop {
            self.engine.run_until(from + length);
            let whole = latencies(self);
            let is_even = first.iter().zip(&whole).all(|(first, whole)| first.is_half_of(whole));
            if is_even || length >= most {
                return from + length;
            }
            first = whole;
            length = (2 * length).min(most);
        }
    }

    /// Runs until each flow has used all its slots, each leg moved as much in a step as in the step before,
    /// twice, and both legs of a relay as much as each other since half of the time: when that was, and
    /// whether it was.
    fn settle(&mut self, least: u64, most: u64) -> (u64, bool) {
        let (mut time, mut step, mut agreed) = (0, FIRST_STEP, 0);
        let mut before: Option<Vec<u64>> = None;
        // What had arrived by when, back to half of the time that has passed.
        let mut known = vec![(0, self.arrived())];
        loop {
            time += step;
            self.engine.run_until(time);
            let now = self.arrived();
            let since = |from: &[u64]| now.iter().zip(from).map(|(now, from)| now - from).collect();
            let moved: Vec<u64> = since(&known[known.len() - 1].1);
            let half = known.iter().rposition(|(at, _)| *at <= time / 2).unwrap_or(0);
            let of_half: Vec<u64> = since(&known[half].1);
            known.drain(..half);
            known.push((time, now));
            let is_steady = before.as_ref().is_some_and(|before| self.are_even(before, &moved));
            agreed = if is_steady { agreed + 1 } else { 0 };
            let are_used = self.engine.flows.iter().all(|flow| flow.completed >= flow.depth());
            let is_long = time >= least || self.engine.events >= self.settings.events / 2;
            if agreed >= 2 && is_long && are_used && self.are_joined(&of_half) {
                return (time, true);
            }
            if time >= most {
                return (time, false);
            }
            // Steps grow with the time that has passed, as nobody knows how slow the slowest flow is.
            before = (step >= time / 8).then_some(moved);
            if before.is_none() {
                step *= 2;
            }
        }
    }

    fn arrived(&self) -> Vec<u64> {
        self.engine.legs.iter().map(|leg| leg.arrived).collect()
    }

    /// Whether each leg moved as much here as there.
    fn are_even(&self, here: &[u64], there: &[u64]) -> bool {
        here.iter().zip(there).enumerate().all(|(leg, (&here, &there))| {
            here.abs_diff(there) <= self.allowed(self.engine.legs[leg].flow, there)
        })
    }

    /// Whether both legs of each relay moved as much as each other: none fills or empties slots any more.
    fn are_joined(&self, moved: &[u64]) -> bool {
        let legs = &self.engine.legs;
        (1..moved.len()).all(|leg| {
            legs[leg].flow != legs[leg - 1].flow
                || moved[leg].abs_diff(moved[leg - 1]) <= self.allowed(legs[leg].flow, moved[leg])
        })
    }

    /// How much two steps may differ: by their share, by trains at their edges, by the slot in which the
    /// faster leg of a relay or a paced flow moves at once, and, where chance has a part, by four standard deviations of a
    /// count of commands: of as many as come at random, or of a quarter of that where only latencies vary.
    fn allowed(&self, flow: u32, moved: u64) -> u64 {
        let flow = &self.engine.flows[flow as usize];
        let edges = 2 * u64::from(self.packets) * 512;
        let is_random = flow.is_open() || self.engine.net.is_random;
        let request = flow.request();
        let times = if is_random { 4 } else { u64::from(self.varies) };
        let noise = times * request * (1 + (moved / request).isqrt());
        let slot = if flow.is_relay() || flow.is_paced() { request } else { 0 };
        moved * STABLE_PER_MILLE / 1000 + edges + slot + noise
    }

    fn mark(&self, time: u64) -> Mark {
        Mark {
            time,
            moved: self.engine.flows.iter().map(|flow| flow.moved).collect(),
            ports: self.engine.net.ports.iter().map(|port| port.counted).collect(),
            memories: self.engine.net.memories.iter().map(|m| (m.written, m.read)).collect(),
        }
    }

    fn outcome(&self, mark: &Mark, end: u64, is_settled: bool) -> TlpOutcome {
        let elapsed = end - mark.time;
        let mut check = Check::default();
        let links = self.topology.links().len();
        check::capacity(&self.engine, links, &mark.ports, elapsed, &mut check);
        TlpOutcome {
            flows: self.flows(mark, end),
            links: (0..links)
                .map(|link| [0, 1].map(|side| self.link(2 * link + side, mark, elapsed)))
                .collect(),
            memories: self.memories(mark),
            events: self.engine.events,
            warm_up: Picos(mark.time),
            measured: Picos(elapsed),
            is_settled,
            train: self.packets,
            train_difference: None,
            memory: Bytes(self.footprint() as u64),
            check,
        }
    }

    fn footprint(&self) -> usize {
        let engine = &self.engine;
        engine.queue.footprint()
            + engine.net.footprint()
            + engine.slab.footprint()
            + engine.legs.iter().map(LegState::footprint).sum::<usize>()
            + engine.flows.iter().map(FlowState::footprint).sum::<usize>()
    }

    fn flows(&self, mark: &Mark, end: u64) -> Vec<FlowOutcome> {
        let flows = self.engine.flows.iter().zip(&mark.moved);
        let outcome = |(flow, &before): (&FlowState, &u64)| {
            let bytes = Bytes(flow.moved - before);
            let elapsed = if flow.is_done() {
                flow.last_done.unwrap_or(end).saturating_sub(flow.start)
            } else {
                end - mark.time
            };
            FlowOutcome {
                bytes,
                rate: Picos(elapsed).rate_of(bytes).unwrap_or(ByteRate(0)),
                latency: flow.latency.clone(),
                lost: flow.lost,
                first_done: flow.first_done.map(Picos),
                last_done: flow.last_done.map(Picos),
            }
        };
        flows.map(outcome).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of time for people")]
    fn link(&self, port: usize, mark: &Mark, elapsed: u64) -> LinkOutcome {
        let (before, now) = (&mark.ports[port], &self.engine.net.ports[port].counted);
        LinkOutcome {
            payload: Bytes(now.payload - before.payload),
            wire: Bytes(now.wire - before.wire),
            dllp: Bytes((now.dllp - before.dllp) / 1000),
            busy: ((now.busy - before.busy) as f64 / elapsed.max(1) as f64).min(1.0),
            most_waiting: now.most_waiting,
        }
    }

    fn memories(&self, mark: &Mark) -> Vec<MemoryOutcome> {
        let mut memories = vec![MemoryOutcome::default(); self.topology.nodes().len()];
        for (&(NodeIndex(node), _), &memory) in &self.engine.net.memory_of {
            let (written, read) = mark.memories[memory as usize];
            let state = &self.engine.net.memories[memory as usize];
            let outcome = &mut memories[node as usize];
            outcome.written.0 += state.written - written;
            outcome.read.0 += state.read - read;
        }
        memories
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Fault;
    use super::*;
    use crate::model::{Endpoint, NodeKind, RootComplex, Wire};

    /// Gives a run that has not begun to somebody.
    fn with_run<T>(what: impl FnOnce(Run<'_, Heap>) -> T) -> T {
        let mut t = Topology::new();
        let root = t.add("root", NodeKind::RootComplex(RootComplex::default()));
        let wire = Wire::pcie("8GT/s x4".parse().unwrap(), Bytes(256));
        let device = NodeKind::Endpoint(Endpoint::default());
        let nodes = ["a", "b"].map(|name| t.add_below(root, name, device.clone(), wire));
        let flows = [FlowSpec::read("r", nodes[0], nodes[1])];
        let network = network::build(&t, &flows).unwrap();
        let settings = Settings::default();
        what(Run::new(&t, &flows, &settings, network, 4, Heap::default()))
    }

    /// A run that is over, with something broken in it.
    fn faults(break_it: impl FnOnce(&mut Engine<Heap>)) -> Vec<Fault> {
        with_run(|mut run| {
            run.engine.start();
            run.engine.run_until(100_000_000);
            run.engine.is_draining = true;
            run.engine.run_until(u64::MAX / 4);
            break_it(&mut run.engine);
            check::drained(&run.engine).faults
        })
    }

    #[test]
    fn a_run_whose_accounts_are_broken_has_no_figures() {
        assert!(with_run(|run| run.go().is_ok_and(|outcome| outcome.check.compared > 0)));
        let broken = with_run(|mut run| {
            run.engine.net.tags[0].full += 1;
            run.go()
        });
        let fault = Fault::Tags { free: 256, full: 257 };
        assert_eq!(broken.err(), Some(TlpError::Account { count: 1, source: fault }));
    }

    #[test]
    fn a_sound_run_has_no_faults() {
        assert_eq!(faults(|_| ()), []);
    }

    #[test]
    fn what_is_missing_at_the_end_is_a_fault() {
        let bytes = faults(|engine| engine.legs[0].arrived -= 1);
        assert!(matches!(bytes[..], [Fault::Bytes { leg: 0, .. }]), "{bytes:?}");
        let credits = faults(|engine| engine.net.pools[1].units -= 1);
        assert!(matches!(credits[..], [Fault::Credits { pool: 1, .. }]), "{credits:?}");
        let tags = faults(|engine| engine.net.tags[0].free -= 1);
        assert_eq!(tags, [Fault::Tags { free: 255, full: 256 }]);
        assert_eq!(faults(|engine| engine.slab.live += 1), [Fault::Trains(1)]);
    }

    #[test]
    fn a_link_that_carried_more_than_it_can_is_a_fault() {
        let mut check = Check::default();
        faults(|engine| {
            let before = vec![PortCount::default(); engine.net.ports.len()];
            engine.net.ports[0].counted.wire = 1_000_000;
            check::capacity(engine, 2, &before, 1_000_000_000, &mut check);
            assert!(check.holds());
            engine.net.ports[0].counted.wire = 5_000_000;
            check::capacity(engine, 2, &before, 1_000_000_000, &mut check);
        });
        assert!(matches!(check.faults[..], [Fault::Capacity { link: 0, .. }]), "{check:?}");
    }
}
