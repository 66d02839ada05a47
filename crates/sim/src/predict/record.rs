//! The record of a predicted case, in the words of a measured one.

use std::collections::BTreeMap;

use peerlane_results::{
    BytesByRoute, CaseRecord, CaseSpec, CpuCost, Evidence, FlowRecord, Gain, HostMemoryTraffic,
    Latency, Limit, PageFaults, Percentiles, Prediction, RateDifference, Route, RouteEvidence,
    RouteVerdict, Spread, Summary, Warning,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::case::{Found, FoundFlow, Model, QUANTUM, SETTLING};
use super::flows::Planned;
use super::more::More;
use super::names;
use super::own::Own;
use super::setting::{count, whole};
use super::windows::{Apart, TOLD, Windows};
use crate::flow::build::What;
use crate::flow::network::Class;
use crate::model::{NodeIndex, NodeKind, Picos};

/// What is put together in a record.
pub(super) struct Parts<'a> {
    pub(super) asked: &'a CaseSpec,
    pub(super) model: &'a Model,
    pub(super) found: &'a Found,
    pub(super) windows: Option<&'a Windows>,
    pub(super) engine: String,
    pub(super) interval: Option<(ByteRate, ByteRate)>,
    pub(super) gains: Vec<Gain>,
    /// What the kernel would say of peers, where it would not permit them.
    pub(super) refused: Vec<Warning>,
    /// Rates of the case as fluids and on packets, payload a nanosecond.
    pub(super) rates: (f64, f64),
}

impl Parts<'_> {
    pub(super) fn record(self) -> CaseRecord {
        let flows: Vec<FlowRecord> =
            (0..self.found.flows.len()).map(|index| self.flow(index)).collect();
        let pairs = || self.model.flows.iter().zip(&self.found.flows);
        let bytes = Bytes(flows.iter().map(|flow| flow.bytes.0).sum());
        let by_route = |route| {
            let of_route =
                self.model.flows.iter().zip(&flows).filter(|(flow, _)| flow.route == route);
            Bytes(of_route.map(|(_, flow)| flow.bytes.0).sum())
        };
        let (least, most) = host_memory(pairs());
        let cpu: f64 = pairs().map(|(flow, found)| flow.cpu * found.bytes).sum();
        let moved: Vec<f64> = self.found.flows.iter().map(|flow| flow.bytes).collect();
        let model = self.model;
        let warnings = self
            .refused
            .iter()
            .cloned()
            .chain(self.unsettled())
            .chain(self.unseen(&flows))
            .chain(self.differing())
            .collect();
        let furthest = self.windows.and_then(|windows| windows.furthest.as_ref());
        let is_told = furthest.is_some_and(Apart::is_told);
        let furthest = furthest.map(|apart| self.furthest(apart));
        let told = furthest.iter().filter(|_| is_told).map(apart);
        let evidence = std::iter::once(self.sums()).chain(told).collect();
        let faults: f64 = pairs().map(|(flow, found)| flow.faults * found.bytes).sum();
        // Of maps: what else a program touches for the first time is no part of the model.
        let page_faults =
            (faults > 0.0).then(|| PageFaults { minor: whole(faults.ceil()), major: 0 });
        CaseRecord {
            asked: self.asked.clone(),
            repeat: 0,
            bytes,
            elapsed_ns: Nanos(whole(self.found.elapsed())),
            bytes_by_route: BytesByRoute { p2p: by_route(Route::P2p), host: by_route(Route::Host) },
            latency: Latency::default(),
            cpu: CpuCost { system_ns: Nanos(whole(cpu)), ..CpuCost::default() },
            host_memory: said(least, most),
            flows,
            verification: None,
            evidence,
            verdict: RouteVerdict::NotKnown,
            limits: limits(model, self.found, &moved),
            links: names::loads(&model.topology, &model.built, &moved, self.found.elapsed()),
            prediction: Some(Prediction {
                engine: self.engine,
                interval: self.interval,
                gains: self.gains,
                furthest,
                host_memory: Some((Bytes(whole(least)), Bytes(whole(most)))),
            }),
            page_faults,
            warnings,
        }
    }

    fn unsettled(&self) -> Option<Warning> {
        let change = self.found.unsettled;
        (change > SETTLING.tolerance).then(|| Warning::NotSettled {
            case: self.asked.name.clone(),
            per_mille: u32::try_from(whole(change * 1e3)).unwrap_or(u32::MAX),
        })
    }

    /// Tells of engines that say different rates of all together, where packets were settled.
    fn differing(&self) -> Option<Warning> {
        let (fluids, packets) = self.rates;
        let is_apart = (packets / fluids - 1.0).abs() > TOLD;
        self.windows.filter(|windows| windows.is_settled && is_apart)?;
        let (fluids, packets) = (names::per_second(fluids), names::per_second(packets));
        Some(Warning::EnginesDiffer { case: self.asked.name.clone(), fluids, packets })
    }

    /// Tells of flows without a window where others have one, or packets were asked for.
    fn unseen(&self, flows: &[FlowRecord]) -> Option<Warning> {
        self.windows?;
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let unseen = flows.iter().filter(|flow| flow.block.count == 0).count();
        (unseen > 0).then(|| Warning::NotSimulated {
            case: self.asked.name.clone(),
            transfers: number(unseen),
            of: number(flows.len()),
        })
    }

    fn flow(&self, index: usize) -> FlowRecord {
        let (flow, found) = (&self.model.flows[index], &self.found.flows[index]);
        let bytes = Bytes(whole(found.bytes));
        let of_route = |route| if flow.route == route { bytes } else { Bytes::ZERO };
        let window = self.windows.and_then(|windows| windows.latency.get(&index)).cloned();
        let first = self.model.first_done(index);
        FlowRecord {
            bytes,
            elapsed_ns: Nanos(whole(found.end - found.start)),
            first_done_ns: Nanos(whole((found.start + first).min(found.end))),
            memory: flow.memory.clone(),
            bytes_by_route: BytesByRoute { p2p: of_route(Route::P2p), host: of_route(Route::Host) },
            block: window.unwrap_or_default(),
            limited_by: Some(self.model.name(found.limited_by)),
            knee: found.knee.map(|knee| count(knee.ceil()).max(1)),
            places: None,
        }
    }

    fn sums(&self) -> RouteEvidence {
        let showed = match self.windows {
            Some(windows) => format!(
                "{} of {} sets of transfers that run together on the TLP engine: sums of rates differ by {:.2} % at most{}",
                windows.count.0,
                windows.count.1,
                windows.difference * 100.0,
                if windows.is_settled {
                    ""
                } else {
                    "; some rates still changed, which makes that less sure"
                }
            ),
            None => "no packets were simulated".to_owned(),
        };
        silent("the model", showed)
    }

    /// The flow of which packets and fluids say the most different rates.
    fn furthest(&self, apart: &Apart) -> RateDifference {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        RateDifference {
            flow: number(apart.flow),
            name: names_of(&self.asked.flows).swap_remove(apart.flow),
            fluids: names::per_second(apart.fluids),
            packets: names::per_second(apart.packets),
            difference: apart.difference(),
            margin: apart.margin,
            transfers: number(apart.transfers),
            // A set begins where all that happens within a quantum has happened.
            from_ns: Nanos(whole(apart.first - QUANTUM)),
            time_ns: Nanos(whole(apart.time)),
        }
    }
}

/// The same in words.
fn apart(one: &RateDifference) -> RouteEvidence {
    let showed = format!(
        "{} differs most: {} on packets, {:.1} % {} than {} as a fluid, in the set of {} transfers from {} on, which lasts {}",
        one.name,
        one.packets,
        one.difference.abs() * 100.0,
        if one.difference < 0.0 { "less" } else { "more" },
        one.fluids,
        one.transfers,
        one.from_ns,
        one.time_ns,
    );
    silent("the model, transfer by transfer", showed)
}

/// Sources and targets as typed, with a number where one before has the same.
fn names_of(flows: &[peerlane_results::Flow]) -> Vec<String> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let mut name = |flow: &peerlane_results::Flow| {
        let name = format!("{} to {}", flow.source, flow.target);
        let times = times.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 { format!("{name} ({times})") } else { name }
    };
    flows.iter().map(&mut name).collect()
}

/// What was looked at that says nothing of routes.
fn silent(looked_at: &str, showed: String) -> RouteEvidence {
    let evidence = Evidence { looked_at: looked_at.to_owned(), showed };
    RouteEvidence { evidence, says: RouteVerdict::NotKnown }
}

/// Host-memory bytes: with all that devices write still in the processor's cache when it is read, and with
/// none of it.
fn host_memory<'a>(pairs: impl Iterator<Item = (&'a Planned, &'a FoundFlow)>) -> (f64, f64) {
    let (mut least, mut most) = (0.0, 0.0);
    for (flow, found) in pairs.filter(|(flow, _)| flow.route == Route::Host) {
        least += flow.traffic.least * found.bytes;
        most += flow.traffic.most * found.bytes;
    }
    (least, most)
}

/// The same in the words of a measured record.
fn said(least: f64, most: f64) -> HostMemoryTraffic {
    HostMemoryTraffic {
        bytes: Some(Bytes(whole(most))),
        reason: format!(
            "predicted: between {} with all of it in the processor's cache and {} with none",
            Bytes(whole(least)),
            Bytes(whole(most))
        ),
    }
}

/// Ceilings of a case: of every resource that its flows use, at which sum it would be full, were their shares of what is
/// moved as they are.
fn limits(model: &Model, found: &Found, moved: &[f64]) -> Vec<Limit> {
    let network = &model.built.network;
    let ones = vec![1.0; network.classes.len()];
    let shares = if moved.iter().sum::<f64>() > 0.0 { moved } else { &ones };
    let load = network.load(shares);
    let all = shares.iter().sum::<f64>();
    let most = takes_most(&network.classes, shares, network.resources.len());
    let mut limits: Vec<Limit> = network
        .resources
        .iter()
        .zip(&load)
        .zip(model.built.what.iter().zip(most))
        .filter(|((resource, load), _)| **load > 0.0 && resource.capacity < 1e9)
        .map(|((resource, load), (&what, flow))| {
            let name = model.name(model.cause(flow, what));
            names::limit(name, resource.capacity / load * all)
        })
        .collect();
    limits.extend(processors(model, shares));
    for (own, rate) in own(model, found, shares) {
        let name = model.name(More::Own(own));
        // What several flows share is a resource, too, and lower.
        if limits.iter().all(|limit| limit.object != name) {
            limits.push(names::limit(name, rate));
        }
    }
    limits.sort_by_key(|limit| limit.bytes_per_second);
    limits.truncate(MOST_LIMITS);
    limits
}

/// The flow that takes most of each resource.
fn takes_most(classes: &[Class], shares: &[f64], resources: usize) -> Vec<usize> {
    let mut most = vec![(0.0, 0); resources];
    for (flow, (class, share)) in classes.iter().zip(shares).enumerate() {
        for hop in class.legs.iter().flatten() {
            let known = &mut most[hop.resource as usize];
            if hop.cost * share > known.0 {
                *known = (hop.cost * share, flow);
            }
        }
    }
    most.into_iter().map(|(_, flow)| flow).collect()
}

/// The same of commands and processors of single flows, where those limit one: the sum at which the first flow is at its own.
fn own(model: &Model, found: &Found, shares: &[f64]) -> BTreeMap<Own, f64> {
    let limiting = found.flows.iter().filter_map(|flow| flow.limited_by.own());
    let limiting = limiting.filter(|own| *own == Own::Processor || own.drive().is_some());
    let all = shares.iter().sum::<f64>();
    let mut ceilings: BTreeMap<Own, f64> = limiting.map(|own| (own, f64::INFINITY)).collect();
    for (flow, share) in model.flows.iter().zip(shares).filter(|(_, share)| **share > 0.0) {
        for &(own, most) in &flow.bounds {
            // Copies take it, too.
            let most = if own == Own::Processor { 1.0 / flow.cpu } else { most };
            if let Some(ceiling) = ceilings.get_mut(&own) {
                *ceiling = ceiling.min(most / share * all);
            }
        }
    }
    ceilings
}

/// Those of processors where they copy, also where flows could not use them up, which are no resource of theirs.
fn processors(model: &Model, shares: &[f64]) -> Vec<Limit> {
    let all = shares.iter().sum::<f64>();
    let mut load: BTreeMap<NodeIndex, f64> = BTreeMap::new();
    for (flow, share) in model.flows.iter().zip(shares) {
        if let Some(work) = flow.spec.work.as_ref().filter(|work| work.copy > Picos::ZERO) {
            *load.entry(work.at).or_default() += flow.cpu * share;
        }
    }
    load.retain(|&at, load| *load > 0.0 && model.built.find(What::Processors(at)).is_none());
    let ceiling = |(at, load)| match &model.topology.node(at).kind {
        NodeKind::HostMemory(host) => {
            let name = names::processors(&model.topology, at);
            host.cores.map(|cores| names::limit(name, f64::from(cores) / load * all))
        }
        _ => None,
    };
    load.into_iter().filter_map(ceiling).collect()
}

/// Ceilings in a record.
const MOST_LIMITS: usize = 16;

/// A case in the words that measured ones are summed up in.
pub(super) fn summary(case: &CaseRecord) -> Summary {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let number = |count: u64| count as f64;
    let rate = case.rate().map_or(0.0, |rate| number(rate.0));
    let bytes = number(case.bytes.0).max(1.0);
    let spread = Spread {
        count: 1,
        mean: rate,
        median: rate,
        min: rate,
        max: rate,
        deviation: 0.0,
        confidence: None,
    };
    let blocks = case.flows.iter().map(|flow| &flow.block).filter(|block| block.count > 0);
    Summary {
        case: case.asked.name.clone(),
        rate: spread,
        block: together(blocks),
        host_bytes_per_byte: case.host_memory.bytes.map(|host| number(host.0) / bytes),
        cpu_s_per_gib: number(case.cpu.system_ns.0) / 1e9 / bytes * 1_073_741_824.0,
        verdict: case.verdict,
    }
}

/// Percentiles of several flows: of the median flow for the middle, of the worst for the tail.
fn together<'a>(blocks: impl Iterator<Item = &'a Percentiles>) -> Percentiles {
    let mut all: Vec<&Percentiles> = blocks.collect();
    all.sort_by_key(|block| block.p50_ns);
    let Some(middle) = all.get(all.len() / 2) else { return Percentiles::default() };
    let most = |of: fn(&Percentiles) -> Nanos| all.iter().map(|block| of(block)).max();
    Percentiles {
        count: all.iter().map(|block| block.count).sum(),
        p50_ns: middle.p50_ns,
        p90_ns: most(|block| block.p90_ns).unwrap_or(middle.p90_ns),
        p99_ns: most(|block| block.p99_ns).unwrap_or(middle.p99_ns),
        p999_ns: most(|block| block.p999_ns).unwrap_or(middle.p999_ns),
        max_ns: most(|block| block.max_ns).unwrap_or(middle.max_ns),
    }
}
