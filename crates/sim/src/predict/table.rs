//! The parameters that the model has: names, units, lowest and highest values, and where each is used.
//!
//! A name with `*` is of one device: `d0.read.rate`. Drives that have no number of their own have that of `drive`, and
//! links whose speed is unknown have that of `pcie`. Limits are wide: they find slips of a unit, which are a factor of a
//! thousand or more.

use crate::parameters::{ParameterError, ParameterShape, Parameters, Unit};

/// One parameter, or one of each device.
#[derive(Debug)]
pub(super) struct ParameterRow {
    pattern: &'static str,
    unit: Unit,
    lowest: f64,
    highest: f64,
    values: ValueRange,
    pub(super) used: Used,
}

/// Values between the lowest and the highest that a parameter can have, some with a sentence about the limits.
#[derive(Debug, Clone, Copy)]
enum ValueRange {
    Any,
    Between(&'static str),
    Whole,
    WholeBetween(&'static str),
    Listed(&'static [f64], &'static str),
}

/// The part of a machine that uses a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    /// Every machine.
    Always,
    /// Drives.
    Drive,
    /// Drives whose description leaves out their largest command.
    DriveLargest,
    /// Memories that devices lend.
    Memory,
    /// Links.
    Link,
    /// Devices and switches below a switch.
    BelowSwitch,
    /// IOMMUs that translate.
    Iommu,
    /// Network controllers.
    NetworkController,
    /// Networks between machines.
    Network,
    /// Network controllers whose description leaves out their rate.
    NetworkRate,
    /// Switches that an Ethernet divides.
    DividedSwitch,
    /// Links between sockets without a stated rate.
    SocketRate,
    /// Links between sockets.
    Socket,
    /// Switches.
    Switch,
    /// Rates that the machine file states.
    StatedRate,
}

/// The name that stands for any drive.
pub(super) const ANY_DRIVE: &str = "drive";
/// The name of any link whose speed is unknown.
pub(super) const ANY_LINK: &str = "pcie";

/// Widths of links (PCIe base specification, "Link width").
pub(super) const LANES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0];
/// Generations of links (PCIe base specification, 1.0 to 6.0).
pub(super) const GENERATIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// Sizes of packets (PCIe base specification, "Device control register").
const PACKETS: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
/// Sizes of completions (PCIe base specification, "Read completion boundary").
const PIECES: &[f64] = &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PACKETS_ARE: &str = "PCIe has 128, 256, 512, 1024, 2048 or 4096 bytes";
const PIECES_ARE: &str = "pieces are of 64, 128, 256, 512, 1024, 2048 or 4096 bytes";
const LANES_ARE: &str = "a link has 1, 2, 4, 8, 12, 16 or 32 lanes";
const GENERATIONS_ARE: &str = "generations of links are 1 to 6";
const A_SHARE: ValueRange = ValueRange::Between("a share is 1 at most");
const MIXED: ValueRange =
    ValueRange::Between("a drive that is read and written reaches 0.1 to 2 of its rates");
const OVERLAP: ValueRange =
    ValueRange::WholeBetween("one block is read ahead, one copied, one written behind: 1 to 3");
/// Turns in a row: the phases of the longest table of a port (PCIe base specification, "Port arbitration").
const TURNS: ValueRange = ValueRange::WholeBetween("a switch takes 1 to 256 turns in a row");
const STATED: ValueRange =
    ValueRange::Between("it is a factor of what a machine file states: 0.01 to 100");

const RATE: (Unit, f64, f64) = (Unit::GIGABYTE_PER_SECOND, 1e4, 1e16);
const TIME: (Unit, f64, f64) = (Unit::SECOND, 1e-15, 2.0);
/// Large blocks of slow drives take minutes.
const COMMAND_TIME: (Unit, f64, f64) = (Unit::SECOND, 1e-12, 100.0);
const BYTES: (Unit, f64, f64) = (Unit::BYTE, 1.0, 1e18);
const COUNT: (Unit, f64, f64) = (Unit::COUNT, 1e-1, 1e13);
const SHARE: (Unit, f64, f64) = (Unit::COUNT, 0.0, 1.0);
const SIZE: (Unit, f64, f64) = (Unit::BYTE, 64.0, 4096.0);

const fn row(
    pattern: &'static str,
    (unit, lowest, highest): (Unit, f64, f64),
    values: ValueRange,
    used: Used,
) -> ParameterRow {
    ParameterRow { pattern, unit, lowest, highest, values, used }
}

const fn count(lowest: f64, highest: f64) -> (Unit, f64, f64) {
    (Unit::COUNT, lowest, highest)
}

const ROWS: &[ParameterRow] = &[
    row("*.read.time-*", COMMAND_TIME, ValueRange::Any, Used::Drive),
    row("*.write.time-*", COMMAND_TIME, ValueRange::Any, Used::Drive),
    row("*.read.rate", RATE, ValueRange::Any, Used::Drive),
    row("*.write.rate", RATE, ValueRange::Any, Used::Drive),
    row("*.random-read.commands", COUNT, ValueRange::Any, Used::Drive),
    row("*.random-write.commands", COUNT, ValueRange::Any, Used::Drive),
    row("*.read.commands", COUNT, ValueRange::Any, Used::Drive),
    row("*.write.commands", COUNT, ValueRange::Any, Used::Drive),
    row("*.read.sustained", SHARE, A_SHARE, Used::Drive),
    row("*.write.sustained", SHARE, A_SHARE, Used::Drive),
    row("*.write.cache", BYTES, ValueRange::Any, Used::Drive),
    row("*.mixed", count(0.1, 2.0), MIXED, Used::Drive),
    row("drive.largest", BYTES, ValueRange::Whole, Used::DriveLargest),
    row("*.memory.write", RATE, ValueRange::Any, Used::Memory),
    row("*.memory.read", RATE, ValueRange::Any, Used::Memory),
    row("*.lanes", count(1.0, 32.0), ValueRange::Listed(LANES, LANES_ARE), Used::Link),
    row(
        "*.generation",
        count(1.0, 6.0),
        ValueRange::Listed(GENERATIONS, GENERATIONS_ARE),
        Used::Link,
    ),
    row("*.turns", count(1.0, 256.0), TURNS, Used::BelowSwitch),
    row("machine.stated", count(0.01, 100.0), STATED, Used::StatedRate),
    row("host.memory", RATE, ValueRange::Any, Used::Always),
    row("host.cores", COUNT, ValueRange::Whole, Used::Always),
    row("host.command", TIME, ValueRange::Any, Used::Always),
    row("host.copy", RATE, ValueRange::Any, Used::Always),
    row("host.overlap", count(1.0, 3.0), OVERLAP, Used::Always),
    row("host.fault", TIME, ValueRange::Any, Used::Always),
    row(
        "host.window",
        (Unit::BYTE, 4096.0, 1e18),
        ValueRange::WholeBetween("a fault maps a page at least"),
        Used::Always,
    ),
    row("host.completion", SIZE, ValueRange::Listed(PIECES, PIECES_ARE), Used::Always),
    row("host.read-latency", TIME, ValueRange::Any, Used::Always),
    row("host.write-latency", TIME, ValueRange::Any, Used::Always),
    row("device.read-latency", TIME, ValueRange::Any, Used::Always),
    row("device.write-latency", TIME, ValueRange::Any, Used::Always),
    row("device.completion", BYTES, ValueRange::Whole, Used::Always),
    row("pcie.mps", SIZE, ValueRange::Listed(PACKETS, PACKETS_ARE), Used::Always),
    row("pcie.mrrs", SIZE, ValueRange::Listed(PACKETS, PACKETS_ARE), Used::Always),
    row("pcie.tags", COUNT, ValueRange::Whole, Used::Always),
    row("queues.shared", SHARE, A_SHARE, Used::Always),
    row("root.latency", TIME, ValueRange::Any, Used::Always),
    row("root.split", SIZE, ValueRange::Listed(PIECES, PIECES_ARE), Used::Always),
    row("switch.latency", TIME, ValueRange::Any, Used::Switch),
    row("socket-link.rate", RATE, ValueRange::Any, Used::SocketRate),
    row("socket-link.latency", TIME, ValueRange::Any, Used::Socket),
    row("iommu.miss", SHARE, A_SHARE, Used::Iommu),
    row("iommu.page", BYTES, ValueRange::Whole, Used::Iommu),
    row("iommu.walk", TIME, ValueRange::Any, Used::Iommu),
    row("iommu.walkers", COUNT, ValueRange::Whole, Used::Iommu),
    row("ethernet.tunnel", BYTES, ValueRange::Whole, Used::DividedSwitch),
    row("ethernet.latency", TIME, ValueRange::Any, Used::DividedSwitch),
    row(
        "ethernet.mtu",
        (Unit::BYTE, 68.0, 65535.0),
        ValueRange::WholeBetween("an MTU is 68 to 65535 bytes (RFC 791)"),
        Used::NetworkController,
    ),
    row("network.latency", TIME, ValueRange::Any, Used::Network),
    row("network.copies", count(0.1, 10.0), ValueRange::Any, Used::NetworkController),
    row("ethernet.rate", RATE, ValueRange::Any, Used::NetworkRate),
    row("ethernet.headers", BYTES, ValueRange::Whole, Used::NetworkController),
];

impl ParameterRow {
    /// Returns the part of a name before the quantity: the device of `d0.read.rate`, nothing of `host.copy`. `None` if the
    /// name is not of this row.
    fn subject<'a>(&self, name: &'a str) -> Option<&'a str> {
        let Some(quantity) = self.pattern.strip_prefix('*') else {
            return (name == self.pattern).then_some("");
        };
        let subject = match quantity.strip_suffix('*') {
            // A time of anything is of this row, so that one without a size is refused and not left out.
            Some(start) => name.rfind(start).map(|at| &name[..at]),
            None => name.strip_suffix(quantity),
        };
        subject.filter(|subject| !subject.is_empty())
    }

    /// Refuses a value that no machine has.
    fn check(&self, value: f64) -> Result<(), &'static str> {
        if matches!(self.values, ValueRange::Whole | ValueRange::WholeBetween(_))
            && (value.fract() != 0.0 || value < 1.0)
        {
            return Err("it is a whole number above zero");
        }
        let is_inside = (self.lowest..=self.highest).contains(&value);
        match self.values {
            ValueRange::Listed(all, problem) if !all.contains(&value) => Err(problem),
            ValueRange::Between(problem) | ValueRange::WholeBetween(problem) if !is_inside => {
                Err(problem)
            }
            _ if !is_inside => Err(self.unit.beyond()),
            _ => Ok(()),
        }
    }
}

/// Finds the row of a name, and the device that the name begins with.
pub(super) fn find(name: &str) -> Option<(&'static ParameterRow, &str)> {
    ROWS.iter().find_map(|row| Some((row, row.subject(name)?)))
}

/// True if a parameter has whole numbers only.
pub fn is_whole(name: &str) -> bool {
    let row = find(name).map(|found| found.0);
    row.is_some_and(|row| matches!(row.values, ValueRange::Whole | ValueRange::WholeBetween(_)))
}

/// Lists the values of a parameter that has few, as `--vary` takes them.
pub(super) fn listed(name: &str) -> Option<String> {
    let ValueRange::Listed(all, _) = find(name)?.0.values else { return None };
    Some(all.iter().map(f64::to_string).collect::<Vec<_>>().join(","))
}

/// Refuses a parameter in a unit of something else.
pub(super) fn check_unit(name: &str, shape: &ParameterShape) -> Result<(), ParameterError> {
    match find(name).map(|(row, _)| row.unit) {
        Some(unit) if !unit.is_alike(shape.unit()) => {
            Err(ParameterError::Meaning { name: name.to_owned(), problem: unit.wanted() })
        }
        _ => Ok(()),
    }
}

/// Refuses values that no machine has.
pub(super) fn check(parameters: &Parameters, numbers: &[f64]) -> Result<(), ParameterError> {
    for (parameter, &number) in parameters.iter().zip(numbers) {
        let checked = find(&parameter.name).map_or(Ok(()), |(row, _)| row.check(number));
        checked.map_err(|problem| {
            let name = parameter.name.clone();
            ParameterError::Meaning { name, problem }
        })?;
    }
    let number = |name| parameters.position(name).ok().and_then(|position| numbers.get(position));
    match (number("ethernet.headers"), number("ethernet.mtu")) {
        (Some(headers), Some(mtu)) if headers >= mtu => Err(ParameterError::Meaning {
            name: "ethernet.headers".to_owned(),
            problem: "headers leave nothing of a frame of `ethernet.mtu`",
        }),
        _ => Ok(()),
    }
}

/// Refuses parameters with values or ranges that no machine has.
pub(super) fn check_ranges(parameters: &Parameters) -> Result<(), ParameterError> {
    check(parameters, &parameters.values())?;
    for end in [|lo: f64, _: f64| lo, |_: f64, hi: f64| hi] {
        let numbers: Vec<f64> = parameters.iter().map(|one| end(one.lo, one.hi)).collect();
        check(parameters, &numbers)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fit_their_rows() {
        let defaults = super::super::parameters(None).expect("the defaults");
        let has_row = |name: &str| assert!(find(name).is_some(), "{name}");
        defaults.iter().for_each(|one| has_row(&one.name));
        check_ranges(&defaults).expect("they fit");
        let is_of_machine = |row: &&ParameterRow| !row.pattern.starts_with('*');
        for row in ROWS.iter().filter(is_of_machine) {
            assert!(defaults.position(row.pattern).is_ok(), "{} has no default", row.pattern);
        }
    }
}
