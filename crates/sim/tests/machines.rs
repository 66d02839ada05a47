//! Small workloads on every machine of `machines/`, by every engine: bytes are conserved, no link exceeds its rate, and a
//! refusal names its reason.

use std::error::Error;
use std::path::Path as File;

use peerlane_fabric::{Fabric, Kind};
use peerlane_results::{
    BenchRecord, CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
use peerlane_sim::predict::{Engine, parameters, run};
use peerlane_units::Bytes;

const MOVED: Bytes = Bytes::mib(8);
const ENGINES: [Engine; 3] = [Engine::Closed, Engine::Flow, Engine::Tlp];

fn machines() -> Vec<Fabric> {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of machines")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files.iter().map(|file| Fabric::read_machine_file(file).expect("a machine")).collect()
}

fn named(fabric: &Fabric, kind: Kind) -> Vec<String> {
    let of_kind = fabric.functions.iter().filter(|function| function.kind == kind);
    of_kind.map(|function| function.name.clone()).collect()
}

fn flow(source: &str, target: &str, path: Path) -> Flow {
    Flow { block: Bytes::kib(4), depth: 8, bytes: MOVED, ..Flow::new(source, target, path) }
}

/// Every drive into the next one at once.
fn ring(drives: &[String], path: Path) -> Vec<Flow> {
    let next = |at: usize| &drives[(at + 1) % drives.len()];
    (0..drives.len()).map(|at| flow(&drives[at], next(at), path)).collect()
}

/// Workloads of a machine with drives: each path, alone and in a ring, and each other end of a transfer.
fn cases(fabric: &Fabric) -> Vec<(String, Vec<Flow>)> {
    const PATHS: [Path; 5] =
        [Path::P2p, Path::HostPipelined, Path::HostSerial, Path::HostPageCache, Path::HostMapped];
    let drives = named(fabric, Kind::Nvme);
    let mut cases = Vec::new();
    if drives.len() > 1 {
        for path in PATHS {
            cases.push((format!("{path:?} alone"), vec![flow(&drives[0], &drives[1], path)]));
            cases.push((format!("{path:?} ring"), ring(&drives, path)));
        }
        let via = Flow { via: Some("host".to_owned()), ..flow(&drives[0], &drives[1], PATHS[1]) };
        cases.push(("via host".to_owned(), vec![via]));
    }
    let memories = [("gpu", Kind::Gpu), ("fpga", Kind::Fpga)].into_iter();
    let memories = memories.filter(|&(_, kind)| !named(fabric, kind).is_empty());
    let others: Vec<String> = memories
        .map(|(word, _)| format!("{word}:0"))
        .chain(["host".to_owned(), "null".to_owned()])
        .collect();
    for (drive, other) in
        drives.iter().take(1).flat_map(|drive| others.iter().map(move |o| (drive, o)))
    {
        cases.push((format!("from {other}"), vec![flow(other, drive, Path::P2p)]));
        cases.push((format!("to {other}"), vec![flow(drive, other, Path::P2p)]));
    }
    cases
}

fn workload(name: &str, flows: Vec<Flow>) -> Workload {
    Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        name: name.to_owned(),
        kind: WorkloadKind::Crowd,
        cases: vec![CaseSpec { name: name.to_owned(), flows, time_ns: None }],
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None },
        seed: 7,
    }
}

/// The last cause of an error.
fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

#[test]
fn every_machine_runs_every_workload() {
    let parameters = parameters(None).expect("the defaults");
    let (mut with_drives, mut by_host) = (0, 0);
    for fabric in machines() {
        with_drives += usize::from(!named(&fabric, Kind::Nvme).is_empty());
        for (name, flows) in cases(&fabric) {
            let count = flows.len();
            let is_host = !flows.iter().any(|flow| flow.path == Path::P2p);
            let workload = workload(&name, flows);
            // The closed form takes one flow.
            for engine in ENGINES.into_iter().filter(|&e| e != Engine::Closed || count == 1) {
                let place = format!("{} {name} {engine:?}", fabric.name);
                match run(&fabric, &parameters, &workload, engine) {
                    Ok(record) => {
                        sound(&record, &place);
                        by_host += usize::from(is_host);
                    }
                    Err(error) => {
                        let cause = root_cause(&error);
                        let is_named = cause.contains("no device lends memory between");
                        assert!(is_named && !is_host, "{place}: {error}: {cause}");
                    }
                }
            }
        }
    }
    assert!(with_drives >= 18 && by_host > 300, "{with_drives} machines, {by_host} by host");
}

/// Bytes are conserved, and no link exceeds its rate.
fn sound(record: &BenchRecord, place: &str) {
    let case = &record.cases[0];
    let moved: u64 = case.flows.iter().map(|flow| flow.bytes.0).sum();
    assert_eq!(moved, MOVED.0 * case.flows.len() as u64, "{place}");
    assert_eq!(case.bytes.0, moved, "{place}");
    assert_eq!(case.bytes_by_route.p2p.0 + case.bytes_by_route.host.0, moved, "{place}");
    for flow in &case.flows {
        assert!(flow.elapsed_ns.0 > 0 && flow.limited_by.is_some(), "{place}: {flow:?}");
    }
    let seconds = case.elapsed_ns.0 as f64 / 1e9;
    for link in &case.links {
        let share = link.payload.0 as f64 / link.ceiling.0 as f64;
        assert!(share <= 1.005, "{place}: {link:?} is loaded to {share}");
        // A transfer crosses a link with all of its payload, or not at all.
        let crossed = link.payload.0 as f64 * seconds / MOVED.0 as f64;
        let whole = crossed.round();
        assert!((crossed - whole).abs() <= 0.01 * whole, "{place}: {link:?} {crossed}");
        assert!(link.busy.is_some_and(|busy| busy > 0.0 && busy < 1.005), "{place}: {link:?}");
        assert!(whole >= 1.0 || link.payload.0 == 0, "{place}: {link:?}");
    }
    let is_host = case.asked.flows.iter().any(|flow| flow.path != Path::P2p);
    let touched = case.host_memory.bytes.map_or(0, |bytes| bytes.0);
    assert!(!is_host || touched > 0, "{place}: a bounce touches host memory");
    let routes = &case.bytes_by_route;
    let by_route = if is_host { routes.host.0 } else { routes.p2p.0 };
    assert!(by_route == moved || case.asked.flows.iter().any(ends_at_host), "{place}");
}

fn ends_at_host(flow: &Flow) -> bool {
    [&flow.source, &flow.target].into_iter().any(|end| end == "host" || end == "null")
}
