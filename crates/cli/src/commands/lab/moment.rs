//! `peerlane lab moment`: a moment of a run, announced from inside the machine.

use crate::args::MomentArgs;
use crate::error::Failure;
use crate::exit::Exit;

/// Announces the moment and waits until its event has happened.
///
/// # Errors
/// Outside a machine of the lab, and when nothing was to happen or it could not be done.
pub(super) fn run(args: &MomentArgs) -> Result<Exit, Failure> {
    peerlane_lab::moment(&args.name).map_err(Failure::new)?;
    Ok(Exit::Done)
}
