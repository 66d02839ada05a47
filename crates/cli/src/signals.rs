//! A request to stop, made from the keyboard or by another process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{Failure, Tried};
use crate::exit::Exit;

/// A flag that SIGINT, SIGTERM and SIGHUP (a lost terminal) set; a second signal ends the program at once.
///
/// # Errors
/// When the signals cannot be listened for.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let status = Exit::Interrupted.number().into();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // In this order the first signal only sets the flag, and the second finds it set.
        flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(Tried::to("listen for signals"))?;
    }
    Ok(stop)
}
