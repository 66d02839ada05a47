//! Planted differences, planted noise, and records that are not of the same thing.

use peerlane_results::{
    Basis, BenchRecord, Change, CompareRecord, Incomparable, RouteVerdict, WhichRun,
};
use peerlane_units::Bytes;

use super::*;
use crate::statistics::Random;
use crate::testing::record;

const RUNS: usize = 20;
const CASES: [&str; 8] = ["4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M"];

/// Rates as runs on a drive have them: about 2 % noise, and one run of ten held up by something.
fn noisy(random: &mut Random, rate: f64) -> Vec<f64> {
    let mut one = || {
        let held_up = if random.below(10) == 0 { 0.15 * random.unit() } else { 0.0 };
        rate * (0.02 * random.normal()).exp() * (1.0 - held_up)
    };
    (0..RUNS).map(|_| one()).collect()
}

/// A run of all cases; `1M` has this share of its rate.
fn sweep(random: &mut Random, share: f64) -> BenchRecord {
    let mut cases = Vec::new();
    for (position, name) in CASES.into_iter().enumerate() {
        let share = if name == "1M" { share } else { 1.0 };
        cases.push((name, noisy(random, 1e9 * (position + 1) as f64 * share)));
    }
    record(&cases)
}

fn case<'a>(comparison: &'a Comparison, name: &str) -> &'a CaseComparison {
    comparison.cases.iter().find(|case| case.case == name).unwrap()
}

#[test]
fn a_planted_slowdown_of_five_percent_is_found() {
    let mut found = 0;
    let mut elsewhere = 0;
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (before, after) = (sweep(&mut random, 1.0), sweep(&mut random, 0.95));
        let comparison = compare(&before, &after, 0.0);
        found += i32::from(case(&comparison, "1M").verdict == Change::Slower);
        let others = comparison.cases.iter().filter(|case| case.case != "1M");
        elsewhere += others.filter(|case| case.verdict != Change::Same).count();
    }
    assert!(found >= 80, "{found} of 100");
    assert!(elsewhere <= 12, "{elsewhere} alarms in 100 comparisons");
}

#[test]
fn regression_requires_loss_beyond_threshold() {
    let mut random = Random::new(5);
    let before = sweep(&mut random, 1.0);
    let slow = sweep(&mut random, 0.85);
    assert!(compare(&before, &slow, 0.05).has_regressed);
    let slight = compare(&before, &sweep(&mut random, 0.95), 0.05);
    assert!(!slight.has_regressed, "five percent are allowed, and are not certainly exceeded");
    assert_eq!(case(&slight, "1M").verdict, Change::Slower);
    assert!(!compare(&slow, &before, 0.05).has_regressed, "faster");
    assert_eq!(case(&compare(&slow, &before, 0.05), "1M").verdict, Change::Faster);
}

/// Comparisons of the same thing that call any case faster or slower.
fn alarms(comparisons: u64) -> u64 {
    let is_loud = |seed: &u64| {
        let mut random = Random::new(1_000_000 + seed);
        let (before, after) = (sweep(&mut random, 1.0), sweep(&mut random, 1.0));
        compare(&before, &after, 0.0).cases.iter().any(|case| case.verdict != Change::Same)
    };
    (0..comparisons).filter(is_loud).count() as u64
}

#[test]
fn twenty_comparisons_of_the_same_thing_are_quiet() {
    // One of twenty is what 95 % confidence allows; three or fewer come in 98 of 100 such series.
    assert!(alarms(20) <= 3, "{} of 20", alarms(20));
}

#[test]
fn false_alarms_stay_at_stated_rate() {
    // 5 % of 2000, and three standard errors of that.
    let alarms = alarms(2000);
    assert!(alarms <= 130, "{alarms} of 2000");
}

/// Rates with slow neighbours next to slow ones, as on a disk that others use, too.
fn drifting(random: &mut Random, correlation: f64) -> Vec<f64> {
    let mut off = random.normal();
    let rest = (1.0 - correlation * correlation).sqrt();
    let mut one = || {
        off = correlation * off + rest * random.normal();
        1e9 * (0.03 * off).exp()
    };
    (0..RUNS).map(|_| one()).collect()
}

#[test]
fn neighbours_that_are_slow_together_count_for_less() {
    let is_loud = |seed: &u64| {
        let mut random = Random::new(9_000_000 + seed);
        let mut run = || record(&[("1M", drifting(&mut random, 0.5))]);
        let (before, after) = (run(), run());
        compare(&before, &after, 0.0).cases[0].verdict != Change::Same
    };
    let alarms = (0..1000).filter(is_loud).count();
    // 5 % of 1000, and three standard errors of that.
    assert!(alarms <= 71, "{alarms} of 1000");
}

/// Records of two runs each, made in turns on a machine whose rate walks by 3 % from record to record and now
/// and then is held up; `share` of the rate after.
fn turns(random: &mut Random, count: usize, share: f64) -> Vec<(BenchRecord, BenchRecord)> {
    let mut walk = 0.0;
    let mut one = |share: f64| {
        walk += 0.03 * random.normal();
        let rates = noisy(random, 1e9 * share * f64::exp(walk));
        let mut record = record(&[("1M", rates[..2].to_vec())]);
        record.started_s = Some(1);
        record
    };
    (0..count).map(|_| (one(1.0), one(share))).collect()
}

fn compared(turns: &[(BenchRecord, BenchRecord)], threshold: f64) -> Comparison {
    let all: Vec<Turn<'_>> = turns.iter().map(|(before, after)| (before, after)).collect();
    compare_turns(all[0], &all[1..], threshold)
}

#[test]
fn drifting_turns_keep_false_alarm_rate() {
    let verdict = |seed: u64| {
        let mut random = Random::new(3_000_000 + seed);
        compared(&turns(&mut random, 20, 1.0), 0.0).cases[0].verdict
    };
    let alarms = (0..1000).filter(|seed| verdict(*seed) != Change::Same).count();
    // 5 % of 1000, and three standard errors of that.
    assert!(alarms <= 71, "{alarms} of 1000");
}

#[test]
fn turns_find_a_slowdown_that_two_records_do_not() {
    let found = |seed: &u64| {
        let mut random = Random::new(4_000_000 + seed);
        let comparison = compared(&turns(&mut random, 20, 0.95), 0.0);
        let case = &comparison.cases[0];
        let (low, high) = case.interval.unwrap();
        assert!(low < case.ratio.unwrap() && case.ratio.unwrap() < high);
        case.verdict == Change::Slower
    };
    let found = (0..200).filter(found).count();
    assert!(found >= 160, "{found} of 200");
}

#[test]
fn too_few_or_foreign_turns_are_reported() {
    let mut random = Random::new(1);
    let mut five = turns(&mut random, 5, 0.5);
    let few = compared(&five, 0.0);
    assert_eq!(few.cases[0].reasons, [Incomparable::TooFewTurns { turns: 5, needed: 6 }]);
    assert_eq!((few.cases[0].verdict, few.turns), (Change::NotComparable, 5));

    five.extend(turns(&mut random, 1, 0.5));
    assert_eq!(compared(&five, 0.05).cases[0].verdict, Change::Slower);
    assert!(compared(&five, 0.05).has_regressed);

    let mut again = five.clone();
    again[5].1 = again[2].1.clone();
    let run = WhichRun::After;
    assert_eq!(compared(&again, 0.0).cases[0].reasons, [Incomparable::Twice { run }]);
    again[5].1 = again[2].0.clone();
    assert_eq!(compared(&again, 0.0).cases[0].reasons, [Incomparable::Twice { run }]);

    let mut all_before_all = five.clone();
    all_before_all.iter_mut().for_each(|turn| turn.1.started_s = Some(9));
    let late = [Incomparable::NotInTurns { turn: 2 }];
    assert_eq!(compared(&all_before_all, 0.0).cases[0].reasons, late);

    let mut other = five.clone();
    let (before, after) = &mut other[3];
    for record in [before, after] {
        record.asked.cases.iter_mut().for_each(|case| case.flows[0].depth = 1);
        record.cases.iter_mut().for_each(|case| case.asked.flows[0].depth = 1);
    }
    let reasons = &compared(&other, 0.0).cases[0].reasons;
    assert!(
        matches!(&reasons[..], [Incomparable::Asked { setting, .. }] if setting == "depth"),
        "{reasons:?}"
    );

    let mut gone = five;
    gone[4].1.cases.clear();
    gone[4].1.asked.cases.clear();
    assert_eq!(compared(&gone, 0.0).cases[0].reasons, [Incomparable::Missing { run }]);
}

#[test]
fn the_intervals_hold_the_planted_ratio_together() {
    let mut random = Random::new(77);
    let mut hold = 0;
    for _ in 0..200 {
        let (before, after) = (sweep(&mut random, 1.0), sweep(&mut random, 0.95));
        let all = compare(&before, &after, 0.0).cases.iter().all(|case| {
            let (low, high) = case.interval.unwrap();
            let truth = if case.case == "1M" { 0.95 } else { 1.0 };
            low < truth && truth < high
        });
        hold += i32::from(all);
    }
    assert!(hold >= 180, "{hold} of 200");
}

#[test]
fn records_of_different_things_are_not_compared() {
    let before = record(&[("1M", vec![1e9, 1.01e9, 0.99e9])]);
    // Of the same thing, measured another time.
    let again = || {
        let mut again = before.clone();
        again.cases[0].elapsed_ns.0 += 1;
        again
    };
    let why = |after: &BenchRecord| {
        let comparison = compare(&before, after, 0.05);
        let case = &comparison.cases[0];
        assert_eq!(case.verdict, Change::NotComparable);
        assert!(!comparison.has_regressed && case.ratio.is_none() && case.interval.is_none());
        case.reasons.clone()
    };
    let mut other = again();
    other.machine.name = "another".to_owned();
    assert!(matches!(why(&other)[..], [Incomparable::Machine { .. }]));
    let mut other = again();
    other.basis = Basis::Emulated;
    assert!(matches!(why(&other)[..], [Incomparable::Basis { .. }]));
    let mut other = again();
    other.cases.iter_mut().for_each(|case| case.asked.flows[0].block = Bytes(4096));
    assert_eq!(why(&other)[0].to_string(), "another block of flow 0: 1048576, 4096");
    let mut other = again();
    other
        .cases
        .iter_mut()
        .for_each(|case| case.asked.flows[0].path = peerlane_results::Path::HostSerial);
    assert!(matches!(&why(&other)[0], Incomparable::Asked { setting, .. } if setting == "path"));
    let mut other = again();
    other.cases.iter_mut().for_each(|case| case.asked.flows[0].depth = 1);
    assert!(matches!(&why(&other)[0], Incomparable::Asked { setting, .. } if setting == "depth"));
    let mut other = again();
    other.cases[1].verdict = RouteVerdict::Contradicted;
    assert_eq!(why(&other), [Incomparable::Route { run: WhichRun::After }]);
    let mut other = again();
    other.cases.pop();
    assert_eq!(why(&other), [Incomparable::TooFew { before: 3, after: 2, needed: 3 }]);
}

#[test]
fn ratio_matches_the_means_shown() {
    let before = record(&[("1M", vec![1e9, 2e9, 4e9])]);
    let after = record(&[("1M", vec![1e9, 1e9, 1e9])]);
    let found = compare(&before, &after, 0.0).cases.remove(0);
    let [old, new] = found.rates().map(Option::unwrap);
    assert!((old / 2e9 - 1.0).abs() < 1e-9 && (new / 1e9 - 1.0).abs() < 1e-9, "{old} {new}");
    assert!((found.ratio.unwrap() - new / old).abs() < 1e-12);
}

#[test]
fn a_case_of_one_record_only_is_named() {
    let before = record(&[("1M", vec![1e9; 3]), ("2M", vec![1e9; 3])]);
    let after = record(&[("1M", vec![1e9; 3]), ("4M", vec![1e9; 3])]);
    let comparison = compare(&before, &after, 0.05);
    let names: Vec<&str> = comparison.cases.iter().map(|case| case.case.as_str()).collect();
    assert_eq!(names, ["1M", "2M", "4M"]);
    assert_eq!(case(&comparison, "2M").reasons, [Incomparable::Missing { run: WhichRun::After }]);
    assert_eq!(case(&comparison, "4M").reasons, [Incomparable::Missing { run: WhichRun::Before }]);
}

#[test]
fn another_kernel_is_a_note_and_no_reason() {
    let before = record(&[("1M", vec![1e9, 1.01e9, 0.99e9])]);
    let mut after = before.clone();
    after.machine.kernel = Some("7.3.0".to_owned());
    after.cases[0].elapsed_ns.0 += 1;
    let comparison = compare(&before, &after, 0.05);
    assert_eq!(comparison.notes, ["another kernel: 7.2.0, 7.3.0"]);
    assert_eq!(comparison.cases[0].verdict, Change::Same);
}

#[test]
fn runs_that_differ_a_lot_are_noted() {
    let before = record(&[("1M", vec![1e9, 1.01e9, 0.99e9])]);
    let mut after = before.clone();
    after.cases[0].elapsed_ns.0 += 1;
    let case = "1M".to_owned();
    after.warnings.push(peerlane_results::Warning::Variance { case, per_mille: 253 });
    let notes = compare(&before, &after, 0.05).notes;
    assert_eq!(notes, ["the run after: the runs of 1M differ by 25.3 % of their mean"]);
}

#[test]
fn predictions_are_compared_without_certainty() {
    let predicted = |rate: f64| {
        let mut record = record(&[("1M", vec![rate])]);
        record.basis = Basis::Predicted;
        record
    };
    for (rate, verdict) in [(0.9e9, Change::Slower), (1e9, Change::Same), (1.1e9, Change::Faster)] {
        let found = compare(&predicted(1e9), &predicted(rate), 0.05);
        assert!(found.method.starts_with("both are predicted"), "{}", found.method);
        let case = &found.cases[0];
        assert_eq!((case.verdict, case.interval, case.chance), (verdict, None, None));
        assert!((case.ratio.unwrap() - rate / 1e9).abs() < 1e-9);
        assert!(!found.has_regressed && !case.has_regressed);
    }
    // Two that are equal are the same result, found twice.
    let (one, other) = (predicted(1e9), predicted(1e9));
    assert_eq!(
        compare(&one, &one, 0.05).cases[0].reasons,
        [Incomparable::Twice { run: WhichRun::After }]
    );
    let turns = [(one.clone(), other.clone()), (one.clone(), other.clone())];
    assert_eq!(compared(&turns, 0.05).cases[0].verdict, Change::Same);
    let again = compare_turns((&one, &other), &[(&turns[0].0, &other)], 0.05);
    assert_eq!(again.cases[0].reasons, [Incomparable::Twice { run: WhichRun::After }]);
    // What was measured has a test of its own, and says nothing beside a prediction.
    let measured = record(&[("1M", vec![1e9; 3])]);
    let mixed = compare(&measured, &predicted(0.9e9), 0.05);
    assert_eq!(mixed.cases[0].verdict, Change::NotComparable);
}

#[test]
fn a_comparison_survives_being_written() {
    let before = record(&[("1M", vec![1e9, 1.01e9, 0.99e9]), ("2M", vec![1e9])]);
    let comparison = compare(&before, &before, 0.05);
    let record = CompareRecord::from(comparison);
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.starts_with(r#"{"schema":"peerlane.compare/1""#));
    assert_eq!(serde_json::from_str::<CompareRecord>(&text).unwrap(), record);
}
