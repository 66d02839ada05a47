//! Results in words: pure functions from a result to text, one file a result.

mod account;
mod bench;
mod copy;
mod explanation;
mod export;
mod jobs;
mod overwrite_question;
mod overwritten;
mod pair;
mod plan;
mod probes;
mod proof;
mod reproduce;
mod sim;
mod topo_diff;

use peerlane_results::{
    CompareRecord, DoctorRecord, MemoryFacts, Route, Shape, Tail, VerifyRecord,
};

use std::fmt::Write as _;

use peerlane_report::examination;
use peerlane_report::sheet::LabelSheet;
pub(crate) use peerlane_report::sheet::{VERBATIM, one_line};
use peerlane_report::{Named, Record, Report, TerminalDetail, endpoint};

pub(crate) use account::{lost_lines, set_aside};
pub(crate) use bench::bench;
use copy::copy;
use explanation::explanation;
pub(crate) use export::exports;
pub(crate) use jobs::{copies, plans};
pub(crate) use overwrite_question::question;
pub(crate) use overwritten::OverwrittenRanges;
use pair::pair;
pub(crate) use plan::plan;
use probes::probes;
pub(crate) use proof::proof;
pub(crate) use reproduce::reproduce;
pub(crate) use sim::{sim, variants};
pub(crate) use topo_diff::topo_diff;

/// A comparison of benchmarks, as a report has it.
pub(crate) fn comparison(record: &CompareRecord) -> String {
    report(Record::Compare(record.clone()), TerminalDetail::Full)
}

/// A comparison of contents, as a report has it; facts where `is_verbose`.
pub(crate) fn verify(record: &VerifyRecord, is_verbose: bool) -> String {
    let detail = if is_verbose { TerminalDetail::Full } else { TerminalDetail::Brief };
    report(Record::Verify(Box::new(record.clone())), detail)
}

fn report(record: Record, detail: TerminalDetail) -> String {
    Report::new(&[Named { name: String::new(), record }], None, &[]).terminal(detail)
}

/// A number of things, as a person says it.
pub(crate) fn counted<N>(number: N, one: &str) -> String
where
    N: std::fmt::Display + PartialEq + From<u8>,
{
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// "1 block differs", "2 blocks differ".
fn differing(number: u64, one: &str) -> String {
    format!("{} differ{}", counted(number, one), if number == 1 { "s" } else { "" })
}

/// An examination in words.
pub(crate) fn doctor(record: &DoctorRecord) -> String {
    let proof = match (&record.proof, &record.pair) {
        (Some(proof), Some([first, second])) => self::proof(proof, [first, second]),
        _ => String::new(),
    };
    examination::text(record, &proof)
}

fn memory(facts: &MemoryFacts) -> String {
    let mut text = facts.name.clone();
    if let Some(address) = facts.address.as_ref().filter(|one| !facts.name.contains(*one)) {
        let _ = write!(text, " at {address}");
    }
    if let Some(size) = facts.size {
        let _ = write!(text, ", {size}");
        if let Some(available) = facts.available {
            let _ = write!(text, " of which {available} free");
        }
    }
    text
}

fn shape(shape: &Shape) -> String {
    format!(
        "{} each, by {}; {} in flight, by {}; {} of memory",
        shape.request, shape.request_limit, shape.slots, shape.slots_limit, shape.memory
    )
}

/// The slot of a request is in the memory of the route.
fn tail(tail: Tail, route: Option<Route>) -> Option<&'static str> {
    let is_in_device = tail == Tail::MergeInSlot && route != Some(Route::Host);
    match tail {
        Tail::None => None,
        Tail::RoundUpAndCut => Some("written up to the next block, then the file is cut to length"),
        _ if is_in_device => Some("merged with the target's last block in device memory"),
        Tail::MergeInSlot | Tail::MergeInHost => {
            Some("merged with the target's last block in host memory")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_merged_in_route_memory() {
        for (kind, route, expected) in [
            (Tail::MergeInSlot, Route::P2p, Some("device memory")),
            (Tail::MergeInSlot, Route::Host, Some("host memory")),
            (Tail::MergeInHost, Route::P2p, Some("host memory")),
            (Tail::None, Route::Host, None),
        ] {
            let found = tail(kind, Some(route));
            assert_eq!(found.map(|words| words.rsplit_once(" in ").unwrap().1), expected);
        }
    }
}
