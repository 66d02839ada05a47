//! Notations of machines and workloads.

use std::ops::RangeInclusive;

use peerlane_fabric::{Fabric, FunctionKind, MachineFileError};
use peerlane_results::{CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind};

use super::Draws;
use super::machine_file::MachineFile;
use crate::predict::lends_memory;

/// Most devices of a tree. With switches, and a port above each, they are three quarters of the functions that a machine
/// file may have.
const MAX_DEVICES: usize = 10_000;
/// Most servers and pods, with as many devices in all.
const MAX_SERVERS: usize = 625;
const MAX_PODS: usize = 400;
/// Most transfers of a workload.
const MAX_FLOWS: usize = 100_000;

/// Reasons why a notation has no machine or workload.
#[derive(Debug, thiserror::Error)]
pub enum NotationError {
    /// Another form.
    #[error("`{text}` is not one of {forms}")]
    Form {
        /// The notation.
        text: String,
        /// Known forms.
        forms: &'static str,
    },
    /// A number out of range.
    #[error("`{text}`: the {what} is too {}; {least} to {most} is allowed", if *is_more { "large" } else { "small" })]
    Count {
        /// The notation.
        text: String,
        /// The number, such as `number of devices`.
        what: &'static str,
        /// True above `most`, false below `least`.
        is_more: bool,
        /// Lowest number.
        least: u64,
        /// Highest number.
        most: u64,
    },
    /// A machine without two devices that reach each other.
    #[error("machine {0} has no two drives that lend memory to each other")]
    NoPairs(String),
    /// An unreadable generated file: an error of the generator.
    #[error("the machine that was generated is none")]
    Machine(#[from] MachineFileError),
}

/// The machine of a notation: `tree:DEVICES`, `servers:COUNT`, `pods:COUNT` or `pods:COUNT:SEED`; `None` for another
/// beginning.
///
/// # Errors
/// When a number is missing or too large.
pub fn fabric(notation: &str) -> Option<Result<Fabric, NotationError>> {
    let (kind, numbers) = notation.split_once(':')?;
    matches!(kind, "tree" | "servers" | "pods").then(|| machine(notation, kind, numbers))
}

fn machine(notation: &str, kind: &str, numbers: &str) -> Result<Fabric, NotationError> {
    const FORMS: &str = "tree:DEVICES, servers:COUNT, pods:COUNT, pods:COUNT:SEED";
    let (count, seed) = counts(notation, numbers, FORMS)?;
    let within = |what, least, most| within(notation, what, count, least..=most);
    let mut file = MachineFile::new(notation);
    match (kind, seed) {
        ("tree", None) => {
            within("number of devices", 2, MAX_DEVICES)?;
            file.tree("", count);
        }
        ("servers", None) => {
            within("number of servers", 1, MAX_SERVERS)?;
            (0..count).for_each(|server| file.tree(&format!("s{server}/"), 16));
        }
        ("pods", seed) => {
            within("number of pods", 1, MAX_PODS)?;
            let mut draws = Draws::new(seed.unwrap_or(0));
            (0..count).for_each(|pod| file.pod(pod, &mut draws));
        }
        _ => return Err(NotationError::Form { text: notation.to_owned(), forms: FORMS }),
    }
    Ok(Fabric::from_toml(&file.0)?)
}

fn counts(
    notation: &str,
    numbers: &str,
    forms: &'static str,
) -> Result<(usize, Option<u64>), NotationError> {
    let (count, seed) = match numbers.split_once(':') {
        Some((count, seed)) => (count, Some(seed)),
        None => (numbers, None),
    };
    let number = |text: &str| {
        let wrong = |_| NotationError::Form { text: notation.to_owned(), forms };
        text.parse::<u128>().map_err(wrong)
    };
    let count = usize::try_from(number(count)?).unwrap_or(usize::MAX);
    let seed = seed.map(|seed| {
        let (text, least, most) = (notation.to_owned(), 0, u64::MAX);
        let too_large = NotationError::Count { text, what: "seed", is_more: true, least, most };
        u64::try_from(number(seed)?).map_err(|_| too_large)
    });
    Ok((count, seed.transpose()?))
}

/// Refuses a count out of range.
fn within(
    notation: &str,
    what: &'static str,
    count: usize,
    range: RangeInclusive<usize>,
) -> Result<(), NotationError> {
    if range.contains(&count) {
        return Ok(());
    }
    let (least, most) = (*range.start() as u64, *range.end() as u64);
    let text = notation.to_owned();
    Err(NotationError::Count { text, what, is_more: count > *range.end(), least, most })
}

/// The workload of a notation, `random:TRANSFERS` or `random:TRANSFERS:SEED`: peer-to-peer transfers of 1 GiB
/// between random drives of one machine each, all at once; `None` for another beginning.
///
/// # Errors
/// When a number is missing or too large, or the machine has no drives that lend memory.
pub fn workload(notation: &str, fabric: &Fabric) -> Option<Result<Workload, NotationError>> {
    let numbers = notation.strip_prefix("random:")?;
    Some(random(notation, numbers, fabric))
}

fn random(notation: &str, numbers: &str, fabric: &Fabric) -> Result<Workload, NotationError> {
    let (count, seed) = counts(notation, numbers, "random:TRANSFERS, random:TRANSFERS:SEED")?;
    within(notation, "number of transfers", count, 1..=MAX_FLOWS)?;
    let lenders = LenderNames::from_fabric(fabric);
    if lenders.0.is_empty() {
        return Err(NotationError::NoPairs(fabric.name.clone()));
    }
    let seed = seed.unwrap_or(0);
    let mut draws = Draws::new(seed);
    let flow = |[source, target]: [&str; 2]| Flow::new(source, target, Path::P2p);
    let flows = (0..count).map(|_| flow(lenders.pair(&mut draws))).collect();
    let name = format!("{count} random transfers");
    Ok(Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        kind: WorkloadKind::Crowd,
        cases: vec![CaseSpec { name: name.clone(), flows, time_ns: None }],
        name,
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None, time_ns: None },
        seed,
    })
}

/// Names of the drives that lend memory, for each machine that has two of them.
#[derive(Debug, Clone)]
pub struct LenderNames<'a>(Vec<Vec<&'a str>>);

impl<'a> LenderNames<'a> {
    /// The lenders of a fabric.
    pub fn from_fabric(fabric: &'a Fabric) -> Self {
        let mut machines: Vec<(&str, Vec<&str>)> = Vec::new();
        for function in &fabric.functions {
            if function.kind != FunctionKind::Nvme || !lends_memory(function) {
                continue;
            }
            let machine = function.name.split_once('/').map_or("", |(machine, _)| machine);
            match machines.last_mut() {
                Some((last, names)) if *last == machine => names.push(&function.name),
                _ => machines.push((machine, vec![&function.name])),
            }
        }
        Self(machines.into_iter().map(|(_, names)| names).filter(|names| names.len() > 1).collect())
    }

    /// Two random drives of one random machine.
    ///
    /// # Panics
    /// Without a machine.
    pub fn pair(&self, draws: &mut Draws) -> [&'a str; 2] {
        let names = &self.0[draws.below(self.0.len())];
        let source = draws.below(names.len());
        let target = (source + 1 + draws.below(names.len() - 1)) % names.len();
        [names[source], names[target]]
    }
}
