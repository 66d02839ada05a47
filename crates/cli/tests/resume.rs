//! A copy that is stopped by a signal, and the command that it prints.

mod program;
#[path = "../../../tools/testing.rs"]
mod testing;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use program::said;
use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process};
use testing::Tmpfs;

/// Large enough that a signal at the first written bytes finds the copy under way.
const LENGTH: u64 = 400 << 20;

/// Copies that ended before the signal reached them, until the test gives up.
const TRIES: u32 = 10;

/// A folder with a source whose blocks all differ.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let source = folder.path().join("a source");
    let mut file = File::create(&source).expect("a source");
    let mut block = vec![0u8; 1 << 20];
    for number in 0..LENGTH >> 20 {
        for (word, bytes) in (0u64..).zip(block.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&((number << 32) ^ word.wrapping_mul(0x9e37_79b9)).to_le_bytes());
        }
        file.write_all(&block).expect("room for a source");
    }
    (folder, source)
}

fn copy(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    command.args(["copy", "a source", "it's", "--route", "host", "--block", "64K"]);
    command.args(more).current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Tells when the file that a copy makes has been written to.
struct Watched(rustix::fd::OwnedFd);

impl Watched {
    fn new(folder: &Path) -> Self {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
        inotify::add_watch(&events, folder, inotify::WatchFlags::MODIFY).expect("a watch");
        Self(events)
    }

    /// Waits until the unfinished file was written to a few times: once is its length being set.
    fn wait(&self) {
        let mut room = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut room);
        let mut seen = 0;
        while seen < 4 {
            let event = events.next().expect("an event");
            let name = event.file_name().map_or(&b""[..], std::ffi::CStr::to_bytes);
            seen += u32::from(name.starts_with(b".it's.peerlane-") && !name.ends_with(b".lock"));
        }
    }
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Runs a copy and signals it once bytes were written, until one is stopped with something done.
fn stopped(folder: &Path, signal: Signal, more: &[&str]) -> String {
    for _ in 0..TRIES {
        let watched = Watched::new(folder);
        let child = start(copy(folder, more));
        watched.wait();
        let id = Pid::from_child(&child);
        kill_process(id, signal).expect("a signal");
        let output = child.wait_with_output().expect("an end");
        let said = said(&output);
        match output.status.code() {
            Some(130) if said.contains("--resume") => return said,
            Some(130) => {}
            Some(0) => fs::remove_file(folder.join("it's")).expect("a target"),
            _ => panic!("{output:?}"),
        }
    }
    panic!("in {TRIES} copies of {LENGTH} bytes the signal never came in between");
}

/// The command in backquotes that the program printed.
fn printed(said: &str) -> &str {
    let command = said.split('`').find(|part| part.contains("--resume"));
    command.unwrap_or_else(|| panic!("no command in {said}"))
}

fn assert_equal(one: &Path, other: &Path) {
    let status = Command::new("cmp").args([one, other]).status().expect("cmp");
    assert!(status.success());
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

#[test]
fn the_printed_command_goes_on_with_a_copy_that_a_signal_stopped() {
    let (folder, source) = folder();
    for signal in [Signal::INT, Signal::TERM] {
        let said = stopped(folder.path(), signal, &[]);
        assert!(said.starts_with("error: interrupted after "), "{said}");
        assert!(!folder.path().join("it's").exists(), "not under its name before it is complete");
        let output = Command::new("sh")
            .args(["-c", printed(&said)])
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{output:?}");
        let record = String::from_utf8_lossy(&output.stdout);
        assert!(record.contains("moved by an earlier run"), "{record}");
        assert_equal(&source, &folder.path().join("it's"));
        assert_eq!(names(folder.path()), ["a source", "it's"].map(OsStr::new));
        fs::remove_file(folder.path().join("it's")).expect("a target");
    }
}

#[test]
fn a_copy_that_is_killed_leaves_nothing_under_its_name() {
    let (folder, _) = folder();
    let watched = Watched::new(folder.path());
    let mut child = start(copy(folder.path(), &[]));
    watched.wait();
    child.kill().expect("a signal");
    let output = child.wait_with_output().expect("an end");
    if output.status.code() != Some(0) {
        assert!(!folder.path().join("it's").exists());
    }
    // Nothing that was left stands in the way of the next copy.
    let output = copy(folder.path(), &["--verify", "none"]).output().expect("an end");
    let is_there = output.status.code() == Some(2) && said(&output).contains("exists");
    assert!(output.status.success() || is_there, "{output:?}");
}

#[test]
fn a_full_or_read_only_place_for_the_journal_is_named_before_the_first_byte() {
    let (folder, _) = folder();
    let Some(full) = Tmpfs::on(&folder.path().join("full"), "size=4096") else { return };
    fs::write(full.0.join("all"), [1; 4096]).expect("one page");
    let Some(read_only) = Tmpfs::on(&folder.path().join("read-only"), "ro") else { return };
    for (place, cause) in [(&full, "No space left"), (&read_only, "Read-only file system")] {
        let journal = place.0.join("journal");
        let output = copy(folder.path(), &["--journal", journal.to_str().expect("a path")])
            .output()
            .expect("an end");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause) && said.contains("journal"), "{said}");
        assert!(said.contains("--journal FILE"), "{said}");
        let left = ["a source", "full", "read-only"].map(OsStr::new);
        assert_eq!(names(folder.path()), left, "{said}");
    }
}
