//! Changes of ACS registers in words.

use std::collections::BTreeMap;

use super::boot::AcsBoot;
use super::{AcsParameter, RegisterChange};
use crate::{Acs, Fabric, FunctionId};

/// Functions named in a sentence before the rest are counted.
const NAMED: usize = 6;

/// Sentence on registers that change, those with the same change together.
pub(super) fn changed(changed: &[(FunctionId, RegisterChange)], fabric: &Fabric) -> String {
    let mut groups: BTreeMap<String, Vec<FunctionId>> = BTreeMap::new();
    for (id, change) in changed {
        groups.entry(one(*change)).or_default().push(*id);
    }
    let sentence = |(change, functions): (String, Vec<FunctionId>)| {
        format!("{}: {change}", names(&functions, fabric))
    };
    groups.into_iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// Sentence on a parameter that changes no register.
pub(super) fn unchanged(
    parameter: AcsParameter,
    meant: &[FunctionId],
    after: &AcsBoot,
    fabric: &Fabric,
) -> String {
    let has_acs = |id: &&FunctionId| fabric.function(**id).acs != Acs::Absent;
    let with_acs = meant.iter().filter(has_acs).count();
    let has_config = after.in_force(AcsParameter::ConfigAcs).is_some();
    match (meant.len(), with_acs) {
        (0, _) => "it names no function of this machine".to_owned(),
        (_, 0) => format!("no ACS capability: {}", names(meant, fabric)),
        _ if parameter == AcsParameter::DisableAcsRedir && has_config => {
            format!(
                "no effect where pci=config_acs= decides, or set so already: {}",
                names(meant, fabric)
            )
        }
        _ => format!("set so already: {}", names(meant, fabric)),
    }
}

/// Names of functions, or their number beyond a few.
fn names(functions: &[FunctionId], fabric: &Fabric) -> String {
    let name = |id: &FunctionId| fabric.function(*id).name.as_str();
    let named: Vec<&str> = functions.iter().take(NAMED).map(name).collect();
    match functions.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// One change.
fn one(RegisterChange { before, after }: RegisterChange) -> String {
    let register = match (before, after) {
        (Acs::Present { control: before }, Acs::Present { control: after }) => {
            format!("ACS control {before:#06x} becomes {after:#06x}, ")
        }
        _ => String::new(),
    };
    let redirection = match (before.redirects(), after.redirects()) {
        (_, None) => "it is unknown whether it redirects peer traffic then",
        (Some(true), Some(false)) => "it no longer redirects peer traffic",
        (Some(false), Some(true)) => "it redirects peer traffic",
        (None, Some(false)) => "it does not redirect peer traffic then",
        (None, Some(true)) => "it redirects peer traffic then",
        (Some(true), Some(true)) => "it redirects peer traffic as before",
        (Some(false), Some(false)) => "it redirects no peer traffic, as before",
    };
    let others = match after {
        Acs::NotRedirecting => {
            "; source validation and upstream forwarding are left to the firmware, which is not \
             known here"
        }
        _ => "",
    };
    format!("{register}{redirection}{others}")
}
