//! Copies of a real file to several others, by the running kernel's io_uring.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use peerlane_results::{Asked, Plan, VerifyMode};
use peerlane_units::Nanos;

use super::*;
use crate::io::clock::MonotonicClock;
use crate::io::journal::Cadence;
use crate::io::watch::{Phase, Watch};
use crate::plan::plan_fan_out;
use crate::transfer::copy::tests::{Stopper, asked, bare_machine, content, folder, names, source};
use crate::transfer::copy::{CopyOptions, Start};

const LENGTH: u64 = (4 << 20) + 1234;

struct SeveralBench {
    folder: tempfile::TempDir,
    source: PathBuf,
    options: CopyOptions,
}

fn bench() -> SeveralBench {
    let folder = folder();
    let source = source(folder.path(), LENGTH);
    SeveralBench { folder, source, options: CopyOptions::default() }
}

impl SeveralBench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn asked(&self, names: &[&str]) -> Vec<Asked> {
        let one = |name: &&str| Asked { depth: 2, ..asked(&self.source, &self.path(name)) };
        names.iter().map(one).collect()
    }

    fn plan(&self, names: &[&str]) -> Vec<Plan> {
        plan_fan_out(
            &bare_machine(),
            &self.asked(names),
            &crate::endpoints::guard::Surveyor::for_tests(),
        )
        .unwrap()
    }

    fn copy(&self, plan: &[Plan], watch: &mut dyn Watch) -> Result<FanOut, CopyError> {
        let clock = MonotonicClock::start();
        let (options, deadline) = (self.options.clone(), Nanos::seconds(60));
        let mut tools = Tools { clock: &clock, watch, seed: 7, deadline, options };
        copy_fan_out(&bare_machine(), plan, &mut tools)
    }

    fn run(&self, names: &[&str]) -> Result<FanOut, CopyError> {
        self.copy(&self.plan(names), &mut ())
    }

    fn is_equal(&self, name: &str) -> bool {
        fs::read(self.path(name)).unwrap() == fs::read(&self.source).unwrap()
    }
}

#[test]
fn a_plan_has_1_to_16_targets() {
    let bench = bench();
    for count in [0, 17] {
        let mut plan = bench.plan(&["a"]);
        plan = vec![plan[0].clone(); count];
        let error = bench.copy(&plan, &mut ()).unwrap_err();
        let said = format!("cannot copy to {count} targets at once: there may be 1 to 16");
        assert!(crate::io::failure::error_in_words(&error).ends_with(&said), "{error:?}");
    }
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

#[test]
fn every_target_is_a_copy_of_one_read() {
    let bench = bench();
    for (length, targets) in [(LENGTH, 3), (0, 2), (1, 2), (4096, 4), (1 << 20, 1)] {
        fs::write(&bench.source, content(length)).unwrap();
        let names: Vec<&str> = ["a", "b", "c", "d"][..targets].to_vec();
        let done = bench.run(&names).unwrap();
        assert_eq!(done.read, Bytes(length));
        for (name, outcome) in names.iter().zip(&done.targets) {
            let record = outcome.as_ref().unwrap();
            assert!(bench.is_equal(name), "{name} of {length}");
            assert_eq!((record.bytes, record.content.data), (Bytes(length), Bytes(length)));
            assert_eq!(record.verification.bytes, Bytes(length));
            assert_eq!(record.target.path, bench.path(name).to_str().unwrap());
            fs::remove_file(bench.path(name)).unwrap();
        }
        assert_eq!(super::tests::names(bench.folder.path()), Vec::<String>::new());
    }
}

#[test]
fn the_same_target_by_another_name_is_refused() {
    let bench = bench();
    fs::write(bench.path("b"), "old").unwrap();
    fs::hard_link(bench.path("b"), bench.path("link")).unwrap();
    std::os::unix::fs::symlink(bench.path("a"), bench.path("soft")).unwrap();
    for (targets, reason) in [
        (["a", "a"], "are one file"),
        (["a", "./a"], "are one file"),
        (["b", "link"], "are one file"),
        (["a", "source"], "are one file"),
    ] {
        let mut asked = bench.asked(&targets);
        for one in &mut asked {
            one.force = true;
        }
        let plan =
            plan_fan_out(&bare_machine(), &asked, &crate::endpoints::guard::Surveyor::for_tests())
                .unwrap();
        let refusals = &plan[1].refusals;
        assert!(refusals.iter().any(|one| one.reason.contains(reason)), "{targets:?} {refusals:?}");
        assert!(matches!(bench.copy(&plan, &mut ()), Err(CopyError::Refused(_))));
    }
    assert_eq!(fs::read(bench.path("b")).unwrap(), b"old");
}

#[test]
fn too_many_targets_are_refused() {
    let bench = bench();
    let many: Vec<String> = (0..17).map(|number| format!("t{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = plan_fan_out(
        &bare_machine(),
        &bench.asked(&many),
        &crate::endpoints::guard::Surveyor::for_tests(),
    )
    .unwrap_err();
    assert_eq!(refused.to_string(), "cannot copy to 17 targets at once: there may be 1 to 16");
}

#[test]
fn one_journal_is_not_for_several_targets() {
    let mut bench = bench();
    bench.options.journal = Some(bench.path("journal"));
    let error = bench.run(&["a", "b"]).unwrap_err();
    assert!(error.to_string().contains("the journal of several targets"), "{error}");
}

/// Damages an unfinished target before it is verified.
struct TargetDamage(PathBuf, &'static str);

impl Watch for TargetDamage {
    fn phase(&mut self, phase: Phase) {
        if phase != Phase::Verify {
            return;
        }
        let begin = format!(".{}.peerlane-", self.1);
        let name = names(&self.0).into_iter().find(|name| {
            name.starts_with(&begin) && !name.ends_with(".lock") && !name.ends_with("journal")
        });
        let path = self.0.join(name.expect("an unfinished file"));
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"damage", 70_000).unwrap();
    }
}

#[test]
fn differing_target_alone_gets_no_name() {
    let bench = bench();
    let plan = bench.plan(&["a", "b", "c"]);
    let done = bench.copy(&plan, &mut TargetDamage(bench.folder.path().to_owned(), "b")).unwrap();
    assert!(matches!(&done.targets[1], Err(CopyError::Differs { offset: 70_000, .. })));
    assert!(done.targets[0].is_ok() && done.targets[2].is_ok());
    assert!(bench.is_equal("a") && bench.is_equal("c"));
    assert_eq!(names(bench.folder.path()), ["a", "c"], "nothing is left of b");
}

#[test]
fn an_interrupted_copy_goes_on_to_every_target() {
    let mut bench = bench();
    bench.options.cadence = Cadence { first: Nanos(1), every: Nanos(1), bytes: Bytes(1) };
    let plan = bench.plan(&["a", "b"]);
    let done = bench.copy(&plan, &mut Stopper(false)).unwrap();
    for outcome in &done.targets {
        let Err(CopyError::Interrupted { done, total, journal }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(*done > Bytes::ZERO && done < total && journal.is_some());
    }
    // One of them goes on alone and further than the other.
    bench.options.start = Start::Resume;
    let alone = bench.run(&["a"]).unwrap();
    assert!(alone.targets[0].is_ok() && bench.is_equal("a"));
    let records = bench.run(&["a", "b"]).unwrap().targets;
    let [Ok(complete), Ok(resumed)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(complete.content.data, Bytes::ZERO, "it was complete");
    assert!(resumed.content.before > Bytes::ZERO);
    assert!(bench.is_equal("b"));
    assert_eq!(names(bench.folder.path()), ["a", "b"]);
}

#[test]
fn target_content_is_not_written_again() {
    let mut bench = bench();
    bench.options.cadence = Cadence { first: Nanos(1), every: Nanos(1), bytes: Bytes(1) };
    // Two copies that were interrupted at different places go on as one.
    for (name, stop) in [("a", 1 << 20), ("b", 3 << 20)] {
        let plan = bench.plan(&[name]);
        let outcome = bench.copy(&plan, &mut StopAt(stop, 0)).unwrap().targets.remove(0);
        assert!(matches!(outcome, Err(CopyError::Interrupted { .. })), "{outcome:?}");
    }
    bench.options.start = Start::Resume;
    let done = bench.run(&["a", "b"]).unwrap();
    let records: Vec<_> = done.targets.into_iter().map(Result::unwrap).collect();
    for record in &records {
        assert_eq!(record.content.data.0 + record.content.before.0, LENGTH);
    }
    assert!(records[0].content.data > records[1].content.data, "a had less than b");
    assert_eq!(done.read, records[0].content.data, "read once, for the one that had least");
    assert!(bench.is_equal("a") && bench.is_equal("b"));
}

/// Stops once so much is written.
struct StopAt(u64, u64);

impl Watch for StopAt {
    fn progress(&mut self, done: Bytes, _total: Bytes) {
        self.1 = done.0;
    }

    fn stop_requested(&self) -> bool {
        self.1 >= self.0
    }
}

#[test]
fn holes_stay_holes_at_every_target() {
    let bench = bench();
    let file = File::create(&bench.source).unwrap();
    file.set_len(LENGTH).unwrap();
    file.write_all_at(&content(100_000), 1 << 20).unwrap();
    file.sync_all().unwrap();
    let done = bench.run(&["a", "b"]).unwrap();
    for (name, outcome) in ["a", "b"].iter().zip(done.targets) {
        let record = outcome.unwrap();
        assert!(bench.is_equal(name));
        assert_eq!(record.content.data.0 + record.content.holes.0, LENGTH);
        let held = fs::metadata(bench.path(name)).unwrap().blocks() * 512;
        assert!(held < 1 << 20, "{name} holds {held} bytes");
    }
    assert!(done.read < Bytes(1 << 20));
}

#[test]
fn a_source_that_changes_is_a_copy_nowhere() {
    let bench = bench();
    let mut asked = bench.asked(&["a", "b"]);
    for one in &mut asked {
        one.verify = VerifyMode::None;
    }
    let plan =
        plan_fan_out(&bare_machine(), &asked, &crate::endpoints::guard::Surveyor::for_tests())
            .unwrap();
    let done = bench.copy(&plan, &mut Touch(bench.source.clone())).unwrap();
    for outcome in &done.targets {
        assert!(matches!(outcome, Err(CopyError::SourceChanged { .. })), "{outcome:?}");
    }
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

/// Changes the source when all was written.
struct Touch(PathBuf);

impl Watch for Touch {
    fn phase(&mut self, phase: Phase) {
        if phase == Phase::Verify {
            let file = File::options().write(true).open(Path::new(&self.0)).unwrap();
            file.write_all_at(b"other", 0).unwrap();
            // The clock of the file system may not have moved since the source was made.
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
            file.set_modified(later).unwrap();
        }
    }
}
