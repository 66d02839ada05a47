//! A drive that hosts of the network are to use: asked for its guards, and held for as long as they may.
//!
//! The kernel's NVMe target opens a device without a claim (`nvmet_bdev_ns_enable`), so that it exports what is
//! mounted, and what it exports can be mounted. Here the device is opened exclusively: nobody mounts it meanwhile.

use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_results::{EndpointFacts, Refusal, Warning};
use peerlane_units::Nanos;
use rustix::fs::OFlags;
use twox_hash::XxHash3_64;

use crate::Clock;
use crate::endpoint::{EndError, Node, look_to_read};
use crate::failure::Role;
use crate::guard::{self, Surveyor};
use crate::journal::identity_of_device;
use crate::machine::Machine as _;
use crate::open::{Opened, open};

/// A drive held for hosts.
#[derive(Debug)]
pub struct Held {
    /// What is known of it.
    pub facts: EndpointFacts,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    /// Its node: absolute, links resolved.
    pub path: PathBuf,
    /// UUID by which hosts know it again, the same at each export; drawn for a drive that says nothing of itself.
    pub uuid: String,
    _open: Opened,
}

/// Why a drive cannot be held for hosts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// What was typed is no end.
    #[error(transparent)]
    End(#[from] EndError),
    /// It is a file, or memory.
    #[error("cannot export {path}: it is no block device")]
    NotADrive {
        /// What was typed, made absolute.
        path: String,
    },
    /// Somebody uses it.
    #[error("cannot export {path}: {}", reasons(refusals))]
    Refused {
        /// Its path.
        path: String,
        /// What stands against it.
        refusals: Vec<Refusal>,
    },
    /// It cannot be opened for itself alone.
    #[error("cannot hold {}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl HoldError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End(error) => error.hint(),
            Self::NotADrive { .. } => Some("`lsblk` lists block devices".to_owned()),
            Self::Refused { refusals, .. } => {
                refusals.iter().find_map(|refusal| refusal.hint.clone())
            }
            Self::Open { path, .. } => Some(format!("lsblk {}; fuser -v {0}", path.display())),
        }
    }
}

fn reasons(refusals: &[Refusal]) -> String {
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    reasons.join("; ")
}

/// Looks at a block device of this machine, asks the guards, and opens it exclusively. `seed` is a random number.
///
/// # Errors
/// [`HoldError`]; nothing is held then.
pub fn hold(
    fabric: &Fabric,
    typed: &str,
    clock: &dyn Clock,
    deadline: Nanos,
    seed: u64,
) -> Result<Held, HoldError> {
    let machine = crate::machine::host();
    let system = machine.system();
    let end = look_to_read(system, fabric, typed, Role::Target)?;
    let not_a_drive = || HoldError::NotADrive { path: end.facts.path.clone() };
    let live = end.live.as_ref().filter(|live| live.node == Node::Block).ok_or_else(not_a_drive)?;
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
    Ok(Held { facts: end.facts, warnings: found.warnings, path, uuid, _open: opened })
}

/// Version 8 of RFC 9562, section 5.8: what the drive is known by, hashed; or a random one.
fn uuid_of(root: &Path, device: &str, seed: u64) -> String {
    let known = identity_of_device(root, device).ok();
    let id = known.as_ref().and_then(|known| Some((known.primary_id()?, known)));
    let text = match id {
        Some((id, known)) => {
            format!("{}\n{}", id.value, known.partition.as_ref().map_or(0, |part| part.start.0))
        }
        None => seed.to_string(),
    };
    let half = |seed| u128::from(XxHash3_64::oneshot_with_seed(seed, text.as_bytes()));
    let number = half(0) << 64 | half(1);
    let marked = number & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62;
    let digits = format!("{marked:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MonotonicClock;

    #[test]
    fn a_uuid_is_one_of_version_8() {
        let uuid = uuid_of(Path::new("/nonexistent"), "nvme0n1", 7);
        let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "8");
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        assert_ne!(
            uuid,
            uuid_of(Path::new("/nonexistent"), "nvme0n1", 8),
            "nothing is known of it"
        );
    }

    #[test]
    fn a_file_is_no_drive() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let fabric = crate::faults::bare_machine();
        let clock = MonotonicClock::start();
        let error = hold(&fabric, path, &clock, Nanos::seconds(5), 7).unwrap_err();
        assert!(matches!(error, HoldError::NotADrive { .. }), "{error:?}");
    }
}
