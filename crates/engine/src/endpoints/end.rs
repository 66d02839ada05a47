//! Ends of a copy as typed: parsed, then looked at.

use std::io;
use std::path::PathBuf;

use peerlane_fabric::Fabric;

use super::{Endpoint, EndpointError, NotationError, inspect};
use crate::io::failure::{Role, hint_of_denial};
use crate::io::system::System;

/// Reason why an end that was typed cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// A text that names no endpoint.
    #[error("cannot understand the {role}")]
    Notation {
        /// Source or target.
        role: Role,
        /// Fault of the text.
        source: NotationError,
    },
    /// An endpoint that is none.
    #[error("cannot use the {role}")]
    Endpoint {
        /// Source or target.
        role: Role,
        /// Fault of the endpoint.
        source: EndpointError,
    },
    /// The machine is only described.
    #[error("machine {machine} is described, not here")]
    NotHere {
        /// Its name.
        machine: String,
    },
    /// It cannot be opened for reading.
    #[error("cannot open {}", path.display())]
    Open {
        /// Path of the file or device.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
}

impl EndError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Endpoint { source, .. } => source.hint(),
            Self::Open { path, source } => hint_of_denial(path, source),
            Self::Notation { source, .. } => source.hint(),
            Self::NotHere { .. } => None,
        }
    }
}

/// Looks at an end of a copy, as typed.
///
/// # Errors
/// [`EndError::Notation`] and [`EndError::Endpoint`].
pub(crate) fn look(
    system: &System,
    fabric: &Fabric,
    typed: &str,
    role: Role,
) -> Result<Endpoint, EndError> {
    look_as(system, fabric, typed, (role, role))
}

/// The same for an end that is only read: also a target must be there, as only a source must for a copy.
///
/// # Errors
/// As [`look`].
pub(crate) fn look_to_read(
    system: &System,
    fabric: &Fabric,
    typed: &str,
    role: Role,
) -> Result<Endpoint, EndError> {
    look_as(system, fabric, typed, (role, Role::Source))
}

fn look_as(
    system: &System,
    fabric: &Fabric,
    typed: &str,
    (role, usage): (Role, Role),
) -> Result<Endpoint, EndError> {
    let notation = typed.parse().map_err(|source| EndError::Notation { role, source })?;
    inspect(system, fabric, &notation, usage).map_err(|source| EndError::Endpoint { role, source })
}
