//! The plans of a run, as the planner makes them, of drives that it does not know.

use std::path::PathBuf;

use peerlane_results::{
    Asked, Candidate, EndpointFacts, EndpointKind, MemoryFacts, MemoryKind, PLAN_SCHEMA,
    Plan as CopyPlan, Route, RouteChoice, Shape as CopyShape, Verdict, VerifyMode,
};
use peerlane_units::Bytes;

use super::attempt::Plan;
use super::machine::path_of;
use super::world::World;
use crate::endpoint::{Endpoint, Live, Node};
use crate::plan::Prepared;
use crate::ring::sim::SimFile;
use crate::verify::Coverage;

/// One plan for each of these targets: they differ in the target and its tail only.
pub(super) fn copy_plans(world: &mut World, plan: Plan, targets: &[usize]) -> Vec<CopyPlan> {
    let memories = 1 + u32::from(world.random.below(3) == 0);
    targets.iter().map(|&target| copy_plan(world, plan, target, memories)).collect()
}

fn copy_plan(world: &World, plan: Plan, number: usize, memories: u32) -> CopyPlan {
    let (shape, target) = (world.shape, &world.targets[number]);
    let verify = match plan.coverage {
        None => VerifyMode::None,
        Some(Coverage::Sample { .. }) => VerifyMode::Sample,
        Some(Coverage::Full) => VerifyMode::Full,
    };
    let [from, to] = [path_of(0), path_of(number + 1)];
    let asked = Asked {
        route: if plan.only_host { RouteChoice::Host } else { RouteChoice::Auto },
        block: Bytes(shape.request),
        depth: shape.slots,
        offset: Bytes(shape.source_offset),
        length: Some(Bytes(shape.length)),
        target_offset: Bytes(target.offset),
        verify,
        ..Asked::between(&from, &to)
    };
    let facts = |path: String, file: &SimFile, kind| EndpointFacts {
        path,
        kind,
        size: Bytes(file.bytes.len() as u64),
        block: Bytes(file.block),
        request_host: Bytes(shape.request),
        request_p2p: Some(Bytes(shape.request)),
        device: None,
        address: None,
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
    };
    let kind = if world.is_file { EndpointKind::File } else { EndpointKind::BlockDevice };
    let memory = |number: u32| MemoryFacts {
        name: format!("cmb:nvme{number}"),
        kind: MemoryKind::P2pmem,
        address: Some(format!("0000:0{number}:00.0")),
        size: None,
        available: None,
    };
    let candidate = |number| Candidate {
        memory: memory(number),
        source: Verdict::BusAddress,
        target: Verdict::BusAddress,
        distance: None,
        refusals: Vec::new(),
        facts: Vec::new(),
    };
    CopyPlan {
        schema: PLAN_SCHEMA.to_owned(),
        asked,
        source: facts(from, &world.source, kind),
        target: facts(to, &target.file, EndpointKind::BlockDevice),
        route: Some(if plan.only_host { Route::Host } else { Route::P2p }),
        memory: (!plan.only_host).then(|| memory(2)),
        reason: "it is drawn".to_owned(),
        candidates: (2..2 + memories).map(candidate).collect(),
        shape: Some(CopyShape {
            length: Bytes(shape.length),
            request: Bytes(shape.request),
            slots: shape.slots,
            memory: Bytes(shape.request * u64::from(shape.slots)),
            request_limit: String::new(),
            slots_limit: String::new(),
            tail: target.tail,
        }),
        way: Vec::new(),
        limits: Vec::new(),
        unmeasured: Vec::new(),
        refusals: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A plan with the ends that it was made for.
pub(super) fn prepared(plan: &CopyPlan) -> Prepared {
    let [source, target] = [&plan.source, &plan.target].map(endpoint);
    Prepared { source, target, plan: plan.clone() }
}

fn endpoint(facts: &EndpointFacts) -> Endpoint {
    let node = match facts.kind {
        EndpointKind::File => Node::File { device: (0, 1), inode: 1 },
        _ => Node::Block,
    };
    let live = Live {
        path: PathBuf::from(&facts.path),
        node,
        device: None,
        layer: None,
        is_direct: true,
        passthrough: None,
    };
    Endpoint { facts: facts.clone(), initiator: None, further: Vec::new(), live: Some(live) }
}
