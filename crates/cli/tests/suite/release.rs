//! A copy holds nothing once the program has ended: the next line of a script can unplug or unmount
//! a device.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;

use peerlane_testing::{Loop, Scratch, Tmpfs};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

const LENGTH: usize = 8 << 20;
/// Copies of each kind; a late release is not always late enough to show.
const ROUNDS: usize = 5;

/// End of a copy.
#[derive(Debug, Clone, Copy)]
enum CopyEnding {
    Complete,
    By(Signal),
}

const ENDS: [CopyEnding; 4] = [
    CopyEnding::Complete,
    CopyEnding::By(Signal::INT),
    CopyEnding::By(Signal::TERM),
    CopyEnding::By(Signal::HUP),
];

fn copy(folder: &Path, target: &Path, end: CopyEnding) {
    let mut command = peerlane_testing::heeding(env!("CARGO_BIN_EXE_peerlane"));
    command.args(["copy", "source", "--force", "--json-progress", "--block", "64K"]);
    command.arg(target).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    if !matches!(end, CopyEnding::Complete) {
        // Longer than a test may take: only the signal ends it.
        command.args(["--limit", "64K"]);
    }
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut said = String::new();
    if let CopyEnding::By(signal) = end {
        let is_moving = |line: &String| line.contains("\"phase\":\"move\"");
        let first = lines.by_ref().map(|line| line.expect("text")).find(is_moving);
        said.push_str(&first.expect("a copy under way"));
        kill_process(Pid::from_child(&child), signal).expect("a signal");
    }
    let status = child.wait().expect("an end");
    said.extend(lines.map(|line| line.expect("text")));
    let expected = if matches!(end, CopyEnding::Complete) { 0 } else { 130 };
    assert_eq!(status.code(), Some(expected), "{said}");
}

fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    folder.write("source", vec![7; LENGTH]);
    folder
}

#[test]
fn device_is_free_after_exit() {
    let folder = folder();
    let image = folder.at("image");
    File::create(&image).expect("an image").set_len(LENGTH as u64).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    let exclusive = i32::try_from(OFlags::EXCL.bits()).expect("a flag");
    for end in ENDS.iter().cycle().take(ENDS.len() * ROUNDS) {
        copy(folder.path(), &device.0, *end);
        let opened = OpenOptions::new().write(true).custom_flags(exclusive).open(&device.0);
        assert!(opened.is_ok(), "{end:?}: {opened:?}");
    }
}

#[test]
fn file_system_is_free_after_exit() {
    let folder = folder();
    let place = folder.at("mounted");
    for end in ENDS.iter().cycle().take(ENDS.len() * ROUNDS) {
        let Some(mounted) = Tmpfs::on(&place, "size=32m") else { return };
        copy(folder.path(), &place.join("target"), *end);
        assert_eq!(mounted.unmount(), Ok(()), "{end:?}");
    }
}
