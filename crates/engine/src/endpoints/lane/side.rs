//! The GPU next to a ring: its memory, the way into it, and cuFile's counters.
//!
//! cuFile may go through host memory though it was told not to. Its counters show that, and are the
//! library's word and no proof.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};
use peerlane_memory::cufile::{Counted, CounterMark, CuFileSession, FellBack, NoCounter};
use peerlane_results::{Route, RouteEvidence};
use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;
use crate::io::cufile;
use crate::io::desk::{Desk, Stopped};

/// A GPU whose memory holds the slots of a ring.
pub(crate) struct GpuSide {
    session: Option<Arc<CuFileSession>>,
    pub(crate) gpu: Arc<Gpu>,
    /// CUDA version of its driver.
    pub(crate) driver: (i32, i32),
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) desk: Desk,
    /// cuFile's counters before payload.
    before: Option<CounterMark>,
}

/// Reason why payload is not shown to have gone directly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum RouteFault {
    #[error(transparent)]
    FellBack(#[from] FellBack),
    #[error(transparent)]
    NotKnown(#[from] NoCounter),
}

impl GpuSide {
    pub(super) fn new(
        (gpu, driver): (Arc<Gpu>, (i32, i32)),
        memory: Arc<DeviceMemory>,
        desk: Desk,
        session: Option<Arc<CuFileSession>>,
    ) -> Self {
        let before = session.as_ref().map(|session| session.mark());
        Self { session, gpu, driver, memory, desk, before }
    }

    /// Counts of cuFile since the mark; `None` if it takes no part.
    fn counted(&self) -> Option<Counted> {
        Some(self.session.as_ref()?.since(self.before.as_ref()?))
    }

    /// Judges requests that were all to go directly.
    pub(crate) fn all_direct(&self) -> Result<(), RouteFault> {
        match self.counted() {
            None => Ok(()),
            Some(counted) => Ok(counted?.all_direct()?),
        }
    }

    /// Counts payload from here on. A proof reads blocks that were never written and are not
    /// payload.
    pub(crate) fn mark(&mut self) {
        self.before = self.session.as_ref().map(|session| session.mark());
    }

    /// True when cuFile reads holes through host memory.
    pub(crate) fn reads_holes_by_host(&self) -> bool {
        self.session.as_deref().is_some_and(cufile::reads_holes_by_host)
    }

    /// True when cuFile reads a range of a file through host memory for its holes. False if the
    /// file does not tell.
    pub(crate) fn meets_hole(&self, file: &File, within: Range<u64>) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| cufile::meets_hole(session, file, within).unwrap_or(false))
    }

    /// Evidence from cuFile: its P2P flags, and counters of the ways that its requests took. Empty
    /// if it takes no part.
    pub(crate) fn evidence(&self, route: Route) -> Vec<RouteEvidence> {
        let flags = self.session.as_deref().and_then(cufile::flags);
        let counters = self.counted().map(|counted| cufile::counters(&counted, route));
        flags.into_iter().chain(counters).collect()
    }

    /// Overwrites the memory with zeroes; nothing may be in flight.
    pub(crate) fn clear(&mut self, clock: &dyn Clock, deadline: Nanos) -> Result<Bytes, Stopped> {
        self.desk.clear(&self.memory, (clock, deadline))
    }
}

impl fmt::Debug for GpuSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuSide").field("memory", &self.memory.length()).finish_non_exhaustive()
    }
}
