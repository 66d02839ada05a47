//! Small workloads on every machine of `machines/`, by every engine: bytes are conserved, no link exceeds its rate, and a
//! refusal names its reason.

use std::error::Error;
use std::path::Path as File;

use peerlane_fabric::{Fabric, FunctionKind};
use peerlane_results::{
    BenchRecord, CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
use peerlane_sim::predict::{Engine, parameters, run};
use peerlane_units::Bytes;

const MOVED: Bytes = Bytes::mib(8);
const ENGINES: [Engine; 3] = [Engine::Closed, Engine::Flow, Engine::Tlp];

fn machines() -> Vec<Fabric> {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let entries = std::fs::read_dir(folder).expect("the folder of machines");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files.iter().map(|file| Fabric::read_machine_file(file).expect("a machine")).collect()
}

fn named(fabric: &Fabric, kind: FunctionKind) -> Vec<&str> {
    let of_kind = fabric.functions.iter().filter(|function| function.kind == kind);
    of_kind.map(|function| function.name.as_str()).collect()
}

fn flow(source: &str, target: &str, path: Path) -> Flow {
    Flow { block: Bytes::kib(4), depth: 8, bytes: MOVED, ..Flow::new(source, target, path) }
}

/// Workloads of a machine with drives: each path, alone and from every drive to the next one at once, and each other end
/// of a transfer.
fn cases(fabric: &Fabric) -> Vec<(String, Vec<Flow>)> {
    const PATHS: [Path; 5] =
        [Path::P2p, Path::HostPipelined, Path::HostSerial, Path::HostPageCache, Path::HostMapped];
    let drives = named(fabric, FunctionKind::Nvme);
    let mut cases = Vec::new();
    if let [first, second, ..] = drives[..] {
        for path in PATHS {
            let next = drives.iter().cycle().skip(1);
            let ring = drives.iter().zip(next).map(|(from, to)| flow(from, to, path)).collect();
            cases.push((format!("{path:?} alone"), vec![flow(first, second, path)]));
            cases.push((format!("{path:?} ring"), ring));
        }
        let via = Flow { via: Some("host".to_owned()), ..flow(first, second, PATHS[1]) };
        cases.push(("via host".to_owned(), vec![via]));
    }
    let memories = [("gpu:0", FunctionKind::Gpu), ("fpga:0", FunctionKind::Fpga)];
    let memories = memories.into_iter().filter(|&(_, kind)| !named(fabric, kind).is_empty());
    for other in memories.map(|(word, _)| word).chain(["host", "null"]) {
        let Some(drive) = drives.first() else { continue };
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
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None, time_ns: None },
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
        with_drives += usize::from(!named(&fabric, FunctionKind::Nvme).is_empty());
        for (name, flows) in cases(&fabric) {
            let (count, is_host) = (flows.len(), flows.iter().all(|flow| flow.path != Path::P2p));
            let workload = workload(&name, flows);
            // The closed form takes one flow.
            for engine in ENGINES.into_iter().filter(|&e| e != Engine::Closed || count == 1) {
                let context = format!("{} {name} {engine:?}", fabric.name);
                match run(&fabric, &parameters, &workload, engine) {
                    Ok(record) => {
                        assert_sound(&record, &context);
                        by_host += usize::from(is_host);
                    }
                    Err(error) => {
                        let cause = root_cause(&error);
                        let is_named = if is_host {
                            cause.contains("between machines payload moves by")
                        } else {
                            cause.contains("no device lends memory between")
                                || cause.contains("it needs memory of a device")
                        };
                        assert!(is_named, "{context}: {error}: {cause}");
                    }
                }
            }
        }
    }
    assert!(with_drives >= 18 && by_host > 300, "{with_drives} machines, {by_host} by host");
}

/// Asserts that bytes are conserved, and that no link exceeds its rate.
fn assert_sound(record: &BenchRecord, context: &str) {
    let case = &record.cases[0];
    let moved: u64 = case.flows.iter().map(|flow| flow.bytes.0).sum();
    assert_eq!(moved, MOVED.0 * case.flows.len() as u64, "{context}");
    let routes = &case.bytes_by_route;
    assert_eq!([case.bytes.0, routes.p2p.0 + routes.host.0], [moved; 2], "{context}");
    for flow in &case.flows {
        assert!(flow.elapsed_ns.0 > 0 && flow.limited_by.is_some(), "{context}: {flow:?}");
    }
    let seconds = case.elapsed_ns.0 as f64 / 1e9;
    for link in &case.links {
        let share = link.payload.0 as f64 / link.ceiling.0 as f64;
        // A transfer crosses a link with all of its payload, or not at all.
        let crossed = link.payload.0 as f64 * seconds / MOVED.0 as f64;
        let whole = crossed.round();
        let is_whole = (crossed - whole).abs() <= 0.01 * whole;
        assert!(share < 1.005 && is_whole, "{context}: {link:?} {share} {crossed}");
        let is_busy = link.busy.is_some_and(|busy| busy > 0.0 && busy < 1.005);
        assert!(is_busy && (whole >= 1.0 || link.payload.0 == 0), "{context}: {link:?}");
    }
    let is_host = case.asked.flows.iter().any(|flow| flow.path != Path::P2p);
    let touched = case.host_memory.bytes.map_or(0, |bytes| bytes.0);
    assert!(!is_host || touched > 0, "{context}: a bounce touches host memory");
    let by_route = if is_host { routes.host.0 } else { routes.p2p.0 };
    let is_end =
        |flow: &Flow| [&flow.source, &flow.target].into_iter().any(|e| e == "host" || e == "null");
    assert!(by_route == moved || case.asked.flows.iter().any(is_end), "{context}");
}
