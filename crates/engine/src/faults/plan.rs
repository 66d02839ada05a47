//! Plans of a run for simulated ends, which the planner does not know.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use peerlane_fabric::{BlockDevice, QueueLimits};
use peerlane_results::{
    Asked, Candidate, EndpointFacts, EndpointKind, MapType, MemoryFacts, MemoryKind,
    Plan as CopyPlan, Refusal, Route, RouteChoice, Shape as CopyShape, VerifyMode,
};
use peerlane_units::Bytes;

use super::attempt::{Invocation, RunPlan};
use super::machine::DriveName;
use super::world::World;
use crate::endpoints::{Endpoint, Live, PathNode};
use crate::plan::Prepared;
use crate::transfer::verify::Coverage;

/// One plan for each of these targets: they differ in the target and its tail only.
pub(super) fn copy_plans(
    world: &mut World,
    plan: RunPlan,
    invocation: &Invocation,
) -> Vec<CopyPlan> {
    let memories = 1 + u32::from(world.random.below(3) == 0);
    let plan = |(number, name): &(usize, DriveName)| {
        let mut copy = copy_plan(world, plan, (*number, name), memories);
        copy.asked.force = invocation.is_forced;
        copy
    };
    invocation.targets.iter().map(plan).collect()
}

/// Returns the refusals of a copy that does not find its journal, for each target.
pub(super) fn refusals(world: &World, invocation: &Invocation) -> Vec<Vec<Refusal>> {
    let held = |(number, name): &(usize, DriveName)| {
        let target = &world.targets[*number];
        let exists = target.file_system.is_some() && name.path.exists();
        let is_held = !invocation.is_forced && (exists || target.is_held());
        let reason = format!("{} exists, or is not blank", name.path.display());
        is_held.then_some(Refusal { reason, hint: None, forceable: true }).into_iter().collect()
    };
    invocation.targets.iter().map(held).collect()
}

fn copy_plan(
    world: &World,
    plan: RunPlan,
    (number, name): (usize, &DriveName),
    memories: u32,
) -> CopyPlan {
    let (shape, target) = (world.shape, &world.targets[number]);
    let verify = match plan.coverage {
        None => VerifyMode::None,
        Some(Coverage::Sample { .. }) => VerifyMode::Sample,
        Some(Coverage::Full) => VerifyMode::Full,
    };
    let [from, to] = [source_path(), name.path.clone()].map(|path| path.display().to_string());
    let asked = Asked {
        route: if plan.only_host { RouteChoice::Host } else { RouteChoice::Auto },
        block: Bytes(shape.request),
        depth: shape.slots,
        offset: Bytes(shape.source_offset),
        length: Some(Bytes(shape.length)),
        target_offset: Bytes(target.shape.offset),
        verify,
        stages: world.stages.clone(),
        ..Asked::between(&from, &to)
    };
    let facts = |path: String, size, block, is_file| EndpointFacts {
        path,
        kind: if is_file { EndpointKind::File } else { EndpointKind::BlockDevice },
        size: Bytes(size),
        block: Bytes(block),
        request_host: Bytes(shape.request),
        request_p2p: Some(Bytes(shape.request)),
        device: None,
        address: None,
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
        network: None,
    };
    let source_size = world.source.bytes.len() as u64;
    let is_file = target.file_system.is_some();
    let found = fs::metadata(&name.path).ok().filter(|_| is_file);
    let target_size = found.map_or(target.content.bytes.len() as u64, |facts| facts.len());
    let memory = |number: u32| MemoryFacts {
        name: format!("cmb:nvme{number}"),
        kind: MemoryKind::P2pmem,
        address: Some(format!("0000:0{number}:00.0")),
        size: None,
        available: None,
    };
    let candidate = |number| Candidate {
        memory: memory(number),
        source: MapType::BusAddress,
        target: MapType::BusAddress,
        distance: None,
        refusals: Vec::new(),
        facts: Vec::new(),
    };
    CopyPlan {
        asked,
        source: facts(from, source_size, shape.source_block, world.is_file),
        target: facts(to, target_size, target.shape.block, is_file),
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
            tail: target.shape.tail,
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

fn source_path() -> PathBuf {
    DriveName::new(0, 0).path
}

fn endpoint(facts: &EndpointFacts) -> Endpoint {
    let path = PathBuf::from(&facts.path);
    let node = match facts.kind {
        EndpointKind::File if path == source_path() => PathNode::File { device: (0, 1), inode: 1 },
        EndpointKind::File => fs::metadata(&path).map_or(PathNode::NewFile, |facts| {
            PathNode::File { device: (0, 1), inode: facts.ino() }
        }),
        _ => PathNode::Block,
    };
    let live = Live {
        path,
        node,
        device: (node == PathNode::Block).then(|| block_device(facts)),
        layer: None,
        is_direct: true,
        passthrough: None,
    };
    Endpoint { facts: facts.clone(), initiator: None, further: Vec::new(), live: Some(live) }
}

fn block_device(facts: &EndpointFacts) -> BlockDevice {
    BlockDevice {
        name: facts.path.trim_start_matches("/dev/").to_owned(),
        size: facts.size,
        limits: QueueLimits {
            logical_block: facts.block,
            physical_block: facts.block,
            max_request: None,
            max_hw_request: None,
            max_segments: None,
        },
        read_only: false,
        partition: None,
        partitions: Vec::new(),
        holders: Vec::new(),
        slaves: Vec::new(),
        function: None,
        controller: None,
        integrity: None,
        stable_writes: false,
        is_multipath_head: false,
    }
}
