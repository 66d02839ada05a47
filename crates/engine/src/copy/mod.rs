//! Carries a plan out: memory, proof of the route, the relay, flush, verification, the final name.
//!
//! Candidates are tried in the plan's order until the kernel and a proof agree that one works; what
//! each of them answered is evidence in the record. Under `auto` host memory comes last, loudly. The
//! order of the rest is what keeps a target honest: a file takes its name only after verification,
//! and whatever ends the copy earlier removes it.

mod attempt;
mod check;
mod cost;
mod error;
mod files;
mod record;

use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_results::{
    Asked, CopyRecord, Evidence, MemoryFacts, Plan, Refusal, Route, RouteChoice, Tail, Warning,
};
use peerlane_units::{Bytes, Nanos};

pub use error::CopyError;

use crate::guard::System;
use crate::plan::{self, Prepared, host_memory};
use crate::relay::{Moved, merge_in_host, relay};
use crate::{Clock, Phase, Watch};
use attempt::{Attempt, Ready, Rejection};
use files::{Opened, Target};

/// What a copy is given from outside.
pub struct Tools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Is told what happens, and may ask for an end.
    pub watch: &'a mut dyn Watch,
    /// Where randomness comes from: names of unfinished files, patterns, samples.
    pub seed: u64,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// Carries a plan out on this machine.
///
/// # Errors
/// [`CopyError`] by what went wrong; its variants say what is at the target then.
pub fn copy(fabric: &Fabric, plan: &Plan, tools: &mut Tools<'_>) -> Result<CopyRecord, CopyError> {
    copy_on(&System::at(Path::new("/")), fabric, plan, tools)
}

fn copy_on(
    system: &System,
    fabric: &Fabric,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<CopyRecord, CopyError> {
    let now = ready_to_start(system, fabric, plan)?;
    let not_planned = || CopyError::NotPossible { reason: plan.reason.clone(), hint: None };
    let shape = plan.shape.as_ref().ok_or_else(not_planned)?;
    let (Some(source_live), Some(target_live)) = (&now.source.live, &now.target.live) else {
        return Err(not_planned());
    };
    let source = files::open_source(source_live)?;
    // Proof and tail write whole blocks; the file is cut to its length in the end.
    let block = plan.source.block.max(plan.target.block);
    let room = shape.length.round_up(block).unwrap_or(shape.length);
    let target = Target::open(target_live, room, tools.seed)?;
    let mut job = Job {
        system,
        fabric,
        plan,
        ends: &now,
        source,
        target,
        tools,
        evidence: Vec::new(),
        warnings: plan.warnings.clone(),
    };
    job.note_page_cache();
    job.run()
}

/// Looks again at everything the plan was made from: minutes may have passed since.
fn ready_to_start(system: &System, fabric: &Fabric, plan: &Plan) -> Result<Prepared, CopyError> {
    if !fabric.is_this_machine() {
        let reason = format!("machine {} is described, not here", fabric.name);
        return Err(CopyError::NotPossible { reason, hint: None });
    }
    if !plan.refusals.is_empty() {
        return Err(CopyError::Refused(plan.refusals.clone()));
    }
    if plan.route.is_none() {
        let hint = Some("`--route auto` copies through host memory".to_owned());
        return Err(CopyError::NotPossible { reason: plan.reason.clone(), hint });
    }
    // The plan holds absolute paths; the working directory may have changed since.
    let asked = Asked {
        source: plan.source.path.clone(),
        target: plan.target.path.clone(),
        ..plan.asked.clone()
    };
    let now = plan::prepare(system, fabric, &asked)?;
    if !now.plan.refusals.is_empty() {
        return Err(CopyError::Refused(now.plan.refusals));
    }
    for (planned, found) in [(&plan.source, &now.plan.source), (&plan.target, &now.plan.target)] {
        if (planned.kind, planned.size, planned.block) != (found.kind, found.size, found.block) {
            let reason = format!("{} is not what it was when the copy was planned", planned.path);
            return Err(CopyError::Refused(vec![Refusal { reason, hint: None, forceable: false }]));
        }
    }
    Ok(now)
}

/// A copy under way.
struct Job<'a, 't> {
    system: &'a System,
    fabric: &'a Fabric,
    plan: &'a Plan,
    ends: &'a Prepared,
    source: Opened,
    target: Target,
    tools: &'a mut Tools<'t>,
    evidence: Vec<Evidence>,
    warnings: Vec<Warning>,
}

/// What moving and checking showed.
struct Done {
    moved: Moved,
    /// Payload that went through host memory although the route did not.
    tail: Bytes,
    elapsed: Nanos,
    check: Nanos,
    cpu: peerlane_results::CpuTime,
    verification: peerlane_results::Verification,
}

impl Job<'_, '_> {
    fn run(mut self) -> Result<CopyRecord, CopyError> {
        let start = self.tools.clock.now();
        self.tools.watch.phase(Phase::Check);
        let (mut ready, route, reason) = self.settle_route()?;
        let proving = self.tools.clock.now().since(start);
        let mut done = self.carry(&mut ready)?;
        done.check = done.check.after(proving);
        // The ring goes first: it holds the target's file, too.
        let Ready { ring, shape, memory, .. } = ready;
        drop(ring);
        let settled = record::Settled { route, reason, shape, memory };
        let record =
            record::write(self.fabric, self.plan, settled, done, self.evidence, self.warnings);
        self.target.finish(record.bytes)?;
        Ok(record)
    }

    /// Tries candidates until one works; the last is host memory, where that is allowed.
    fn settle_route(&mut self) -> Result<(Ready, Route, String), CopyError> {
        let mut rejections: Vec<Rejection> = Vec::new();
        if self.plan.route == Some(Route::P2p) {
            let usable = self.plan.candidates.iter().filter(|one| one.refusals.is_empty());
            for candidate in usable {
                let number = rejections.len() as u64;
                match self.attempt(Route::P2p, &candidate.memory, number)? {
                    Ok(ready) => {
                        self.evidence.push(Evidence {
                            looked_at: format!("the kernel's rules for {}", candidate.memory.name),
                            showed: candidate.facts.join("; "),
                        });
                        let reason = self.reason_for(&candidate.memory);
                        return Ok((ready, Route::P2p, reason));
                    }
                    Err(rejection) => {
                        self.evidence.push(Evidence {
                            looked_at: rejection.memory.clone(),
                            showed: rejection.reason.clone(),
                        });
                        rejections.push(rejection);
                    }
                }
            }
        }
        let reason = match rejections.as_slice() {
            [] => self.plan.reason.clone(),
            rejections => rejections
                .iter()
                .map(|one| format!("{}: {}", one.memory, one.reason))
                .collect::<Vec<_>>()
                .join("; "),
        };
        if self.plan.route == Some(Route::P2p) {
            if self.plan.asked.route == RouteChoice::P2p {
                let hint = rejections.into_iter().find_map(|one| one.hint);
                return Err(CopyError::NotPossible { reason, hint });
            }
            self.warnings.retain(|warning| !matches!(warning, Warning::TailByHost { .. }));
            self.warnings.push(Warning::FellBack { reason: reason.clone() });
        }
        if self.warnings.iter().any(|warning| matches!(warning, Warning::FellBack { .. })) {
            self.tools.watch.notice(&format!("copying through host memory: {reason}"));
        }
        match self.attempt(Route::Host, &host_memory(), 0)? {
            Ok(ready) => Ok((ready, Route::Host, reason)),
            Err(rejection) => {
                Err(CopyError::NotPossible { reason: rejection.reason, hint: rejection.hint })
            }
        }
    }

    fn reason_for(&self, memory: &MemoryFacts) -> String {
        if self.plan.memory.as_ref() == Some(memory) {
            return self.plan.reason.clone();
        }
        format!("{} passed the probe where the memories before it did not", memory.name)
    }

    fn attempt(
        &mut self,
        route: Route,
        memory: &MemoryFacts,
        number: u64,
    ) -> Result<Result<Ready, Rejection>, CopyError> {
        let attempt = Attempt {
            plan: self.plan,
            ends: self.ends,
            source: &self.source,
            target: &self.target,
            route,
            memory,
            number,
        };
        attempt.make_ready(self.tools, &mut self.evidence, &mut self.warnings)
    }

    /// Moves, flushes and verifies.
    fn carry(&mut self, ready: &mut Ready) -> Result<Done, CopyError> {
        let counters = || {
            [&self.ends.source, &self.ends.target]
                .map(|end| cost::BlockCounter::now(self.system, end.live.as_ref()))
        };
        let before = counters();
        let length = self.plan.shape.as_ref().map_or(Bytes::ZERO, |shape| shape.length);
        let path = || self.plan.target.path.clone().into();
        let stopped = |source| CopyError::Move { path: path(), source };
        self.tools.watch.phase(Phase::Move);
        let (start, cpu) = (self.tools.clock.now(), cost::CpuMark::now());
        let clock = self.tools.clock;
        let moved =
            relay(&mut ready.ring, &ready.transfer, clock, self.tools.watch).map_err(stopped)?;
        if moved.interrupted {
            let done = Bytes(moved.contiguous());
            return Err(CopyError::Interrupted { done, total: length });
        }
        let tail = if ready.transfer.tail == Tail::MergeInHost {
            let tail = merge_in_host(&mut ready.ring, &ready.transfer, ready.host, clock);
            Bytes(tail.map_err(stopped)?)
        } else {
            Bytes::ZERO
        };
        check::flush(ready, clock).map_err(|source| CopyError::File {
            action: "flush",
            path: path(),
            source,
        })?;
        let end = clock.now();
        let cpu = cost::CpuMark::now().since(cpu);
        let after = counters();
        self.tools.watch.phase(Phase::Check);
        let verification = check::verify(ready, self.plan, self.tools)?;
        for (before, after) in before.into_iter().zip(after) {
            let shown = before.and_then(|before| before.evidence(after));
            // Both ends on one device have one counter.
            self.evidence.extend(shown.filter(|shown| !self.evidence.contains(shown)));
        }
        let check = self.tools.clock.now().since(end);
        Ok(Done { moved, tail, elapsed: end.since(start), check, cpu, verification })
    }

    /// A file system that refused direct I/O after all.
    fn note_page_cache(&mut self) {
        let ends = [
            (self.source.is_direct, &self.plan.source.path),
            (self.target.is_direct(), &self.plan.target.path),
        ];
        for (is_direct, path) in ends {
            let warning = Warning::PageCache { path: path.clone() };
            if !is_direct && !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

#[cfg(test)]
mod tests;
