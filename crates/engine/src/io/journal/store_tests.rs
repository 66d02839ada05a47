use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::tests::sample;
use super::*;
use crate::endpoints::machine::host;
use crate::testing::Tmpfs;

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".set.bin.peerlane-journal");
    (directory, path)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_saved_is_loaded_and_replaced_and_removed() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    assert!(store.load().unwrap().is_none());
    let mut journal = sample();
    store.save(&journal).unwrap();
    journal.done.insert(0..1 << 20);
    store.save(&journal).unwrap();
    assert_eq!(store.load().unwrap(), Some(journal.clone()));
    assert_eq!(Store::read(&path).unwrap(), journal);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    store.remove().unwrap();
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn missing_directory_made_for_owner_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state/peerlane/x.json");
    Store::open(host(), &path).unwrap().save(&sample()).unwrap();
    for made in ["state", "state/peerlane"] {
        let mode = fs::metadata(root.path().join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{made}");
    }
}

#[test]
fn second_copy_is_told_lock_holder() {
    let (_directory, path) = place();
    let first = Store::open(host(), &path).unwrap();
    match Store::open(host(), &path) {
        Err(error @ JournalError::InUse { process, .. }) => {
            assert_eq!(process, Some(std::process::id()));
            assert!(error.to_string().contains(&format!("process {}", std::process::id())));
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    Store::open(host(), &path).unwrap();
}

#[test]
fn lock_left_by_crash_is_taken() {
    let (directory, path) = place();
    let left = directory.path().join(".set.bin.peerlane-journal.lock");
    fs::write(&left, "peerlane 4194304999 or something longer than a process id\n").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    drop(Store::open(host(), &path).unwrap());
    // A loss of power may leave the length of a file and not what was in it, or part of it.
    for torn in [&[0; 40][..], b"peer", b"peerlane 41943"] {
        fs::write(&left, torn).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
        let _store = Store::open(host(), &path).unwrap();
        let text = fs::read_to_string(&left).unwrap();
        assert_eq!(text, format!("peerlane {}\n", std::process::id()));
    }
}

#[test]
fn lock_notes_reach_next_holder_only() {
    let (directory, path) = place();
    let lock = directory.path().join(".set.bin.peerlane-journal.lock");
    let store = Store::open(host(), &path).unwrap();
    assert_eq!(store.left(), None);
    store.note(OsStr::new("a\nname")).unwrap();
    let left = fs::read(&lock).unwrap();
    drop(store);
    // A process that is killed leaves the lock as it was.
    fs::write(&lock, left).unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    let store = Store::open(host(), &path).unwrap();
    assert_eq!(store.left(), Some(OsStr::new("a\nname")));
    let kept = format!("peerlane {}\na\nname", std::process::id());
    assert_eq!(fs::read_to_string(&lock).unwrap(), kept, "this holder may be killed, too");
    store.note(OsStr::new("b")).unwrap();
    assert_eq!(fs::read_to_string(&lock).unwrap(), format!("peerlane {}\nb", std::process::id()));
    drop(store);
    assert_eq!(Store::open(host(), &path).unwrap().left(), None);
}

#[test]
fn lock_name_taken_over_is_kept() {
    let (directory, path) = place();
    let lock = directory.path().join(".set.bin.peerlane-journal.lock");
    let first = Store::open(host(), &path).unwrap();
    fs::remove_file(&lock).unwrap();
    let second = Store::open(host(), &path).unwrap();
    drop(first);
    assert!(lock.exists());
    drop(second);
    assert!(!lock.exists());
}

#[test]
fn leftovers_of_a_crash_are_replaced() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    let new = directory.path().join(".set.bin.peerlane-journal.new");
    for left in [&b""[..], b"{\"sche", b"{\"schema\":\"peerlane.journal/1\",\"check", &[0; 4096]] {
        fs::write(&new, left).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        store.save(&sample()).unwrap();
        assert_eq!(store.load().unwrap(), Some(sample()));
        assert!(!new.exists());
    }
}

#[test]
fn foreign_files_with_our_names_stay() {
    for ending in [".lock", ".new"] {
        let (directory, path) = place();
        let taken = directory.path().join(format!(".set.bin.peerlane-journal{ending}"));
        let victim = directory.path().join("victim");
        let refused = |what: &str| {
            let is_refused = matches!(Store::open(host(), &path), Err(JournalError::Foreign { path, .. }) if path == taken);
            assert!(is_refused, "{what}{ending}");
        };
        for text in ["untouched", "12345\n", "{\"schema\":\"another\"}", &"peerlane 1".repeat(99)] {
            fs::write(&taken, text).unwrap();
            fs::set_permissions(&taken, fs::Permissions::from_mode(0o600)).unwrap();
            refused(text);
            assert_eq!(fs::read_to_string(&taken).unwrap(), text);
        }
        fs::rename(&taken, &victim).unwrap();
        for text in ["", "peerlane 1\n", "{\"schema\":"] {
            fs::write(&victim, text).unwrap();
            fs::hard_link(&victim, &taken).unwrap();
            refused("a file with another name ");
            assert_eq!(fs::read_to_string(&victim).unwrap(), text);
            fs::remove_file(&taken).unwrap();
        }
    }
}

#[test]
fn later_foreign_unfinished_journal_stays() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    let taken = directory.path().join(".set.bin.peerlane-journal.new");
    fs::write(&taken, "untouched").unwrap();
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o600)).unwrap();
    for attempt in [Store::save, Store::probe] {
        assert!(matches!(attempt(&store, &sample()), Err(JournalError::Foreign { .. })));
        assert_eq!(fs::read_to_string(&taken).unwrap(), "untouched");
    }
    fs::remove_file(&taken).unwrap();
    symlink("victim", &taken).unwrap();
    for attempt in [Store::save, Store::probe] {
        assert!(matches!(attempt(&store, &sample()), Err(JournalError::Foreign { .. })));
        assert_eq!(fs::read_link(&taken).unwrap(), Path::new("victim"));
    }
}

#[test]
fn unwritable_place_fails_before_first_byte() {
    // sysfs takes no new files, from root neither.
    match Store::open(host(), Path::new("/sys/kernel/.x.peerlane-journal")) {
        Err(JournalError::Io { action, path, .. }) => {
            assert_eq!(action, "lock the journal");
            assert_eq!(path, Path::new("/sys/kernel/.x.peerlane-journal.lock"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(Store::open(host(), Path::new("/")), Err(JournalError::NoFileName { .. })));
}

#[test]
fn a_journal_that_others_can_write_is_not_trusted() {
    let (_directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    store.save(&sample()).unwrap();
    for mode in [0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(store.load(), Err(JournalError::Foreign { .. })), "{mode:o}");
    }
}

#[test]
fn foreign_object_neither_followed_nor_awaited() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::write(&elsewhere, encode(&sample()).unwrap()).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(matches!(store.load(), Err(JournalError::Io { .. })));
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, PRIVATE_FILE, 0).unwrap();
    assert!(matches!(store.load(), Err(JournalError::Foreign { .. })));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(store.load(), Err(JournalError::Foreign { .. })));
}

#[test]
fn a_file_larger_than_a_journal_is_not_read() {
    let (_directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    store.save(&sample()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(JOURNAL_BYTES_MAX + 1).unwrap();
    assert!(matches!(store.load(), Err(JournalError::TooLarge { .. })));
}

#[test]
fn a_failed_save_leaves_the_old_journal() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    store.save(&sample()).unwrap();
    // A directory in the way of the new file makes the save fail, for root as well.
    fs::create_dir(directory.path().join(".set.bin.peerlane-journal.new")).unwrap();
    let mut later = sample();
    later.done.insert(0..4096);
    assert!(matches!(store.save(&later), Err(JournalError::Foreign { .. })));
    assert_eq!(store.load().unwrap(), Some(sample()));
}

#[test]
fn foreign_journal_neither_replaced_nor_removed() {
    let (directory, path) = place();
    let store = Store::open(host(), &path).unwrap();
    store.save(&sample()).unwrap();
    fs::write(&path, "minutes of a meeting").unwrap();
    assert!(matches!(store.save(&sample()), Err(JournalError::Foreign { .. })));
    assert!(matches!(store.clear(), Err(JournalError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "minutes of a meeting");
    assert_eq!(names(directory.path()).len(), 2, "journal and lock");
}

#[test]
fn full_file_system_keeps_old_journal() {
    let mount = tempfile::tempdir().unwrap();
    let Some(mounted) = Tmpfs::on(mount.path(), "size=16k") else { return };
    let store = Store::open(host(), &mount.path().join("x.json")).unwrap();
    store.save(&sample()).unwrap();
    let mut large = sample();
    (0..1000).for_each(|n| large.done.insert(2 * n..2 * n + 1));
    let outcome = store.save(&large);
    let kept = store.load();
    let left = names(mount.path());
    drop(store);
    drop(mounted);
    assert!(matches!(
        outcome,
        Err(JournalError::Io { action: "write the journal", source, .. })
            if source.kind() == io::ErrorKind::StorageFull
    ));
    assert_eq!(kept.unwrap(), Some(sample()));
    assert_eq!(left, ["x.json", "x.json.lock"]);
}
