//! A request to stop, made from the keyboard or by another process, and a limit that is no reason to end.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
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

/// Lets a write beyond the limit on the size of files fail, which names the file; the signal would end the program without
/// a word. Where it is ignored it stays so, for the programs that are started, too.
pub(crate) fn outlive_file_limit() {
    if !is_ignored(SIGXFSZ) {
        // Without it the program ends as any other does.
        let _ = flag::register(SIGXFSZ, Arc::default());
    }
}

/// Whether whoever started this program had the signal ignored (`SigIgn`, proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
