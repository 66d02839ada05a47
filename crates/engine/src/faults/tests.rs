//! The short form of the suite; the example `faults` is the long one.

use serde_json::Value;

use super::life::guarded;
use super::*;

/// Copies of each kind: some ten seconds in a debug build.
const SEEDS: u64 = 30;

#[test]
fn faulted_copies_complete_or_explain() {
    let mut tally = FaultTally::default();
    let cases = (0..SEEDS).flat_map(|seed| FaultKind::ALL.map(|kind| (kind, seed)));
    for (kind, seed, outcome) in run_batch(cases.collect(), 1) {
        let outcome = outcome.unwrap_or_else(|untrue| {
            panic!(
                "{untrue}\nreplay: cargo run --release -p peerlane-engine --features simulation \
                 --example faults -- --runs 1 --seed {seed} --fault {}",
                kind.name()
            )
        });
        tally.add(kind, outcome);
    }
    assert_eq!(tally.cases(), SEEDS * FaultKind::ALL.len() as u64);
    assert_each_fault_strikes(&tally);
}

/// A suite whose faults never strike would pass with any engine.
fn assert_each_fault_strikes(tally: &FaultTally) {
    for (kind, ending) in [
        (FaultKind::None, Ending::Peer),
        (FaultKind::Difficult, Ending::Peer),
        (FaultKind::ReadErrorOnce, Ending::Failed),
        (FaultKind::ReadErrorStays, Ending::Failed),
        (FaultKind::WriteErrorOnce, Ending::Failed),
        (FaultKind::WriteErrorStays, Ending::Failed),
        (FaultKind::FlushError, Ending::Failed),
        (FaultKind::FlushErrorOnce, Ending::Failed),
        (FaultKind::ReadsLost, Ending::FellBack),
        (FaultKind::WritesLost, Ending::FellBack),
        (FaultKind::WholeWritesLost, Ending::FellBack),
        (FaultKind::LostLater, Ending::Differs),
        (FaultKind::SectorLost, Ending::Differs),
        (FaultKind::RouteRefused, Ending::FellBack),
        (FaultKind::SourceGone, Ending::Failed),
        (FaultKind::TargetGone, Ending::Failed),
        (FaultKind::MemoryGone, Ending::FellBack),
        (FaultKind::ReadStuck, Ending::Stuck),
        (FaultKind::WriteStuck, Ending::Stuck),
        (FaultKind::FlushStuck, Ending::Stuck),
        (FaultKind::TargetFull, Ending::Failed),
        (FaultKind::SourceShrinks, Ending::Failed),
        (FaultKind::PowerCut, Ending::PowerLost),
        (FaultKind::PowerCutAtSave, Ending::PowerLost),
        (FaultKind::Killed, Ending::Failed),
        (FaultKind::Stopped, Ending::Stopped),
        (FaultKind::ZeroRefused, Ending::Peer),
        (FaultKind::JournalFull, Ending::Stopped),
        (FaultKind::JournalDamaged, Ending::Stopped),
        (FaultKind::Exchanged, Ending::Stopped),
        (FaultKind::OptionsChanged, Ending::Stopped),
    ] {
        let count = tally.count(kind, ending);
        assert!(count > SEEDS / 10, "{kind:?} ends as {ending:?} {count} times only");
    }
    assert!(tally.resumed() > SEEDS, "{} runs went on by a journal", tally.resumed());
}

#[test]
fn page_has_questions_and_kinds_of_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability/simulated-drives.json");
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let page = read(&std::fs::read_to_string(path).unwrap());
    let code = read(&results(&FaultTally::default(), ""));
    assert_eq!((&page["what"], &page["tables"]), (&code["what"], &code["tables"]));
    let names: Vec<_> = page["cases"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, FaultKind::ALL.map(FaultKind::words));
}

#[test]
fn panic_is_finding_with_seed() {
    let untrue = guarded(FaultKind::Killed, 5, |run| {
        run.set(2);
        panic!("no {}", "end")
    })
    .unwrap_err();
    assert_eq!(untrue.to_string(), "seed 5, fault killed, run 2: panic: no end");
}

#[test]
fn equal_seeds_give_equal_runs() {
    for kind in FaultKind::ALL {
        assert_eq!(run(kind, 7), run(kind, 7), "{kind:?}");
    }
}

#[test]
fn fault_of_one_target_spares_the_others() {
    for kind in [FaultKind::WriteErrorOnce, FaultKind::FlushError, FaultKind::TargetFull] {
        let outcomes: Vec<_> = (3..64).step_by(4).map(|seed| run(kind, seed).unwrap()).collect();
        let failed = outcomes.iter().filter(|outcome| outcome.first == Ending::Failed);
        assert!(failed.clone().count() > 4, "{kind:?} fails {} times only", failed.count());
        assert!(failed.clone().all(|outcome| outcome.complete > 0), "{kind:?}: {outcomes:?}");
    }
}
