//! `copy SOURCE TARGET --resume`, given again and again while it is killed: it ends with the copy
//! done, and never overwrites data that another program put there meanwhile.
//!
//! A seed draws the moments; the system's own timing cannot be replayed. `PEERLANE_KILLS_SEED` sets it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::random::Random;
use super::strike::{EndedProcess, Moment, strike};
use crate::program;
use peerlane_testing::{Loop, Scratch};

const LENGTH: usize = 12 << 20;
/// Starts that a copy gets at most.
const STARTS: u32 = 200;

struct ResumeLoopBench {
    folder: Scratch,
    content: Vec<u8>,
    random: Random,
    seed: u64,
}

impl ResumeLoopBench {
    fn new() -> Self {
        let seed = super::number("PEERLANE_KILLS_SEED", 1);
        let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
        let byte = |at: usize| u8::try_from((at / 4096 + at % 249) % 255 + 1).expect("a byte");
        let content: Vec<u8> = (0..LENGTH).map(byte).collect();
        folder.write("source", &content);
        Self { folder, content, random: Random(seed), seed }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.at(name)
    }

    /// A copy that takes about two seconds.
    fn copy(&self, target: &Path) -> Command {
        let mut command = program::command(self.folder.path());
        command
            .args(["copy", "source"])
            .arg(target)
            .args(["--resume", "--limit", "6M", "--block", "64K", "--verify", "full"])
            .env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// Kills a copy after a random time; its status where it ended before.
    fn strike(&mut self, target: &Path) -> Option<i32> {
        self.strike_within(target, 600)
    }

    /// Kills a copy after 0.1 s to `longest` milliseconds; its status where it ended before.
    fn strike_within(&mut self, target: &Path, longest: u64) -> Option<i32> {
        let moment = Moment::Time(Duration::from_millis(self.random.within(100, longest)));
        let mut copy = self.copy(target);
        let EndedProcess { status, said, .. } =
            strike(&mut copy, self.folder.path(), moment, &[Signal::KILL]);
        assert!(status.code().is_none_or(|status| status == 0), "{status}: {said}");
        status.code()
    }

    /// Runs the copy to its end; returns status and standard error.
    fn run(&self, target: &Path) -> (i32, String) {
        let output = self.copy(target).current_dir(self.folder.path()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().expect("a status"), said)
    }

    /// Strikes until the copy ends by itself.
    fn strike_to_the_end(&mut self, target: &Path) {
        for start in 1..=STARTS {
            // On a busy machine a start takes longer than the first copies live.
            if let Some(status) = self.strike_within(target, 600 + 50 * u64::from(start)) {
                let (again, said) = self.run(target);
                assert_eq!((status, again), (0, 0), "seed {}, start {start}: {said}", self.seed);
                return;
            }
        }
        panic!("seed {}: not done after {STARTS} starts", self.seed);
    }
}

fn held(device: &Path, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(device).and_then(|file| file.read_exact_at(&mut bytes, 0)).expect("a device");
    bytes
}

#[test]
fn killed_file_copies_end_equal() {
    let mut bench = ResumeLoopBench::new();
    let target = bench.path("target");
    bench.strike_to_the_end(&target);
    assert!(fs::read(&target).expect("the target") == bench.content);
    let mut names: Vec<_> = fs::read_dir(bench.folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["source", "target"], "something is left beside it");
}

#[test]
fn killed_device_copies_end_equal() {
    let mut bench = ResumeLoopBench::new();
    let image = bench.path("image");
    File::create(&image).and_then(|file| file.set_len(LENGTH as u64 + 4096)).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    bench.strike_to_the_end(&device.0.clone());
    assert!(held(&device.0, LENGTH) == bench.content);
}

#[test]
fn late_content_is_never_overwritten() {
    let mut bench = ResumeLoopBench::new();
    let image = bench.path("image");
    let size = LENGTH as u64 + (1 << 20);
    File::create(&image).and_then(|file| file.set_len(size)).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    let node = device.0.clone();
    // Within the range, and behind it; each after another moment.
    for at in [LENGTH as u64 - 4096, size - 512] {
        assert_eq!(bench.strike(&node), None, "it was to be killed");
        let file = File::options().read(true).write(true).open(&node).expect("the device");
        let mut kept = [0; 512];
        file.read_exact_at(&mut kept, at).expect("the device");
        file.write_all_at(b"a file system", at).and_then(|()| file.sync_all()).expect("the device");
        let before = held(&node, usize::try_from(size).expect("small"));
        let (status, said) = bench.run(&node);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("carries"), "{said}");
        assert!(held(&node, before.len()) == before, "something was written");
        file.write_all_at(&kept, at).and_then(|()| file.sync_all()).expect("the device");
    }
    bench.strike_to_the_end(&node);
    assert!(held(&node, LENGTH) == bench.content);
}

#[test]
fn late_files_are_never_replaced() {
    let mut bench = ResumeLoopBench::new();
    let target = bench.path("target");
    assert_eq!(bench.strike(&target), None, "it was to be killed");
    fs::write(&target, "another's").expect("room");
    let (status, said) = bench.run(&target);
    assert_eq!(status, 2, "{said}");
    assert_eq!(fs::read(&target).expect("the target"), b"another's");
    fs::remove_file(&target).expect("the target");
    bench.strike_to_the_end(&target);
    assert!(fs::read(&target).expect("the target") == bench.content);
}
