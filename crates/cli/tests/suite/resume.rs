//! A copy that is stopped by a signal, and the command that it prints.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use crate::program::{Exited, names, said};
use peerlane_testing::{Scratch, Tmpfs};
use rustix::process::{Pid, Signal, kill_process};

const LENGTH: u64 = 64 << 20;

/// Bytes a second: slow enough that a signal at the first written bytes finds the copy under way.
const LIMIT: &str = "16M";

/// Copies that ended before the signal reached them, until the test gives up.
const TRIES: u32 = 10;

/// A folder with a source whose blocks all differ.
fn folder() -> (Scratch, PathBuf) {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.at("a source");
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
    let mut command = peerlane_testing::heeding(env!("CARGO_BIN_EXE_peerlane"));
    command.args(["copy", "a source", "it's", "--route", "host", "--block", "64K"]);
    command.args(more).current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// A copy that has moved something, and its output from there on.
struct BegunCopy {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl BegunCopy {
    /// Starts a copy and waits until it says that bytes are moved; `None` where it ended without.
    fn start(folder: &Path) -> Option<Self> {
        Self::by(copy(folder, &["--json-progress", "--limit", LIMIT]))
    }

    /// The same of a command that runs it.
    fn by(mut command: Command) -> Option<Self> {
        let started = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        if lines.by_ref().any(|line| has_moved(&line.expect("text"))) {
            return Some(Self { child, lines });
        }
        child.wait().expect("an end");
        None
    }

    /// Waits for its end; returns the status, and the lines that are not progress.
    fn end(mut self) -> (ExitStatus, String) {
        let lines = self.lines.map(|line| line.expect("text"));
        let words: Vec<_> = lines.filter(|line| !line.starts_with('{')).collect();
        (self.child.wait().expect("an end"), words.join("\n"))
    }
}

fn has_moved(line: &str) -> bool {
    let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    line["phase"] == "move" && line["done"].as_u64().is_some_and(|done| done > 0)
}

/// Runs a copy and signals it once bytes were written, until one is stopped with something done.
fn stopped(folder: &Path, signal: Signal) -> String {
    for _ in 0..TRIES {
        let begun = BegunCopy::start(folder);
        if let Some(begun) = begun {
            kill_process(Pid::from_child(&begun.child), signal).expect("a signal");
            let (status, said) = begun.end();
            match status.code() {
                Some(130) => return said,
                Some(0) => {}
                _ => panic!("{status}: {said}"),
            }
        }
        fs::remove_file(folder.join("it's")).expect("a target");
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

#[test]
fn printed_command_resumes_stopped_copy() {
    let (folder, source) = folder();
    for signal in [Signal::INT, Signal::TERM] {
        let said = stopped(folder.path(), signal);
        assert!(said.starts_with("error: interrupted after "), "{said}");
        assert!(!folder.at("it's").exists(), "not under its name before it is complete");
        let record = Command::new("sh")
            .args(["-c", printed(&said)])
            .current_dir(folder.path())
            .output()
            .expect("a shell")
            .exited(0)
            .text();
        assert!(record.contains("moved by an earlier run"), "{record}");
        assert_equal(&source, &folder.at("it's"));
        assert_eq!(names(folder.path()), ["a source", "it's"]);
        fs::remove_file(folder.at("it's")).expect("a target");
    }
}

#[test]
fn ignored_signal_does_not_stop_copy() {
    let (folder, source) = folder();
    let heeding = copy(folder.path(), &["--json-progress", "--limit", LIMIT]);
    let mut command = Command::new("sh");
    // As `nohup` and a script's background job have it; TERM is not among them.
    command.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).args(heeding.get_args().skip(1));
    command.current_dir(folder.path()).stdin(Stdio::null());
    let begun = BegunCopy::by(command).expect("a copy under way");
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(Pid::from_child(&begun.child), signal).expect("a signal");
    }
    let (status, said) = begun.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_equal(&source, &folder.at("it's"));
}

#[test]
fn killed_copy_leaves_no_target() {
    let (folder, _) = folder();
    let mut begun = BegunCopy::start(folder.path()).expect("a copy under way");
    begun.child.kill().expect("a signal");
    let (status, words) = begun.end();
    // It may have ended before the signal came.
    assert!(status.code() == Some(0) || !folder.at("it's").exists(), "{words}");
    let again = |more: &[&str]| copy(folder.path(), more).output().expect("an end");
    if status.code() != Some(0) {
        let output = again(&[]);
        // Its journal may not have been there yet.
        let is_begun = said(&output).contains("was begun before and is not finished");
        assert!(output.status.success() || is_begun, "{output:?}");
    }
    // Nothing that was left stands in the way of one that begins anew.
    again(&["--force"]).exited(0);
}

#[test]
fn unwritable_journal_is_named_first() {
    let (folder, _) = folder();
    let Some(full) = Tmpfs::on(&folder.at("full"), "size=4096") else { return };
    fs::write(full.0.join("all"), [1; 4096]).expect("one page");
    let Some(read_only) = Tmpfs::on(&folder.at("read-only"), "ro") else { return };
    for (place, cause) in [(&full, "No space left"), (&read_only, "Read-only file system")] {
        let journal = place.0.join("journal");
        let output = copy(folder.path(), &["--journal", journal.to_str().expect("a path")])
            .output()
            .expect("an end");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause) && said.contains("journal"), "{said}");
        assert!(said.contains("--journal FILE"), "{said}");
        let left = ["a source", "full", "read-only"];
        assert_eq!(names(folder.path()), left, "{said}");
    }
}
