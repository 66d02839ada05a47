//! Devices and their parameters by every name that a person types.
//!
//! A file of parameters names a drive `/dev/nvme0n1`, the machine `nvme0`; its memory is `cmb:nvme0`, the memory of a GPU `gpu:0`.

use std::borrow::Cow;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, HostBridge, IommuMode};
use peerlane_memory::provider::{PROVIDERS, ProviderKind};

use super::links;
use super::setting::parameters;
use super::table::{self, ANY_DRIVE, ANY_LINK, Used};
use crate::model::as_f64;
use crate::parameters::{Parameter, ParameterError, Parameters, Provenance};

/// Returns the beginning of the names of a drive's parameters: its own name, unless that is the one of any drive.
pub(super) fn prefix(drive: &str) -> &str {
    if drive == ANY_DRIVE { "/dev/drive" } else { drive }
}

/// The device of a memory: `nvme2` of `cmb:nvme2`; `None` for what is not memory of a device.
pub(crate) fn memory_of(typed: &str) -> Option<(ProviderKind, &str)> {
    let (provider, name) = PROVIDERS.split(typed)?;
    (provider.kind() != ProviderKind::Host).then_some((provider.kind(), name))
}

/// Finds a device by any of its names.
pub(super) fn device(fabric: &Fabric, typed: &str) -> Option<FunctionId> {
    let (memory, name) = match memory_of(typed) {
        Some((memory, name)) => (Some(memory), name),
        None => (None, typed.strip_prefix("/dev/").unwrap_or(typed)),
    };
    let by_number = |kind| {
        let number: usize = name.parse().ok()?;
        fabric.iter().filter(|(_, function)| function.kind == kind).nth(number)
    };
    let counted = match memory {
        Some(ProviderKind::Gpu) => by_number(FunctionKind::Gpu),
        Some(ProviderKind::Card) => by_number(FunctionKind::Fpga),
        _ => None,
    };
    counted.map(|(id, _)| id).or_else(|| fabric.find(name))
}

/// The model's name of a parameter; `None` if it is not of the model, or of no device of the machine.
fn known_name<'a>(name: &'a str, fabric: &Fabric) -> Option<Cow<'a, str>> {
    let (row, typed) = table::find(name)?;
    let is_any = match row.used {
        Used::Drive => typed == ANY_DRIVE,
        Used::Link => typed == ANY_LINK,
        _ => typed.is_empty(),
    };
    if is_any {
        return Some(name.into());
    }
    let exact = fabric.functions.iter().find(|function| function.name == typed);
    let found = exact.or_else(|| Some(fabric.function(device(fabric, typed)?)))?;
    let fits = match row.used {
        Used::Drive => found.kind == FunctionKind::Nvme,
        Used::Memory => is_end(found),
        Used::Link => links::linked(fabric).any(|function| function.name == found.name),
        _ => true,
    };
    let own = if row.used == Used::Drive { prefix(&found.name) } else { &found.name };
    fits.then(|| format!("{own}{}", &name[typed.len()..]).into())
}

/// The model's name of a parameter that a person calls by any name of a device; as typed, if it is of none.
pub fn own_name(typed: &str, fabric: &Fabric) -> String {
    known_name(typed, fabric).unwrap_or(typed.into()).into_owned()
}

/// Parameters with those of devices under the machine's names, at their positions.
///
/// # Errors
/// When two names of one device are given the same parameter.
pub fn own_names(parameters: &Parameters, fabric: &Fabric) -> Result<Parameters, ParameterError> {
    let mut renamed = Parameters::default();
    for parameter in parameters.iter() {
        let name = own_name(&parameter.name, fabric);
        let is_renamed = name != parameter.name;
        renamed.add(Parameter { name, ..parameter.clone() }).map_err(|error| match error {
            ParameterError::SaidTwice(own) => ParameterError::Meaning {
                name: if is_renamed { parameter.name.clone() } else { own },
                problem: "another name of the same device says it, too",
            },
            other => other,
        })?;
    }
    Ok(renamed)
}

/// The parameter of a device that no file gives, for variants: the lanes or generation that a link has, else `first`.
/// `None` for a name that is of no device.
pub fn device_parameter(
    own: &str,
    first: f64,
    fabric: &Fabric,
    parameters: &Parameters,
) -> Option<Parameter> {
    let name = known_name(own, fabric)?.into_owned();
    let of_link = links::value(&name, fabric, parameters);
    let (from, source) = match of_link {
        Some(_) => (Provenance::Spec, format!("the description of {}", fabric.name)),
        None => (Provenance::Guess, "varied".to_owned()),
    };
    let value = of_link.unwrap_or(first);
    let rows = Vec::new();
    Some(Parameter { name, value, lo: value, hi: value, datasheet: None, from, rows, source })
}

/// Names of parameters that the model or the machine does not have.
pub fn unknown<'a>(given: &'a Parameters, fabric: &Fabric) -> Vec<&'a str> {
    let names = given.iter().map(|parameter| parameter.name.as_str());
    names.filter(|name| known_name(name, fabric).is_none()).collect()
}

/// Names of changed parameters that a machine does not use, with the reasons.
pub fn unused<'a>(given: &'a Parameters, fabric: &Fabric) -> Vec<(&'a str, &'static str)> {
    let defaults = parameters(None).unwrap_or_default();
    let default = |name: &str| defaults.position(name).ok().and_then(|at| defaults.at(at));
    let changed = given.iter().filter(|one| default(&one.name) != Some(one));
    let names = changed.map(|one| one.name.as_str());
    names.filter_map(|name| Some((name, why_unused(name, given, fabric)?))).collect()
}

/// The reason that a machine does not use a parameter next to those that are given; `None` if it does.
pub fn why_unused(name: &str, given: &Parameters, fabric: &Fabric) -> Option<&'static str> {
    let (row, subject) = table::find(name)?;
    let functions = || fabric.functions.iter();
    let drives = || functions().filter(|function| function.kind == FunctionKind::Nvme);
    let has = |kind| functions().any(|function| function.kind == kind);
    let nics = || functions().filter(|function| function.kind == FunctionKind::Nic);
    let is_divided =
        |port: &Function| port.kind == FunctionKind::UpstreamPort && port.ethernet.is_some();
    let is_other = |bridge: &HostBridge| bridge.machine() != fabric.bridges[0].machine();
    let sockets = links::sockets(fabric);
    let (is_used, why) = match row.used {
        Used::Drive if subject == ANY_DRIVE => (
            drives().any(|drive| !has_own(drive, &name[subject.len()..], given, fabric)),
            "each drive has a number of its own, in a file or in the machine's description",
        ),
        Used::Link if subject == ANY_LINK => (
            links::has_unknown(fabric, given),
            "the machine's description says how fast each link is",
        ),
        Used::DriveLargest => (
            drives().any(|drive| largest_command(drive).is_none()),
            "the machine's description says it of each drive",
        ),
        Used::Iommu => {
            (fabric.iommu == IommuMode::Translating, "no IOMMU of the machine translates")
        }
        Used::NetworkController => {
            (has(FunctionKind::Nic), "the machine has no network controller")
        }
        Used::Network => {
            (fabric.bridges.iter().any(is_other), "the machine's description has one machine")
        }
        Used::NetworkRate => (
            nics().any(|nic| nic.ethernet.is_none()),
            "each network controller of the machine says its rate",
        ),
        Used::DividedSwitch => {
            (functions().any(is_divided), "no Ethernet divides a switch of the machine")
        }
        Used::SocketRate if sockets.has_two => {
            (sockets.has_unstated, "the machine's description says it of each link between sockets")
        }
        Used::SocketRate | Used::Socket => (sockets.has_two, "the machine has one memory node"),
        Used::Switch => (has(FunctionKind::UpstreamPort), "the machine has no switch"),
        Used::StatedRate => {
            (functions().any(states_rate), "the machine's description states no rate")
        }
        Used::Always | Used::Drive | Used::Memory | Used::Link | Used::BelowSwitch => return None,
    };
    (!is_used).then_some(why)
}

/// True if the description of a machine states a rate of a device.
fn states_rate(function: &Function) -> bool {
    let memory = function.p2pmem.as_ref().map(|memory| memory.rates);
    let rates = [Some(function.rates), memory];
    rates.into_iter().flatten().any(|rates| rates.read.is_some() || rates.write.is_some())
}

/// True if a drive has a number of its own for a quantity, such as `.read.rate`, of any drive.
fn has_own(drive: &Function, quantity: &str, given: &Parameters, fabric: &Fabric) -> bool {
    // One time of its own replaces all times of any drive.
    let quantity = quantity.split_inclusive("time-").next().unwrap_or(quantity);
    let own = format!("{}{quantity}", prefix(&drive.name));
    let is_own = |name: &str| {
        let known = known_name(name, fabric);
        known.is_some_and(|name| name == own || own.ends_with('-') && name.starts_with(&own))
    };
    let is_stated = match quantity {
        ".read.rate" => drive.rates.read.is_some(),
        ".write.rate" => drive.rates.write.is_some(),
        ".mixed" => drive.mixed_per_mille.is_some() || drive.lab.throttle.is_some(),
        _ => false,
    };
    is_stated || given.iter().any(|one| is_own(&one.name))
}

/// True if data can come from a function or go to it: ports and bridges pass them on.
pub(super) fn is_end(function: &Function) -> bool {
    match function.kind {
        FunctionKind::Nvme | FunctionKind::Gpu | FunctionKind::Fpga | FunctionKind::Nic => true,
        FunctionKind::Other => lends_memory(function),
        FunctionKind::RootPort
        | FunctionKind::UpstreamPort
        | FunctionKind::DownstreamPort
        | FunctionKind::OtherBridge => false,
    }
}

/// True if others can move data into a function's memory.
pub(crate) fn lends_memory(function: &Function) -> bool {
    function.p2pmem.is_some() || function.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some())
}

/// The largest command of a drive, where that is known: by the kernel, or MDTS in pages of 4 KiB, with 0 for no limit
/// (NVM Express base specification 2.0, Identify Controller data structure).
pub(super) fn largest_command(function: &Function) -> Option<f64> {
    let namespaces = function.nvme.iter().flat_map(|nvme| &nvme.namespaces);
    let limits = namespaces.filter_map(|namespace| namespace.limits.max_hw_request).map(as_f64);
    let pages = function.lab.mdts.filter(|&mdts| mdts > 0);
    let largest = pages.map(|mdts| 4096.0 * f64::from(mdts).exp2());
    limits.chain(largest).reduce(f64::min).map(|least| least.max(4096.0))
}
