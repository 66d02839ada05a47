//! A program that is stopped again and again, e.g. by Ctrl-Z or on an overloaded machine.

use std::io;

use peerlane_units::Nanos;

use super::SimRing;
use crate::io::ring::{Around, Ring};

/// A ring whose program stands still after every submission: the next one reports completions of
/// that time, as in a kernel that leaves them to the task that asks for them (Linux 7.2
/// `io_uring/io_uring.c`, `IORING_SETUP_DEFER_TASKRUN`).
pub(crate) struct Halting {
    pub(crate) ring: SimRing,
    /// For how long.
    pub(crate) time: Nanos,
}

impl Around for Halting {
    type Inner = SimRing;

    fn inner(&self) -> &SimRing {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut SimRing {
        &mut self.ring
    }

    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.ring.submit(wait, timeout)?;
        let clock = &self.ring.clock.0;
        clock.set(clock.get() + self.time.0);
        Ok(())
    }
}
