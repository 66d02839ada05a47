//! Hops of a route: header sizes, credits, and the queues at which nodes hold packets.

use std::collections::BTreeMap;

use super::credits::CreditPool;
use super::network::{PacketNetworkBuilder, power_of_two, push};
use super::port::{COMPLETION, Fifo, Hop, HopEnd, NONE, POSTED, REQUEST, ReceiveQueue};
use crate::model::{Credits, Hop as Crossing, LinkDirection, NodeIndex, NodeKind, Picos};

/// Lanes by port in, class, and port out; an endpoint has one for each leg, and a shared queue has no port out.
pub(super) type Lanes = BTreeMap<(u32, u8, u32), ReceiveQueue>;

/// A port on a path, before its queue and credits are known.
pub(super) struct PathPort {
    pub(super) port: u32,
    pub(super) picos_per_kib: u64,
    pub(super) is_stage: bool,
    pub(super) receiver: NodeIndex,
    pub(super) unit: u32,
    pub(super) overhead: u32,
    pub(super) propagation: Picos,
    pub(super) credits: Credits,
}

impl PacketNetworkBuilder<'_> {
    /// Returns the ports of a path: links, and stages of root complexes between peers.
    pub(super) fn steps(&mut self, path: &[Crossing], unit: u32, class: u8) -> Vec<PathPort> {
        let peer_roots = self.topology.peer_roots(path);
        let mut unit = unit;
        let mut steps = Vec::new();
        for &(link, direction) in path {
            let wire = &self.topology.link(link).wire;
            let overhead = match class {
                POSTED => wire.write_overhead(),
                REQUEST => wire.request_bytes(),
                _ => wire.completion_overhead(),
            };
            let receiver = self.topology.receiver(link, direction);
            steps.push(PathPort {
                port: 2 * link.0 + u32::from(direction == LinkDirection::Down),
                picos_per_kib: wire.picos_per_kib,
                is_stage: false,
                receiver,
                unit,
                overhead: u32::try_from(overhead).unwrap_or(u32::MAX),
                propagation: wire.propagation,
                credits: wire.credits,
            });
            if let (true, NodeKind::RootComplex(root)) =
                (peer_roots.contains(&receiver), &self.topology.node(receiver).kind)
            {
                steps.extend(self.root_stage(receiver, root, class, unit));
                if let (Some(split), true) = (root.split, class != REQUEST) {
                    unit = unit.min(power_of_two(split.0));
                }
            }
        }
        steps
    }

    /// Adds the hops of a path for packets of a class.
    pub(super) fn hops(&mut self, steps: &[PathPort], class: u8, end: HopEnd, leg: u32) {
        for (number, step) in steps.iter().enumerate() {
            let next = steps.get(number + 1);
            let kind = &self.topology.node(step.receiver).kind;
            let latency = match next {
                Some(_) if !step.is_stage => step.propagation.0 + kind.latency().0,
                _ => step.propagation.0,
            };
            let from_host = class == COMPLETION && number == 0 && self.comes_from_host(step);
            let is_shared = match kind {
                _ if from_host => false,
                NodeKind::Endpoint(_) | NodeKind::HostMemory(_) if next.is_some() => false,
                kind => kind.has_shared_queue(),
            };
            let end = if next.is_some() { HopEnd::Queue } else { end };
            let (headers, units) = buffer(step, class, end);
            let first = steps[0].unit;
            let packets = |bytes: u64| u32::try_from(bytes >> first).unwrap_or(u32::MAX);
            self.limit_train(packets(u64::from(headers) << step.unit));
            self.limit_train(packets(u64::from(units) * 16));
            let output = match kind {
                NodeKind::Endpoint(_) if next.is_some() => leg | 1 << 31,
                _ => next.map_or(NONE, |next| next.port),
            };
            let output = if is_shared { NONE } else { output };
            let lane = self.lane(step, class, output, (headers, units));
            let iommu = if class == COMPLETION || next.is_none() || step.is_stage {
                NONE
            } else {
                self.iommu(step.receiver)
            };
            self.network.hops.push(Hop {
                port: step.port,
                picos_per_kib: step.picos_per_kib,
                unit_shift: step.unit,
                overhead: step.overhead,
                class,
                has_payload: class != REQUEST || step.is_stage,
                is_shared,
                lane,
                end,
                latency,
                propagation: step.propagation.0,
                iommu,
            });
        }
    }

    fn comes_from_host(&self, step: &PathPort) -> bool {
        !step.is_stage && {
            let link = &self.topology.links()[(step.port / 2) as usize];
            matches!(self.topology.node(link.lower).kind, NodeKind::HostMemory(_))
        }
    }

    /// Returns the turns in a row of an input.
    fn weight(&self, step: &PathPort) -> u16 {
        match &self.topology.node(step.receiver).kind {
            NodeKind::Switch(switch) if !step.is_stage => {
                let named = switch.weights.iter().find(|(link, _)| link.0 == step.port / 2);
                named.map_or(1, |&(_, weight)| u16::try_from(weight).unwrap_or(u16::MAX).max(1))
            }
            _ => 1,
        }
    }

    /// Returns the queue and the credits behind a step.
    fn lane(
        &mut self,
        step: &PathPort,
        class: u8,
        output: u32,
        (headers, units): (u32, u32),
    ) -> ReceiveQueue {
        let key = (step.port, class, output);
        if let Some(&lane) = self.lanes.get(&key) {
            let pool = &mut self.network.pools[lane.pool as usize];
            pool.full.1 = pool.full.1.max(units);
            pool.units = pool.full.1;
            return lane;
        }
        let (headers, units) = (headers.clamp(1, Credits::MOST), units.clamp(1, Credits::MOST));
        let (full, return_delay) = ((headers, units), step.propagation.0);
        let pool = CreditPool { headers, units, port: step.port, full, return_delay };
        let fifo = Fifo::new(self.weight(step), NONE);
        let fifo = push(&mut self.network.fifos, fifo);
        let lane = ReceiveQueue { fifo, pool: push(&mut self.network.pools, pool) };
        self.lanes.insert(key, lane);
        lane
    }
}

/// Returns the headers and units of payload that a receiver advertises for a class: one full packet at least (PCIe base
/// specification, "FC initialization"), and no limit at the initiator of a read.
fn buffer(step: &PathPort, class: u8, end: HopEnd) -> (u32, u32) {
    let credits = if end == HopEnd::Initiator { Credits::UNLIMITED } else { step.credits };
    let units = if class == REQUEST { Credits::MOST } else { credits.data };
    (credits.headers, units.max((1 << step.unit) / 16))
}
