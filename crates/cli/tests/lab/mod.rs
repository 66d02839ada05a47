//! A machine of `machines/` booted by the built program, for one script of several commands.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use peerlane_lab::{KernelImage, LabError};
use peerlane_results::{CompletedCopy, CopyRecord};

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../schema/mod.rs"]
pub(crate) mod schema;
use peerlane_testing::{Scratch, skip};

/// Shell functions for scripts: each command leaves `NAME.json`, `NAME.err` and `NAME.status`. Text is not wrapped.
const PRELUDE: &str = "
export COLUMNS=9999
leave() { name=$1; shift; \"$@\" >$OUT/$name.json 2>$OUT/$name.err; echo $? >$OUT/$name.status; }
copy() { name=$1; shift; leave $name peerlane copy \"$@\" --json; }
plan() { name=$1; shift; leave $name peerlane plan \"$@\" --json; }
";

/// A machine, the images of its drives, and the results.
pub(crate) struct LabRun {
    machine: PathBuf,
    /// Kernel to boot instead of the usual one.
    kernel: Option<PathBuf>,
    /// The most bytes that a file of the run may have.
    file_limit: Option<u64>,
    folder: Scratch,
    drives: Vec<&'static str>,
    modules: Vec<&'static str>,
    programs: Vec<&'static str>,
    events: Vec<String>,
    network: Option<String>,
    /// The card that the inverter works on, and its environment.
    inverter: Option<(&'static str, Vec<(&'static str, &'static str)>)>,
}

/// True when the usual kernel is 7.2 or later; otherwise the reason is in the skip log.
pub(crate) fn usual_kernel_is_newer() -> bool {
    match peerlane_lab::find_kernel(None) {
        Ok(kernel) if kernel.is_at_least(7, 2) => return true,
        Ok(kernel) => {
            skip("newer-kernel", &format!("needs Linux 7.2, and the lab has {}", kernel.release));
        }
        Err(reason) => skip("lab", &reason.to_string()),
    }
    false
}

impl LabRun {
    /// A lab with this machine; `None`, with the reason in the skip log, if nothing can be booted.
    pub(crate) fn open(machine: &'static str) -> Option<Self> {
        let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
        Self::empty()
            .map(|lab| Self { machine: format!("{machines}/{machine}.toml").into(), ..lab })
    }

    /// A lab with the machine of this text.
    pub(crate) fn open_described(machine: &str) -> Option<Self> {
        let lab = Self::empty()?;
        let path = lab.path("machine.toml");
        fs::write(&path, machine).expect("a machine file");
        Some(Self { machine: path, ..lab })
    }

    fn empty() -> Option<Self> {
        let missing = peerlane_lab::find_qemu()
            .map(|_| ())
            .and_then(|()| peerlane_lab::find_kernel(None).map(|_| ()));
        if let Err(reason) = missing {
            skip("lab", &reason.to_string());
            return None;
        }
        let folder = Scratch::new();
        Some(Self {
            machine: PathBuf::new(),
            kernel: None,
            file_limit: None,
            folder,
            drives: Vec::new(),
            modules: Vec::new(),
            programs: Vec::new(),
            events: Vec::new(),
            network: None,
            inverter: None,
        })
    }

    /// The same if the usual kernel is of 7.2 or later; `None`, with the reason in the skip log, if it is older.
    pub(crate) fn on_newer_kernel(self) -> Option<Self> {
        usual_kernel_is_newer().then_some(self)
    }

    /// As [`Lab::open`], on a kernel before 7.2.
    pub(crate) fn open_older(machine: &'static str) -> Option<Self> {
        Self::open(machine)?.with_older_kernel()
    }

    /// As [`Lab::open_described`], on a kernel before 7.2.
    pub(crate) fn open_described_older(machine: &str) -> Option<Self> {
        Self::open_described(machine)?.with_older_kernel()
    }

    fn with_older_kernel(self) -> Option<Self> {
        self.with_kernel("older-kernel", peerlane_lab::find_older_kernel())
    }

    /// The same on a kernel with software RoCE; `None`, with the reason in the skip log, if there is none.
    pub(crate) fn on_generic_kernel(self) -> Option<Self> {
        self.with_kernel("generic-kernel", peerlane_lab::find_generic_kernel())
    }

    fn with_kernel(self, suite: &str, found: Result<KernelImage, LabError>) -> Option<Self> {
        match found {
            Ok(kernel) => Some(Self { kernel: Some(kernel.image), ..self }),
            Err(reason) => {
                skip(suite, &reason.to_string());
                None
            }
        }
    }

    /// Gives a drive `size` bytes that differ from those of any other drive.
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

    /// Gives a drive `size` bytes with a file system, made by `program`; false, with the reason in
    /// the skip log, if that is missing.
    pub(crate) fn format(
        &mut self,
        drive: &'static str,
        size: u64,
        program: &str,
        arguments: &[&str],
    ) -> bool {
        let image = self.image(drive);
        fs::File::create(&image).and_then(|file| file.set_len(size)).expect("an image");
        self.drives.push(drive);
        tool(program, arguments, &image).is_some()
    }

    /// Has the guest load a module of its kernel.
    pub(crate) fn load(&mut self, modules: &[&'static str]) {
        self.modules.extend(modules);
    }

    /// Puts a program of this machine into the guest; false, with the reason in the skip log, if it
    /// is missing.
    pub(crate) fn bring(&mut self, program: &'static str) -> bool {
        let found = Command::new(program).arg("--version").output();
        if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            skip("files", &format!("no {program} here"));
            return false;
        }
        self.programs.push(program);
        true
    }

    /// Gives a drive `size` bytes of zeroes. Those behind `limit` cannot be written: the file
    /// behind the drive may not grow beyond, which the drive reports as a write fault. Every file
    /// of the run is bounded so.
    pub(crate) fn bound(&mut self, drive: &'static str, size: u64, limit: u64) {
        let image = fs::File::create(self.image(drive)).expect("an image");
        image.set_len(size).expect("a sparse image");
        self.drives.push(drive);
        self.file_limit = Some(limit);
    }

    /// Makes a journaled ext4 of `size` bytes on a drive; `None`, with the reason in the skip log,
    /// if the host has no e2fsprogs.
    pub(crate) fn format_ext4(&mut self, drive: &'static str, size: u64) -> Option<()> {
        self.format(drive, size, "mkfs.ext4", &["-q", "-F", "-m", "0"]).then_some(())
    }

    /// Has something happen at a moment that the scripts announce: `MOMENT=unplug:DRIVE` or
    /// `MOMENT=power-cut`.
    pub(crate) fn at(&mut self, event: &str) {
        self.events.push(event.to_owned());
    }

    /// Joins a network of two, as `FOLDER=ROLE`.
    pub(crate) fn join(&mut self, network: String) {
        self.network = Some(network);
    }

    /// Has the inverter work on the memory of a card, with faults that its environment injects:
    /// `crates/lab/examples/inverter.rs`.
    pub(crate) fn invert(
        &mut self,
        card: &'static str,
        environment: &[(&'static str, &'static str)],
    ) {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/examples/inverter.rs");
        let built = Command::new("rustc")
            .args(["--edition", "2024", "-O", source, "-o"])
            .arg(self.path("inverter"))
            .status();
        assert!(built.expect("rustc").success(), "{source} does not build");
        self.inverter = Some((card, environment.to_vec()));
    }

    /// Boots and runs a script until it announces the moment of a power cut.
    ///
    /// Returns its standard error.
    pub(crate) fn run_to_power_cut(&self, script: &str) -> String {
        let Output { status, stderr, .. } = self.boot(script);
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(3), "{said}");
        assert!(said.contains("power was cut"), "{said}");
        said.into_owned()
    }

    /// Boots and runs the script; returns the standard error of the lab.
    pub(crate) fn run(&self, script: &str) -> String {
        let Output { status, stdout, stderr } = self.boot(script);
        assert!(
            status.success(),
            "{status}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
        String::from_utf8_lossy(&stderr).into_owned()
    }

    /// Boots and runs a script that takes the machine away before its end; nothing of `$OUT` comes back.
    pub(crate) fn run_until_cut(&self, script: &str) {
        let Output { status, stderr, .. } = self.boot(script);
        let said = String::from_utf8_lossy(&stderr);
        assert!(said.contains("without running the command to its end"), "{status}\n{said}");
    }

    fn boot(&self, script: &str) -> Output {
        self.command(script).output().expect("the program starts")
    }

    /// The command that boots the machine and runs a script.
    pub(crate) fn command(&self, script: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_peerlane");
        let mut command = Command::new(program);
        if let Some(limit) = self.file_limit {
            // A signal that is ignored stays so in what is started, and writing beyond fails.
            let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", limit / 512);
            command = Command::new("sh");
            command.args(["-c", &script, "sh", program]);
        }
        // Only what hangs takes so long, however busy the machine is.
        command.args(["lab", "run", "--timeout", "600", "--machine"]).arg(&self.machine);
        for event in &self.events {
            command.arg("--at").arg(event);
        }
        if let Some(network) = &self.network {
            command.arg("--network").arg(network);
        }
        if let Some(kernel) = &self.kernel {
            command.arg("--kernel").arg(kernel);
        }
        for drive in &self.drives {
            command.arg("--drive").arg(format!("{drive}={}", self.image(drive).display()));
        }
        for module in &self.modules {
            command.args(["--module", module]);
        }
        if let Some((card, environment)) = &self.inverter {
            let program = self.path("inverter");
            command.arg("--worker").arg(format!("{card}={}", program.display()));
            command.envs(environment.iter().copied());
        }
        for program in &self.programs {
            command.args(["--add", program]);
        }
        command.arg("--dma").arg(self.path("dma.json")).arg("--out").arg(self.path("out"));
        command.args(["--", "sh", "-c", &format!("{PRELUDE}\n{script}\nexit 0")]);
        command
    }

    /// Current content of the drive.
    pub(crate) fn content(&self, drive: &str) -> Vec<u8> {
        fs::read(self.image(drive)).expect("the image")
    }

    /// Exit status of a command of the script.
    pub(crate) fn status(&self, name: &str) -> i32 {
        self.text(&format!("{name}.status")).trim().parse().expect("a status")
    }

    /// Standard error of a command of the script.
    pub(crate) fn stderr(&self, name: &str) -> String {
        self.text(&format!("{name}.err"))
    }

    /// The record of a copy that has to be done, which is as its schema says.
    pub(crate) fn record(&self, name: &str) -> CompletedCopy {
        assert_eq!(self.status(name), 0, "{name}: {}", self.stderr(name));
        let record: CopyRecord = serde_json::from_value(self.object(name)).expect("a record");
        record.only().expect("a completed copy").clone()
    }

    /// The plan of a copy that `plan` left.
    pub(crate) fn plan(&self, name: &str) -> serde_json::Value {
        self.object(name)["jobs"][0]["targets"][0]["plan"].clone()
    }

    /// The object that a command printed, which is as its schema says.
    pub(crate) fn object(&self, name: &str) -> serde_json::Value {
        let object: serde_json::Value = serde_json::from_str(&self.text(&format!("{name}.json")))
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", self.stderr(name)));
        if !object["schema"].is_null() {
            schema::check(&object);
        }
        object
    }

    /// Report of the DMA recorder.
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

    /// Adds the totals of the DMA recorder to these records, which ran in this boot.
    pub(crate) fn attach(&self, names: &[&str]) {
        let records = names.iter().map(|name| self.path("out").join(format!("{name}.json")));
        let output = Command::new(env!("CARGO_BIN_EXE_peerlane"))
            .args(["bench", "attach", "-q"])
            .args(records)
            .arg("--dma")
            .arg(self.path("dma.json"))
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A file that the script left in `$OUT`.
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path("out").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A file that the script left in `$OUT`, of any content.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.path("out").join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The image of a drive.
    pub(crate) fn image(&self, drive: &str) -> PathBuf {
        self.path(&format!("{drive}.img"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.at(name)
    }
}

/// Runs a program of this machine on an image and returns its output; `None`, with the reason in
/// the skip log, if it is missing.
pub(crate) fn tool(program: &str, arguments: &[&str], image: &Path) -> Option<String> {
    match Command::new(program).args(arguments).arg(image).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("files", &format!("no {program} here"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
        Ok(output) => {
            // 1: e2fsck has put something right, such as the journal of a file system that was cut off.
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{program}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

/// Asserts that two areas are equal without printing them.
pub(crate) fn assert_same(what: &str, one: &[u8], other: &[u8]) {
    assert_eq!(one.len(), other.len(), "{what}: lengths");
    if let Some(at) = one.iter().zip(other).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} differs");
    }
}
