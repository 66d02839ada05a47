//! Parts common to the fault suites: machines with faults, moments of a copy, the count of ends.
//!
//! Short form: a few seeds, in `./test`. Long form, with as many power cuts as asked and a tenth as
//! many seeds of every other case, which also writes the results of the repository:
//!
//!     PEERLANE_FAULTS=20 cargo test --release -p peerlane-cli --test lab_suite faults_

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

/// Every case of the suites, in the order of the page.
const CASES: [&str; 16] = [
    POWER_FILE,
    POWER_DEVICE,
    READ_ONCE,
    READ_ALWAYS,
    WRITE_ONCE,
    WRITE_ALWAYS,
    RETRIED,
    UNPLUG_SOURCE,
    UNPLUG_TARGET,
    UNPLUG_MEMORY,
    UNPLUG_MEMORY_AUTO,
    MEMORY_TAKEN,
    TARGET_FULL,
    JOURNAL_PLACE,
    CLOCK,
    STUCK,
];

pub(crate) const POWER_FILE: &str = "power cut while a file is written";
pub(crate) const POWER_DEVICE: &str = "power cut while a drive is written";
pub(crate) const READ_ONCE: &str = "a sector cannot be read, once";
pub(crate) const READ_ALWAYS: &str = "a sector cannot be read, ever";
pub(crate) const WRITE_ONCE: &str = "a sector cannot be written, once";
pub(crate) const WRITE_ALWAYS: &str = "a sector cannot be written, ever";
pub(crate) const RETRIED: &str = "an error that the kernel's own retries get over";
pub(crate) const UNPLUG_SOURCE: &str = "the source is unplugged";
pub(crate) const UNPLUG_TARGET: &str = "the target is unplugged";
pub(crate) const UNPLUG_MEMORY: &str = "the drive that lends memory is unplugged, P2P demanded";
pub(crate) const UNPLUG_MEMORY_AUTO: &str = "the drive that lends memory is unplugged, any route";
pub(crate) const MEMORY_TAKEN: &str = "another program holds the memory, or parts of it";
pub(crate) const TARGET_FULL: &str = "the file system of the target is full";
pub(crate) const JOURNAL_PLACE: &str = "the journal's place is full or read-only";
pub(crate) const CLOCK: &str = "the clock jumps";
pub(crate) const STUCK: &str = "a drive stops answering";

const WHAT: &str = "Real kernel, real drivers, emulated drives: each run boots a machine, hits a copy \
    with the fault, boots again where the fault takes that, and goes on with `--resume`. Moments are \
    announced by the copy's own progress, never by a clock. Asked after each run, with every byte of the \
    drives compared on the host: is what is called complete equal; is everything outside the copied range \
    and every other file as it was; does the error name the drive and the cause; did no signal end the \
    program. An emulated drive keeps what it was given when the power goes, so that the loss of writes \
    that were not flushed is not shown here but on the simulated drives. A reset of a controller is \
    left out: this QEMU hangs in it. The lab proves semantics, not speed.";

/// Functions for scripts, in addition to those of [`super::lab`].
pub(crate) const MOMENTS: &str = "
written() { set -- $(cat /sys/class/block/$(basename $(readlink -f /dev/lab/$1))/stat); echo $7; }
# after DRIVE SECTORS NAME: waits until so much more is written, or the copy NAME has ended.
after() {
    until [ $(($(written $1) - start)) -ge $2 ] || [ -e $OUT/$3.status ]; do :; done
}
";

/// Seeds of a case: as many as the short form takes, or one for `every` power cuts of the long one.
pub(crate) fn seeds(short: u64, every: u64) -> impl Iterator<Item = u64> {
    (0..long_form().map_or(short, |cuts| cuts.div_ceil(every))).inspect(|&seed| {
        #[allow(clippy::print_stderr, reason = "a failing test shows which seed it was")]
        {
            eprintln!("seed {seed}");
        }
    })
}

/// Power cuts for each seed of a case that is not one.
pub(crate) const OTHERS: u64 = 10;

fn long_form() -> Option<u64> {
    let text = std::env::var("PEERLANE_FAULTS").ok()?;
    Some(text.parse().expect("PEERLANE_FAULTS is a number of power cuts"))
}

/// Ends of the runs of one case.
#[derive(Debug, Default)]
pub(crate) struct EndCounts {
    pub(crate) completed: u64,
    pub(crate) refused_clearly: u64,
}

impl EndCounts {
    /// Counts runs that in the end were complete.
    pub(crate) fn completed() -> Self {
        Self { completed: 1, refused_clearly: 0 }
    }

    /// Counts runs that ended with a clear error and nothing lost.
    pub(crate) fn refused() -> Self {
        Self { completed: 0, refused_clearly: 1 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.refused_clearly += other.refused_clearly;
    }

    /// Writes the count to the results of the repository, in the long form.
    pub(crate) fn keep(&self, case: &str) {
        static RESULTS: Mutex<()> = Mutex::new(());
        assert!(CASES.contains(&case), "{case}");
        let Some(cuts) = long_form() else { return };
        let guard = RESULTS.lock().expect("no test has failed in here");
        let path: PathBuf =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability/booted-machines.json")
                .into();
        let old: Value = fs::read_to_string(&path)
            .ok()
            .map_or(Value::Null, |text| serde_json::from_str(&text).expect("results"));
        let new = json!({
            "name": case,
            "runs": self.completed + self.refused_clearly,
            "completed": self.completed,
            "refused_clearly": self.refused_clearly,
            "wrong": 0,
        });
        let cases: Vec<Value> = CASES
            .iter()
            .filter_map(|name| {
                let of_before = || old["cases"].as_array()?.iter().find(|one| one["name"] == *name);
                if *name == case { Some(new.clone()) } else { of_before().cloned() }
            })
            .collect();
        let results = json!({
            "suite": "booted machines",
            "what": WHAT,
            "command": format!(
                "PEERLANE_FAULTS={cuts} cargo test --release -p peerlane-cli --test lab_suite faults_"
            ),
            "on": environment(),
            "cases": cases,
        });
        fs::write(&path, format!("{results:#}\n")).expect("the results can be written");
        drop(guard);
    }
}

/// Kernel and QEMU, without a date and without names.
fn environment() -> String {
    let kernel = peerlane_lab::find_kernel(None).expect("a kernel").release;
    let kernel = kernel.split(['+', '-']).next().unwrap_or_default().to_owned();
    let qemu = peerlane_lab::find_qemu().expect("QEMU");
    let output = Command::new(qemu).arg("--version").output().expect("QEMU starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.split_whitespace().nth(3).unwrap_or("of an unknown version");
    format!("Linux {kernel} in QEMU {version}, emulated processor")
}

/// Random numbers by seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// `machines/pair.toml` with further keys for drives, such as `("a", "throttle = \"1MB/s\"")`, kernel
/// parameters, and a fourth drive, `d`.
pub(crate) fn machine(keys: &[(&str, &str)], kernel_args: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/pair.toml");
    let mut text = fs::read_to_string(path).expect("the machine");
    text = text
        .replace("memory = \"1G\"", &format!("memory = \"512M\"\nkernel_args = [{kernel_args}]"));
    text += "\n[[function]]\nname = \"down-d\"\nkind = \"downstream-port\"\nunder = \"switch\"\n\
             \n[[function]]\nname = \"d\"\nkind = \"nvme\"\nunder = \"down-d\"\nsize = \"64M\"\n";
    for (drive, key) in keys {
        let head = format!("name = \"{drive}\"\nkind = \"nvme\"\n");
        assert!(text.contains(&head), "{drive}");
        text = text.replace(&head, &format!("{head}{key}\n"));
    }
    text
}
