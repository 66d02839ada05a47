//! Fallback to one thread where no others can be started.
//!
//! rayon panics at its first use where a limit on processes leaves it no threads (`ulimit -u`, `pids.max` of a cgroup),
//! and its pool can be set up only once.

use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, Builder};

use rayon::ThreadPoolBuilder;

/// Restricts parallel work to this thread unless each processor can have one.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !has_threads(thread::available_parallelism().map_or(1, usize::from)) {
            // An error means that there is a pool already.
            let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
        }
    });
}

/// True if `count` threads can run at the same time.
fn has_threads(count: usize) -> bool {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let shut = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = || drop(gate.lock());
        let began = (0..count).all(|_| Builder::new().spawn_scoped(scope, wait).is_ok());
        drop(shut);
        began
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_can_run() {
        assert!(has_threads(2));
        prepare();
        assert!(rayon::current_num_threads() >= 1);
    }
}
