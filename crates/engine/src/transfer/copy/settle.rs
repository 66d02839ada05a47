//! The route of a copy: memory that the kernel and a proof agree on for every target.

use peerlane_results::{
    Evidence, MemoryFacts, Plan, Route, RouteChoice, RouteVerdict, Shape, Tail, Warning,
};
use peerlane_units::Bytes;

use super::attempt::{AttachedMemory, Attempt, NotReady, Rejection, block, tail};
use super::check::{self, NotProved};
use super::copying::{Copying, TargetLane};
use super::gone::drive_of;
use super::pieces::Holes;
use super::record::Settled;
use super::{CopyError, CopyJob, Tools};
use crate::endpoints::open::Attached;
use crate::io::ring::{FileId, Ring as _};
use crate::plan::{
    GpuWay, Prepared, fitted, host_memory, memories_for_all, rules_evidence, shapes_for, way_of,
};
use crate::transfer::relay::Transfer;

/// A route that is proved for every target that is still in the copy.
pub(super) struct Agreed {
    pub(super) route: Route,
    pub(super) reason: String,
    /// Ring and memory; its transfer is that of the target which is being worked on.
    pub(super) ready: AttachedMemory,
    pub(super) seats: Vec<Seat>,
    /// Warning if the memory had less room than was planned for.
    reduced: Option<Warning>,
}

/// The route that a memory is tried for.
struct ChosenRoute {
    route: Route,
    reason: String,
}

/// A target on the ring.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    /// Its number in the copy.
    pub(super) lane: usize,
    pub(super) transfer: Transfer,
    /// Source and target as they are compared.
    compared: [FileId; 2],
    tail: Tail,
}

impl Agreed {
    /// Turns to the target that has this seat.
    pub(super) fn take(&mut self, seat: usize) {
        self.ready.transfer = self.seats[seat].transfer;
        self.ready.compared = self.seats[seat].compared;
    }

    /// A request of another target's tail that is not answered may still use its memory: a target goes no
    /// further on this ring.
    pub(super) fn refuse_busy(&mut self, given_up: u32) -> Option<CopyError> {
        let (ring, host) = (&mut self.ready.ring, self.ready.host);
        let is_used = ring.in_flight() > given_up || ring.host_bytes(host).is_none();
        let is_busy = self.seats.len() > 1 && is_used;
        let reason = "a request to another target is not answered";
        is_busy.then(|| CopyError::WithOthers { reason: reason.to_owned() })
    }

    pub(super) fn settled(&self, seat: usize) -> Settled {
        let (reason, memory) = (self.reason.clone(), self.ready.memory.clone());
        let shape = Shape { tail: self.seats[seat].tail, ..self.ready.shape.clone() };
        Settled { route: self.route, reason, shape, memory }
    }
}

impl Copying<'_> {
    /// Tries memories until one serves every target; the last is host memory, if that is allowed.
    pub(super) fn settle(&mut self, tools: &mut Tools<'_>) -> Result<Agreed, CopyError> {
        let plan = self.lanes[0].job.plan;
        // A target that has its name already is only looked at, and not by a proof that writes.
        let finished = self.lanes.iter().find(|lane| lane.job.target.place.is_finished());
        let are_all_finished = self.lanes.iter().all(|lane| lane.job.target.place.is_finished());
        if let Some(lane) = finished.filter(|_| plan.route == Some(Route::P2p) && !are_all_finished)
        {
            let path = &lane.job.plan.target.path;
            let reason = format!("{path} is complete and only compared, by host memory");
            if plan.asked.route == RouteChoice::P2p {
                let hint = Some("leave out the targets that are complete".to_owned());
                return Err(CopyError::NotPossible { reason, hint });
            }
            return self.fall_back(&reason, tools);
        }
        if plan.route != Some(Route::P2p) || are_all_finished {
            let is_fallen_back =
                |lane: &TargetLane<'_>| lane.job.account.warnings.iter().any(Warning::is_fall_back);
            if self.lanes.iter().any(is_fallen_back) {
                tools.watch.notice(&format!("copying through host memory: {}", plan.reason));
            }
            return self.through_host_memory(&plan.reason, tools);
        }
        for lane in self.live() {
            let job = &mut self.lanes[lane].job;
            if job.plan.route == Some(Route::P2p) && !job.target.place.is_finished() {
                job.target.make_room_for_proof(job.layout.block, tools)?;
            }
        }
        let mut rejections: Vec<(String, Rejection)> = Vec::new();
        for memory in memories_for_all(&self.plans()) {
            let reason = match plan.memory.as_ref() == Some(&memory) {
                true => plan.reason.clone(),
                false => {
                    format!("{} passed the probe where the memories before it did not", memory.name)
                }
            };
            let number = rejections.len() as u64;
            match self.agree_on(ChosenRoute { route: Route::P2p, reason }, &memory, number, tools) {
                Ok(agreed) => return Ok(agreed),
                Err(NotReady::Ended(error)) => return Err(error),
                Err(NotReady::Rejected(rejection)) => {
                    let (looked_at, showed) = (memory.name.clone(), rejection.reason.clone());
                    let rejected = Evidence { looked_at, showed }.says(RouteVerdict::NotKnown);
                    self.for_live(|job| job.account.evidence.push(rejected.clone()));
                    rejections.push((memory.name, rejection));
                }
            }
        }
        let words: Vec<String> =
            rejections.iter().map(|(name, one)| format!("{name}: {}", one.reason)).collect();
        let reason = words.join("; ");
        if plan.asked.route == RouteChoice::P2p {
            let hint = rejections.into_iter().find_map(|(_, one)| one.hint);
            return Err(CopyError::NotPossible { reason, hint });
        }
        self.fall_back(&reason, tools)
    }

    /// Goes over to host memory from the route that was planned, loudly.
    pub(super) fn fall_back(
        &mut self,
        reason: &str,
        tools: &mut Tools<'_>,
    ) -> Result<Agreed, CopyError> {
        self.for_live(|job| {
            job.account.warnings.retain(|warning| !matches!(warning, Warning::TailByHost { .. }));
            job.account.warnings.push(Warning::FellBack { reason: reason.to_owned() });
        });
        tools.watch.notice(&format!("copying through host memory: {reason}"));
        self.through_host_memory(reason, tools)
    }

    fn through_host_memory(
        &mut self,
        reason: &str,
        tools: &mut Tools<'_>,
    ) -> Result<Agreed, CopyError> {
        let plan = self.lanes[0].job.plan;
        // With that of a GPU behind it where just this was asked for.
        let planned = plan.memory.clone().filter(|_| plan.route == Some(Route::Host));
        let memory = planned.unwrap_or_else(|| self.fallback_memory(plan));
        let chosen = ChosenRoute { route: Route::Host, reason: reason.to_owned() };
        self.agree_on(chosen, &memory, 0, tools).map_err(|error| match error {
            NotReady::Ended(error) => error,
            NotReady::Rejected(Rejection { reason, hint }) => {
                CopyError::NotPossible { reason, hint }
            }
        })
    }

    /// Host memory; with that of a GPU behind it if stages work there only.
    fn fallback_memory(&self, plan: &Plan) -> MemoryFacts {
        let names = self.stages.names();
        let reach = |memory: &MemoryFacts| {
            names.iter().all(|name| name.reaches(memory, way_of(memory).is_some()))
        };
        let host = host_memory();
        if reach(&host) {
            return host;
        }
        let usable = plan.candidates.iter().filter(|one| one.refusals.is_empty());
        let mut pinned =
            usable.map(|one| &one.memory).filter(|memory| way_of(memory) == Some(GpuWay::Pinned));
        pinned.find(|memory| reach(memory)).cloned().unwrap_or(host)
    }

    /// Opens one memory and proves it for every target. A target that fails by itself is dropped, and
    /// the others begin again on a ring of their own.
    fn agree_on(
        &mut self,
        chosen: ChosenRoute,
        memory: &MemoryFacts,
        number: u64,
        tools: &mut Tools<'_>,
    ) -> Result<Agreed, NotReady> {
        loop {
            let live = self.live();
            let mut agreed = self.open(&chosen, memory, &live, tools)?;
            self.prove(&mut agreed, number, tools)?;
            if self.live().len() == live.len() {
                self.note(&mut agreed);
                return Ok(agreed);
            }
        }
    }

    fn open(
        &self,
        chosen: &ChosenRoute,
        memory: &MemoryFacts,
        live: &[usize],
        tools: &mut Tools<'_>,
    ) -> Result<Agreed, NotReady> {
        let route = chosen.route;
        let shapes = self.shapes(route, memory);
        if self.stages.chunk().is_some_and(|chunk| shapes.iter().any(|one| one.request.0 != chunk))
        {
            let reason = "its requests are shorter than the chunks of the stages".to_owned();
            let hint = "`--block 64K` makes shorter chunks".to_owned();
            return Err(Rejection { reason, hint: Some(hint) }.into());
        }
        let jobs: Vec<&CopyJob<'_>> = live.iter().map(|&lane| &self.lanes[lane].job).collect();
        let [first, others @ ..] = jobs.as_slice() else {
            return Err(CopyError::WithOthers { reason: "no target is left".to_owned() }.into());
        };
        if route == Route::P2p {
            if let Some(path) = jobs.iter().find_map(|job| job.buffered_ends().next()) {
                let reason = format!("{path} takes no direct I/O");
                return Err(Rejection { reason, hint: None }.into());
            }
        }
        let is_zeroed = jobs.iter().any(|job| job.target.holes == Holes::Zeroed);
        let attempt = Attempt {
            machine: first.machine,
            plan: first.plan,
            source: &first.source.opened,
            target: &first.target.place,
            route,
            shape: &shapes[live[0]],
            holes: if is_zeroed { Holes::Zeroed } else { first.target.holes },
            memory,
            targets: u32::try_from(jobs.len()).unwrap_or(u32::MAX),
            has_nodes: jobs.iter().any(|job| job.has_nodes()),
            stages: &self.stages,
        };
        let mut ready = attempt.open(tools)?;
        let (transfer, compared) = (ready.transfer, ready.compared);
        let mut seats =
            vec![Seat { lane: live[0], transfer, compared, tail: shapes[live[0]].tail }];
        for (job, &lane) in others.iter().zip(&live[1..]) {
            let target = attach(&mut ready, job)?;
            let tail = shapes[lane].tail;
            let compared = [ready.compared[0], target.compared];
            let transfer = transfer_of(&ready.transfer, target.payload, job, tail);
            seats.push(Seat { lane, transfer, compared, tail });
        }
        let (asked, slots) = (shapes[live[0]].slots, ready.shape.slots);
        let reduced = (slots < asked).then_some(Warning::DepthReduced { asked, slots });
        Ok(Agreed { route, reason: chosen.reason.clone(), ready, seats, reduced })
    }

    /// The shape of each target: the planned one, or one for this route if the plan was for the
    /// other.
    fn shapes(&self, route: Route, memory: &MemoryFacts) -> Vec<Shape> {
        let planned = self.lanes.iter().map(|lane| {
            let plan = lane.job.plan;
            plan.shape.clone().filter(|_| plan.route == Some(route))
        });
        planned.collect::<Option<_>>().unwrap_or_else(|| {
            let ends: Vec<&Prepared> = self.lanes.iter().map(|lane| lane.job.ends).collect();
            let mut shapes = shapes_for(&ends, route, memory);
            if let Some(chunk) = self.stages.chunk() {
                // Chunks stay what they were when the copy began, whichever route it takes.
                for shape in shapes.iter_mut().filter(|shape| shape.request.0 > chunk) {
                    let room = shape.memory;
                    *shape = fitted(&Shape { request: Bytes(chunk), ..shape.clone() }, room);
                }
            }
            shapes
        })
    }

    /// Proves the route for each target; ends if one of them is dropped.
    fn prove(
        &mut self,
        agreed: &mut Agreed,
        number: u64,
        tools: &mut Tools<'_>,
    ) -> Result<(), Rejection> {
        let is_alone = agreed.seats.len() == 1;
        for seat in 0..agreed.seats.len() {
            agreed.take(seat);
            let seed = tools.seed.wrapping_add(number).wrapping_add((seat as u64) << 32);
            let proved = check::prove(&mut agreed.ready, seed, tools);
            let TargetLane { job, failed, .. } = &mut self.lanes[agreed.seats[seat].lane];
            // A proof leaves data of the source behind, or a pattern where it could not restore the target.
            job.target.is_touched |=
                agreed.route == Route::P2p && !matches!(proved, Err(NotProved::Rejected { .. }));
            let path = &job.plan.target.path;
            let outcome = match proved {
                Ok(found) => {
                    job.account.evidence.extend(found);
                    continue;
                }
                Err(NotProved::Rejected { reason, hint }) => {
                    let reason = if is_alone { reason } else { format!("{path}: {reason}") };
                    Err(Rejection { reason, hint })
                }
                Err(NotProved::Ended(source)) => {
                    *failed = Some(CopyError::Proof { path: path.into(), source });
                    Ok(())
                }
            };
            return outcome;
        }
        Ok(())
    }

    /// Notes the copy's route, memory and evidence in each target's account.
    fn note(&mut self, agreed: &mut Agreed) {
        let Agreed { route, ready, reduced, .. } = agreed;
        if let Some(side) = &mut ready.gpu {
            side.mark();
        }
        let name = &ready.memory.name;
        self.for_live(|job| {
            job.account.evidence.extend(ready.evidence.iter().cloned());
            job.account.warnings.extend(reduced.clone());
            if *route == Route::P2p {
                let own = job.plan.candidates.iter().find(|one| one.memory.name == *name);
                job.account.evidence.extend(own.and_then(|own| rules_evidence(name, &own.facts)));
                job.account.memory = Some(name.clone());
            }
            if let Some(keeper) = &mut job.target.keeper {
                keeper.set_route(*route);
            }
        });
    }
}

fn attach(ready: &mut AttachedMemory, job: &CopyJob<'_>) -> Result<Attached, CopyError> {
    let attached = job.target.place.opened().attach(&mut ready.ring, &drive_of(&job.plan.target));
    attached.map_err(|source| CopyError::File {
        action: "attach",
        path: job.plan.target.path.clone().into(),
        source,
    })
}

/// The transfers of all targets differ in these only.
fn transfer_of(any: &Transfer, target: FileId, job: &CopyJob<'_>, planned: Tail) -> Transfer {
    Transfer {
        target,
        target_offset: job.plan.asked.target_offset.0,
        target_block: block(job.target.place.is_direct(), &job.plan.target),
        tail: tail(planned, &job.target.place),
        ..*any
    }
}
