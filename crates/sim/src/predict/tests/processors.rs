//! What transfers with copies by the processor leave each other: processors, and host memory.

use super::*;

/// From so many drives to as many others of ten.
fn flows(count: usize, path: Path) -> Vec<Flow> {
    let flow = |at| Flow {
        block: Bytes::mib(1),
        ..Flow::new(format!("d{at}"), format!("d{}", 9 - at), path)
    };
    (0..count).map(flow).collect()
}

fn run_with(others: &[(&str, f64, &str)], flows: Vec<Flow>, engine: Engine) -> BenchRecord {
    // For a time, so that all run together.
    let mut asked = workload(vec![("one", flows)]);
    asked.cases[0].time_ns = Some(Nanos::seconds(10));
    run(&machine("ten"), &with(others), &asked, engine).expect("predicted")
}

/// Processors that were busy all the time, by the record.
fn busy(record: &BenchRecord) -> f64 {
    let case = &record.cases[0];
    case.cpu.system_ns.0 as f64 / case.elapsed_ns.0 as f64
}

/// Gigabytes a second that host memory carried, as if nothing stayed in a cache.
fn carried(record: &BenchRecord) -> f64 {
    let case = &record.cases[0];
    case.host_memory.bytes.expect("predicted").0 as f64 / case.elapsed_ns.0 as f64
}

#[test]
fn transfers_with_copies_keep_no_more_processors_busy_than_there_are() {
    for (engine, most) in [(Engine::Flow, 0.01), (Engine::Tlp, 0.1)] {
        for cores in [1.0, 2.0] {
            let copies = [("host.copy", 5.0, "GB/s"), ("host.overlap", 2.0, "count")];
            let given = [("host.cores", cores, "count"), copies[0], copies[1]];
            let record = run_with(&given, flows(5, Path::HostPageCache), engine);
            let found = busy(&record);
            assert!((found / cores - 1.0).abs() < most, "{engine:?} {cores}: {found}");
            assert_eq!(limit(&record), "the processors", "{engine:?} {cores}");
            let case = &record.cases[0];
            let ceiling = case.limits.iter().find(|limit| limit.object == "the processors");
            let ceiling = ceiling.expect("it is one").bytes_per_second.0 as f64 / 1e9;
            assert!((rate(&record, 0) / ceiling - 1.0).abs() < most, "{ceiling}");
            let gains = &case.prediction.as_ref().expect("it is one").gains;
            assert!(gains[0].resource == "the processors" && gains[0].ratio > 1.09, "{gains:?}");
        }
    }
}

#[test]
fn a_transfer_has_one_processor_however_many_there_are() {
    let of = |cores| {
        let given = [("host.cores", cores, "count"), ("host.copy", 2.0, "GB/s")];
        let record = run_with(&given, flows(2, Path::HostPageCache), Engine::Flow);
        (rate(&record, 0), limit(&record).to_owned())
    };
    assert_eq!(of(2.0), of(64.0));
    assert_eq!(of(2.0).1, "stages of a block, one after the other");
    assert!(of(1.0).0 < 0.9 * of(2.0).0);
}

#[test]
fn what_processors_copy_takes_host_memory_from_direct_transfers_and_nothing_from_peers() {
    let given = [("host.memory", 10.0, "GB/s")];
    let of = |engine, path, copied: usize| {
        let mut all = flows(copied, Path::HostPageCache);
        all.push(Flow { depth: 32, ..Flow::new("d4", "d5", path) });
        let record = run_with(&given, all, engine);
        let case = &record.cases[0];
        let last = case.flows.last().expect("it");
        (last.bytes.0 as f64, limit_of(&case.flows[0]).to_owned(), carried(&record))
    };
    for (engine, most) in [(Engine::Flow, 0.01), (Engine::Tlp, 0.06)] {
        let (_, limited, all) = of(engine, Path::HostPipelined, 4);
        assert_eq!(limited, "memory of host0");
        assert!((all / 10.0 - 1.0).abs() < most, "{engine:?}: {all}");
    }
    let [beside, alone] = [4, 0].map(|copied| of(Engine::Flow, Path::HostPipelined, copied).0);
    assert!(beside < 0.99 * alone, "{beside} {alone}");
    let [beside, alone] = [4, 0].map(|copied| of(Engine::Flow, Path::P2p, copied).0);
    assert!(is_near(beside, alone), "{beside} {alone}");
}

#[test]
fn the_limit_that_host_memory_is_knows_of_copies() {
    let record = run_with(&[], flows(4, Path::HostPageCache), Engine::Flow);
    let of_memory = |record: &BenchRecord| {
        let limits = &record.cases[0].limits;
        let memory = limits.iter().find(|limit| limit.object == "memory of host0");
        memory.expect("it is one").bytes_per_second.0
    };
    // Eight bytes of 100 GB/s for each, and two where nothing is copied.
    assert_eq!(of_memory(&record), 12_500_000_000);
    let record = run_with(&[], flows(1, Path::HostPipelined), Engine::Flow);
    assert_eq!(of_memory(&record), 50_000_000_000);
}

#[test]
fn the_range_of_what_is_copied_has_both_what_waits_and_what_is_read_ahead() {
    let of = |machine: &str, target: &str, path| {
        let flow = Flow { block: Bytes::mib(32), depth: 1, ..Flow::new("drive", target, path) };
        let rates = [1.0, 2.0].map(|overlap| {
            let given = with(&[("host.overlap", overlap, "count")]);
            alone(&self::machine(machine), &given, flow.clone())
        });
        let record = predict(&self::machine(machine), &one(flow), Engine::Flow);
        let prediction = record.cases[0].prediction.clone().expect("it is one");
        let (low, high) = prediction.interval.expect("one flow");
        (rates, [low, high].map(|rate| rate.0 as f64 / 1e9))
    };
    let (serial, none) = of("donard", "gpu", Path::HostSerial);
    assert_eq!(serial[0], serial[1]);
    assert!(none[1] < 1.3 * serial[1], "{none:?} {serial:?}");
    let (rates, [low, high]) = of("donard", "gpu", Path::HostMapped);
    assert!(low <= rates[0] && rates[1] <= high * 1.1, "{low} {rates:?} {high}");
}

#[test]
fn blocks_read_ahead_are_faster_up_to_what_one_processor_does() {
    for engine in [Engine::Closed, Engine::Flow, Engine::Tlp] {
        let of = |overlap, copy| {
            let given = [("host.overlap", overlap, "count"), ("host.copy", copy, "GB/s")];
            let record = run_with(&given, flows(1, Path::HostPageCache), engine);
            (rate(&record, 0), limit(&record).to_owned())
        };
        let (serial, ahead) = (of(1.0, 10.0), of(2.0, 10.0));
        assert!((1.8..2.05).contains(&(ahead.0 / serial.0)), "{engine:?} {ahead:?} {serial:?}");
        let (slow, limited) = of(2.0, 1.0);
        assert!(limited == "the processor" && (0.49..0.505).contains(&slow), "{slow} {limited}");
    }
}
