//! Finds the machine a command looks at.

use std::path::Path;

pub(crate) use peerlane::machines::Description;
use peerlane::machines::{self, LookDepth, MachineError, MachineSource};
use peerlane_fabric::Fabric;

use crate::args::FabricArgs;
use crate::error::Failure;

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}

/// The machine a command looks at.
///
/// # Errors
/// When it is not found or cannot be read.
pub(crate) fn fabric(args: &FabricArgs) -> Result<Fabric, Failure> {
    Ok(machines::read(place(args), LookDepth::Full)?)
}

/// The same, without a command to any drive: enough for plans and metrics.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn fabric_quietly(args: &FabricArgs) -> Result<Fabric, Failure> {
    Ok(machines::read(place(args), LookDepth::Quiet)?)
}

/// A machine that is named by an argument of its own.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn named(what: &Path) -> Result<Fabric, Failure> {
    Ok(machines::read(MachineSource::Described(what), LookDepth::Full)?)
}

fn place(args: &FabricArgs) -> MachineSource<'_> {
    args.machine.as_deref().map_or(MachineSource::Here, MachineSource::Described)
}

/// Every description that can be named: those of `folder`, or else of `./machines` and built in.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn list(folder: Option<&Path>) -> Result<Vec<Description>, Failure> {
    Ok(machines::list(folder)?)
}
