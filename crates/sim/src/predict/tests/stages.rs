//! Units that work on blocks between both legs of a copy.

use super::*;

/// A copy through memory of c, with a unit of 1 GB/s and 100 us of start-up.
fn staged(kib: u64, depth: u32, at_once: u32) -> Flow {
    let (name, rate) = ("invert".to_owned(), Some(ByteRate(1_000_000_000)));
    let stage = FlowStage { name, rate, start_ns: Nanos(100_000), at_once };
    let flow = Flow::new("a", "b", Path::P2p);
    Flow { block: Bytes::kib(kib), depth, stage: Some(stage), ..flow }
}

#[test]
fn slow_stage_is_named_as_bottleneck() {
    for engine in [Engine::Closed, Engine::Flow] {
        let record = predict(&machine("pair"), &one(staged(1024, 16, 2)), engine);
        assert!((rate(&record, 0) - 1.0).abs() < 1e-3, "{engine:?}: {}", rate(&record, 0));
        assert_eq!(limits(&record), ["stage invert"]);
        assert!((1.09..1.11).contains(&gain(&record, "stage invert")));
    }
}

#[test]
fn small_blocks_show_start_up_cost() {
    for (kib, at_once) in [(4, 1), (64, 1), (64, 2), (64, 4), (1024, 1)] {
        let block = Bytes::kib(kib).0 as f64;
        let busy = block.max((100_000.0 + block) / f64::from(at_once));
        let found = alone(&machine("pair"), &[], staged(kib, 64, at_once));
        assert!((found / (block / busy) - 1.0).abs() < 1e-3, "{kib} KiB, {at_once}: {found}");
    }
}

#[test]
fn stage_lengthens_each_block() {
    let block = Bytes::kib(64).0 as f64;
    let without = Flow { stage: None, ..staged(64, 1, 1) };
    let [with, without] =
        [staged(64, 1, 4), without].map(|flow| alone(&machine("pair"), &[], flow));
    let expected = 1.0 / (1.0 / without + (100_000.0 + block) / block);
    assert!(is_near(with, expected), "{with}, not {expected}");
}

#[test]
fn flows_share_a_stage_by_name() {
    let copies = |names: [&str; 2]| {
        let copy = |(index, name): (usize, &str)| {
            let mut flow = staged(1024, 16, 4);
            flow.stage.iter_mut().for_each(|stage| stage.name = name.to_owned());
            let [source, target] = [index, 9 - index].map(|drive| format!("d{drive}"));
            Flow { source, target, ..flow }
        };
        let flows = names.into_iter().enumerate().map(copy).collect();
        rate(&predict(&machine("ten"), &together(flows), Engine::Flow), 0)
    };
    let (shared, apart) = (copies(["one", "one"]), copies(["one", "other"]));
    assert!(is_near(shared, 1.0) && is_near(apart, 2.0), "{shared} {apart}");
}

#[test]
fn stage_without_rate_is_refused() {
    let mut flow = staged(64, 1, 1);
    flow.stage.iter_mut().for_each(|stage| stage.rate = None);
    let error = run(&machine("pair"), &with(&[]), &one(flow), Engine::Flow).expect_err("no rate");
    let cause = std::error::Error::source(&error).expect("a source").to_string();
    assert_eq!(cause, "stage invert has no `rate`, which the model needs");
}

#[test]
fn unmodelled_stages_are_stated() {
    let record = predict(&machine("pair"), &one(staged(64, 16, 1)), Engine::Tlp);
    assert_eq!(prediction(&record).engine, "flow: packets pass no stage");
    for (source, target) in [("a", "host"), ("a", "cmb:c"), ("host", "host")] {
        let [source, target] = [source, target].map(str::to_owned);
        let flow = Flow { source, target, ..staged(64, 1, 1) };
        let error = run(&machine("pair"), &with(&[]), &one(flow), Engine::Flow).expect_err("none");
        let cause = std::error::Error::source(&error).expect("a source").to_string();
        assert!(cause.contains("stage invert is not modelled"), "{cause}");
    }
}
