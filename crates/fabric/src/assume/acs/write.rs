//! The kernel parameter that stops redirection on some ports, and the commands that do so at once.

use std::collections::{BTreeMap, BTreeSet};

use super::boot::AcsBoot;
use super::{AcsParameter, list};
use crate::assume::command_line::COMMAND_LINE_SIZE;
use crate::{Acs, Fabric, FunctionId, Kernel};

/// Bytes of the command line that are left to everything else on it.
const OTHER_PARAMETERS: usize = 512;

/// The reason why redirection on some ports cannot be stopped so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcsParameterError {
    /// None of the ports has ACS.
    #[error("none of the ports has ACS")]
    NoPorts,
    /// The kernel is unknown to honour either parameter.
    #[error("{0}")]
    NotHonoured(String),
    /// An address on the way to the port is unknown.
    #[error("the PCI address of {0} is unknown")]
    NoAddress(String),
    /// The register of the port is unknown.
    #[error("the ACS control register of {0} is unknown: run as root")]
    NotRead(String),
    /// The parameter is longer than the kernel's command line.
    #[error(
        "the parameter has {0} bytes, more than the kernel's command line of {COMMAND_LINE_SIZE} has room for"
    )]
    TooLong(usize),
}

/// Returns the kernel parameter that stops redirection on these ports, in the newest form that the kernel
/// honours: `pci=config_acs=0010001@0000:00:01.0/00.0;...`.
///
/// `config_acs` keeps all other bits as they are now, source validation and upstream forwarding among
/// them. Functions that the present command line names are named again, since the kernel reads the last
/// such parameter only. Devices are named by vendor and device where that means these functions and no
/// other.
///
/// # Errors
/// The reason why the ports cannot be named, or set.
pub fn acs_parameter(
    kernel: &Kernel,
    fabric: &Fabric,
    ports: &BTreeSet<FunctionId>,
) -> Result<String, AcsParameterError> {
    let Some(parameter) = AcsParameter::newest_honoured(kernel) else {
        return Err(AcsParameterError::NotHonoured(AcsParameter::refusal(kernel)));
    };
    let wanted = wanted(parameter, fabric, ports)?;
    if wanted.is_empty() {
        return Err(AcsParameterError::NoPorts);
    }
    let list = |is_short| {
        let entries = entries(parameter, fabric, &wanted, is_short)?;
        Ok(format!("pci={}={}", parameter.name(), entries.join(";")))
    };
    let is_too_long = |text: &String| text.len() > COMMAND_LINE_SIZE - OTHER_PARAMETERS;
    let full = list(false)?;
    let text = if is_too_long(&full) { list(true)? } else { full };
    if is_too_long(&text) { Err(AcsParameterError::TooLong(text.len())) } else { Ok(text) }
}

/// Returns the commands that stop redirection on these ports at once and leave all other bits as they are:
/// `setpci` changes the bits of the mask behind the colon (setpci(8)).
///
/// # Errors
/// The port whose address is unknown.
pub fn acs_setpci(
    fabric: &Fabric,
    ports: &BTreeSet<FunctionId>,
) -> Result<Vec<String>, AcsParameterError> {
    let command = |id: &FunctionId| {
        let function = fabric.function(*id);
        let unknown = || AcsParameterError::NoAddress(function.name.clone());
        let address = function.address.ok_or_else(unknown)?;
        Ok(format!("setpci -s {address} ECAP_ACS+6.w=0000:{:04x}", Acs::REDIRECT))
    };
    ports.iter().map(command).collect()
}

/// The settable bits that each function is to have.
type Wanted = BTreeMap<FunctionId, u16>;

/// Ports without redirection, and functions that the present parameter names, as they are.
fn wanted(
    parameter: AcsParameter,
    fabric: &Fabric,
    ports: &BTreeSet<FunctionId>,
) -> Result<Wanted, AcsParameterError> {
    let present = AcsBoot::present(fabric);
    let is_named = |id: FunctionId| {
        present.in_force(parameter).is_some_and(|list| {
            matches!(list::find(parameter, list, fabric, id), list::EntryMatch::Yes(_))
        })
    };
    let mut wanted = Wanted::new();
    for (id, function) in fabric.iter().filter(|(_, function)| function.acs != Acs::Absent) {
        let keeps = match ports.contains(&id) {
            true => !Acs::REDIRECT,
            false if is_named(id) => u16::MAX,
            false => continue,
        };
        let control = match (parameter, function.acs) {
            (AcsParameter::DisableAcsRedir, _) => 0,
            (AcsParameter::ConfigAcs, Acs::Present { control }) => control & keeps,
            (AcsParameter::ConfigAcs, _) => {
                return Err(AcsParameterError::NotRead(function.name.clone()));
            }
        };
        wanted.insert(id, control & list::SETTABLE);
    }
    Ok(wanted)
}

/// Entries of the list, without the domain 0000 in the short form.
fn entries(
    parameter: AcsParameter,
    fabric: &Fabric,
    wanted: &Wanted,
    is_short: bool,
) -> Result<Vec<String>, AcsParameterError> {
    let entry = |bits: u16, device: &str| match parameter {
        AcsParameter::ConfigAcs => format!("{}@{device}", list::flags(bits)),
        AcsParameter::DisableAcsRedir => device.to_owned(),
    };
    let mut entries = Vec::new();
    let mut named = BTreeSet::new();
    for (&id, &bits) in wanted {
        if let Some(identity) = shared_identity(parameter, fabric, wanted, id) {
            if named.insert(identity) {
                let (vendor, device) = identity;
                entries.push(entry(bits, &format!("pci:{vendor:04x}:{device:04x}")));
            }
            continue;
        }
        let unknown = || AcsParameterError::NoAddress(fabric.function(id).name.clone());
        let path = fabric.path_of(id).ok_or_else(unknown)?;
        let path = if is_short { path.strip_prefix("0000:").unwrap_or(&path) } else { &path };
        entries.push(entry(bits, path));
    }
    Ok(entries)
}

/// Vendor and device of a function, if they name several functions and an entry by them gives each
/// of those the bits that it is to have, or has.
fn shared_identity(
    parameter: AcsParameter,
    fabric: &Fabric,
    wanted: &Wanted,
    id: FunctionId,
) -> Option<(u16, u16)> {
    let identity = |id: FunctionId| {
        let function = fabric.function(id);
        Some((function.vendor?, function.device?))
            .filter(|(vendor, device)| *vendor != 0 && *device != 0)
    };
    let own = identity(id)?;
    let fits = |other: FunctionId| match (wanted.get(&other), fabric.function(other).acs) {
        (Some(bits), _) => *bits == wanted[&id],
        (None, Acs::Absent) => true,
        (None, Acs::Present { control }) => {
            let has =
                if parameter == AcsParameter::ConfigAcs { control & list::SETTABLE } else { 0 };
            has == wanted[&id] && control & Acs::REDIRECT == 0
        }
        (None, Acs::NotRedirecting | Acs::Unknown) => false,
    };
    let alike = fabric.iter().map(|(other, _)| other).filter(|other| identity(*other) == Some(own));
    let alike: Vec<FunctionId> = alike.collect();
    let several = alike.iter().filter(|other| wanted.contains_key(other)).count() > 1;
    // Functions whose identity is unknown could be meant, too.
    let is_certain = fabric.iter().all(|(other, one)| {
        one.acs == Acs::Absent || wanted.contains_key(&other) || identity(other).is_some()
    });
    (several && is_certain && alike.into_iter().all(fits)).then_some(own)
}
