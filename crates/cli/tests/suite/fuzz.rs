//! Seeded damage to the corpora of `fuzz/`, given to the functions that are fuzzed there.
//!
//! The long form is cargo-fuzz, see `fuzz/README.md`; this one needs no other compiler. Equal corpora
//! give equal inputs; an input that is not survived is written to a file whose path is printed.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

#[allow(unreachable_pub, reason = "it is the public face of a library elsewhere")]
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

/// Inputs for targets that work in memory, and for those that make files, by `./test full`.
const INPUTS: u64 = 20_000;
const INPUTS_WITH_FILES: u64 = 1_500;

/// So many of them, or a quarter.
fn share(inputs: u64) -> u64 {
    if std::env::var_os("PEERLANE_FULL").is_some() { inputs } else { inputs / 4 }
}

/// Numbers that parsers trip over.
const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "4294967296",
    "0xffffffffffffffff",
    "1e400",
    "00",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder("corpus").join(name))
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

/// Vigna's xorshift64*; equal everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(number).expect("32 bits") % end.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }
}

/// Damages a seed in a few places.
fn damage(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(64)).min(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            3 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            4 => bytes.insert(at, random.byte()),
            5 | 6 if at < end => {
                let value = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', random.byte()][random.below(8)];
                bytes[at] = value;
            }
            _ => put_number(&mut bytes, at, random),
        }
    }
    bytes
}

/// Replaces the first number behind `at`.
fn put_number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let digits = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(digits).map(|start| at + start) else { return };
    let count = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = NUMBERS[random.below(NUMBERS.len())];
    drop(bytes.splice(start..start + count, number.bytes()));
}

fn survives(name: &str, inputs: u64) {
    let (_, target) = targets::ALL.iter().find(|(known, _)| *known == name).expect("a target");
    let seeds = corpus(name);
    assert!(!seeds.is_empty(), "{name} has no corpus");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let damaged = (0..share(inputs)).map(|_| damage(&seeds, &mut random)).collect::<Vec<_>>();
    for input in seeds.iter().chain(&damaged) {
        if panic::catch_unwind(|| target(input)).is_err() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
            fs::write(&path, input).expect("the input is kept");
            panic!("{name} does not survive {}", path.display());
        }
    }
}

#[test]
fn all_fuzz_targets_run_here() {
    let mut listed: Vec<String> = fs::read_dir(folder("fuzz_targets"))
        .expect("targets")
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    listed.sort();
    let known: Vec<_> = targets::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn damaged_archives_stay_in_their_folder() {
    survives("archive", INPUTS_WITH_FILES);
}

#[test]
fn damaged_boot_files_are_refused_or_applied() {
    survives("boot", INPUTS / 10);
}

#[test]
fn damaged_captures_are_refused_or_roundtrip() {
    survives("capture", INPUTS_WITH_FILES);
}

#[test]
fn damaged_cufile_settings_roundtrip() {
    survives("cufile", INPUTS / 4);
}

#[test]
fn damaged_device_ends_are_named_safely() {
    survives("content", INPUTS / 4);
}

#[test]
fn damaged_counters_and_logs_never_crash() {
    survives("evidence", INPUTS_WITH_FILES);
}

#[test]
fn damaged_images_are_refused_or_searched() {
    survives("image", INPUTS_WITH_FILES);
}

#[test]
fn damaged_journals_are_refused_or_roundtrip() {
    survives("journal", INPUTS);
}

#[test]
fn damaged_lspci_is_refused_or_read() {
    survives("lspci", INPUTS / 4);
}

#[test]
fn damaged_machines_are_refused_or_roundtrip() {
    survives("machine", INPUTS / 4);
}

#[test]
fn damaged_topology_is_refused_or_roundtrips() {
    survives("nccl", INPUTS / 4);
}

#[test]
fn any_notation_is_refused_or_roundtrips() {
    survives("notation", INPUTS);
}

#[test]
fn manifests_are_whole_or_refused() {
    survives("manifest", INPUTS);
}

#[test]
fn damaged_parameters_are_refused_or_work() {
    survives("parameters", INPUTS / 10);
}

#[test]
fn damaged_records_are_refused_or_roundtrip() {
    survives("record", INPUTS);
}

#[test]
fn damaged_traces_never_crash() {
    survives("recorder", INPUTS / 2);
}

#[test]
fn damaged_records_are_refused_or_reported() {
    survives("report", INPUTS / 20);
}

#[test]
fn damaged_workloads_are_refused_or_roundtrip() {
    survives("workload", INPUTS / 4);
}

#[test]
fn damaged_trees_never_crash_discovery() {
    survives("sysfs", INPUTS_WITH_FILES);
}
