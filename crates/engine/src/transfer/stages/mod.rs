//! The stages of one copy: set up for the memory of its slots, with digests kept in a manifest.
//!
//! The work of a stage is in [`stage`](crate::io::stage); [`Staged`](crate::io::ring::Staged)
//! drives it.

pub mod manifest;
mod row;
mod verify_manifest;

pub(crate) use row::{SlotMemory, StageRow};
pub use row::{StageError, Stages};
pub use verify_manifest::{ManifestAsked, VerifyManifestError, verify_manifest};
