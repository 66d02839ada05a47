//! A run: warm-up, measurement, and draining for the accounts.

use std::collections::BTreeMap;

use peerlane_units::{ByteRate, Bytes};

use super::commands::FlowState;
use super::engine::PacketEngine;
use super::events::EventWheel;
use super::initiator::{LegState, jitter};
use super::network::{self, PacketNetwork};
use super::outcome::{PacketOutcome, TlpError, TlpOutcome};
use super::processors::Thread;
use super::settings::{RunLength, Settings, TrainSizes};
use super::train::Slab;
use super::{FEW_SLOTS, accounts};
use crate::model::{FlowSpec, Picos, Topology};

/// First step of the measurement of [`Extent::Window`]: 20 us.
const FIRST_STEP: u64 = 20_000_000;
/// Commands of each flow in a window, at most, and their payload.
const COMMANDS_MAX: u64 = 256;
const PAYLOAD_MAX: u64 = 128 << 20;
/// Commands of each flow in a settled window.
const COMMANDS_MIN: u64 = 4;

/// Simulates the packets of flows that share a topology.
///
/// # Errors
/// When a flow has no path, no memory, no initiator or impossible commands, and when bytes, credits or tags do not add
/// up.
pub fn simulate(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
) -> Result<TlpOutcome, TlpError> {
    PacketRun::new(topology, flows, settings, network::build(topology, flows)?).finish()
}

pub(super) struct PacketRun<'a> {
    topology: &'a Topology,
    settings: &'a Settings,
    /// Packets in a full train.
    pub(super) packets: u32,
    /// True if latencies of any flow vary.
    pub(super) has_jitter: bool,
    pub(super) engine: PacketEngine,
}

/// Start of the measurement, and the bytes that each flow had moved.
type Baseline = (u64, Vec<u64>);

impl<'a> PacketRun<'a> {
    fn new(
        topology: &'a Topology,
        specs: &[FlowSpec],
        settings: &'a Settings,
        mut net: PacketNetwork,
    ) -> Self {
        let packets = match settings.train {
            TrainSizes::Auto => net.longest_train,
            TrainSizes::Fixed(packets) => packets.clamp(1, net.longest_train),
        };
        // An egress buffer holds as many trains as packets, so that trains block others no more than packets do.
        net.ports.iter_mut().for_each(|port| port.ahead *= u64::from(packets));
        let queue = EventWheel::new(between_events(&net, packets));
        let mut legs = Vec::with_capacity(net.routes.len());
        let mut flows = Vec::with_capacity(specs.len());
        for (number, spec) in (0u32..).zip(specs) {
            let first = u32::try_from(legs.len()).unwrap_or(u32::MAX);
            let has_jitter = specs.len() > 1 && spec.depth <= FEW_SLOTS;
            for leg in spec.legs() {
                let jitter = if has_jitter { jitter(topology, spec, leg) } else { 0 };
                legs.push(LegState::new(number, leg, jitter, &net.routes[legs.len()], packets));
            }
            let thread = Thread::for_flow(topology, spec, &net);
            flows.push(FlowState::new(spec, thread, (number, first)));
        }
        let has_jitter = legs.iter().any(|leg| leg.jitter > 0);
        let engine = PacketEngine {
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
            to_arbitrate: Vec::new(),
        };
        Self { topology, settings, packets, has_jitter, engine }
    }

    /// Runs, drains, and checks the accounts in every build: the caller gets sound figures or none.
    fn finish(mut self) -> Result<TlpOutcome, TlpError> {
        self.engine.start();
        let (baseline, is_settled) = match self.settings.extent {
            RunLength::Steady { window, most } => {
                let (time, is_settled) = self.warm_up(most.0, u64::MAX);
                let baseline = self.measure(time);
                self.engine.run_until(time + window.0);
                self.engine.now = time + window.0;
                (baseline, is_settled)
            }
            RunLength::Window { events } => {
                let (time, is_stable) = self.warm_up(u64::MAX, events / 2);
                let baseline = self.measure(time);
                let is_complete = self.measure_commands(time, events);
                (baseline, is_stable && is_complete)
            }
        };
        self.engine.is_measuring = false;
        let outcome = self.outcome(&baseline, is_settled);
        self.engine.is_draining = true;
        self.engine.run_until(u64::MAX / 4);
        accounts::check(&self.engine, self.topology.links().len())?;
        Ok(outcome)
    }

    /// Starts the measurement.
    fn measure(&mut self, time: u64) -> Baseline {
        self.engine.is_measuring = true;
        (time, self.engine.flows.iter().map(|flow| flow.moved).collect())
    }

    /// Measures until each flow has completed its commands, or events are spent. Returns true if each has completed
    /// [`COMMANDS_MIN`].
    fn measure_commands(&mut self, from: u64, events: u64) -> bool {
        let have_completed = |run: &Self, most: u64| {
            run.engine.flows.iter().all(|flow| {
                let wanted = PAYLOAD_MAX / u64::from(flow.request);
                flow.latency.count() >= wanted.clamp(COMMANDS_MIN, most)
            })
        };
        let mut time = from;
        while !have_completed(self, COMMANDS_MAX) && self.engine.events < events {
            time += FIRST_STEP.max((time - from) / 8);
            self.engine.run_until(time);
        }
        self.engine.now = time;
        have_completed(self, COMMANDS_MIN)
    }

    fn outcome(&self, (start, moved): &Baseline, is_settled: bool) -> TlpOutcome {
        let end = self.engine.now;
        let flow = |(flow, &before): (&FlowState, &u64)| {
            let bytes = Bytes(flow.moved - before);
            let rate = Picos(end - start).rate_of(bytes).unwrap_or(ByteRate(0));
            PacketOutcome { bytes, rate, latency: flow.latency.clone() }
        };
        TlpOutcome {
            flows: self.engine.flows.iter().zip(moved).map(flow).collect(),
            events: self.engine.events,
            warm_up: Picos(*start),
            measured: Picos(end - start),
            is_settled,
            train: self.packets,
        }
    }
}

/// Returns the mean time between events when every port in use sends full trains: three events for each.
fn between_events(network: &PacketNetwork, packets: u32) -> u64 {
    let hops = network.hops.iter().map(|hop| (hop.port, hop.unit_shift));
    let used: BTreeMap<u32, u32> = hops.collect();
    let mut per_ms = 0;
    for (port, unit) in used {
        let bytes = (u64::from(packets) << unit) + 24;
        let time = (bytes * network.ports[port as usize].picos_per_kib) >> 10;
        // A stage inside a chip is faster than anything that feeds it.
        per_ms += 3_000_000_000 / time.max(10_000);
    }
    1_000_000_000 / per_ms.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelEndpoint, NodeKind, RootComplex, Wire};

    /// The first broken account of a run that something breaks before it drains.
    fn broken(break_it: impl FnOnce(&mut PacketEngine)) -> Option<String> {
        let mut t = Topology::new();
        let root = t.add("root", NodeKind::RootComplex(RootComplex::default()));
        let wire = Wire::pcie("8GT/s x4".parse().unwrap(), Bytes(256));
        let device = NodeKind::Endpoint(ModelEndpoint::default());
        let nodes = ["a", "b"].map(|name| t.add_below(root, name, device.clone(), wire));
        let flows = [FlowSpec::read("r", nodes[0], nodes[1])];
        let settings = Settings::default();
        let mut run = PacketRun::new(&t, &flows, &settings, network::build(&t, &flows).unwrap());
        run.engine.start();
        run.engine.run_until(100_000_000);
        break_it(&mut run.engine);
        run.engine.is_draining = true;
        run.engine.run_until(u64::MAX / 4);
        match accounts::check(&run.engine, t.links().len()) {
            Err(TlpError::Account { count: 1, first }) => Some(first),
            other => other.map(|()| None).unwrap(),
        }
    }

    #[test]
    fn broken_accounts_are_errors() {
        assert_eq!(broken(|_| ()), None);
        let is = |first: Option<String>, what: &str| first.unwrap().contains(what);
        assert!(is(broken(|engine| engine.legs[0].arrived -= 1), "bytes, of which"));
        assert!(is(broken(|engine| engine.net.pools[1].full.1 += 1), "receiver 1 has"));
        assert!(is(broken(|engine| engine.net.tags[0].full += 1), "256 tags free of 257"));
        assert!(is(broken(|engine| engine.slab.live += 1), "1 trains never arrived"));
        assert!(is(broken(|engine| engine.net.ports[0].wire_bytes += 1 << 30), "link 0 was busy"));
    }
}
