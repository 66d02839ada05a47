//! The question before something is overwritten, at a terminal.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::terminal::Terminal;
use peerlane_testing::{Loop, Scratch};

const NEW: &[u8] = &[b'n'; 5000];
const OLD: &[u8] = b"old";

/// A folder with a source and a target, the target of a known date.
fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    folder.write("source", NEW);
    let mut target = File::create(folder.at("target")).expect("a target");
    target.write_all(OLD).expect("room");
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    target.set_times(FileTimes::new().set_modified(date)).expect("a date");
    folder
}

const COPY: [&str; 3] = ["copy", "source", "target"];

fn content(folder: &Scratch) -> Vec<u8> {
    folder.read("target")
}

fn count(folder: &Scratch) -> usize {
    fs::read_dir(folder.path()).expect("a folder").count()
}

#[test]
fn full_yes_replaces_shown_file() {
    let folder = folder();
    let (shown, status) = Terminal::start(folder.path(), &COPY, "").answer("yes\n");
    assert_eq!(status, Some(0), "{shown}");
    assert_eq!(content(&folder), NEW);
    let place = folder.path().canonicalize().expect("a path").display().to_string();
    let question = "\
FOLDER/target would be replaced:
  size      3 B (3 bytes)
  changed   2001-09-09 01:46:40 UTC
Replace it? `yes` continues, anything else stops: yes
";
    let shown = shown.replace(&place, "FOLDER");
    assert!(shown.starts_with(question), "{shown}");
}

#[test]
fn other_answers_keep_the_target() {
    let folder = folder();
    // The last is an end of input in the middle of a line, and the one before at its start.
    for keys in ["no\n", "y\n", "\n", "YES\n", "yes please\n", "\u{4}", "yes\u{4}"] {
        let (shown, status) = Terminal::start(folder.path(), &COPY, "").answer(keys);
        assert_eq!((status, content(&folder).as_slice()), (Some(2), OLD), "{keys:?}: {shown}");
        assert!(shown.contains("not confirmed; "), "{shown}");
        assert!(shown.contains("hint: `--force` overwrites"), "{shown}");
        assert_eq!(count(&folder), 2);
    }
}

#[test]
fn typing_before_question_is_no_answer() {
    let folder = folder();
    let (shown, status) = Terminal::start(folder.path(), &COPY, "yes\n").answer("no\n");
    assert_eq!((status, content(&folder).as_slice()), (Some(2), OLD), "{shown}");
}

#[test]
fn interrupt_at_question_changes_nothing() {
    let folder = folder();
    let (shown, status) = Terminal::start(folder.path(), &COPY, "").answer("\u{3}");
    assert_eq!((status, content(&folder).as_slice()), (Some(130), OLD), "{shown}");
    assert!(shown.contains("error: interrupted; "), "{shown}");
}

#[test]
fn target_changed_meanwhile_is_left_alone() {
    let folder = folder();
    let mut terminal = Terminal::start(folder.path(), &COPY, "");
    assert!(terminal.read_until("stops: "));
    folder.write("target", "newer");
    let (shown, status) = terminal.answer("yes\n");
    assert_eq!((status, content(&folder).as_slice()), (Some(2), &b"newer"[..]), "{shown}");
    assert!(shown.contains("is not what it was when the question was put"), "{shown}");
}

#[test]
fn one_changed_target_keeps_all() {
    for changed in ["target", "other", "new"] {
        let folder = folder();
        folder.write("other", OLD);
        let words = ["copy", "source", "target", "other", "new"];
        let mut terminal = Terminal::start(folder.path(), &words, "");
        assert!(terminal.read_until("stops: "));
        terminal.keys.write_all(b"yes\n").expect("room for keys");
        assert!(terminal.read_until("other would be replaced"), "{}", terminal.shown);
        let second = terminal.shown.find("other would be").expect("the second question");
        terminal.shown.drain(..second);
        assert!(terminal.read_until("stops: "), "{}", terminal.shown);
        folder.write(changed, "newer");
        let (shown, status) = terminal.answer("yes\n");
        assert_eq!(status, Some(2), "{changed}: {shown}");
        let words = format!("{changed} is not what it was when the question was put");
        assert!(shown.contains(&words), "{shown}");
        for name in ["target", "other"] {
            let content = if name == changed { &b"newer"[..] } else { OLD };
            assert_eq!(folder.read(name), content, "{name} of {changed}");
        }
        assert_eq!(folder.at("new").exists(), changed == "new");
    }
}

#[test]
fn each_target_needs_its_yes() {
    let folder = folder();
    folder.write("other", OLD);
    let words = ["copy", "source", "target", "other"];
    // What is typed ahead is no answer: each follows its own question.
    let mut terminal = Terminal::start(folder.path(), &words, "");
    assert!(terminal.read_until("target would be replaced") && terminal.read_until("stops: "));
    terminal.keys.write_all(b"yes\n").expect("room for keys");
    assert!(terminal.read_until("other would be replaced"), "{}", terminal.shown);
    let at = terminal.shown.find("other would be").expect("the second question");
    terminal.shown.drain(..at);
    let (shown, status) = terminal.answer("yes\n");
    assert_eq!(status, Some(0), "{shown}");
    assert_eq!(content(&folder), NEW);
    assert_eq!(folder.read("other"), NEW);
}

#[test]
fn interrupted_copy_resumes_after_yes() {
    let folder = folder();
    let source: Vec<u8> = (0..4 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
    folder.write("source", &source);
    let words = ["copy", "source", "target", "--block", "64K", "--json-progress"];
    let slowly = [&words[..], &["--limit", "256K"]].concat();
    let mut terminal = Terminal::start(folder.path(), &slowly, "");
    assert!(terminal.read_until("stops: "));
    terminal.keys.write_all(b"yes\n").expect("room for keys");
    // Known once something is moved: some ten seconds.
    assert!(terminal.read_until("\"remaining_s\":1"), "{}", terminal.shown);
    terminal.keys.write_all(b"\x03").expect("room for keys");
    let (shown, status) = terminal.end();
    assert!(status == Some(130) && shown.contains("--resume` continues it"), "{shown}");
    assert_eq!(content(&folder), OLD);
    let resume = [&words[..], &["--resume"]].concat();
    let (shown, status) = Terminal::start(folder.path(), &resume, "").answer("yes\n");
    assert!(shown.contains("begun     a copy onto it, with "), "{shown}");
    assert_eq!(status, Some(0), "{shown}");
    assert!(content(&folder) == source && count(&folder) == 2);
}

#[test]
fn useless_questions_are_not_asked() {
    let folder = folder();
    let end = |words: &[&str]| Terminal::start(folder.path(), words, "").end();
    let (shown, status) = end(&["copy", "target", "target"]);
    assert_eq!(status, Some(2));
    assert!(shown.contains("are one file") && !shown.contains("yes"), "{shown}");
    let (shown, status) = end(&["copy", "source", "target", "--dry-run"]);
    assert!(status == Some(1) && !shown.contains("yes"), "{shown}");
    assert_eq!(content(&folder), OLD);
    let (shown, status) = end(&["copy", "source", "target", "--force"]);
    assert!(status == Some(0) && !shown.contains("yes"), "{shown}");
    let (shown, status) = end(&["copy", "source", "another"]);
    assert!(status == Some(0) && !shown.contains("yes"), "{shown}");
}

#[test]
fn without_a_terminal_nothing_is_asked() {
    let folder = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(COPY)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It may have ended before it could be told.
    let _ = child.stdin.take().expect("its input").write_all(b"yes\n");
    let output = child.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), content(&folder).as_slice()), (Some(2), OLD), "{said}");
    assert!(said.contains("hint: `--force` replaces it"), "{said}");
}

#[test]
fn device_content_is_shown_before_yes() {
    let folder = folder();
    let image = folder.at("image");
    let file = File::create_new(&image).expect("an image");
    file.set_len(16 << 20).expect("room");
    file.write_all_at(b"SPDKBLOB", 0).expect("room");
    file.sync_all().expect("a disk");
    let Some(device) = Loop::over(&image) else { return };
    let words = ["copy", "source", device.typed()];
    let before = fs::read(&image).expect("an image");
    let (shown, status) = Terminal::start(folder.path(), &words, "").answer("no\n");
    assert_eq!(status, Some(2), "{shown}");
    let question = "\
DEVICE would be overwritten:
  drive     of no known model, without a serial number
  size      16 MiB (16777216 bytes)
  carries   an SPDK blobstore
  written   4.88 KiB, from offset 0 on
Overwrite it? `yes` continues, anything else stops: no
";
    let shown = shown.replace(device.typed(), "DEVICE");
    assert!(shown.starts_with(question), "{shown}");
    assert!(fs::read(&image).expect("an image") == before);
    let (shown, status) = Terminal::start(folder.path(), &words, "").answer("yes\n");
    assert_eq!(status, Some(0), "{shown}");
    assert_eq!(&fs::read(&image).expect("an image")[..NEW.len()], NEW);
}
