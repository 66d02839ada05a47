//! Names the device that is gone, when that is why a copy stopped.
//!
//! The kernel does not say it in one way: a source that was unplugged answers reads with nothing, a
//! target says that it has no room, memory is a bad address. So it is looked up: a drive that went has
//! no directory in sysfs any more, or a controller that is on its way out.

use peerlane_results::EndpointFacts;

use super::{CopyError, CopyJob};
use crate::io::failure::{Cause, RequestError, RequestFailure, Role};
use crate::transfer::prove::ProofCause;
use crate::transfer::relay::RelayError;
use crate::transfer::verify::VerifyError;

/// The request whose failure ended a copy.
fn failure(error: &CopyError) -> Option<&RequestFailure> {
    let request = match error {
        CopyError::Move { source: RelayError::Stopped { source, .. }, .. }
        | CopyError::Check { source: VerifyError::Request(source), .. } => source,
        CopyError::Proof { source, .. } => match &source.cause {
            ProofCause::Request(request) => request,
            _ => return None,
        },
        _ => return None,
    };
    match request {
        RequestError::Failed(failure) => Some(failure),
        _ => None,
    }
}

/// True when the copy stopped because its device memory went away; both drives may be there.
pub(super) fn is_memory_gone(error: &CopyError) -> bool {
    failure(error).is_some_and(|failure| failure.cause == Cause::ProviderGone)
}

/// An end in words: the drive with its path, as far as both are known.
pub(super) fn drive_of(end: &EndpointFacts) -> String {
    match (&end.drive, &end.device) {
        (Some(drive), _) => format!("{drive} ({})", end.path),
        (None, Some(device)) if !end.path.ends_with(device) => format!("{device} ({})", end.path),
        _ => end.path.clone(),
    }
}

/// Names the device that is gone, if that ended the copy.
pub(super) fn name_the_gone(job: &CopyJob<'_>, error: CopyError) -> CopyError {
    let Some(failure) = failure(&error) else { return error };
    let (role, end) = match failure.role {
        Role::Source => ("source", &job.plan.source),
        Role::Target => ("target", &job.plan.target),
    };
    let is_gone = |device: &String| job.machine.is_drive_gone(device);
    let what = if failure.cause == Cause::ProviderGone {
        let name = job.account.memory.as_deref().unwrap_or("device memory");
        format!("memory {name}")
    } else if end.device.as_ref().is_some_and(is_gone) {
        format!("{role} {}", drive_of(end))
    } else {
        return error;
    };
    CopyError::Gone { what, source: Box::new(error) }
}
