//! The state of a relay, without a ring and without a clock: chooses the next request, and
//! interprets each answer.

use std::collections::{BTreeMap, VecDeque};

use peerlane_units::{Bytes, Nanos};

use super::shape::PartKind;
use super::slot::{PartRequest, PartSlot};
use super::{
    FlushOutcome, Moved, RelayWork, Relayed, StageTally, Targets, Transfer, WorkPiece, shape,
};
use crate::io::failure::{RequestError, Role, Stuck};
use crate::io::request::fresh_tag;
use crate::io::ring::{Action, Operation, RegionId};
use crate::io::watch::Watch;

pub(super) struct RelayState<'a> {
    pub(super) transfers: &'a [Transfer],
    /// Bytes that all targets take together; behind them each has a tail of its own.
    pub(super) shared: u64,
    pub(super) lanes: Vec<RelayLane>,
    pub(super) start: Nanos,
    pub(super) work: &'a mut dyn RelayWork,
    pub(super) watch: &'a mut dyn Watch,
    /// Host memory full of zeroes, and its length.
    pub(super) zeroes: Option<(RegionId, u64)>,
    /// Pieces of the work that were begun, the next first.
    pub(super) pieces: VecDeque<WorkPiece>,
    pub(super) slots: Vec<PartSlot>,
    /// Requests that may begin, or go on, in their order.
    pub(super) waiting: VecDeque<(usize, PartRequest)>,
    /// Requests under way by their tags, and when they began.
    pub(super) flights: BTreeMap<u64, (Flight, Nanos)>,
    /// Time until the next part may begin; zero unless that is all that keeps it.
    pub(super) pause: Nanos,
    pub(super) read: u64,
    pub(super) stages: Vec<StageTally>,
    pub(super) stopped: Option<RequestError>,
    pub(super) interrupted: bool,
}

/// One target on the way.
pub(super) struct RelayLane {
    pub(super) moved: Moved,
    /// Bytes of the copy that it has, those of an earlier run included.
    pub(super) accounted: u64,
    pub(super) failed: Option<RequestError>,
    /// True while it is asked to make zeroes; false once it could not.
    pub(super) makes_zeroes: bool,
    pub(super) is_flushing: bool,
}

/// Owner of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flight {
    Leg { slot: usize, leg: PartRequest },
    Flush { target: usize },
}

impl<'a> RelayState<'a> {
    pub(super) fn new(
        transfers: &'a [Transfer],
        work: &'a mut dyn RelayWork,
        zeroes: Option<(RegionId, u64)>,
        watch: &'a mut dyn Watch,
        start: Nanos,
    ) -> Self {
        let lanes = (0..transfers.len()).map(|target| RelayLane {
            moved: Moved::nothing(),
            accounted: work.done_before(target),
            failed: None,
            makes_zeroes: true,
            is_flushing: false,
        });
        Self {
            transfers,
            shared: shape::shared_length(transfers),
            lanes: lanes.collect(),
            start,
            work,
            watch,
            zeroes,
            pieces: VecDeque::new(),
            slots: (0..transfers[0].slots).map(|_| PartSlot::default()).collect(),
            waiting: VecDeque::new(),
            flights: BTreeMap::new(),
            pause: Nanos(0),
            read: 0,
            stages: (0..transfers[0].stages).map(|_| StageTally::default()).collect(),
            stopped: None,
            interrupted: false,
        }
    }

    /// Begins nothing more once the watch wishes to stop; parts under way come to their end.
    pub(super) fn hear_stop(&mut self) {
        if !self.interrupted && self.watch.stop_requested() {
            self.interrupted = self.has_more();
        }
    }

    pub(super) fn stop(&mut self, error: RequestError) {
        self.stopped.get_or_insert(error);
    }

    /// Time until the rate lets the next part begin.
    pub(super) fn pause(&self) -> Nanos {
        self.pause
    }

    /// True when nothing is under way and nothing waits for room.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.waiting.is_empty()
    }

    /// True when nothing is left to be begun.
    pub(super) fn is_over(&mut self) -> bool {
        self.waiting.is_empty() && !(self.goes_on() && self.has_more())
    }

    pub(super) fn goes_on(&self) -> bool {
        self.stopped.is_none() && !self.interrupted
    }

    fn is_lost(&self, target: usize) -> bool {
        self.lanes[target].failed.is_some()
    }

    pub(super) fn are_all_lost(&self) -> bool {
        self.lanes.iter().all(|lane| lane.failed.is_some())
    }

    /// True when the result of a leg is of no more use.
    pub(super) fn is_in_vain(&self, leg: PartRequest) -> bool {
        match leg {
            PartRequest::Read | PartRequest::Stage(_) => {
                self.stopped.is_some() || self.are_all_lost()
            }
            PartRequest::Merge(target) | PartRequest::Write(target) => self.is_lost(target),
        }
    }

    pub(super) fn remaining(&self, wanted: Targets) -> Targets {
        Targets::from_fn(self.lanes.len(), |target| {
            wanted.contains(target) && !self.is_lost(target)
        })
    }

    /// The next request; `None` while there is nothing to begin. The caller hands it to a ring, or
    /// calls [`State::stop`] and nothing else.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Operation> {
        if let Some(flush) = self.next_flush(now) {
            return Some(flush);
        }
        loop {
            let Some((slot, leg)) = self.waiting.pop_front() else {
                if self.load(now) {
                    continue;
                }
                return None;
            };
            if self.is_in_vain(leg) {
                self.drop_leg(slot, leg);
                continue;
            }
            let Some(request) = self.slots[slot].request(leg) else { continue };
            let operation = request.operation(fresh_tag());
            self.flights.insert(operation.tag, (Flight::Leg { slot, leg }, now));
            if let Some(stage) = self.stage(leg) {
                stage.begins(now);
            }
            return Some(operation);
        }
    }

    /// A flush that is due. It comes before waiting requests: it vouches for all writes up to now,
    /// and holds no slot.
    fn next_flush(&mut self, now: Nanos) -> Option<Operation> {
        let is_due = |target: &usize| {
            let lane = &self.lanes[*target];
            !lane.is_flushing && lane.failed.is_none() && self.work.flush_is_due(*target, now)
        };
        let mut targets = 0..self.lanes.len();
        let target = targets.find(is_due).filter(|_| self.stopped.is_none())?;
        self.work.flush_begins(target);
        self.lanes[target].is_flushing = true;
        let tag = fresh_tag();
        self.flights.insert(tag, (Flight::Flush { target }, now));
        Some(Operation {
            action: Action::Flush,
            file: self.transfers[target].target,
            file_offset: 0,
            region: self.transfers[target].region,
            region_offset: 0,
            length: 0,
            tag,
        })
    }

    /// Gives up requests older than the deadline, and blames their files.
    pub(super) fn give_up(&mut self, now: Nanos, deadline: Nanos) {
        let is_overdue = |(_, (_, since)): &(&u64, &(Flight, Nanos))| now.since(*since) >= deadline;
        let overdue: Vec<(u64, Flight, Nanos)> = (self.flights.iter().filter(is_overdue))
            .map(|(&tag, &(flight, since))| (tag, flight, now.since(since)))
            .collect();
        for (tag, flight, age) in overdue {
            self.flights.remove(&tag);
            match flight {
                Flight::Flush { target } => {
                    let (role, action) = (Role::Target, Action::Flush);
                    self.work.flush_ended(target, FlushOutcome::Failed);
                    let stuck = Stuck { role, action, offset: 0, age };
                    self.lanes[target].failed.get_or_insert(stuck.into());
                }
                Flight::Leg { slot, leg } => {
                    let Some(request) = self.slots[slot].request(leg) else { continue };
                    let stuck = request.stuck(age);
                    self.blame(leg, stuck.into());
                    let part = self.slots[slot].part;
                    // A merged block also holds bytes of its target beside the copy.
                    let is_merged = part.is_some_and(|part| part.kind == PartKind::Merge);
                    self.slots[slot].is_lost |= leg.fills() || is_merged;
                    if let Some(stage) = self.stage(leg) {
                        stage.ends(now);
                    }
                    self.drop_leg(slot, leg);
                }
            }
        }
    }

    /// The account of the stage that a leg is of.
    pub(super) fn stage(&mut self, leg: PartRequest) -> Option<&mut StageTally> {
        let PartRequest::Stage(number) = leg else { return None };
        self.stages.get_mut(usize::try_from(number).ok()?)
    }

    /// Ends the target whose request failed, or all of it if that is the source's or a stage's.
    pub(super) fn blame(&mut self, leg: PartRequest, error: RequestError) {
        let error = match leg {
            PartRequest::Stage(number) => RequestError::Stage { number, source: Box::new(error) },
            _ => error,
        };
        let failed = match leg {
            PartRequest::Read | PartRequest::Stage(_) => &mut self.stopped,
            PartRequest::Merge(target) | PartRequest::Write(target) => {
                &mut self.lanes[target].failed
            }
        };
        failed.get_or_insert(error);
    }

    pub(super) fn finish(mut self) -> Relayed {
        let interrupted = self.interrupted;
        let (first, others) = self.lanes.split_at_mut(1);
        for lane in others {
            lane.moved.read_latency.clone_from(&first[0].moved.read_latency);
        }
        let targets = self.lanes.into_iter().map(|lane| {
            let moved = Moved { interrupted, ..lane.moved };
            (moved, lane.failed)
        });
        Relayed {
            targets: targets.collect(),
            read: Bytes(self.read),
            stopped: self.stopped,
            stages: self.stages,
            interrupted,
        }
    }
}
