//! Checks for obstacles to a copy, before the first byte moves.
//!
//! Each check states its finding, the remedy, and whether `--force` may override it: only
//! the loss of content may be forced, never a device in use, an overlap or a lack of room. A guard
//! is advice from a moment ago; the exclusive open at the start of a copy is the kernel's.
//! A target that carries the running system is asked nothing further.

mod backing;
mod content;
mod described;
mod exported;
mod file_in_use;
mod in_use;
mod naming;
mod overlap;
pub mod overwrite_summary;
mod ranges;
mod reader;
mod running_system;
mod same_bytes;
mod shared;
mod survey;
mod writes;

use std::ops::Range;

use peerlane_results::{Asked, Refusal, Warning};
use peerlane_units::Bytes;

use content::{ContentLook, Usage};
pub(crate) use described::check as check_described;
pub(crate) use overlap::{EndSpan, between, is_one_place};
pub(crate) use ranges::length_of;
pub(crate) use reader::EndReader;
pub(crate) use survey::{BLOCK, DeviceSize, SurveyError, is_blank, spans};
pub use survey::{Surveyor, Surveys};

use crate::endpoints::Endpoint;
use crate::io::system::System;

/// Input of the guards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardSubject<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) source: &'a Endpoint,
    pub(crate) target: &'a Endpoint,
    /// Bytes to copy.
    pub(crate) length: Bytes,
}

/// Results of the guards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) warnings: Vec<Warning>,
}

impl GuardSubject<'_> {
    /// The range of the target that is to be written.
    fn target_range(&self) -> Range<u64> {
        let start = self.asked.target_offset.0;
        start..start.saturating_add(self.length.0)
    }
}

/// Asks every guard; findings that `--force` overrides are left out if it was given.
pub(crate) fn check(
    system: &System,
    surveyor: &Surveyor<'_>,
    wanted: GuardSubject<'_>,
) -> Findings {
    if let Some(refusal) = running_system::check_target(system, wanted.target) {
        let warnings = warnings_of_use(system, wanted.source);
        return Findings { refusals: vec![refusal], warnings };
    }
    let look = ContentLook {
        surveyor,
        range: wanted.target_range(),
        usage: Usage::Copy,
        is_forced: wanted.asked.force,
    };
    let mut refusals = ranges::check(wanted);
    refusals.extend(overlap::check(system, wanted));
    refusals.extend(in_use::check_target(system, wanted.target));
    refusals.extend(file_in_use::check_target(system, wanted.target));
    refusals.extend(same_bytes::check_target(system, wanted.target));
    refusals.extend(exported::check_target(system, wanted.target));
    refusals.extend(content::check_source(wanted.source));
    refusals.extend(content::check_target(wanted.target, look));
    let (shared, mut warnings) = shared::check_target(system, surveyor, wanted.target);
    refusals.extend(shared);
    if wanted.asked.force {
        refusals.retain(|refusal| !refusal.forceable);
    }
    warnings.extend(warnings_of_use(system, wanted.source));
    Findings { refusals, warnings }
}

/// Asks the guards of a target that is written in place, source or none: a file keeps its name and
/// loses content only. Ranges are the caller's to check.
pub(crate) fn check_in_place(
    system: &System,
    surveyor: &Surveyor<'_>,
    target: (&Endpoint, Range<u64>),
    from: Option<GuardSubject<'_>>,
    force: bool,
) -> Findings {
    let (target, range) = target;
    if let Some(refusal) = running_system::check_target(system, target) {
        return Findings { refusals: vec![refusal], warnings: Vec::new() };
    }
    let look = ContentLook { surveyor, range, usage: Usage::Benchmark, is_forced: force };
    let mut refusals = in_use::check_target(system, target);
    refusals.extend(file_in_use::check_target(system, target));
    refusals.extend(same_bytes::check_target(system, target));
    refusals.extend(exported::check_target(system, target));
    refusals.extend(content::check_target_in_place(target, look));
    let (shared, mut warnings) = shared::check_target(system, surveyor, target);
    refusals.extend(shared);
    if let Some(wanted) = from {
        refusals.extend(overlap::check(system, wanted));
        refusals.extend(content::check_source(wanted.source));
        warnings.extend(warnings_of_use(system, wanted.source));
    }
    if force {
        refusals.retain(|refusal| !refusal.forceable);
    }
    Findings { refusals, warnings }
}

/// Asks the guards of a block device before other machines may write to it; its content does not matter.
pub(crate) fn check_device(
    system: &System,
    surveyor: &Surveyor<'_>,
    device: &Endpoint,
) -> Findings {
    if let Some(refusal) = running_system::check_target(system, device) {
        return Findings { refusals: vec![refusal], warnings: Vec::new() };
    }
    let mut refusals = in_use::check_target(system, device);
    refusals.extend(same_bytes::check_target(system, device));
    refusals.extend(exported::check_target(system, device));
    let (shared, warnings) = shared::check_target(system, surveyor, device);
    refusals.extend(shared);
    Findings { refusals, warnings }
}

/// Refuses a target that is the source, or lies on it: checked first, since the hints of other
/// findings do not help with this one.
pub(crate) fn overlap(system: &System, wanted: GuardSubject<'_>) -> Option<Refusal> {
    overlap::check(system, wanted)
}

/// Warns a reader of an end about its use.
pub(crate) fn warnings_of_use(system: &System, end: &Endpoint) -> Vec<Warning> {
    let mut warnings = in_use::check_source(system, end);
    warnings.extend(exported::check_source(system, end));
    warnings
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
