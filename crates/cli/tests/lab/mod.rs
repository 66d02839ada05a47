//! A machine of `machines/` booted by the built program, for one script of several commands.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use peerlane_results::CopyRecord;
use tempfile::TempDir;

/// Shell functions for scripts: each command leaves `NAME.json`, `NAME.err` and `NAME.status`.
const PRELUDE: &str = "
leave() { name=$1; shift; \"$@\" >$OUT/$name.json 2>$OUT/$name.err; echo $? >$OUT/$name.status; }
copy() { name=$1; shift; leave $name peerlane copy \"$@\" --json; }
plan() { name=$1; shift; leave $name peerlane plan \"$@\" --json; }
";

/// A machine, the images of its drives, and what came back.
pub(crate) struct Lab {
    machine: &'static str,
    folder: TempDir,
    drives: Vec<&'static str>,
}

impl Lab {
    /// A lab with this machine; `None`, with the reason in the skip log, where nothing can be booted.
    pub(crate) fn open(machine: &'static str) -> Option<Self> {
        let missing = peerlane_lab::find_qemu()
            .map(|_| ())
            .and_then(|()| peerlane_lab::find_kernel(None).map(|_| ()));
        if let Err(reason) = missing {
            skip("lab", &reason.to_string());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        Some(Self { machine, folder, drives: Vec::new() })
    }

    /// Gives a drive `size` bytes of which no two drives' are alike.
    pub(crate) fn fill(&mut self, drive: &'static str, size: usize) -> Vec<u8> {
        let mut state = u64::from_le_bytes(*b"peerlane") ^ u64::from(drive.as_bytes()[0]);
        let mut content = Vec::with_capacity(size + 8);
        while content.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.extend(state.to_le_bytes());
        }
        content.truncate(size);
        fs::write(self.image(drive), &content).expect("an image");
        self.drives.push(drive);
        content
    }

    /// Boots and runs the script.
    pub(crate) fn run(&self, script: &str) {
        let Output { status, stdout, stderr } = self.boot(script);
        assert!(
            status.success(),
            "{status}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    }

    /// Boots and runs a script that takes the machine away before its end; nothing of `$OUT` comes back.
    pub(crate) fn run_until_cut(&self, script: &str) {
        let Output { status, stderr, .. } = self.boot(script);
        let said = String::from_utf8_lossy(&stderr);
        assert!(said.contains("without running the command to its end"), "{status}\n{said}");
    }

    fn boot(&self, script: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peerlane"));
        let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
        command.args(["lab", "run", "--timeout", "240", "--machine"]);
        command.arg(format!("{machines}/{}.toml", self.machine));
        for drive in &self.drives {
            command.arg("--drive").arg(format!("{drive}={}", self.image(drive).display()));
        }
        command.arg("--dma").arg(self.path("dma.json")).arg("--out").arg(self.path("out"));
        command.args(["--", "sh", "-c", &format!("{PRELUDE}\n{script}\nexit 0")]);
        command.output().expect("the program starts")
    }

    /// What the drive holds now.
    pub(crate) fn content(&self, drive: &str) -> Vec<u8> {
        fs::read(self.image(drive)).expect("the image")
    }

    /// Exit status of a command of the script.
    pub(crate) fn status(&self, name: &str) -> i32 {
        self.text(&format!("{name}.status")).trim().parse().expect("a status")
    }

    /// What a command of the script wrote to standard error.
    pub(crate) fn stderr(&self, name: &str) -> String {
        self.text(&format!("{name}.err"))
    }

    /// The record of a copy that has to be done.
    pub(crate) fn record(&self, name: &str) -> CopyRecord {
        assert_eq!(self.status(name), 0, "{name}: {}", self.stderr(name));
        serde_json::from_str(&self.text(&format!("{name}.json"))).expect("a record")
    }

    /// The object that a command printed.
    pub(crate) fn object(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(&format!("{name}.json"))).expect("an object")
    }

    /// What the DMA recorder saw.
    pub(crate) fn report(&self) -> serde_json::Value {
        let text = fs::read_to_string(self.path("dma.json")).expect("the recorder's report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["unaccounted_bytes"], 0, "the recorder lost count: {text}");
        assert_eq!(report["damaged_lines"], 0, "the recorder could not read: {text}");
        report
    }

    /// A count of the DMA recorder.
    pub(crate) fn dma(&self, field: &str) -> u64 {
        let report = self.report();
        report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
    }

    /// A file that the script left in `$OUT`.
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path("out").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The file that holds what the drive holds.
    pub(crate) fn image(&self, drive: &str) -> PathBuf {
        self.path(&format!("{drive}.img"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Notes that the running test cannot run here; a failure where `PEERLANE_REQUIRE` names what it needs.
pub(crate) fn skip(thing: &str, reason: &str) {
    let required = std::env::var("PEERLANE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|word| word.trim() == thing), "required: {reason}");
    let thread = std::thread::current();
    let line = format!("{}: {}\n", thread.name().unwrap_or("a test"), reason.replace('\n', " "));
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
    if let Some(log) = std::env::var_os("PEERLANE_SKIP_LOG") {
        let mut log =
            fs::File::options().create(true).append(true).open(log).expect("PEERLANE_SKIP_LOG");
        log.write_all(line.as_bytes()).expect("PEERLANE_SKIP_LOG");
    }
}

/// Asserts that two areas are equal without printing them.
pub(crate) fn assert_same(what: &str, one: &[u8], other: &[u8]) {
    assert_eq!(one.len(), other.len(), "{what}: lengths");
    if let Some(at) = one.iter().zip(other).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} differs");
    }
}
