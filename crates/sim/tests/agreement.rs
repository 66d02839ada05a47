//! The flow engine is as near to packets as `docs/model/flow.md` says: on the seeds that its equations were written
//! beside, within the aims, and on seeds that change with every commit, not far from them.

use std::ops::Range;
use std::process::Command;

use peerlane_sim::flow::compare::{Compared, Spread, compare};
use peerlane_sim::generate::scenarios::{FAMILIES, Family, scenario};
use rayon::prelude::*;

/// Both engines on these seeds of every family.
fn compared(seeds: &Range<u64>, families: &[Family]) -> Vec<Compared> {
    let cases: Vec<_> =
        families.iter().flat_map(|&family| seeds.clone().map(move |seed| (family, seed))).collect();
    cases
        .into_par_iter()
        .map(|(family, seed)| compare(&scenario(family, seed)).expect("both have a result"))
        .collect()
}

/// The errors of sums over the flows of a case, and of single flows.
fn spreads(cases: &[Compared]) -> (Spread, Spread) {
    let sums = Spread::of(cases.iter().map(Compared::sum_error));
    (sums, Spread::of(cases.iter().flat_map(|case| case.errors(&case.flow))))
}

#[test]
fn fluids_are_as_near_to_packets_as_was_aimed_at() {
    let (sums, flows) = spreads(&compared(&(0..12), &FAMILIES));
    assert!(sums.mean < 0.01 && sums.p95 < 0.05, "sums {sums:?}");
    assert!(flows.mean < 0.02, "flows {flows:?}");
}

/// A first seed that changes with every commit, so that each version is tried on other cases.
fn rotating() -> u64 {
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let digits = commit.as_deref().ok().and_then(|id| id.get(..12));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(12)
}

/// Sixteen cases are few, so that a single one can lift means far above the aims: of each two seeds in a row from 1000
/// to 1059 the means were 1.8 and 6.4 % at most, and three quarters of the flows within 3.0 %.
#[test]
fn fluids_are_near_to_packets_on_cases_that_no_version_was_written_beside() {
    let first = rotating();
    let (sums, flows) = spreads(&compared(&(first..first + 2), &FAMILIES));
    assert!(sums.mean < 0.03, "{first}: sums {sums:?}");
    assert!(flows.mean < 0.10 && flows.p75 < 0.05, "{first}: flows {flows:?}");
}

/// Without a law for waits by chance sums are off by 3.7 % in the mean, nearly all too high, and flows by 17.
#[test]
fn flows_of_few_commands_are_slowed_down_by_whom_they_meet() {
    let (sums, flows) = spreads(&compared(&(0..12), &[Family::Shallow]));
    assert!(sums.mean < 0.025 && sums.p95 < 0.05, "sums {sums:?}");
    assert!(flows.mean < 0.13, "flows {flows:?}");
}
