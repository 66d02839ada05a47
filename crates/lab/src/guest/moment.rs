//! Telling the host that a moment has come, and waiting until its event has happened.

use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::ports;
use crate::LabError;
use crate::mark::LAB_VARIABLE;
use crate::protocol::{DONE, GuestPort};

/// A port can be open only once, so callers take turns.
const LOCK: &str = "/run/peerlane-lab-moments";
/// Above the host's own deadline for an event.
const DEADLINE: Duration = Duration::from_secs(120);

/// Tells the host that the moment `name` has come; returns once its event has happened.
///
/// # Errors
/// Outside a lab, when this moment has no event, and when the event failed.
pub fn moment(name: &str) -> Result<(), LabError> {
    if std::env::var_os(LAB_VARIABLE).is_none() {
        let text = "a moment can be announced only inside a machine of `peerlane lab run`";
        return Err(LabError::Usage(text.to_owned()));
    }
    let answer = announce(name).map_err(LabError::os("announce a moment to the host"))?;
    if answer == DONE { Ok(()) } else { Err(LabError::Usage(answer)) }
}

fn announce(name: &str) -> io::Result<String> {
    let deadline = Instant::now() + DEADLINE;
    let lock = File::options().create(true).append(true).open(LOCK)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut port = ports::open_both_ways(GuestPort::Moments, deadline)?;
    port.write_all(format!("{}\n", name.replace('\n', " ")).as_bytes())?;
    ports::answer(&mut port, deadline)
}
