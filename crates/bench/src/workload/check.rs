//! Checks of a workload from any source: flags, a file, or a record that is resumed.
//!
//! Leaves out devices. Sums of sizes and offsets of a workload that passes fit 63 bits, as offsets
//! of files do.

use std::collections::BTreeSet;

use peerlane_results::{CaseSpec, Flow, Repeats, Workload, WorkloadKind};
use peerlane_units::{Bytes, Nanos};

use super::{Brief, BriefError, Pattern};

/// Most cases of a workload, transfers of a case and runs: bounds on time and on the size of a record.
const CASES_MAX: usize = 10_000;
const FLOWS_MAX: usize = 256;
const RUNS_MAX: u64 = 1_000_000;
/// Largest block: a bound on memory, far above the largest request of any device.
pub const BLOCK_MAX: Bytes = Bytes::mib(1024);
/// Most blocks in flight of a transfer.
pub const DEPTH_MAX: u32 = 1024;
const REPEATS_MAX: u32 = 100_000;
const WARM_UP_MAX: u32 = 1000;
const UNTIL_MAX: u32 = 1000;
/// A run that is shorter measures its own begin and end.
const TIME_MIN: Nanos = Nanos(1_000_000);
const TIME_MAX: Nanos = Nanos::seconds(86_400);
const DRIVES_MAX: usize = 256;
const WORDS_MAX: usize = 256;
const OFFSET_MAX: u64 = i64::MAX as u64;

/// Refuses words that no workload can be made of.
pub(super) fn brief(brief: &Brief) -> Result<(), BriefError> {
    for block in &brief.blocks {
        within("the brief", "block", block.0, 1, BLOCK_MAX.0)?;
    }
    for (what, found, low, high) in [
        ("depth", brief.depth.map(u64::from), 1, u64::from(DEPTH_MAX)),
        ("jobs", brief.jobs.map(u64::from), 1, FLOWS_MAX as u64),
        ("length", brief.length.map(|length| length.0), 1, OFFSET_MAX),
        ("offset", Some(brief.offset.0), 0, OFFSET_MAX),
        ("target-offset", brief.target_offset.map(|offset| offset.0), 0, OFFSET_MAX),
        ("repeats", brief.repeats.map(u64::from), 1, u64::from(REPEATS_MAX)),
    ] {
        found.map_or(Ok(()), |found| within("the brief", what, found, low, high))?;
    }
    for (what, count, most) in [
        ("drives", brief.drives.len(), DRIVES_MAX),
        ("sources", brief.source.len(), DRIVES_MAX),
        ("targets", brief.target.len(), DRIVES_MAX),
        ("routes", brief.routes.len(), WORDS_MAX),
        ("blocks", brief.blocks.len(), WORDS_MAX),
    ] {
        at_most(what, count, most)?;
    }
    for (what, names) in [("source", &brief.source), ("target", &brief.target)] {
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(BriefError::Repeated { what, name: name.clone() });
        }
    }
    let (cases, flows) = product(brief);
    at_most("cases", cases, CASES_MAX)?;
    at_most("transfers at once", flows, FLOWS_MAX)
}

/// Cases, and transfers at once, that a brief comes to at most, before anything is built.
fn product(brief: &Brief) -> (usize, usize) {
    let drives = brief.drives.len();
    let jobs = brief.jobs.unwrap_or(1) as usize;
    let each = brief.blocks.len().max(1) * brief.routes.len().max(1);
    match (brief.kind, brief.pattern) {
        (WorkloadKind::Matrix, _) => (each * drives * drives.saturating_sub(1), 1),
        (WorkloadKind::Crowd, Some(Pattern::AllToAll)) => {
            (each * drives, drives * drives.saturating_sub(1))
        }
        (WorkloadKind::Crowd, _) => (each * drives, drives),
        (WorkloadKind::Stream, _) => (each, brief.source.len() * brief.target.len() * jobs),
        _ => (each, 1),
    }
}

/// Refuses a workload that cannot be run.
///
/// # Errors
/// [`BriefError`] by the first number that is out of its bounds, or the first name that comes twice.
pub fn check(workload: &Workload) -> Result<(), BriefError> {
    within("the workload", "number of cases", workload.cases.len() as u64, 1, CASES_MAX as u64)?;
    repeats(&workload.repeats)?;
    let each = u64::from(workload.repeats.most) + u64::from(workload.repeats.warm_up);
    let runs = each.saturating_mul(workload.cases.len() as u64);
    within("the workload", "number of runs in all", runs, 1, RUNS_MAX)?;
    let mut names = BTreeSet::new();
    for spec in &workload.cases {
        if !names.insert(spec.name.as_str()) {
            return Err(BriefError::Twice { name: spec.name.clone() });
        }
        case(spec)?;
    }
    Ok(())
}

fn repeats(repeats: &Repeats) -> Result<(), BriefError> {
    let place = "repeats";
    within(place, "most", repeats.most.into(), 1, REPEATS_MAX.into())?;
    within(place, "least", repeats.least.into(), 1, repeats.most.into())?;
    within(place, "warm-up", repeats.warm_up.into(), 0, WARM_UP_MAX.into())?;
    let until = repeats.until_per_mille;
    until
        .map_or(Ok(()), |until| within(place, "until-per-mille", until.into(), 1, UNTIL_MAX.into()))
}

fn case(case: &CaseSpec) -> Result<(), BriefError> {
    let place = case.name.as_str();
    within(place, "number of transfers", case.flows.len() as u64, 1, FLOWS_MAX as u64)?;
    if let Some(time) = case.time_ns {
        within(place, "time-ns", time.0, TIME_MIN.0, TIME_MAX.0)?;
    }
    case.flows.iter().try_for_each(|one| flow(place, one))?;
    let bytes = case.flows.iter().map(|flow| flow.bytes.0).fold(0, u64::saturating_add);
    within(place, "number of bytes", bytes, 1, OFFSET_MAX)
}

fn flow(place: &str, flow: &Flow) -> Result<(), BriefError> {
    for (what, found, low, high) in [
        ("block", flow.block.0, 1, BLOCK_MAX.0),
        ("depth", flow.depth.into(), 1, DEPTH_MAX.into()),
        ("number of bytes", flow.bytes.0, flow.block.0, OFFSET_MAX),
        ("end", flow.offset.0.saturating_add(flow.bytes.0), 1, OFFSET_MAX),
        ("end in the target", flow.target_offset.0.saturating_add(flow.bytes.0), 1, OFFSET_MAX),
        ("limit", flow.limit.map_or(1, |limit| limit.0), 1, u64::MAX),
        ("start-ns", flow.start_ns.0, 0, TIME_MAX.0),
    ] {
        within(place, what, found, low, high)?;
    }
    if let Some(stage) = &flow.stage {
        within(place, "rate of the stage", stage.rate.map_or(1, |rate| rate.0), 1, u64::MAX)?;
        within(place, "start of the stage", stage.start_ns.0, 0, TIME_MAX.0)?;
        within(place, "at-once of the stage", stage.at_once.into(), 1, DEPTH_MAX.into())?;
    }
    Ok(())
}

fn within(
    place: &str,
    what: &'static str,
    found: u64,
    low: u64,
    high: u64,
) -> Result<(), BriefError> {
    if (low..=high).contains(&found) {
        return Ok(());
    }
    Err(BriefError::Bounds { place: place.to_owned(), what, found, low, high })
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), BriefError> {
    if count > most { Err(BriefError::TooMany { what, count, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// The short form with a line more, and the reason why that is refused.
    #[test]
    fn a_file_has_the_bounds_of_the_options() {
        for (line, reason) in [
            ("blocks = [0]", "block is 0"),
            ("blocks = ['2G']", "block is 2147483648"),
            ("depth = 0", "depth is 0"),
            ("depth = 100000", "depth is 100000"),
            ("length = 0", "length is 0"),
            ("length = 1000", "no block fits"),
            ("repeats = 0", "repeats is 0"),
            ("repeats = 4000000000", "repeats is 4000000000"),
            ("warm-up = 4000000000", "warm-up is 4000000000"),
            ("time-ns = 1", "time-ns is 1"),
            ("limit = 0", "limit is 0"),
            ("stage = { name = 's', rate = 0 }", "rate of the stage is 0"),
            ("stage = { name = 's', rate = '1GB/s', at-once = 0 }", "at-once of the stage is 0"),
            ("until-per-mille = 0", "until-per-mille is 0"),
            ("until-per-mille = 5000", "until-per-mille is 5000"),
            ("offset = 9223372036854775807", "end is"),
            ("target-offset = 9223372036854775807", "end in the target is"),
            ("blocks = ['64K', '65536']", "two cases are called `64K p2p`"),
            ("routes = ['p2p', 'p2p']\nblocks = ['64K']", "two cases are called `64K p2p`"),
        ] {
            let text = format!("kind = 'sweep'\nsource = ['a']\ntarget = ['b']\n{line}\n");
            let error = parse(&text).expect_err(line);
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.to_string());
            assert!(cause.contains(reason), "{line}: {cause}");
        }
    }

    #[test]
    fn an_end_that_is_given_twice_is_refused() {
        for (ends, reason) in [
            ("source = ['a', 'b', 'a']\ntarget = 'host'", "a is given twice as a source"),
            ("source = 'host'\ntarget = ['a', 'a']", "a is given twice as a target"),
        ] {
            let error = parse(&format!("kind = 'stream'\n{ends}\n")).expect_err(ends);
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(cause.as_deref(), Some(reason), "{error}");
        }
    }

    #[test]
    fn extreme_files_never_overflow_any_kind() {
        for kind in ["sweep", "matrix", "crowd", "stream", "roundtrip"] {
            for line in ["blocks = [0]", "jobs = 0", "jobs = 4294967295", "length = 0"] {
                let text = format!(
                    "kind = '{kind}'\nsource = ['a']\ntarget = ['host']\ndrives = ['a', 'b']\n{line}\n"
                );
                assert!(parse(&text).is_err(), "{kind}, {line}");
            }
        }
    }

    #[test]
    fn full_form_is_checked_like_short() {
        let short = "kind = 'sweep'\nsource = ['a']\ntarget = ['b']\nblocks = ['1M']\n\
                     length = '8M'\nroutes = ['p2p']\nrepeats = 2\n";
        let workload = parse(short).expect("a workload");
        let printed = super::super::print(&workload).expect("a text");
        for (from, to) in [
            ("block = 1048576", "block = 0"),
            ("depth = 16", "depth = 0"),
            ("bytes = 8388608", "bytes = 0"),
            ("target_offset = 0", "target_offset = 9223372036854775807"),
            ("most = 2", "most = 4294967295"),
            ("least = 2", "least = 3"),
        ] {
            assert!(printed.contains(from), "{from}: {printed}");
            assert!(parse(&printed.replace(from, to)).is_err(), "{to}");
        }
    }
}
