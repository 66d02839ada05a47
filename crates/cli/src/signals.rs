//! Signals: a request to stop, and a limit on file sizes that must not end the program.
//!
//! A signal that was ignored when the program started stays so: `nohup` ignores SIGHUP, a shell the
//! SIGINT of a script's background jobs, and both mean that the program is to go on.

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
    for signal in heeded() {
        // In this order the first signal only sets the flag, and the second finds it set.
        flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(Tried::to("listen for signals"))?;
    }
    Ok(stop)
}

/// Signals that end the program, less those that it was started to ignore.
pub(crate) fn heeded() -> impl Iterator<Item = i32> {
    not_ignored([SIGHUP, SIGINT, SIGTERM])
}

/// Lets a write beyond the limit on the size of files fail, which names the file; the signal would end the program without
/// a word. Where it is ignored it stays so, for the programs that are started, too.
pub(crate) fn outlive_file_limit() {
    for signal in not_ignored([SIGXFSZ]) {
        // Without it the program ends as any other does.
        let _ = flag::register(signal, Arc::default());
    }
}

/// Drops signals that this program was started to ignore; keeps all where `/proc` does not say.
fn not_ignored<const N: usize>(signals: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
    signals.into_iter().filter(move |signal| (ignored >> (signal - 1)) & 1 == 0)
}

/// The mask `SigIgn` of `proc_pid_status(5)`: bit 0 is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_holds_ignored_signals() {
        assert_eq!(ignored("SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored("SigIgn:\tnothing\n"), 0);
    }
}
