//! Copies between files of a real file system, by the running kernel's io_uring.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, Origin};
use peerlane_results::{Asked, CompletedCopy, Plan, Route, RouteChoice, VerifyMode, Warning};
use peerlane_units::{Bytes, Nanos};
use rustix::fs::IFlags;

use super::{CopyError, CopyOptions, Tools, copy};
pub(crate) use crate::faults::bare_machine;
use crate::io::clock::MonotonicClock;
use crate::io::watch::{Phase, Watch};
use crate::plan;
use crate::testing::skip;

/// A folder on the file system of the build, which unlike `/tmp` is rarely one in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

pub(crate) fn content(length: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(usize::try_from(length).unwrap());
    bytes
}

pub(super) fn source(folder: &Path, length: u64) -> PathBuf {
    let path = folder.join("source");
    fs::write(&path, content(length)).unwrap();
    path
}

pub(super) fn asked(source: &Path, target: &Path) -> Asked {
    Asked {
        route: RouteChoice::Host,
        block: Bytes::kib(64),
        depth: 4,
        verify: VerifyMode::Full,
        ..Asked::between(source.to_str().unwrap(), target.to_str().unwrap())
    }
}

pub(super) fn planned(asked: &Asked) -> Plan {
    plan(&bare_machine(), asked, &crate::endpoints::guard::Surveyor::for_tests()).unwrap()
}

pub(super) fn copy_watched(plan: &Plan, watch: &mut dyn Watch) -> Result<CompletedCopy, CopyError> {
    copy_with(plan, CopyOptions::default(), watch)
}

pub(super) fn copy_with(
    plan: &Plan,
    options: CopyOptions,
    watch: &mut dyn Watch,
) -> Result<CompletedCopy, CopyError> {
    let clock = MonotonicClock::start();
    let mut tools = Tools { clock: &clock, watch, seed: 7, deadline: Nanos::seconds(60), options };
    copy(&bare_machine(), plan, &mut tools)
}

pub(super) fn run(asked: &Asked) -> Result<CompletedCopy, CopyError> {
    copy_watched(&planned(asked), &mut ())
}

/// Names in a folder besides the source.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "source")
        .collect();
    names.sort();
    names
}

/// The unfinished file in a folder.
pub(super) fn unfinished(folder: &Path) -> PathBuf {
    let name = names(folder).into_iter().find(|name| name.contains(".peerlane-")).unwrap();
    folder.join(name)
}

#[test]
fn files_of_any_length_arrive_whole() {
    let folder = folder();
    let target = folder.path().join("target");
    for length in [0, 1, 511, 512, 4095, 4096, 65536, 65537, 1_000_001, (1 << 20) + 512] {
        let source = source(folder.path(), length);
        let record = run(&asked(&source, &target)).unwrap();
        assert_eq!(fs::read(&target).unwrap(), content(length), "{length}");
        assert_eq!(record.bytes, Bytes(length));
        assert_eq!(record.bytes_by_route.host, Bytes(length));
        assert_eq!(record.verification.bytes, Bytes(length));
        assert_eq!(names(folder.path()), ["target"], "nothing is left beside it");
        assert_eq!(fs::read(&source).unwrap(), content(length), "the source is untouched");
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn file_part_is_copied_from_offset() {
    let folder = folder();
    let source = source(folder.path(), 300_000);
    let target = folder.path().join("target");
    let part =
        Asked { offset: Bytes(8192), length: Some(Bytes(70_001)), ..asked(&source, &target) };
    run(&part).unwrap();
    assert_eq!(fs::read(&target).unwrap(), content(300_000)[8192..8192 + 70_001]);
}

#[test]
fn a_small_ring_carries_a_long_copy() {
    let folder = folder();
    let source = source(folder.path(), 3_000_000);
    let target = folder.path().join("target");
    let asked = Asked { block: Bytes::kib(4), depth: 1, ..asked(&source, &target) };
    let record = run(&asked).unwrap();
    assert_eq!(record.shape.slots, 1);
    // On a busy machine the engine may find a read and its write both ended.
    assert_eq!(record.latency.read.count, 733);
    assert_eq!(record.latency.write.count, 733);
    assert!(
        record.first_done_ns <= record.last_done_ns && record.last_done_ns <= record.elapsed_ns
    );
    assert_eq!(fs::read(&target).unwrap(), content(3_000_000));
}

#[test]
fn existing_file_stops_unforced_copy() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    let error = run(&asked(&source, &target)).unwrap_err();
    assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--force")));
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn unreplaceable_file_is_refused_before_moving() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    let opened = File::open(&target).unwrap();
    for (flag, word) in [(IFlags::IMMUTABLE, "immutable"), (IFlags::APPEND, "append only")] {
        if let Err(errno) = rustix::fs::ioctl_setflags(&opened, flag) {
            skip("root", &format!("cannot make a file {word}: {errno}"));
            return;
        }
        let error = run(&Asked { force: true, ..asked(&source, &target) }).map(drop);
        rustix::fs::ioctl_setflags(&opened, IFlags::empty()).unwrap();
        let error = error.unwrap_err();
        assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(names(folder.path()), ["target"]);
    }
}

#[test]
fn file_appearing_after_plan_stops_copy() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    let plan = planned(&asked(&source, &target));
    fs::write(&target, "precious").unwrap();
    let error = copy_watched(&plan, &mut ()).unwrap_err();
    assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn source_growing_after_plan_stops_copy() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let plan = planned(&asked(&source, &folder.path().join("target")));
    fs::write(&source, content(6000)).unwrap();
    let error = copy_watched(&plan, &mut ()).unwrap_err();
    assert!(error.to_string().contains("not what it was"), "{error}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// Ends the copy when the first bytes are written.
pub(super) struct Stopper(pub(super) bool);

impl Watch for Stopper {
    fn progress(&mut self, _done: Bytes, _total: Bytes) {
        self.0 = true;
    }

    fn stop_requested(&self) -> bool {
        self.0
    }
}

#[test]
fn interrupted_copy_keeps_old_and_partial() {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    let asked = Asked { force: true, depth: 1, ..asked(&source, &target) };
    let error = copy_watched(&planned(&asked), &mut Stopper(false)).unwrap_err();
    let CopyError::Interrupted { done, total, .. } = error else { panic!("{error:?}") };
    assert!(done > Bytes::ZERO && done < total && total == Bytes(4 << 20), "{done} of {total}");
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    let left = names(folder.path());
    assert!(left[0].starts_with(".target.peerlane-") && left.len() == 3, "{left:?}");
    assert_eq!(left[1..], [".target.peerlane-journal", "target"]);
}

/// Does something to the files at the start of a phase, counted from zero.
pub(super) struct Saboteur<F: FnMut()> {
    pub(super) phases_before: u32,
    pub(super) deed: F,
}

impl<F: FnMut()> Watch for Saboteur<F> {
    fn phase(&mut self, _phase: Phase) {
        if self.phases_before == 0 {
            (self.deed)();
        }
        self.phases_before = self.phases_before.wrapping_sub(1);
    }
}

#[test]
fn content_that_differs_never_gets_its_name() {
    let folder = folder();
    let source = source(folder.path(), 1 << 20);
    let target = folder.path().join("target");
    let deed = || {
        let mut file = File::options().write(true).open(unfinished(folder.path())).unwrap();
        file.seek(SeekFrom::Start(70_000)).unwrap();
        file.write_all(&[!content(1 << 20)[70_000]]).unwrap();
        file.sync_all().unwrap();
    };
    let mut watch = Saboteur { phases_before: 2, deed };
    let error = copy_watched(&planned(&asked(&source, &target)), &mut watch).unwrap_err();
    let CopyError::Differs { offset, expected, found, .. } = error else { panic!("{error:?}") };
    assert_eq!(offset, 70_000);
    assert_eq!(expected[0], !found[0]);
    assert_eq!(expected[1..], found[1..]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn a_source_that_shrinks_under_way_fails_the_copy() {
    let folder = folder();
    let source = source(folder.path(), 1 << 20);
    let target = folder.path().join("target");
    let deed = || File::options().write(true).open(&source).unwrap().set_len(1 << 19).unwrap();
    let mut watch = Saboteur { phases_before: 1, deed };
    let error = copy_watched(&planned(&asked(&source, &target)), &mut watch).unwrap_err();
    assert!(matches!(error, CopyError::Move { .. }), "{error:?}");
    let hint = error.hint().unwrap_or_default();
    assert!(error.journal().is_none() && !hint.contains("resume"), "nothing is kept: {hint}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn an_unfinished_file_is_hidden_and_its_owners_alone() {
    let folder = folder();
    let source = source(folder.path(), 1 << 20);
    let mut seen = None;
    let deed = || {
        let path = unfinished(folder.path());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        seen = Some((name, fs::metadata(&path).unwrap().mode() & 0o7777));
    };
    let target = folder.path().join("target");
    let mut watch = Saboteur { phases_before: 1, deed };
    copy_watched(&planned(&asked(&source, &target)), &mut watch).unwrap();
    let (name, mode) = seen.unwrap();
    assert!(name.starts_with(".target.peerlane-"), "{name}");
    assert_eq!(mode, 0o600);
}

#[test]
fn direct_io_used_where_available() {
    let folder = folder();
    let source = source(folder.path(), 1 << 20);
    let plan = planned(&asked(&source, &folder.path().join("target")));
    let is_direct = plan.source.block > Bytes(1);
    let warned = plan.warnings.iter().any(|warning| matches!(warning, Warning::PageCache { .. }));
    assert_ne!(is_direct, warned, "{plan:?}");
}

#[test]
fn missing_direct_io_warns_uses_cache() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        eprintln!("skipped: there is no file system in memory at /dev/shm");
        return;
    }
    let folder = tempfile::tempdir_in(shared).unwrap();
    let source = source(folder.path(), 1_000_001);
    let target = folder.path().join("target");
    let record = run(&asked(&source, &target)).unwrap();
    assert_eq!(fs::read(&target).unwrap(), content(1_000_001));
    let warned = |path: &Path| {
        let path = path.to_str().unwrap().to_owned();
        record.warnings.contains(&Warning::PageCache { path })
    };
    assert!(warned(&source) && warned(&target), "{:?}", record.warnings);
}

#[test]
fn missing_required_route_changes_nothing() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    let asked = Asked { route: RouteChoice::P2p, ..asked(&source, &target) };
    let error = run(&asked).unwrap_err();
    assert!(matches!(error, CopyError::NotPossible { .. }), "{error:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// Remembers its calls.
#[derive(Default)]
struct RecordingListener(Vec<String>);

impl Watch for RecordingListener {
    fn notice(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

#[test]
fn falling_back_is_told_and_recorded() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    let plan = planned(&Asked { route: RouteChoice::Auto, ..asked(&source, &target) });
    let mut listener = RecordingListener::default();
    let record = copy_watched(&plan, &mut listener).unwrap();
    assert_eq!(record.route, Route::Host);
    assert_eq!(listener.0.len(), 1, "{:?}", listener.0);
    assert!(record.warnings.iter().any(|warning| matches!(warning, Warning::FellBack { .. })));
}

#[test]
fn a_described_machine_moves_nothing() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let plan = planned(&asked(&source, &folder.path().join("target")));
    let elsewhere = Fabric { origin: Origin::Description, ..bare_machine() };
    let clock = MonotonicClock::start();
    let options = CopyOptions::default();
    let deadline = Nanos::seconds(60);
    let mut tools = Tools { clock: &clock, watch: &mut (), seed: 7, deadline, options };
    let error = copy(&elsewhere, &plan, &mut tools).unwrap_err();
    assert!(matches!(error, CopyError::NotPossible { .. }), "{error:?}");
}

#[test]
fn endpoints_that_are_no_files_are_named() {
    let folder = folder();
    let source = source(folder.path(), 10);
    let target = |path: &Path| {
        let error = plan(
            &bare_machine(),
            &asked(&source, path),
            &crate::endpoints::guard::Surveyor::for_tests(),
        )
        .unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    assert!(target(folder.path()).contains("is a directory"));
    assert!(target(Path::new("/dev/null")).contains("is a character device"));
    assert!(target(&folder.path().join("no/where")).contains("there is no directory"));
    std::os::unix::fs::symlink("nothing", folder.path().join("link")).unwrap();
    assert!(target(&folder.path().join("link")).contains("symbolic link to nothing"));
}

#[test]
fn a_link_to_a_file_is_the_file() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let (link, hard) = (folder.path().join("link"), folder.path().join("hard"));
    std::os::unix::fs::symlink(&source, &link).unwrap();
    fs::hard_link(&source, &hard).unwrap();
    for target in [&link, &hard] {
        let plan = planned(&Asked { force: true, ..asked(&source, target) });
        assert!(plan.refusals[0].reason.ends_with("are one file"), "{:?}", plan.refusals);
    }
    let mut text = Vec::new();
    File::open(&source).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(text, content(5000));
}
