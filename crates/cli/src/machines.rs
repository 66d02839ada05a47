//! Finds the machine a command looks at.

use std::path::Path;

pub(crate) use peerlane::machines::Description;
use peerlane::machines::{self, LookDepth, MachineError, MachineSource};
use peerlane_engine::suggestion::hint_of_device;
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_memory::provider::PROVIDERS;

use crate::args::FabricArgs;
use crate::error::Failure;
use crate::printer::Printer;
use crate::render;

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}

/// The machine a command looks at, with warnings about lines of its text that were not read.
///
/// # Errors
/// When it is not found or cannot be read.
pub(crate) fn fabric(args: &FabricArgs, printer: Printer) -> Result<Fabric, Failure> {
    read(place(args), LookDepth::Full, printer)
}

/// The same, without a command to any drive: enough for plans and metrics.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn fabric_quietly(args: &FabricArgs, printer: Printer) -> Result<Fabric, Failure> {
    read(place(args), LookDepth::Quiet, printer)
}

/// A machine that is named by an argument of its own.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn named(what: &Path, printer: Printer) -> Result<Fabric, Failure> {
    read(MachineSource::Described(what), LookDepth::Full, printer)
}

fn read(source: MachineSource<'_>, look: LookDepth, printer: Printer) -> Result<Fabric, Failure> {
    let fabric = machines::read(source, look)?;
    fabric.topology_notes().iter().for_each(|note| printer.warning(note));
    if let Some(account) = &fabric.account {
        if let Some(warning) = render::lost_lines(account) {
            printer.warning(&warning);
        }
        if printer.is_verbose() {
            render::set_aside(account).iter().for_each(|line| printer.note(line));
        }
    }
    Ok(fabric)
}

fn place(args: &FabricArgs) -> MachineSource<'_> {
    args.machine.as_deref().map_or(MachineSource::Here, MachineSource::Described)
}

/// The device that a person names alone.
///
/// # Errors
/// When the machine has none of that name.
pub(crate) fn device(fabric: &Fabric, word: &str) -> Result<FunctionId, Failure> {
    PROVIDERS.find(fabric, word).ok_or_else(|| {
        let error = format!("machine {} has no device `{word}`", fabric.name);
        Failure::new(error).hint(hint_of_device(fabric, word))
    })
}

/// Every description that can be named: those of `folder`, or else of `./machines` and built in.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn list(folder: Option<&Path>) -> Result<Vec<Description>, Failure> {
    Ok(machines::list(folder)?)
}
