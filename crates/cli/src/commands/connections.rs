//! Connections to the drives of other machines that a command names.

use std::path::Path;

use peerlane_engine::connection::{ConnectError, Connection, connect};
use peerlane_engine::endpoints::{RemoteName, RemoteNameError};
use peerlane_fabric::Fabric;
use peerlane_units::Nanos;

use super::copy::seed;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Connects every drive of another machine among the ends of a command, each once, and reads this machine
/// with them. The connections end when they are dropped.
///
/// # Errors
/// When one cannot be connected (none stays connected then), or this machine cannot be read.
pub(super) fn open<'a>(
    ends: impl IntoIterator<Item = &'a String>,
    deadline: Nanos,
    printer: Printer,
    stop_requested: impl Fn() -> bool,
) -> Result<(Vec<Connection>, Fabric), Failure> {
    let mut made: Vec<Connection> = Vec::new();
    for typed in ends.into_iter().filter(|typed| RemoteName::is_one(typed)) {
        let drive = typed.parse().map_err(|error: RemoteNameError| failure(error.into()))?;
        if made.iter().any(|connection| connection.drive == drive) {
            continue;
        }
        let connection = connect(&drive, deadline, seed(), &stop_requested).map_err(failure)?;
        printer.note(&format!("connected {} as /dev/{}", connection.drive, connection.disk));
        made.push(connection);
    }
    let fabric =
        Fabric::discover_quietly(Path::new("/")).map_err(Tried::to("read this machine"))?;
    Ok((made, fabric))
}

fn failure(error: ConnectError) -> Failure {
    let hint = error.hint();
    let exit = match &error {
        ConnectError::Interrupted => Exit::Interrupted,
        error if error.is_not_possible() => Exit::NotPossible,
        _ => Exit::Failed,
    };
    Failure::new(error).hint(hint).exit(exit)
}
