//! Parameters of devices, under the names that the machine has for them: a calibration names a drive as it was
//! typed, `/dev/nvme0n1`, and the machine calls it `nvme0`.
//!
//! Leaves out parameters of any drive (`drive.read.rate`), of the host, and of links that nobody typed. The one thing
//! to know: names of devices have dots in them, too, and memory of a device is typed `cmb:nvme2` or `gpu:0`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use peerlane_fabric::{Fabric, Function, FunctionId, Kind};

use super::flows::is_end;
use super::links::{is_of_link, link_parameter};
use crate::parameters::{Parameter, ParameterError, Parameters, Provenance};

/// What can be said of a drive.
const OF_A_DRIVE: &[&str] = &[
    "read.rate",
    "read.commands",
    "read.sustained",
    "write.rate",
    "write.commands",
    "write.sustained",
    "write.cache",
    "mixed",
    "random-read.commands",
    "random-write.commands",
];
/// Tables: what follows is a size.
const TIMES: &[&str] = &["read.time-", "write.time-"];
/// What can be said of the memory of a device: at what rate it is written and read.
const OF_A_MEMORY: &[&str] = &["memory.write", "memory.read"];
/// What can be said of whatever hangs below a switch.
pub(super) const TURNS: &str = "turns";

/// What stands for any drive in the name of a parameter.
pub(super) const ANY: &str = "drive";

/// How the names of parameters of a drive begin: with its own name, unless that means any drive.
pub(super) fn start_of(function: &Function) -> &str {
    if function.name == ANY { "/dev/drive" } else { &function.name }
}

/// How memories of devices are typed.
const MEMORIES: [&str; 4] = ["cmb:", "p2pmem:", "gpu:", "fpga:"];

/// The name of the device whose memory a person means, `nvme2` of `cmb:nvme2`; `None` where no memory is meant.
pub(crate) fn memory_of(typed: &str) -> Option<&str> {
    MEMORIES.iter().find_map(|kind| typed.strip_prefix(kind))
}

/// The device that a person means by an end of a flow, or by a name in a file.
pub(super) fn device(fabric: &Fabric, typed: &str) -> Option<FunctionId> {
    let name = memory_of(typed).unwrap_or_else(|| typed.strip_prefix("/dev/").unwrap_or(typed));
    let by_number = |kind| {
        let number: usize = name.parse().ok()?;
        fabric.iter().filter(|(_, function)| function.kind == kind).nth(number)
    };
    let counted = match typed.split_once(':').map(|(kind, _)| kind) {
        Some("gpu") => by_number(Kind::Gpu),
        Some("fpga") => by_number(Kind::Fpga),
        _ => None,
    };
    counted.map(|(id, _)| id).or_else(|| fabric.find(name))
}

/// The names of devices of a machine, to be looked up often.
pub(super) struct Names<'a> {
    fabric: &'a Fabric,
    own: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(fabric: &'a Fabric) -> Self {
        Self { fabric, own: fabric.functions.iter().map(|one| one.name.as_str()).collect() }
    }

    /// The name by which the model knows a parameter; `None` if it is of no device, or says nothing of it.
    pub(super) fn own_name<'b>(&self, name: &'b str) -> Option<Cow<'b, str>> {
        if is_of_link(name, self.fabric) {
            return Some(name.into());
        }
        name.match_indices('.').find_map(|(dot, _)| -> Option<Cow<'b, str>> {
            let (typed, what) = (&name[..dot], &name[dot + 1..]);
            let is_of_drive = is_of_drive(what);
            if is_of_drive && typed == ANY {
                return Some(name.into());
            }
            let is_of_memory = is_of_memory(what);
            let is_of_device = is_of_drive || is_of_memory;
            if !is_of_device && what != TURNS && !matches!(what, "lanes" | "generation") {
                return None;
            }
            let found = self.fabric.function(device(self.fabric, typed)?);
            if is_of_drive && found.kind != Kind::Nvme || is_of_memory && !is_end(found) {
                return None;
            }
            let own = match typed {
                _ if is_of_memory => &found.name,
                _ if is_of_drive && found.name == ANY => start_of(found),
                _ if self.own.contains(typed) => typed,
                _ => &found.name,
            };
            let own: Cow<'b, str> =
                if own == typed { name.into() } else { format!("{own}.{what}").into() };
            (is_of_device || what == TURNS || is_of_link(&own, self.fabric)).then_some(own)
        })
    }
}

/// Whether this is said of a drive. A time of something that is no size is, too, so that it is refused and not left
/// out of a table.
pub(super) fn is_of_drive(what: &str) -> bool {
    TIMES.iter().any(|start| what.starts_with(start)) || OF_A_DRIVE.contains(&what)
}

/// Whether this is said of the memory of a device.
pub(super) fn is_of_memory(what: &str) -> bool {
    OF_A_MEMORY.contains(&what)
}

/// The name by which the model knows a parameter that a person calls by any name of a device; as typed, if it is of
/// none.
pub fn own_name(typed: &str, fabric: &Fabric) -> String {
    Names::of(fabric).own_name(typed).unwrap_or(typed.into()).into_owned()
}

/// Parameters with those of devices under the machine's names, at their positions.
///
/// # Errors
/// When two names of one device say the same of it.
pub fn own_names(parameters: &Parameters, fabric: &Fabric) -> Result<Parameters, ParameterError> {
    let names = Names::of(fabric);
    let mut renamed = Parameters::default();
    for parameter in parameters.iter() {
        let mut own = parameter.clone();
        if let Some(name) = names.own_name(&parameter.name) {
            own.name = name.into_owned();
        }
        let is_other_name = own.name != parameter.name;
        renamed.add(own).map_err(|error| match error {
            ParameterError::SaidTwice(own) => {
                let typed = if is_other_name { parameter.name.clone() } else { own };
                let problem = "another name of the same device says it, too";
                ParameterError::Meaning { name: typed, problem }
            }
            other => other,
        })?;
    }
    Ok(renamed)
}

/// What is said of a device, or of the link above it, by a name that the model knows, so that a variant can have numbers
/// for it that no file gives: the lanes or the generation of a link as the machine has it, anything else as the first of
/// those. `None` where it is of no device.
pub fn device_parameter(
    own: &str,
    first: f64,
    fabric: &Fabric,
    parameters: &Parameters,
) -> Option<Parameter> {
    let of_device = || {
        Names::of(fabric).own_name(own).map(|name| Parameter {
            name: name.into_owned(),
            value: first,
            lo: first,
            hi: first,
            datasheet: None,
            from: Provenance::Guess,
            rows: Vec::new(),
            source: "varied".to_owned(),
        })
    };
    link_parameter(own, fabric, parameters).or_else(of_device)
}
