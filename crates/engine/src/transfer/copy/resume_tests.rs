//! Copies of real files that stop and go on.

mod holes;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use peerlane_results::{Asked, CompletedCopy, ResumedWithout, Warning};
use peerlane_units::{Bytes, Nanos};

use super::tests::{
    Saboteur, Stopper, asked, bare_machine, content, folder, names, planned, source, unfinished,
};
use super::{CopyError, CopyOptions, Sparse, Start, Tools, copy};
use crate::io::clock::MonotonicClock;
use crate::io::journal::difference::CopyOption;
use crate::io::journal::{Cadence, JournalDifference, Role, Store};
use crate::io::watch::Watch;
use crate::testing::Loop;

const LENGTH: u64 = (4 << 20) + 1234;

/// A folder with a source and the name of a target.
struct ResumeBench {
    folder: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
    options: CopyOptions,
}

fn bench() -> ResumeBench {
    let folder = folder();
    let source = source(folder.path(), LENGTH);
    let target = folder.path().join("target");
    ResumeBench { folder, source, target, options: CopyOptions::default() }
}

impl ResumeBench {
    fn asked(&self) -> Asked {
        Asked { depth: 2, ..asked(&self.source, &self.target) }
    }

    fn run(&self, asked: &Asked, watch: &mut dyn Watch) -> Result<CompletedCopy, CopyError> {
        let clock = MonotonicClock::start();
        let options = self.options.clone();
        let deadline = Nanos::seconds(60);
        let mut tools = Tools { clock: &clock, watch, seed: 7, deadline, options };
        copy(&bare_machine(), &planned(asked), &mut tools)
    }

    fn interrupt(&self) -> PathBuf {
        let error = self.run(&self.asked(), &mut Stopper(false)).unwrap_err();
        let CopyError::Interrupted { done, total, journal } = error else { panic!("{error:?}") };
        assert!(done > Bytes::ZERO && done < total, "{done} of {total}");
        assert!(!self.target.exists());
        journal.expect("there is a journal")
    }

    fn resume(&mut self, asked: &Asked) -> Result<CompletedCopy, CopyError> {
        self.options.start = Start::Resume;
        self.run(asked, &mut ())
    }

    fn differences(&mut self, asked: &Asked) -> Vec<JournalDifference> {
        let before = names(self.folder.path());
        let error = self.resume(asked).unwrap_err();
        assert_eq!(names(self.folder.path()), before, "nothing was changed");
        let CopyError::Changed { differences, .. } = error else { panic!("{error:?}") };
        differences
    }

    fn assert_copied(&self) {
        assert!(fs::read(&self.target).unwrap() == content(LENGTH), "content differs");
        assert_eq!(names(self.folder.path()), ["target"]);
    }
}

#[test]
fn an_interrupted_copy_goes_on_and_has_every_byte() {
    let mut bench = bench();
    let journal = bench.interrupt();
    assert_eq!(journal, bench.folder.path().join(".target.peerlane-journal"));
    let record = bench.resume(&bench.asked()).unwrap();
    assert!(record.content.before > Bytes::ZERO, "{:?}", record.content);
    assert_eq!(record.content.before.0 + record.content.data.0, LENGTH);
    assert_eq!(record.bytes_by_route.host, record.content.data);
    assert_eq!(record.verification.bytes, Bytes(LENGTH), "all of it is verified");
    bench.assert_copied();
}

/// Leaves the files of a copy that was killed before its first journal: `made`, and the lock that
/// names it.
fn leave(bench: &ResumeBench, made: &str) -> PathBuf {
    let folder = bench.folder.path();
    fs::write(folder.join(made), "part of it").unwrap();
    let lock = folder.join(".target.peerlane-journal.lock");
    fs::write(&lock, format!("peerlane 4194304\n{made}")).unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    folder.join(made)
}

#[test]
fn leftovers_of_killed_copy_are_removed() {
    let mut bench = bench();
    leave(&bench, ".target.peerlane-0123abcd");
    bench.run(&bench.asked(), &mut ()).unwrap();
    bench.assert_copied();
    fs::remove_file(&bench.target).unwrap();
    let left = leave(&bench, ".target.peerlane-0123abcd");
    bench.resume(&bench.asked()).unwrap();
    bench.assert_copied();
    assert!(!left.exists());
}

#[test]
fn lock_naming_other_file_removes_nothing() {
    let bench = bench();
    fs::write(bench.folder.path().join("mine"), "mine").unwrap();
    for other in [".other.peerlane-0123abcd", ".target.peerlane-0123abcde", "target.txt"] {
        let left = leave(&bench, other);
        bench.run(&bench.asked(), &mut ()).unwrap();
        assert!(left.exists(), "{other}");
        fs::remove_file(left).unwrap();
        fs::remove_file(&bench.target).unwrap();
    }
    let link = leave(&bench, ".target.peerlane-0123abcd");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("mine", &link).unwrap();
    bench.run(&bench.asked(), &mut ()).unwrap();
    assert!(fs::symlink_metadata(&link).is_ok(), "a link is nobody's unfinished file");
    fs::remove_file(&link).unwrap();
    fs::remove_file(&bench.target).unwrap();
    fs::remove_file(bench.folder.path().join("mine")).unwrap();

    let mut bench = bench;
    bench.interrupt();
    let partial = unfinished(bench.folder.path());
    let name = partial.file_name().unwrap().to_str().unwrap().to_owned();
    let content = fs::read(&partial).unwrap();
    leave(&bench, &name);
    fs::write(&partial, content).unwrap();
    let record = bench.resume(&bench.asked()).unwrap();
    assert!(record.content.before > Bytes::ZERO, "a journal names it");
    bench.assert_copied();
}

#[test]
fn copy_resumes_repeatedly_with_other_sizes() {
    let mut bench = bench();
    bench.interrupt();
    bench.options.start = Start::Resume;
    for (block, depth) in [(4096, 1), (65536, 3), (12288, 5), (131_072, 1)] {
        let asked = Asked { block: Bytes(block), depth, ..bench.asked() };
        match bench.run(&asked, &mut Stopper(false)) {
            Err(CopyError::Interrupted { journal: Some(_), .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    bench.resume(&bench.asked()).unwrap();
    bench.assert_copied();
}

#[test]
fn short_copy_makes_no_journal() {
    let mut bench = bench();
    let hour = Nanos::seconds(3600);
    bench.options.cadence = Cadence { first: hour, every: hour, ..bench.options.cadence };
    let folder = bench.folder.path().to_owned();
    let mut seen = Vec::new();
    let deed = || seen = names(&folder);
    bench.run(&bench.asked(), &mut Saboteur { phases_before: 2, deed }).unwrap();
    assert!(!seen.contains(&".target.peerlane-journal".to_owned()), "{seen:?}");
    bench.assert_copied();
}

#[test]
fn long_copy_keeps_journal_until_named() {
    let mut bench = bench();
    bench.options.cadence = Cadence {
        first: Nanos::seconds(3600),
        every: Nanos::seconds(3600),
        bytes: Bytes::kib(256),
    };
    let place = bench.folder.path().join(".target.peerlane-journal");
    let mut found = None;
    let deed = || found = Some(Store::read(&place).unwrap());
    bench.run(&bench.asked(), &mut Saboteur { phases_before: 2, deed }).unwrap();
    assert!(found.unwrap().is_complete(), "at verification all is done and flushed");
    bench.assert_copied();
}

#[test]
fn a_source_that_changed_is_named() {
    let mut bench = bench();
    bench.interrupt();
    let file = File::options().write(true).open(&bench.source).unwrap();
    file.write_all_at(b"changed", 100).unwrap();
    // The clock of the file system may not have moved since the source was made.
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(1)).unwrap();
    let found = bench.differences(&bench.asked());
    assert!(matches!(found[..], [JournalDifference::SourceModified { .. }]), "{found:?}");
    file.set_len(LENGTH + 1).unwrap();
    let found = bench.differences(&bench.asked());
    assert!(
        found.iter().any(|one| matches!(one, JournalDifference::SourceSize { .. })),
        "{found:?}"
    );
}

#[test]
fn exchanged_source_or_target_is_named() {
    let mut bench = bench();
    bench.interrupt();
    let other = bench.folder.path().join("source.new");
    fs::copy(&bench.source, &other).unwrap();
    let first = bench.folder.path().join("source.old");
    fs::rename(&bench.source, &first).unwrap();
    fs::rename(&other, &bench.source).unwrap();
    let is_other = |found: &[JournalDifference], wanted: Role| {
        found
            .iter()
            .any(|one| matches!(one, JournalDifference::OtherFile { role, .. } if *role == wanted))
    };
    let found = bench.differences(&bench.asked());
    assert!(is_other(&found, Role::Source), "{found:?}");
    fs::rename(&first, &bench.source).unwrap();

    let partial = unfinished(bench.folder.path());
    let kept = bench.folder.path().join("kept");
    fs::rename(&partial, &kept).unwrap();
    fs::copy(&kept, &partial).unwrap();
    let found = bench.differences(&bench.asked());
    assert!(is_other(&found, Role::Target), "{found:?}");
}

#[test]
fn a_target_that_was_cut_is_named() {
    let mut bench = bench();
    bench.interrupt();
    File::options().write(true).open(unfinished(bench.folder.path())).unwrap().set_len(1).unwrap();
    let found = bench.differences(&bench.asked());
    assert!(matches!(found[..], [JournalDifference::TargetCut { .. }]), "{found:?}");
}

#[test]
fn other_options_are_named() {
    let mut bench = bench();
    bench.interrupt();
    let part = Asked { length: Some(Bytes::mib(1)), ..bench.asked() };
    let found = bench.differences(&part);
    let [JournalDifference::OptionChanged { option, .. }] = found[..] else { panic!("{found:?}") };
    assert_eq!(option, CopyOption::Length);
    let part = Asked { offset: Bytes::mib(1), length: Some(Bytes::mib(1)), ..bench.asked() };
    assert_eq!(bench.differences(&part).len(), 2);
}

#[test]
fn resume_without_journal_begins() {
    let mut bench = bench();
    let journal = bench.folder.path().join("mine");
    bench.options.journal = Some(journal.clone());
    let record = bench.resume(&bench.asked()).unwrap();
    bench.assert_copied();
    let (journal, outcome) = (journal.display().to_string(), ResumedWithout::Begun);
    assert!(record.warnings.contains(&Warning::NothingToResume { journal, outcome }));
}

#[test]
fn resume_of_equal_target_writes_nothing() {
    let mut bench = bench();
    bench.run(&bench.asked(), &mut ()).unwrap();
    let inode = fs::metadata(&bench.target).unwrap().ino();
    let record = bench.resume(&bench.asked()).unwrap();
    assert_eq!((record.content.data, record.content.before), (Bytes::ZERO, Bytes(LENGTH)));
    let is_told = |one: &Warning| {
        matches!(one, Warning::NothingToResume { outcome: ResumedWithout::Equal, .. })
    };
    assert!(record.warnings.iter().any(is_told), "{:?}", record.warnings);
    assert_eq!(fs::metadata(&bench.target).unwrap().ino(), inode);
    assert_eq!(names(bench.folder.path()), ["target"]);
}

#[test]
fn resume_of_other_target_is_refused() {
    let mut bench = bench();
    let mut other = content(LENGTH);
    *other.last_mut().unwrap() ^= 1;
    for held in [other, content(LENGTH - 1), content(LENGTH + 1), Vec::new()] {
        fs::write(&bench.target, &held).unwrap();
        let error = bench.resume(&bench.asked()).unwrap_err();
        assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
        assert!(fs::read(&bench.target).unwrap() == held);
        assert_eq!(names(bench.folder.path()), ["target"]);
    }
}

#[test]
fn resume_keeps_permission_to_replace_a_file() {
    let mut bench = bench();
    fs::write(&bench.target, "old").unwrap();
    let forced = Asked { force: true, ..bench.asked() };
    let error = bench.run(&forced, &mut Stopper(false)).unwrap_err();
    assert!(matches!(error, CopyError::Interrupted { journal: Some(_), .. }), "{error:?}");
    fs::write(&bench.target, "new").unwrap();
    let error = bench.resume(&bench.asked()).unwrap_err();
    assert!(matches!(error, CopyError::Refused(_)), "another file: {error:?}");
    bench.options.start = Start::Anew;
    let error = bench.run(&forced, &mut Stopper(false)).unwrap_err();
    assert!(matches!(error, CopyError::Interrupted { journal: Some(_), .. }), "{error:?}");
    bench.resume(&bench.asked()).unwrap();
    bench.assert_copied();
}

#[test]
fn an_unfinished_copy_is_begun_anew_only_by_force() {
    let bench = bench();
    bench.interrupt();
    let before = names(bench.folder.path());
    let error = bench.run(&bench.asked(), &mut ()).unwrap_err();
    let CopyError::Refused(refusals) = &error else { panic!("{error:?}") };
    assert!(refusals[0].forceable && error.to_string().contains("not finished"), "{error}");
    assert_eq!(names(bench.folder.path()), before);
    let record = bench.run(&Asked { force: true, ..bench.asked() }, &mut ()).unwrap();
    assert_eq!(record.content.data, Bytes(LENGTH));
    bench.assert_copied();
}

#[test]
fn unwritable_journal_ends_copy_before_start() {
    let mut bench = bench();
    let blocked = bench.source.join("journal");
    bench.options.journal = Some(blocked.clone());
    let error = bench.run(&bench.asked(), &mut ()).unwrap_err();
    assert!(matches!(error, CopyError::Journal(_)), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains(bench.source.to_str().unwrap()), "{cause}");
    assert!(error.hint().unwrap().contains("--journal"));
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

#[test]
fn a_journal_elsewhere_is_used_and_removed() {
    let mut bench = bench();
    let place = bench.folder.path().join("state/this.json");
    bench.options.journal = Some(place.clone());
    let refused = bench.run(&bench.asked(), &mut Stopper(false)).unwrap_err();
    assert!(matches!(refused, CopyError::Refused(_)), "no directory is made: {refused:?}");
    fs::create_dir(place.parent().unwrap()).unwrap();
    assert_eq!(bench.interrupt(), place);
    bench.resume(&bench.asked()).unwrap();
    assert!(!place.exists());
}

#[test]
fn force_keeps_journal_of_other_target() {
    let mut bench = bench();
    let place = bench.folder.path().join("journal");
    bench.options.journal = Some(place);
    bench.interrupt();
    let before = names(bench.folder.path());
    let elsewhere = asked(&bench.source, &bench.folder.path().join("elsewhere"));
    let error = bench.run(&Asked { force: true, ..elsewhere }, &mut ()).unwrap_err();
    assert!(error.to_string().contains("is the journal of an unfinished copy onto"), "{error}");
    assert!(error.hint().unwrap().contains("another file with `--journal`"));
    assert_eq!(names(bench.folder.path()), before);
    bench.run(&Asked { force: true, ..bench.asked() }, &mut ()).unwrap();
    bench.assert_copied();
}

/// Stops at the start of a phase, counted from zero.
struct StopAtPhase {
    phases_before: u32,
    stop: bool,
}

impl Watch for StopAtPhase {
    fn phase(&mut self, _phase: crate::io::watch::Phase) {
        self.stop |= self.phases_before == 0;
        self.phases_before = self.phases_before.saturating_sub(1);
    }

    fn stop_requested(&self) -> bool {
        self.stop
    }
}

#[test]
fn interrupted_verification_resumes_without_moving() {
    let mut bench = bench();
    let mut watch = StopAtPhase { phases_before: 2, stop: false };
    let error = bench.run(&bench.asked(), &mut watch).unwrap_err();
    let CopyError::Interrupted { done, journal: Some(_), .. } = error else { panic!("{error:?}") };
    assert_eq!(done, Bytes(LENGTH));
    let record = bench.resume(&bench.asked()).unwrap();
    assert_eq!((record.content.data, record.content.before), (Bytes::ZERO, Bytes(LENGTH)));
    bench.assert_copied();
}

#[test]
fn crash_after_naming_is_recognised() {
    let mut bench = bench();
    let mut watch = StopAtPhase { phases_before: 2, stop: false };
    bench.run(&bench.asked(), &mut watch).unwrap_err();
    let partial = unfinished(bench.folder.path());
    File::options().write(true).open(&partial).unwrap().set_len(LENGTH).unwrap();
    fs::rename(partial, &bench.target).unwrap();
    let inode = fs::metadata(&bench.target).unwrap().ino();
    let record = bench.resume(&bench.asked()).unwrap();
    assert_eq!(record.verification.bytes, Bytes(LENGTH));
    assert_eq!(fs::metadata(&bench.target).unwrap().ino(), inode);
    bench.assert_copied();
}

#[test]
fn content_that_differs_leaves_no_journal_to_trust() {
    let mut bench = bench();
    bench.options.cadence = Cadence { first: Nanos(0), every: Nanos(0), bytes: Bytes(1) };
    let path = bench.folder.path().to_owned();
    let deed = || {
        let file = File::options().write(true).open(unfinished(&path)).unwrap();
        file.write_all_at(&[!content(LENGTH)[70_000]], 70_000).unwrap();
        file.sync_all().unwrap();
    };
    let error = bench.run(&bench.asked(), &mut Saboteur { phases_before: 2, deed }).unwrap_err();
    assert!(matches!(error, CopyError::Differs { .. }), "{error:?}");
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

#[test]
fn source_written_during_copy_fails() {
    let bench = bench();
    let deed = || {
        let file = File::options().write(true).open(&bench.source).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
        file.set_modified(later).unwrap();
    };
    let error = bench.run(&bench.asked(), &mut Saboteur { phases_before: 1, deed }).unwrap_err();
    assert!(matches!(error, CopyError::SourceChanged { .. }), "{error:?}");
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

#[test]
fn failed_copy_keeps_progress_names_stuck() {
    let mut bench = bench();
    let done = bench.interrupt();
    bench.options.start = Start::Resume;
    let clock = MonotonicClock::start();
    let options = bench.options.clone();
    // No device answers within a nanosecond.
    let mut tools = Tools { clock: &clock, watch: &mut (), seed: 7, deadline: Nanos(1), options };
    let error = copy(&bare_machine(), &planned(&bench.asked()), &mut tools).unwrap_err();
    assert_eq!(error.journal(), Some(done.as_path()), "{error:?}");
    let CopyError::Stuck { drive, source, .. } = error.cause() else { panic!("{error:?}") };
    let ends = [&bench.source, &bench.target].map(|path| path.to_str().unwrap().to_owned());
    assert!(ends.iter().any(|end| drive.contains(end)), "{drive}");
    assert!(source.age >= Nanos(1), "{source}");
    bench.resume(&bench.asked()).unwrap();
    bench.assert_copied();
}
