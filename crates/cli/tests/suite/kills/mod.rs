//! Copies of real files by the real program, ended by a signal at a random moment.
//!
//! After each: the earlier file stands whole under the target's name, or the copy does; only
//! documented files lie next to it; and the copy goes on as the program itself advises until every
//! byte is equal and no such file is left. A seed draws case and moment; the system's own timing
//! cannot be replayed.
//!
//! `./test` runs the short form. The long form, which writes its counts:
//!
//!     PEERLANE_KILLS=250 PEERLANE_KILLS_REPORT=docs/reliability/process-kills.json \
//!         cargo test -p peerlane-cli --test suite kills

mod case;
pub(crate) mod random;
mod report;
mod resume_loop;
mod strike;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use case::{KillCase, Sources};

/// Cases of the short form.
const SHORT: u64 = 20;
/// Cases at a time; they mostly wait for their own rate limit.
const AT_A_TIME: usize = 8;

fn number(variable: &str, otherwise: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(otherwise, |value| value.parse().expect("a number"))
}

#[test]
fn copy_ended_anywhere_resumes_to_equal() {
    let first = number("PEERLANE_KILLS_SEED", 0);
    let end = first + number("PEERLANE_KILLS", SHORT);
    let sources = Sources::make();
    let next = AtomicU64::new(first);
    let tally = Mutex::new(report::KillTally::default());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let case = KillCase::draw(seed);
                    let outcome = case.run(&sources);
                    tally.lock().expect("the tally").add(&case, outcome);
                }
            });
        }
    });
    let tally = tally.into_inner().expect("the tally");
    if let Some(path) = std::env::var_os("PEERLANE_KILLS_REPORT") {
        tally.write(path.as_ref(), end - first);
    }
    tally.check(end - first);
}
