//! Routes that a benchmark of a GPU takes where none is named.

use crate::program::Exited;
use peerlane_results::{BenchRecord, Path};

use super::{GpuMachine, LENGTH, said};

const STREAM: &str =
    "bench stream --block 64K --depth 4 --length 1M --repeats 1 --warm-up 0 --json";
const INTO: &str = "--source source --target gpu:0";

/// Routes that ran, each once.
#[track_caller]
fn routes(machine: &GpuMachine, words: &str) -> (Vec<Path>, String) {
    let output = machine.peerlane(&format!("{STREAM} {words}")).exited(0);
    let record: BenchRecord = output.json();
    let mut paths: Vec<Path> =
        record.cases.iter().flat_map(|case| &case.asked.flows).map(|flow| flow.path).collect();
    paths.sort_by_key(Path::to_string);
    (paths, said(&output))
}

#[test]
fn default_routes_are_p2p_and_host() {
    for ends in [INTO, "--source gpu:0 --target new --scratch new"] {
        let Some(machine) = GpuMachine::new("mode=p2pdma") else { return };
        machine.source(LENGTH);
        let (paths, said) = routes(&machine, ends);
        assert_eq!(paths, [Path::HostPipelined, Path::P2p], "{ends}: {said}");
        machine.mock.expect_all_undone();
    }
}

#[test]
fn refused_default_route_leaves_host() {
    for (conf, reason) in [
        ("mode=compat", "only possible in compatibility mode, which is off"),
        ("mode=p2pdma\nno_udev=1", "cuFileHandleRegister failed: file not registered (5027)"),
    ] {
        for ends in [INTO, "--source gpu:0 --target new --scratch new"] {
            let Some(machine) = GpuMachine::new(conf) else { return };
            machine.source(LENGTH);
            let (paths, said) = routes(&machine, ends);
            assert_eq!(paths, [Path::HostPipelined], "{conf}: {said}");
            assert!(said.contains("p2p is left out: "), "{said}");
            assert!(said.contains(reason), "{said}");
            machine.mock.expect_all_undone();
        }
    }
}

#[test]
fn named_routes_are_never_left_out() {
    let Some(machine) = GpuMachine::new("mode=compat\nno_udev=1") else { return };
    machine.source(LENGTH);
    for route in ["p2p", "p2p,host", "host,host-cufile"] {
        let output = machine.peerlane(&format!("{STREAM} {INTO} --routes {route}"));
        assert_eq!(output.status.code(), Some(77), "{route}: {}", said(&output));
    }
}

#[test]
fn excluded_default_route_opens_no_cufile() {
    let changes = [
        ("'7.2.13'", "'6.1.0'"),
        ("{ name = 'nvidia_fs', version = '2.30' }", "{ name = 'nvme' }"),
    ];
    let Some(machine) = GpuMachine::with("mode=p2pdma", &changes) else { return };
    machine.source(LENGTH);
    let (paths, said) = routes(&machine, INTO);
    assert_eq!(paths, [Path::HostPipelined], "{said}");
    assert!(said.contains("p2p is left out: gpu:0 by cuFile"), "{said}");
    assert!(said.contains("nvidia_fs is not loaded"), "{said}");
    assert_eq!(machine.mock.calls("cuFileDriverOpen"), 0);

    // A workload in a file has the same defaults.
    let file = "kind = 'stream'\nsource = 'source'\ntarget = 'gpu:0'\nlength = '1M'\nrepeats = 1\n";
    std::fs::write(machine.path("work.toml"), file).expect("room");
    let record: BenchRecord = machine.peerlane("bench run work.toml --json").exited(0).json();
    assert_eq!(record.asked.cases.len(), 1);
    assert_eq!(record.asked.cases[0].flows[0].path, Path::HostPipelined);
}

#[test]
fn classical_table_follows_default_routes() {
    for (conf, has_p2p) in [("mode=p2pdma", true), ("mode=compat", false)] {
        let Some(machine) = GpuMachine::new(conf) else { return };
        machine.source(LENGTH);
        let words = "bench roundtrip --source source --target gpu:0 --classical --block 64K --depth 4 \
                     --length 1M --repeats 1 --warm-up 0";
        let output = machine.peerlane(words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(text.contains("host-mapped, classical"), "{text}");
        assert_eq!(text.contains("-> gpu:0 p2p"), has_p2p, "{text}");
        machine.mock.expect_all_undone();
    }
}
