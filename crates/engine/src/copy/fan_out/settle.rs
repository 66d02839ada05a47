//! The route of a fan-out: a memory that the kernel and a proof agree on for every target.

use peerlane_results::{FanOutPlan, MemoryFacts, Plan, Route, RouteChoice, Shape, Warning};

use super::{Copy, transfer_of};
use crate::copy::attempt::{Attempt, Ready, Rejection};
use crate::copy::check::{self, NotProved};
use crate::copy::gone::drive_of;
use crate::copy::pieces::Holes;
use crate::copy::record::Settled;
use crate::copy::{CopyError, Tools};
use crate::open::Attached;
use crate::plan::{host_memory, memories_for_all, rules_evidence, shapes_for};
use crate::relay::Transfer;
use crate::ring::FileId;

/// A route that is proved for every target that is still in the copy.
pub(super) struct Agreed {
    pub(super) route: Route,
    pub(super) reason: String,
    /// Ring and memory; its transfer is that of the target which is being worked on.
    pub(super) ready: Ready,
    /// Which target sits where: the number of its lane.
    pub(super) seats: Vec<usize>,
    /// One for each seat.
    pub(super) transfers: Vec<Transfer>,
    /// What each seat's source and target are compared by.
    compared: Vec<[FileId; 2]>,
}

impl Agreed {
    /// Turns to the target that has this seat.
    pub(super) fn take(&mut self, seat: usize) {
        self.ready.transfer = self.transfers[seat];
        self.ready.compared = self.compared[seat];
    }

    pub(super) fn settled(&self, shape: Shape) -> Settled {
        let (reason, memory) = (self.reason.clone(), self.ready.memory.clone());
        Settled { route: self.route, reason, shape, memory }
    }
}

impl Copy<'_> {
    /// Tries memories until one serves every target; the last is host memory, where that is allowed.
    pub(super) fn settle(&mut self, tools: &mut Tools<'_>) -> Result<Agreed, CopyError> {
        let is_finished = self.lanes.iter().any(|lane| lane.job.target.is_finished());
        let wants_p2p = self.plan.route == Some(Route::P2p) && !is_finished;
        let mut rejections: Vec<Rejection> = Vec::new();
        if wants_p2p {
            for lane in self.live() {
                self.lanes[lane].job.make_room_for_proof(tools)?;
            }
            let plans: Vec<&Plan> = self.plan.targets.iter().collect();
            for memory in memories_for_all(&plans) {
                let number = rejections.len() as u64;
                match self.agree_on(Route::P2p, &memory, number, tools)? {
                    Ok(agreed) => return Ok(agreed),
                    Err(rejection) => rejections.push(rejection),
                }
            }
        }
        let words: Vec<String> =
            rejections.iter().map(|one| format!("{}: {}", one.memory, one.reason)).collect();
        if wants_p2p {
            let reason = words.join("; ");
            if self.plan.targets[0].asked.route == RouteChoice::P2p {
                let hint = rejections.into_iter().find_map(|one| one.hint);
                return Err(CopyError::NotPossible { reason, hint });
            }
            self.warnings.push(Warning::FellBack { reason });
            for lane in &mut self.lanes {
                lane.job.warnings.retain(|one| !matches!(one, Warning::TailByHost { .. }));
            }
        }
        if wants_p2p || has_fallen_back(self.plan) {
            let reason = if wants_p2p { words.join("; ") } else { self.plan.reason.clone() };
            tools.watch.notice(&format!("copying through host memory: {reason}"));
        }
        match self.agree_on(Route::Host, &host_memory(), 0, tools)? {
            Ok(agreed) => Ok(agreed),
            Err(rejection) => {
                Err(CopyError::NotPossible { reason: rejection.reason, hint: rejection.hint })
            }
        }
    }

    /// Opens one memory and proves it for every target. A target that fails by itself is dropped, and
    /// the others begin again on a ring of their own.
    fn agree_on(
        &mut self,
        route: Route,
        memory: &MemoryFacts,
        number: u64,
        tools: &mut Tools<'_>,
    ) -> Result<Result<Agreed, Rejection>, CopyError> {
        loop {
            let seats = self.live();
            if seats.is_empty() {
                let reason = "no target is left".to_owned();
                return Err(CopyError::WithOthers { reason });
            }
            let mut agreed = match self.open(route, memory, seats, tools)? {
                Ok(agreed) => agreed,
                Err(rejection) => return Ok(Err(rejection)),
            };
            match self.prove(&mut agreed, number, tools) {
                Ok(()) => return Ok(Ok(agreed)),
                Err(Some(rejection)) => return Ok(Err(rejection)),
                Err(None) => {}
            }
        }
    }

    fn open(
        &mut self,
        route: Route,
        memory: &MemoryFacts,
        seats: Vec<usize>,
        tools: &Tools<'_>,
    ) -> Result<Result<Agreed, Rejection>, CopyError> {
        let shapes = match self.plan.route {
            Some(planned) if planned == route => None,
            _ => Some(shapes_for(self.ends, route, memory)),
        };
        let shape_of = |lane: usize| match &shapes {
            Some(shapes) => Some(shapes[lane].clone()),
            None => self.plan.targets[lane].shape.clone(),
        };
        let first = &self.lanes[seats[0]].job;
        let plan = Plan { route: Some(route), shape: shape_of(seats[0]), ..first.plan.clone() };
        let is_zeroed = seats.iter().any(|&lane| self.lanes[lane].job.holes == Holes::Zeroed);
        let attempt = Attempt {
            machine: first.machine,
            plan: &plan,
            ends: first.ends,
            source: &first.source,
            target: &first.target,
            route,
            holes: if is_zeroed { Holes::Zeroed } else { first.holes },
            memory,
            number: 0,
            targets: u32::try_from(seats.len()).unwrap_or(u32::MAX),
            has_nodes: seats.iter().any(|&lane| self.lanes[lane].job.has_nodes()),
        };
        let mut evidence = Vec::new();
        let (mut ready, reduced) = match attempt.open(tools, &mut evidence)? {
            Ok(opened) => opened,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let mut transfers = vec![ready.transfer];
        let mut compared = vec![ready.compared];
        for &lane in &seats[1..] {
            let job = &self.lanes[lane].job;
            if route == Route::P2p && !job.target.is_direct() {
                let reason = format!("{} takes no direct I/O", job.plan.target.path);
                return Ok(Err(attempt.rejection(reason, None)));
            }
            let tail = shape_of(lane).map_or(ready.shape.tail, |shape| shape.tail);
            let target = attach(&mut ready, job)?;
            transfers.push(transfer_of(&ready.transfer, target.payload, job, tail));
            compared.push([ready.compared[0], target.compared]);
        }
        for &lane in &seats {
            let job = &mut self.lanes[lane].job;
            job.evidence.extend(evidence.iter().cloned());
            job.warnings.extend(reduced.clone());
        }
        let reason = self.plan.reason.clone();
        Ok(Ok(Agreed { route, reason, ready, seats, transfers, compared }))
    }

    /// An error of `None` means that a target was dropped.
    fn prove(
        &mut self,
        agreed: &mut Agreed,
        number: u64,
        tools: &mut Tools<'_>,
    ) -> Result<(), Option<Rejection>> {
        for seat in 0..agreed.seats.len() {
            let lane = agreed.seats[seat];
            agreed.take(seat);
            let seed = tools.seed.wrapping_add(number).wrapping_add((seat as u64) << 32);
            let failure = match check::prove(&mut agreed.ready, seed, tools) {
                Ok(found) => {
                    self.lanes[lane].job.evidence.extend(found);
                    continue;
                }
                Err(failure) => failure,
            };
            let path = &self.lanes[lane].job.plan.target.path;
            let outcome = match failure {
                NotProved::Rejected { reason, hint } => {
                    let reason = format!("{path}: {reason}");
                    Some(Rejection { memory: agreed.ready.memory.name.clone(), reason, hint })
                }
                NotProved::Ended(source) => {
                    let path = path.into();
                    self.lanes[lane].failed = Some(CopyError::Proof { path, source });
                    None
                }
            };
            if seat > 0 {
                // The proofs that passed left payload in it.
                self.scrub(agreed, tools);
            }
            return Err(outcome);
        }
        if agreed.route == Route::P2p {
            let name = &agreed.ready.memory.name;
            for &lane in &agreed.seats {
                let job = &mut self.lanes[lane].job;
                let own = job.plan.candidates.iter().find(|one| one.memory.name == *name);
                let rules = own.and_then(|own| rules_evidence(&own.memory.name, &own.facts));
                job.evidence.extend(rules);
            }
        }
        Ok(())
    }
}

fn has_fallen_back(plan: &FanOutPlan) -> bool {
    let warnings = plan.targets.iter().flat_map(|target| &target.warnings);
    warnings.into_iter().any(|warning| matches!(warning, Warning::FellBack { .. }))
}

fn attach(ready: &mut Ready, job: &super::Job<'_>) -> Result<Attached, CopyError> {
    let attached = job.target.opened().attach(&mut ready.ring, &drive_of(&job.plan.target));
    attached.map_err(|source| CopyError::File {
        action: "attach",
        path: job.plan.target.path.clone().into(),
        source,
    })
}
