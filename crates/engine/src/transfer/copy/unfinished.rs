//! The copy that was begun before, as the reason why a target is not blank.

use peerlane_results::{Plan, Refusal};
use peerlane_units::Bytes;

use super::CopyError;
use super::options::{CopyOptions, Start};
use crate::io::journal::{
    Identity, Journal, Store, for_device, identity_of_device, state_directory,
};
use crate::io::system::System;

/// Puts the journal of an unfinished copy first among the refusals of another one.
pub(super) fn name(
    error: CopyError,
    system: &System,
    plan: &Plan,
    options: &CopyOptions,
) -> CopyError {
    match error {
        CopyError::Refused(mut refusals)
            if options.start == Start::Anew && refusals.iter().all(|one| one.forceable) =>
        {
            let found = journal(system, plan, options);
            refusals.splice(0..0, found.map(|journal| refusal(&plan.target.path, &journal)));
            CopyError::Refused(refusals)
        }
        error => error,
    }
}

/// Refuses to begin a copy that was begun before.
pub(super) fn refusal(target: &str, journal: &Journal) -> Refusal {
    let (done, length) = (Bytes(journal.done.total()), journal.options.length);
    Refusal {
        reason: format!(
            "a copy onto {target} was begun before and is not finished: {done} of {length} are there"
        ),
        hint: Some("`--resume` continues it; `--force` starts over".to_owned()),
        forceable: true,
    }
}

/// The journal of an unfinished copy onto a target device.
fn journal(system: &System, plan: &Plan, options: &CopyOptions) -> Option<Journal> {
    let device = identity_of_device(system.root(), plan.target.device.as_deref()?).ok()?;
    let path = options.journal.clone().or_else(|| {
        let directory = state_directory(&options.environment).ok()?;
        for_device(&directory, &device).ok()
    });
    let journal = Store::read(&path?).ok()?;
    let is_its = match &journal.target {
        Identity::Device(then) => {
            then.is_same_device(&device) && then.partition == device.partition
        }
        Identity::File(_) => false,
    };
    is_its.then_some(journal)
}
