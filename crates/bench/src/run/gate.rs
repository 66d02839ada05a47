//! A barrier for the transfers of a case: they begin and end together.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peerlane_engine::measure::{FlowMoved, Gate};
use peerlane_units::Nanos;

/// The meeting point of one case.
#[derive(Debug)]
pub(super) struct Meeting {
    count: usize,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    ready: usize,
    /// Position and payload of those that have moved.
    ended: Vec<(usize, FlowMoved)>,
    /// Transfers that are over, well or not.
    left: usize,
    phase: GatePhase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GatePhase {
    #[default]
    Preparing,
    Moving,
    Checking,
    GivenUp,
}

impl Meeting {
    /// A meeting of so many transfers.
    pub(super) fn new(count: usize) -> Self {
        Self { count, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Every step leaves the state whole, so a panic of a thread does no harm.
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, GateState>) -> MutexGuard<'a, GateState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every transfer is ready; false, and none begins, if one has left before.
    pub(super) fn all_ready(&self) -> bool {
        let mut state = self.state();
        while state.ready < self.count && state.left == 0 {
            state = self.wait(state);
        }
        if state.left > 0 {
            state.phase = GatePhase::GivenUp;
            self.changed.notify_all();
            return false;
        }
        true
    }

    /// Lets all begin.
    pub(super) fn begin(&self) {
        self.state().phase = GatePhase::Moving;
        self.changed.notify_all();
    }

    /// Waits this long for the end of all; true when all have ended.
    pub(super) fn all_ended(&self, at_most: Duration) -> bool {
        let state = self.state();
        let is_pending = |state: &mut GateState| state.ended.len() + state.left < self.count;
        let waited = self.changed.wait_timeout_while(state, at_most, is_pending);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Payload of each, in order; nothing for one that failed.
    pub(super) fn moved(&self) -> Vec<FlowMoved> {
        let state = self.state();
        let of = |index| state.ended.iter().find(|one| one.0 == index).map(|one| one.1);
        (0..self.count).map(|index| of(index).unwrap_or_default()).collect()
    }

    /// Lets all check the content that they wrote.
    pub(super) fn release(&self) {
        self.state().phase = GatePhase::Checking;
        self.changed.notify_all();
    }

    /// A place at the meeting; leaves when dropped.
    pub(super) fn place(&self, index: usize, start: Nanos) -> GatedTransfer<'_> {
        GatedTransfer { meeting: self, index, start }
    }
}

/// One transfer's place.
#[derive(Debug)]
pub(super) struct GatedTransfer<'a> {
    meeting: &'a Meeting,
    index: usize,
    /// It begins this long after the others.
    start: Nanos,
}

impl Gate for GatedTransfer<'_> {
    fn begin(&self) -> bool {
        let meeting = self.meeting;
        let mut state = meeting.state();
        state.ready += 1;
        meeting.changed.notify_all();
        while state.phase == GatePhase::Preparing {
            state = meeting.wait(state);
        }
        if state.phase == GatePhase::Moving && self.start > Nanos(0) {
            let is_moving = |state: &mut GateState| state.phase == GatePhase::Moving;
            let waited = meeting.changed.wait_timeout_while(state, self.start.into(), is_moving);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.phase == GatePhase::Moving
    }

    fn end(&self, moved: FlowMoved) {
        let meeting = self.meeting;
        let mut state = meeting.state();
        state.ended.push((self.index, moved));
        meeting.changed.notify_all();
        while state.phase == GatePhase::Moving {
            state = meeting.wait(state);
        }
    }
}

impl Drop for GatedTransfer<'_> {
    fn drop(&mut self) {
        let mut state = self.meeting.state();
        // One that has ended is counted already; one that leaves before keeps nobody waiting.
        if state.phase != GatePhase::Checking {
            state.left += 1;
        }
        drop(state);
        self.meeting.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use peerlane_units::Bytes;

    use super::*;

    fn from_bytes(bytes: u64) -> FlowMoved {
        FlowMoved { bytes: Bytes(bytes), ..FlowMoved::default() }
    }

    #[test]
    fn flows_wait_for_each_other() {
        let meeting = Meeting::new(3);
        thread::scope(|scope| {
            let flows: Vec<_> = (0..3)
                .map(|index| {
                    let meeting = &meeting;
                    scope.spawn(move || {
                        let place = meeting.place(index, Nanos(0));
                        let begun = place.begin();
                        place.end(from_bytes(index as u64));
                        begun
                    })
                })
                .collect();
            assert!(meeting.all_ready());
            assert!(!meeting.all_ended(Duration::from_millis(1)), "nobody has begun");
            meeting.begin();
            while !meeting.all_ended(Duration::from_millis(1)) {}
            assert_eq!(meeting.moved(), [0, 1, 2].map(from_bytes));
            meeting.release();
            assert!(flows.into_iter().all(|flow| flow.join().unwrap()));
        });
    }

    #[test]
    fn one_that_leaves_early_keeps_the_others_from_beginning() {
        let meeting = Meeting::new(2);
        thread::scope(|scope| {
            let stays = scope.spawn(|| meeting.place(0, Nanos(0)).begin());
            scope.spawn(|| drop(meeting.place(1, Nanos(0))));
            assert!(!meeting.all_ready());
            assert!(!stays.join().unwrap());
        });
    }
}
