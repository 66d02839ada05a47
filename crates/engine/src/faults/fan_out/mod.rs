//! A copy to several targets, one of which has what is wrong, over as many runs as it takes.
//!
//! Each target is a [`World`] of the same source. What must hold besides: the targets that nothing is
//! wrong with are complete after the first run, whatever becomes of the one that has the fault.

mod ledger;
mod once;

use super::attempt::{Blame, End};
use super::life::{RUNS_MAX, breaks, damage_journal, done, draw_plan, ending};
use super::world::{Onto, World, index};
use super::{Kind, Outcome, Untrue, check};
use once::attempt;

/// What a target says that stopped since another one does not answer.
const WITH_ANOTHER: &str = "another does not answer";

/// As [`run`](super::run), with several targets.
pub(super) fn run(kind: Kind, seed: u64) -> Result<Outcome, Untrue> {
    let mut worlds: Vec<World> = Vec::new();
    let mut first = World::draw(kind, seed, Onto::Either);
    let count = 2 + index(first.random.below(3));
    let broken = index(first.random.below(count as u64));
    let mut random = first.random.clone();
    for number in 0..count {
        let mut world = World::draw(kind, seed, Onto::Either);
        if number != broken {
            random.fill(&mut world.before);
            if world.is_new {
                let range = world.shape.target_range();
                world.before[range].fill(0);
            }
            world.target.bytes.clone_from(&world.before);
            world.target.cache = Some(crate::ring::sim::Cache::over(&world.before));
        }
        worlds.push(world);
    }
    worlds[broken].break_things();
    let breaks = breaks(&mut worlds[broken]);
    let mut outcome = Outcome { first: super::Ending::Stopped, runs: 0, resumed: 0, operations: 0 };
    let mut is_complete = vec![false; count];
    loop {
        let is_faulty = outcome.runs < breaks;
        if !is_faulty {
            worlds.iter_mut().for_each(World::repair);
        }
        let plan = draw_plan(&mut worlds[broken], is_faulty);
        // A target that is complete has its name: only the others go on.
        let lanes: Vec<usize> = (0..count).filter(|&lane| !is_complete[lane]).collect();
        outcome.resumed += u32::from(lanes.iter().any(|&lane| done(&worlds[lane]) > 0));
        outcome.runs += 1;
        let untrue = |what| Untrue { seed, kind, run: outcome.runs, what };
        let is_first = outcome.runs == 1;
        let (ends, operations) = attempt(&mut worlds, (&lanes, broken), plan, is_first);
        outcome.operations += operations;
        for (&lane, end) in lanes.iter().zip(&ends) {
            let what = after(&mut worlds[lane], end, lane == broken, is_faulty);
            what.map_err(|what| untrue(format!("target {lane} of {count}: {what}")))?;
            if lane == broken && is_first {
                outcome.first = ending(end);
            }
            is_complete[lane] = matches!(end, End::Complete { .. });
        }
        if is_complete.iter().all(|complete| *complete) {
            return Ok(outcome);
        }
        if outcome.runs >= RUNS_MAX {
            return Err(untrue("the copy never ends".to_owned()));
        }
        for &lane in &lanes {
            damage_journal(&mut worlds[lane]).map_err(untrue)?;
        }
    }
}

/// What must hold of each target after every run.
fn after(world: &mut World, end: &End, is_broken: bool, is_faulty: bool) -> Result<(), String> {
    let after_loss = world.target_after_loss();
    check::nothing_beside_the_copy_changed(world, &world.target.bytes)?;
    check::nothing_beside_the_copy_changed(world, &after_loss)?;
    check::the_journal_claims_what_is_there(world, &after_loss)?;
    let all = 0..world.shape.length;
    if let End::Complete { .. } = end {
        if !check::holds(world, &world.target.bytes, all.clone()) {
            return Err("it is reported complete, and its content differs".to_owned());
        }
        if !check::holds(world, &after_loss, all) {
            return Err("it is reported complete, and is not on stable storage".to_owned());
        }
        return check::a_bad_route_is_not_taken(world.kind, end);
    }
    let is_its_own = matches!(
        world.kind,
        Kind::WriteErrorOnce
            | Kind::WriteErrorStays
            | Kind::FlushError
            | Kind::TargetGone
            | Kind::WriteStuck
            | Kind::FlushStuck
            | Kind::TargetFull
    );
    if !is_faulty {
        return Err(format!("nothing is broken any more, and yet: {end:?}"));
    }
    // A tail or a check that is never answered ends the others with their journals: its tags are used
    // by theirs.
    let is_with_another = matches!(end, End::Failed(Blame::Shape(what)) if what == WITH_ANOTHER);
    if is_with_another
        && matches!(world.kind, Kind::WriteStuck | Kind::ReadStuck | Kind::FlushStuck)
    {
        return Ok(());
    }
    if is_its_own && !is_broken {
        return Err(format!("another target failed, and this one with it: {end:?}"));
    }
    check::the_cause_is_named(world.kind, end)
}
