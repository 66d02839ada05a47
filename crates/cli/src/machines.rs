//! Finds the machine a command looks at.

use std::path::Path;

pub(crate) use peerlane::machines::Description;
use peerlane::machines::{self, Look, MachineError, Place};
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
/// When it cannot be read.
pub(crate) fn fabric(args: &FabricArgs) -> Result<Fabric, Failure> {
    Ok(machines::read(place(args), Look::Full)?)
}

/// The same, without a command to any drive: what a plan rests on.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn fabric_for_a_plan(args: &FabricArgs) -> Result<Fabric, Failure> {
    Ok(machines::read(place(args), Look::Quiet)?)
}

fn place(args: &FabricArgs) -> Place<'_> {
    match (&args.machine, &args.root) {
        (Some(machine), _) => Place::Described(machine),
        (None, Some(root)) => Place::Root(root),
        (None, None) => Place::Here,
    }
}

/// The description that a person means by a path or a name.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(crate) fn find(wanted: &Path) -> Result<Description, Failure> {
    Ok(machines::find(wanted)?)
}

/// Every description that can be named: those of `folder`, or else of `./machines` and built in.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn list(folder: Option<&Path>) -> Result<Vec<Description>, Failure> {
    Ok(machines::list(folder)?)
}
