//! Threads for work in parallel, where there are any to be had.
//!
//! The one thing to know: rayon panics at its first use where a limit on processes leaves it no threads (`ulimit -u`,
//! `pids.max` of a cgroup), and cannot be asked twice.

use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, Builder};

use rayon::ThreadPoolBuilder;

/// Keeps parallel work on this thread alone where there are fewer threads than processors.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !has_threads(thread::available_parallelism().map_or(1, usize::from)) {
            // Whoever has made a pool before needs none.
            let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
        }
    });
}

/// Whether so many can run at the same time.
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
    fn a_few_threads_can_be_had() {
        assert!(has_threads(2));
        prepare();
        assert!(rayon::current_num_threads() >= 1);
    }
}
