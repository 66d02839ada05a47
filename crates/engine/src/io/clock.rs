//! The clock that is passed in.

use std::sync::Arc;
use std::time::Instant;

use peerlane_units::Nanos;

/// A monotonic clock.
pub trait Clock {
    /// Time since a fixed point in the past.
    fn now(&self) -> Nanos;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Nanos {
        (**self).now()
    }
}

/// The system's monotonic clock, from zero at its making.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that stands at zero now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }
}
