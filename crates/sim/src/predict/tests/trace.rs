//! Traces of predictions: what a window moved, request by request.

use std::collections::BTreeMap;

use peerlane_results::{
    MemoryKind, Trace, TraceAction, TraceMemory, TraceOutcome, TraceRequest, TraceWindow,
};

use super::*;

/// A prediction with its traces.
fn traced(machine: &Fabric, workload: &Workload, engine: Engine) -> (BenchRecord, Vec<Trace>) {
    let parameters = parameters(None).expect("the defaults are parameters");
    run_traced(machine, &parameters, workload, engine, TRACE_ROOM).expect("it can be predicted")
}

/// Pairs, an incast, the same by host memory, and a drive that is read alone.
fn several() -> Workload {
    let pairs = [("d0", "d1"), ("d2", "d3")].map(|(a, b)| Flow::new(a, b, Path::P2p)).to_vec();
    let incast = ["d0", "d2", "d5"].map(|source| Flow::new(source, "d1", Path::P2p)).to_vec();
    let host = vec![Flow::new("d0", "d6", Path::HostPipelined)];
    workload(vec![
        ("pairs", pairs),
        ("incast", incast),
        ("host", host),
        ("read", vec![Flow::new("d0", "host", Path::HostPipelined)]),
    ])
}

fn window(trace: &Trace) -> &TraceWindow {
    trace.window.as_ref().expect("it is predicted")
}

/// Bytes of a request that were moved in the window.
fn moved(request: &TraceRequest) -> u64 {
    match request.outcome {
        TraceOutcome::Full => request.bytes,
        TraceOutcome::Partly(bytes) => bytes,
        other => panic!("{other:?} of a prediction"),
    }
}

fn of_action(trace: &Trace, action: TraceAction) -> impl Iterator<Item = &TraceRequest> {
    trace.requests.iter().filter(move |request| request.action == action)
}

#[test]
fn a_trace_has_what_its_window_moved_and_the_commands_that_were_timed() {
    let (record, traces) = traced(&machine("ten"), &several(), Engine::Tlp);
    assert_eq!(traces.len(), 7);
    let flows = record.cases.iter().flat_map(|case| &case.flows);
    for (trace, flow) in traces.iter().zip(flows) {
        let span = trace.phases[0].span;
        let last = if trace.drives.len() == 2 { TraceAction::Write } else { TraceAction::Read };
        let bytes: u64 = of_action(trace, last).map(moved).sum();
        let rate = bytes as f64 / (span.end.0 - span.begin.0) as f64;
        let expected = flow.bytes.0 as f64 / flow.elapsed_ns.0 as f64;
        assert!((rate / expected - 1.0).abs() < 0.001, "{}: {rate} {expected}", trace.name);
        let timed = of_action(trace, last).filter(|one| one.span.end < span.end);
        assert_eq!(timed.count() as u64, flow.block.count, "{}", trace.name);
        assert_eq!((trace.left_out, trace.remarks.len()), (0, 0));
    }
}

#[test]
fn requests_lie_in_their_window_and_a_slot_has_one_at_a_time() {
    let (_, traces) = traced(&machine("ten"), &several(), Engine::Auto);
    for trace in &traces {
        let window = trace.phases[0].span;
        let mut slots: BTreeMap<u64, Vec<&TraceRequest>> = BTreeMap::new();
        for request in &trace.requests {
            assert!(window.begin <= request.span.begin && request.span.end <= window.end);
            assert!(request.span.begin <= request.span.end, "{request:?}");
            slots.entry(request.slot.expect("payload")).or_default().push(request);
        }
        assert_eq!(slots.len(), trace.slots as usize, "{}: its depth", trace.name);
        for pair in slots.values().flat_map(|requests| requests.windows(2)) {
            let [before, after] = pair else { unreachable!("two") };
            assert!(before.span.end <= after.span.begin, "{pair:?}");
            let is_write = after.action == TraceAction::Write;
            assert!(!is_write || before.action == TraceAction::Read, "{pair:?}");
            if is_write {
                assert_eq!(before.span.end, after.span.begin, "{pair:?}");
                assert_eq!((before.bytes, before.offset), (after.bytes, after.offset), "{pair:?}");
            }
        }
    }
}

#[test]
fn payload_rests_where_the_route_says_and_drives_do_what_they_are_asked() {
    let (_, traces) = traced(&machine("ten"), &several(), Engine::Auto);
    let of = |case: &str| -> Vec<&Trace> {
        traces.iter().filter(|trace| window(trace).case == case).collect()
    };
    let is_lent = |memory: &TraceMemory| {
        memory.kind == MemoryKind::P2pmem && memory.name.starts_with("cmb:d")
    };
    for trace in of("pairs").into_iter().chain(of("incast")) {
        assert!(trace.memories.iter().all(is_lent), "{:?}", trace.memories);
    }
    let host = TraceMemory { name: "host memory".to_owned(), kind: MemoryKind::Host };
    let [through_host] = of("host")[..] else { panic!("one transfer") };
    assert_eq!(through_host.memories, [host]);
    assert_eq!(
        (&*through_host.name, &through_host.drives[..]),
        ("d0 to d6", &["d0", "d6"].map(str::to_owned)[..])
    );
    for request in &through_host.requests {
        let drive = usize::from(request.action == TraceAction::Write);
        assert_eq!((request.drive, request.memory), (drive, Some(0)));
    }
    let [read] = of("read")[..] else { panic!("one transfer") };
    assert!(read.drives == ["d0"] && of_action(read, TraceAction::Write).next().is_none());
}

#[test]
fn blocks_are_numbered_from_where_a_transfer_begins_and_stay_in_its_range() {
    let mut flow = Flow::new("d0", "d1", Path::P2p);
    (flow.offset, flow.target_offset, flow.bytes) = (Bytes::mib(8), Bytes::mib(64), Bytes::mib(4));
    let (_, traces) = traced(&machine("ten"), &one(flow), Engine::Auto);
    let offsets = |action| of_action(&traces[0], action).map(|request| request.offset >> 17);
    let (reads, writes): (Vec<u64>, Vec<u64>) =
        (offsets(TraceAction::Read).collect(), offsets(TraceAction::Write).collect());
    assert!(reads.iter().all(|block| (64..96).contains(block)), "{reads:?}");
    assert!(writes.iter().all(|block| (512..544).contains(block)), "{writes:?}");
    assert!(reads.windows(2).skip(16).all(|pair| (pair[0] + 1 - pair[1]) % 32 == 0), "{reads:?}");
}

#[test]
fn windows_of_sets_follow_each_other_and_say_when_they_are() {
    let second = Flow { start_ns: Nanos(50_000_000), ..Flow::new("d2", "d1", Path::P2p) };
    let flows = vec![Flow::new("d0", "d1", Path::P2p), second];
    let cases = vec![("first", flows), ("then", vec![Flow::new("d3", "d4", Path::P2p)])];
    let (_, traces) = traced(&machine("ten"), &workload(cases), Engine::Auto);
    let alone: Vec<&Trace> = traces.iter().filter(|trace| trace.name == "d0 to d1").collect();
    assert!(alone.len() >= 2, "alone, and beside the other");
    assert_eq!(window(alone[0]).from, Nanos(0));
    assert_eq!(window(alone[1]).from, Nanos(50_000_000));
    assert_eq!(window(alone[0]).out_of, Nanos(50_000_000));
    let beside: Vec<_> =
        traces.iter().filter(|trace| trace.phases[0].span == alone[1].phases[0].span).collect();
    assert_eq!(beside.len(), 2, "both transfers of the second window");
    for pair in traces.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|trace| trace.phases[0].span);
        assert!(before == after || before.end < after.begin, "{before:?} {after:?}");
    }
    assert_eq!(traces.last().map(|trace| &*window(trace).case), Some("then"));
}

#[test]
fn a_trace_costs_no_figure_and_is_the_same_on_any_number_of_threads() {
    let (ten, workload) = (machine("ten"), several());
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| traced(&ten, &workload, Engine::Auto))
    };
    let ((record, one), (_, four)) = (on(1), on(4));
    assert!(one == four, "other traces on four threads");
    let plain = predict(&ten, &workload, Engine::Auto);
    let json = |record| serde_json::to_value(record).expect("a record");
    assert_eq!(json(&record), json(&plain));
}

#[test]
fn transfers_with_the_same_ends_have_names_of_their_own() {
    let flows = vec![Flow::new("d0", "d1", Path::P2p); 3];
    let (_, traces) = traced(&machine("ten"), &workload(vec![("three", flows)]), Engine::Auto);
    let names: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
    assert_eq!(names, ["d0 to d1", "d0 to d1 (2)", "d0 to d1 (3)"]);
}

#[test]
fn transfers_without_a_window_are_named() {
    let many = vec![Flow::new("d0", "d1", Path::P2p); 129];
    let cases = vec![("many", many.clone()), ("one", vec![Flow::new("d3", "d4", Path::P2p)])];
    let (_, traces) = traced(&machine("ten"), &workload(cases), Engine::Auto);
    let [trace] = &traces[..] else { panic!("{} traces", traces.len()) };
    assert_eq!(window(trace).case, "one");
    let [remark] = &trace.remarks[..] else { panic!("{:?}", trace.remarks) };
    let begin = "many: 129 of 129 transfers are in no window and not in this trace: d0 to d1, d0 to d1 (2), ";
    assert!(
        remark.starts_with(begin) && remark.ends_with("d0 to d1 (12) and 117 more"),
        "{remark}"
    );
}

#[test]
fn without_packets_there_is_no_trace_and_a_way_out() {
    let ten = machine("ten");
    let refused = |workload: &Workload, engine| {
        let parameters = parameters(None).expect("the defaults are parameters");
        let error = run_traced(&ten, &parameters, workload, engine, TRACE_ROOM).unwrap_err();
        assert!(matches!(error, PredictError::NoPackets { .. }), "{error}");
        error.hint(&ten).expect("a hint")
    };
    let many = workload(vec![("many", vec![Flow::new("d0", "d1", Path::P2p); 129])]);
    for engine in [Engine::Closed, Engine::Flow] {
        assert!(refused(&several(), engine).contains("--engine tlp"));
    }
    assert!(refused(&many, Engine::Auto).contains("up to 256 transfers"));
}

#[test]
fn what_has_no_room_is_counted_and_what_is_there_is_whole() {
    let (ten, workload) = (machine("ten"), several());
    let parameters = parameters(None).expect("the defaults are parameters");
    let (_, whole) = traced(&ten, &workload, Engine::Auto);
    let (_, cut) = run_traced(&ten, &parameters, &workload, Engine::Auto, 2000).expect("predicted");
    let count = |traces: &[Trace]| traces.iter().map(|trace| trace.requests.len()).sum::<usize>();
    let left_out: u64 = cut.iter().map(|trace| trace.left_out).sum();
    assert!(count(&cut) <= 2000 && left_out > 0, "{} {left_out}", count(&cut));
    assert_eq!(count(&cut) as u64 + left_out, count(&whole) as u64);
}
