//! The short form of the suite; the example `faults` is the long one.

use super::*;

/// Copies of each kind: some ten seconds in a debug build.
const SEEDS: u64 = 60;

#[test]
fn copies_with_faults_at_any_operation_end_complete_or_say_why() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        for kind in Kind::ALL {
            let outcome = run(kind, seed).unwrap_or_else(|untrue| {
                panic!(
                    "{untrue}\nreplay: cargo run --release -p peerlane-engine --features simulation \
                     --example faults -- --runs 1 --seed {seed} --fault {}",
                    kind.name()
                )
            });
            tally.add(kind, outcome);
        }
    }
    assert_eq!(tally.cases(), SEEDS * Kind::ALL.len() as u64);
    assert_each_fault_strikes(&tally);
}

/// A suite whose faults never strike would pass whatever the engine does.
fn assert_each_fault_strikes(tally: &Tally) {
    for (kind, ending) in [
        (Kind::None, Ending::Peer),
        (Kind::Difficult, Ending::Peer),
        (Kind::ReadErrorOnce, Ending::Failed),
        (Kind::ReadErrorStays, Ending::Failed),
        (Kind::WriteErrorOnce, Ending::Failed),
        (Kind::WriteErrorStays, Ending::Failed),
        (Kind::FlushError, Ending::Failed),
        (Kind::ReadsLost, Ending::FellBack),
        (Kind::WritesLost, Ending::FellBack),
        (Kind::WholeWritesLost, Ending::FellBack),
        (Kind::LostLater, Ending::Differs),
        (Kind::RouteRefused, Ending::FellBack),
        (Kind::SourceGone, Ending::Failed),
        (Kind::TargetGone, Ending::Failed),
        (Kind::MemoryGone, Ending::FellBack),
        (Kind::ReadStuck, Ending::Stuck),
        (Kind::WriteStuck, Ending::Stuck),
        (Kind::FlushStuck, Ending::Stuck),
        (Kind::TargetFull, Ending::Failed),
        (Kind::SourceShrinks, Ending::Failed),
        (Kind::PowerCut, Ending::PowerLost),
        (Kind::PowerCutAtSave, Ending::PowerLost),
        (Kind::Killed, Ending::Failed),
        (Kind::Stopped, Ending::Stopped),
        (Kind::ZeroRefused, Ending::Peer),
        (Kind::JournalFull, Ending::Stopped),
        (Kind::JournalDamaged, Ending::Stopped),
        (Kind::Exchanged, Ending::Stopped),
    ] {
        let count = tally.count(kind, ending);
        assert!(count > SEEDS / 10, "{kind:?} ends as {ending:?} {count} times only");
    }
    assert!(tally.resumed() > SEEDS, "{} runs went on by a journal", tally.resumed());
}

#[test]
fn equal_seeds_give_equal_runs() {
    for kind in Kind::ALL {
        assert_eq!(run(kind, 7), run(kind, 7), "{kind:?}");
    }
}

#[test]
fn fault_of_one_target_spares_the_others() {
    for kind in [Kind::WriteErrorOnce, Kind::FlushError, Kind::TargetFull] {
        let outcomes: Vec<_> = (3..64).step_by(4).map(|seed| run(kind, seed).unwrap()).collect();
        let failed = outcomes.iter().filter(|outcome| outcome.first == Ending::Failed);
        assert!(failed.clone().count() > 4, "{kind:?} fails {} times only", failed.count());
        assert!(failed.clone().all(|outcome| outcome.complete > 0), "{kind:?}: {outcomes:?}");
    }
}
