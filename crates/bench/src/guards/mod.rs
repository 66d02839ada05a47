//! Guards against nonsense: figures that cannot be are errors, those that mislead carry warnings.
//!
//! Leaves out how the route is known, which is the crate `evidence`. An error here means that the
//! run is not a result, whatever its figures are; nothing of it may be shown as one.

mod ceilings;
mod clock;
mod drive;
#[cfg(test)]
mod lies;
mod machine;
mod nonsense;
mod runs;
mod surroundings;
#[cfg(test)]
mod tests;

use peerlane_results::{CaseRecord, Warning};

pub use clock::{ClockReading, RawClock, TwoClocks};
pub use nonsense::{Nonsense, RequestDirection};
pub use runs::judge_runs;
pub use surroundings::{
    Ceiling, DriveSurroundings, Firmness, FlowPath, RateDrift, SourceContent, Surroundings,
};

/// Judges one run of a case and returns warnings for its reader.
///
/// # Errors
/// [`Nonsense`] has the reason when the claims of the run are impossible; it is not a result then.
pub fn judge(case: &CaseRecord, around: &Surroundings) -> Result<Vec<Warning>, Nonsense> {
    nonsense::content(case)?;
    // Before the route: bytes that a drive was not asked for are a hole's or a cache's, by either route.
    drive::check(case, &around.drives)?;
    nonsense::route(case)?;
    nonsense::sums(case)?;
    clock::check(case, around.clock.as_ref())?;
    // The links of an emulated machine carry what they like, whatever speed they show.
    if !around.is_emulated() {
        ceilings::check(case, &around.ceilings)?;
    }
    let mut warnings = around.machine.clone();
    warnings.extend(drive::warnings(case, around));
    Ok(warnings)
}

/// Judges one run of a record that was kept, whose surroundings are gone.
///
/// # Errors
/// When its parts are not its whole, or a measured run is above its own stated limit.
pub(crate) fn judge_kept(case: &CaseRecord, is_measured: bool) -> Result<(), Nonsense> {
    nonsense::sums(case)?;
    if is_measured { ceilings::check(case, &[]) } else { Ok(()) }
}
