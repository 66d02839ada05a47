//! What stands against a copy, asked before the first byte moves.
//!
//! Each check says what it found, what to do about it, and whether `--force` may override it: only
//! the loss of content may be forced, never a device in use, an overlap or a lack of room. A guard
//! is advice from a moment ago; the exclusive open at the start of a copy is the kernel's.

mod backing;
mod content;
mod described;
mod file_in_use;
mod in_use;
mod overlap;
mod ranges;
mod siblings;
pub mod signature;
pub mod stake;
mod system;

use peerlane_results::{Asked, Refusal, Warning};
use peerlane_units::Bytes;

pub(crate) use content::read_ends;
pub(crate) use described::check as check_described;
pub(crate) use overlap::{Span, between, is_one_place};
pub(crate) use ranges::length_of;
pub(crate) use system::{Mount, System};

use crate::endpoint::Endpoint;

/// What the guards look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) source: &'a Endpoint,
    pub(crate) target: &'a Endpoint,
    /// Bytes to copy.
    pub(crate) length: Bytes,
}

/// What the guards found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) warnings: Vec<Warning>,
}

/// Asks every guard; what `--force` overrides is left out when it was given.
pub(crate) fn check(system: &System, wanted: Wanted<'_>) -> Findings {
    let mut refusals = ranges::check(wanted);
    refusals.extend(overlap::check(system, wanted));
    refusals.extend(in_use::check_target(system, wanted.target));
    refusals.extend(file_in_use::check_target(system, wanted.target));
    refusals.extend(content::check_source(wanted.source));
    refusals.extend(content::check_target(wanted.target));
    if wanted.asked.force {
        refusals.retain(|refusal| !refusal.forceable);
    }
    Findings { refusals, warnings: in_use::check_source(system, wanted.source) }
}

/// Asks the guards of a target that is written in place, source or none: a file keeps its name and
/// loses content only. Ranges are the caller's to check.
pub(crate) fn check_in_place(
    system: &System,
    target: &Endpoint,
    from: Option<Wanted<'_>>,
    force: bool,
) -> Findings {
    let mut refusals = in_use::check_target(system, target);
    refusals.extend(file_in_use::check_target(system, target));
    refusals.extend(content::check_target_in_place(target));
    let mut warnings = Vec::new();
    if let Some(wanted) = from {
        refusals.extend(overlap::check(system, wanted));
        refusals.extend(content::check_source(wanted.source));
        warnings = in_use::check_source(system, wanted.source);
    }
    if force {
        refusals.retain(|refusal| !refusal.forceable);
    }
    Findings { refusals, warnings }
}

/// Refuses a target that is the source, or lies on it: asked first where what else stands against it has a
/// hint, for none helps with this.
pub(crate) fn overlap(system: &System, wanted: Wanted<'_>) -> Option<Refusal> {
    overlap::check(system, wanted)
}

/// What a reader of an end should know of its use.
pub(crate) fn warnings_of_use(system: &System, end: &Endpoint) -> Vec<Warning> {
    in_use::check_source(system, end)
}

/// A refusal that `--force` does not override.
fn refuse(reason: String, hint: Option<String>) -> Refusal {
    Refusal { reason, hint, forceable: false }
}

/// A refusal that `--force` overrides, since only content is at stake.
fn refuse_unless_forced(reason: String, hint: String) -> Refusal {
    Refusal { reason, hint: Some(hint), forceable: true }
}

#[cfg(test)]
pub(crate) mod tests;
