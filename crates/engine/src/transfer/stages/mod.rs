//! The stages of one copy: set up for the memory of its slots, with digests kept in a manifest.
//!
//! What a stage does is in [`stage`](crate::io::stage); how a ring drives it, in
//! [`Staged`](crate::io::ring::Staged).

pub mod manifest;
mod row;
mod verify_manifest;

pub(crate) use row::{SlotMemory, StageRow};
pub use row::{StageError, Stages};
pub use verify_manifest::{ManifestAsked, VerifyManifestError, verify_manifest};
