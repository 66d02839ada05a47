//! What numbers and units parameters can have: those of what the model knows of anything of their kind.
//!
//! Leaves out whether a number is likely. The one thing to know: a slip of a unit is a factor of a thousand or more,
//! and nothing of a machine is a million times as much as the most that is known, or as little.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::links;
use super::of_devices::{TURNS, is_of_drive, is_of_memory};
use super::setting::{DEFAULTS, File};
use crate::parameters::{ParameterError, ParameterShape, Parameters, Unit};

/// How far a number may be beyond the range of what is built in.
const BEYOND: f64 = 1e6;
/// Turns in a row: the phases of the longest table of a port (PCIe base specification, "Port arbitration").
const TURNS_MOST: f64 = 256.0;

/// A parameter that is built in.
#[derive(Debug, Clone, Copy)]
struct Known {
    lo: f64,
    hi: f64,
    unit: Unit,
}

/// What is built in of the kind of a parameter: of `a.read.rate`, `drive.read.rate`.
fn known(name: &str) -> Option<Known> {
    static ALL: OnceLock<BTreeMap<String, Known>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let file: File = toml::from_str(DEFAULTS).unwrap_or_default();
        let known = file.parameter.into_iter().filter_map(|(name, shape)| {
            let unit = shape.unit();
            let parameter = shape.parameter(&name, |_| None).ok()?;
            Some((name, Known { lo: parameter.lo, hi: parameter.hi, unit }))
        });
        known.collect()
    });
    let of_drive = || {
        let what = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let what = what.into_iter().find(|what| is_of_drive(what))?;
        let one = match what.split_once("time-") {
            Some((side, _)) => format!("drive.{side}time-4096"),
            None => format!("drive.{what}"),
        };
        all.get(&one)
    };
    // No rate of a memory is built in; host memory is the fastest that there is one of.
    let of_memory = || {
        let mut what = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        what.any(is_of_memory).then(|| all.get("host.memory"))?
    };
    all.get(name).or_else(of_drive).or_else(of_memory).copied()
}

/// What can be said in numbers that are known, of a link or of its turns: lowest, highest, and what to say of others.
fn counted(name: &str) -> Option<(f64, f64, &'static str)> {
    let is_of_turns = name.strip_suffix(TURNS).is_some_and(|below| below.ends_with('.'));
    let turns = is_of_turns.then_some((1.0, TURNS_MOST, "a switch takes 1 to 256 turns in a row"));
    turns.or_else(|| links::bounds(name))
}

/// Sizes of packets: powers of two, which the model would make of any other in silence (PCIe base specification, "Device
/// control register", "Read completion boundary"). The least of them, and what to say of others.
fn packets(name: &str) -> Option<(u32, &'static str)> {
    match name {
        "pcie.mps" | "pcie.mrrs" => Some((128, "PCIe has 128, 256, 512, 1024, 2048 or 4096 bytes")),
        "host.completion" | "root.split" => {
            Some((64, "pieces are of 64, 128, 256, 512, 1024, 2048 or 4096 bytes"))
        }
        _ => None,
    }
}

/// The sizes that there are of what has some.
fn sizes(least: u32) -> impl Iterator<Item = u32> {
    (least.ilog2()..=12).map(|power| 1 << power)
}

/// Every number that a parameter can be, as `--vary` takes them, where those are few.
pub(super) fn every(name: &str) -> Option<String> {
    let sizes = packets(name)
        .map(|(least, _)| sizes(least).map(|size| size.to_string()).collect::<Vec<_>>().join(","));
    sizes.or_else(|| links::every(name))
}

/// The same of what is a share of something or a factor: whatever lies beyond would be taken as the end of it, in silence.
fn limited(name: &str) -> Option<(f64, f64, &'static str)> {
    match name {
        "queues.shared" | "iommu.miss" => Some((0.0, 1.0, "a share is 1 at most")),
        // A machine file has rates from 1 MB/s on, which a millionth of would be none.
        "machine.stated" => {
            Some((0.01, 100.0, "it is a factor of what a machine file states: 0.01 to 100"))
        }
        "host.overlap" => {
            Some((1.0, 3.0, "one block is read ahead, one copied, one written behind"))
        }
        "host.window" => Some((4096.0, f64::MAX, "a fault maps a page at least")),
        "ethernet.mtu" => Some((68.0, 65535.0, "an MTU is 68 to 65535 bytes (RFC 791)")),
        _ => name.ends_with(".sustained").then_some((0.0, 1.0, "a share is 1 at most")),
    }
}

/// Whether a parameter counts things that there is no half of: bytes of a packet or command, tags, walkers, turns.
pub fn is_whole(name: &str) -> bool {
    const WHOLE: [&str; 15] = [
        "device.completion",
        "drive.largest",
        "ethernet.headers",
        "ethernet.mtu",
        "ethernet.tunnel",
        "host.completion",
        "host.cores",
        "host.overlap",
        "host.window",
        "iommu.page",
        "iommu.walkers",
        "pcie.mps",
        "pcie.mrrs",
        "pcie.tags",
        "root.split",
    ];
    WHOLE.contains(&name) || name.ends_with(".turns")
}

/// Refuses a parameter in a unit that does not measure what it is.
pub(super) fn check_unit(name: &str, shape: &ParameterShape) -> Result<(), ParameterError> {
    let counted = counted(name).map(|_| Unit::Count);
    match counted.or_else(|| known(name).map(|known| known.unit)) {
        Some(unit) if !unit.is_alike(shape.unit()) => {
            Err(ParameterError::Meaning { name: name.to_owned(), problem: unit.wanted() })
        }
        _ => Ok(()),
    }
}

/// Refuses numbers that no machine has.
pub(super) fn check(parameters: &Parameters, numbers: &[f64]) -> Result<(), ParameterError> {
    for (parameter, number) in parameters.iter().zip(numbers) {
        let usual = || {
            let known = known(&parameter.name)?;
            Some((known.lo / BEYOND, known.hi * BEYOND, known.unit.beyond()))
        };
        let wrong = |problem| ParameterError::Meaning { name: parameter.name.clone(), problem };
        let all = [counted(&parameter.name).or_else(usual), limited(&parameter.name)];
        for (least, most, problem) in all.into_iter().flatten() {
            if !(least..=most).contains(number) {
                return Err(wrong(problem));
            }
        }
        if let Some((least, problem)) = packets(&parameter.name) {
            if !sizes(least).any(|size| f64::from(size) == *number) {
                return Err(wrong(problem));
            }
        }
        if is_whole(&parameter.name) && (number.fract() != 0.0 || *number < 1.0) {
            return Err(wrong("it is a whole number above zero"));
        }
    }
    check_headers(parameters, numbers)
}

/// Refuses headers that leave no room for content in a frame.
fn check_headers(parameters: &Parameters, numbers: &[f64]) -> Result<(), ParameterError> {
    let number = |name| parameters.position(name).ok().and_then(|position| numbers.get(position));
    match (number("ethernet.headers"), number("ethernet.mtu")) {
        (Some(headers), Some(mtu)) if headers >= mtu => Err(ParameterError::Meaning {
            name: "ethernet.headers".to_owned(),
            problem: "headers leave nothing of a frame of `ethernet.mtu`",
        }),
        _ => Ok(()),
    }
}

/// The same for the parameters, and for all that may be drawn of them.
pub(super) fn check_ranges(parameters: &Parameters) -> Result<(), ParameterError> {
    check(parameters, &parameters.values())?;
    let lowest: Vec<f64> = parameters.iter().map(|one| one.lo).collect();
    let highest: Vec<f64> = parameters.iter().map(|one| one.hi).collect();
    check(parameters, &lowest)?;
    check(parameters, &highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_known_and_so_is_what_a_file_says_of_a_drive() {
        let all = super::super::parameters(None).expect("the defaults");
        assert!(all.iter().all(|one| known(&one.name).is_some()));
        let rate = known("drive.read.rate").expect("it").hi;
        for name in ["a.read.rate", "/dev/nvme0n1.read.rate", "0000:41:00.0.read.rate"] {
            assert_eq!(known(name).map(|known| known.hi), Some(rate), "{name}");
        }
        assert!(known("a.write.time-65536").is_some());
        for name in ["a.turns", "a.lanes", "a.read.rat", "read.rate"] {
            assert!(known(name).is_none(), "{name}");
        }
    }
}
