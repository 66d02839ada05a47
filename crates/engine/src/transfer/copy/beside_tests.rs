//! Names, owners and permissions of targets, also when another user uses the directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use peerlane_results::Asked;
use peerlane_units::Bytes;

use super::tests::{
    Stopper, asked, content, copy_watched, copy_with, folder, names, planned, run, source,
    unfinished,
};
use super::{CopyError, CopyOptions, Start};
use crate::io::watch::Watch;
use crate::testing::{Loop, skip};

/// Does something once, when the first payload is at the target.
struct Meanwhile<F: FnMut()>(Option<F>);

impl<F: FnMut()> Watch for Meanwhile<F> {
    fn progress(&mut self, _done: Bytes, _total: Bytes) {
        if let Some(mut action) = self.0.take() {
            action();
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn new_file_has_permissions_that_cp_gives() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let path = |name: &str| folder.path().join(name);
    for before in [0o600, 0o755, 0o750, 0o666, 0o444, 0o000, 0o6755, 0o1777] {
        set_mode(&source, before);
        let Ok(_) = fs::File::open(&source) else { continue };
        run(&asked(&source, &path("ours"))).unwrap();
        let cp = Command::new("cp").args([&source, &path("theirs")]).status().unwrap();
        assert!(cp.success());
        assert_eq!(mode(&path("ours")), mode(&path("theirs")), "{before:o}");
        for name in ["ours", "theirs"] {
            fs::remove_file(path(name)).unwrap();
        }
    }
}

#[test]
fn copy_of_device_has_permissions_of_its_node() {
    let folder = folder();
    let backing = source(folder.path(), 1 << 20);
    let Some(device) = Loop::over(&backing) else { return };
    let (target, other) = (folder.path().join("target"), folder.path().join("other"));
    run(&asked(&device.0, &target)).unwrap();
    let cp = Command::new("cp").args([&device.0, &other]).status().unwrap();
    assert!(cp.success());
    assert_eq!(mode(&target), mode(&other));
    assert_eq!(mode(&target) & !mode(&device.0), 0, "no more open than the device");
}

#[test]
fn stopped_copy_is_private_until_it_is_resumed() {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    set_mode(&source, 0o754);
    let (target, other) = (folder.path().join("target"), folder.path().join("other"));
    let asked = Asked { depth: 1, ..asked(&source, &target) };
    copy_watched(&planned(&asked), &mut Stopper(false)).unwrap_err();
    assert_eq!(mode(&unfinished(folder.path())), 0o600);
    let options = CopyOptions { start: Start::Resume, ..CopyOptions::default() };
    copy_with(&planned(&asked), options, &mut ()).unwrap();
    assert!(Command::new("cp").args([&source, &other]).status().unwrap().success());
    assert_eq!(mode(&target), mode(&other));
}

#[test]
fn replaced_file_keeps_permissions_without_set_id() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    for (before, after) in [(0o640, 0o640), (0o4755, 0o755), (0o2710, 0o710)] {
        fs::write(&target, "old").unwrap();
        set_mode(&target, before);
        run(&Asked { force: true, ..asked(&source, &target) }).unwrap();
        assert_eq!(mode(&target), after, "{before:o}");
        assert_eq!(fs::read(&target).unwrap(), content(5000));
    }
}

#[test]
fn a_replaced_file_keeps_its_owner() {
    let folder = folder();
    let source = source(folder.path(), 5000);
    let target = folder.path().join("target");
    fs::write(&target, "old").unwrap();
    if std::os::unix::fs::chown(&target, Some(65534), Some(65534)).is_err() {
        skip("root", "needs root: gives a file to another user");
        return;
    }
    set_mode(&target, 0o4755);
    run(&Asked { force: true, ..asked(&source, &target) }).unwrap();
    let found = fs::metadata(&target).unwrap();
    assert_eq!((found.uid(), found.gid(), mode(&target)), (65534, 65534, 0o755));
}

#[test]
fn changed_file_is_not_replaced() {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    let target = folder.path().join("target");
    let plan = || {
        fs::write(&target, "old").unwrap();
        planned(&Asked { force: true, ..asked(&source, &target) })
    };
    let other = folder.path().join("other");
    let replace = || {
        fs::write(&other, "precious").unwrap();
        fs::rename(&other, &target).unwrap();
    };
    let append = || fs::write(&target, "old and precious").unwrap();
    for (change, kept) in
        [(&replace as &dyn Fn(), "precious"), (&append as &dyn Fn(), "old and precious")]
    {
        let error = copy_watched(&plan(), &mut Meanwhile(Some(change))).unwrap_err();
        assert_eq!(fs::read(&target).unwrap(), kept.as_bytes());
        assert!(error.hint().unwrap().contains("away"), "{error:?}");
        fs::remove_file(error.journal().expect("a journal")).unwrap();
    }
    // One that is gone is not missed.
    copy_watched(&plan(), &mut Meanwhile(Some(|| fs::remove_file(&target).unwrap()))).unwrap();
    assert_eq!(fs::read(&target).unwrap(), content(4 << 20));
}

#[test]
fn file_appearing_during_copy_is_kept() {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    let target = folder.path().join("target");
    let plan = planned(&asked(&source, &target));
    let appeared = target.clone();
    let mut watch = Meanwhile(Some(move || fs::write(&appeared, "precious").unwrap()));
    let error = copy_watched(&plan, &mut watch).unwrap_err();
    assert!(matches!(error.cause(), CopyError::File { .. }), "{error:?}");
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert!(error.hint().unwrap().contains("away"), "{error:?}");
    assert!(error.journal().is_some_and(Path::exists), "{error:?}");
    assert_eq!(mode(&unfinished(folder.path())), 0o600);
    // It is complete: what stood in its way may go, or be replaced.
    let resumed = |force: bool| {
        let plan = planned(&Asked { force, ..asked(&source, &target) });
        let options = CopyOptions { start: Start::Resume, ..CopyOptions::default() };
        copy_with(&plan, options, &mut ())
    };
    let error = resumed(false).unwrap_err();
    assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
    let record = resumed(true).unwrap();
    assert_eq!(record.content.data, Bytes::ZERO, "nothing is left to move");
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
    assert_eq!(names(folder.path()), ["target"]);
}

#[test]
fn a_file_with_both_names_is_finished() {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    let target = folder.path().join("target");
    let appeared = target.clone();
    let mut watch = Meanwhile(Some(move || fs::write(&appeared, "precious").unwrap()));
    copy_watched(&planned(&asked(&source, &target)), &mut watch).unwrap_err();
    // As a loss of power leaves it between the further name and the removal of the first.
    fs::remove_file(&target).unwrap();
    fs::hard_link(unfinished(folder.path()), &target).unwrap();
    let options = CopyOptions { start: Start::Resume, ..CopyOptions::default() };
    copy_with(&planned(&asked(&source, &target)), options, &mut ()).unwrap();
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
    assert_eq!(names(folder.path()), ["target"]);
}

/// Runs a copy while `put` replaces its unfinished file; returns the folder.
fn swapped(put: impl Fn(&Path)) -> (tempfile::TempDir, PathBuf, Result<(), CopyError>) {
    let folder = folder();
    let source = source(folder.path(), 4 << 20);
    let target = folder.path().join("target");
    let plan = planned(&asked(&source, &target));
    let place = folder.path().to_owned();
    let mut watch = Meanwhile(Some(move || {
        let made = unfinished(&place);
        fs::rename(&made, place.join("stolen")).unwrap();
        put(&made);
    }));
    let result = copy_watched(&plan, &mut watch).map(drop);
    (folder, target, result)
}

#[test]
fn link_in_place_of_partial_not_followed() {
    let victim = folder();
    let file = victim.path().join("file");
    fs::write(&file, "untouched").unwrap();
    set_mode(&file, 0o600);
    let (folder, target, result) = swapped(|made| symlink(&file, made).unwrap());
    assert!(matches!(result, Err(CopyError::File { .. })), "{result:?}");
    assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"untouched"[..], 0o600));
    assert!(!target.exists() && !target.is_symlink(), "{:?}", names(folder.path()));
}

#[test]
fn exchanged_partial_does_not_get_target_name() {
    let (_folder, target, result) = swapped(|made| fs::write(made, "planted").unwrap());
    assert!(matches!(result, Err(CopyError::File { .. })), "{result:?}");
    assert!(!target.exists());
}
