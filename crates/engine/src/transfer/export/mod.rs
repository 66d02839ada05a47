//! Drives held for export to other machines.
//!
//! The kernel's NVMe target opens a device without a claim (`nvmet_bdev_ns_enable`): it exports mounted devices, and
//! exported devices can be mounted. An exclusive open here prevents both.

mod memories;

use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::{EndpointFacts, Refusal, Warning};
use peerlane_units::Nanos;
use rustix::fs::OFlags;

pub use memories::memories;

use crate::endpoints::guard::{self, Surveyor};
use crate::endpoints::machine::Machine as _;
use crate::endpoints::open::{Opened, open};
use crate::endpoints::{EndError, PathNode, look_to_read};
use crate::io::clock::Clock;
use crate::io::failure::{Role, hint_of_denial};
use crate::io::journal::identity_of_device;
use crate::io::uuid;

/// A drive held for export.
#[derive(Debug)]
pub struct HeldDrive {
    /// Facts of the drive.
    pub facts: EndpointFacts,
    /// Its controller; `None` if it has none.
    pub function: Option<FunctionId>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
    /// Path of its node: absolute, links resolved.
    pub path: PathBuf,
    /// UUID for hosts, equal at each export; random for a drive without an identity.
    pub uuid: String,
    _open: Opened,
}

/// Error of holding a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The text names no endpoint.
    #[error(transparent)]
    End(#[from] EndError),
    /// A file or a memory.
    #[error("cannot export {path}: it is not a block device")]
    NotADrive {
        /// Its absolute path.
        path: String,
    },
    /// The drive is in use.
    #[error("cannot export {path}: {}", reasons(refusals))]
    Refused {
        /// Its path.
        path: String,
        /// Findings of the guards.
        refusals: Vec<Refusal>,
    },
    /// The exclusive open failed.
    #[error("cannot hold {}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

impl HoldError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End(error) => error.hint(),
            Self::NotADrive { .. } => Some("`lsblk` lists block devices".to_owned()),
            Self::Refused { refusals, .. } => {
                refusals.iter().find_map(|refusal| refusal.hint.clone())
            }
            Self::Open { path, source } => hint_of_denial(path, source)
                .or_else(|| Some(format!("`fuser -v {}` lists its users", path.display()))),
        }
    }
}

fn reasons(refusals: &[Refusal]) -> String {
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    reasons.join("; ")
}

/// Asks the guards of a block device of this machine and opens it exclusively. `seed` is a random number.
///
/// # Errors
/// [`HoldError`]; the drive is not held then.
pub fn hold(
    fabric: &Fabric,
    typed: &str,
    clock: &dyn Clock,
    deadline: Nanos,
    seed: u64,
) -> Result<HeldDrive, HoldError> {
    let machine = crate::endpoints::machine::host();
    let system = machine.system();
    let end = look_to_read(system, fabric, typed, Role::Target)?;
    let not_a_drive = || HoldError::NotADrive { path: end.facts.path.clone() };
    let live =
        end.live.as_ref().filter(|live| live.node == PathNode::Block).ok_or_else(not_a_drive)?;
    let device = live.device.as_ref().ok_or_else(not_a_drive)?;
    let surveyor = Surveyor::new(clock, deadline);
    let found = guard::check_device(system, &surveyor, &end);
    if !found.refusals.is_empty() {
        return Err(HoldError::Refused { path: end.facts.path.clone(), refusals: found.refusals });
    }
    let path = live.guarded_path().to_owned();
    let opened = open(OFlags::RDWR | OFlags::EXCL, live, deadline)
        .map_err(|source| HoldError::Open { path: path.clone(), source })?;
    let uuid = uuid_of(system.root(), &device.name, seed);
    Ok(HeldDrive {
        facts: end.facts,
        function: end.initiator,
        warnings: found.warnings,
        path,
        uuid,
        _open: opened,
    })
}

/// A UUID that stays: that of the drive's identity, else of the seed.
fn uuid_of(root: &Path, device: &str, seed: u64) -> String {
    let known = identity_of_device(root, device).ok();
    let id = known.as_ref().and_then(|known| Some((known.primary_id()?, known)));
    let text = match id {
        Some((id, known)) => {
            format!("{}\n{}", id.value, known.partition.as_ref().map_or(0, |part| part.start.0))
        }
        None => seed.to_string(),
    };
    uuid::from_text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::clock::MonotonicClock;

    #[test]
    fn drive_without_identity_gets_random_uuid() {
        let uuid = |seed| uuid_of(Path::new("/nonexistent"), "nvme0n1", seed);
        assert_ne!(uuid(7), uuid(8));
    }

    #[test]
    fn file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let fabric = crate::faults::bare_machine();
        let clock = MonotonicClock::start();
        let error = hold(&fabric, path, &clock, Nanos::seconds(5), 7).unwrap_err();
        assert!(matches!(error, HoldError::NotADrive { .. }), "{error:?}");
    }
}
