//! Checks that a record can be true, before anything is concluded from it.
//!
//! A record may come from anybody, or from a disk that lost a page. Its summaries are computed
//! again from its runs, so that no figure is shown that no run has.

use std::collections::{BTreeSet, HashMap};

use peerlane_results::{
    BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, NODES_SCHEMA, NodeRecord, NodesRecord,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use crate::guards::{self, Nonsense};
use crate::run::summaries;
use crate::workload::{self, BriefError};

/// More than one transfer can move in a second on any machine of PCIe: a link of sixteen lanes at 64 GT/s
/// carries an eighth of it (PCI Express Base 6.0, 1.2).
const RATE_MAX: ByteRate = ByteRate(1_000_000_000_000);

/// Reasons why a record cannot be true.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A schema of another kind or version.
    #[error("its schema is `{0}`, not `{BENCH_SCHEMA}`")]
    Schema(String),
    /// It asks for a workload that cannot be run.
    #[error("it asks for what cannot be run")]
    Workload(#[from] BriefError),
    /// A run of a case that was not asked for, or not so.
    #[error("it has a run of `{0}`, which it does not ask for")]
    NotAsked(String),
    /// The same run twice.
    #[error("it has run {repeat} of `{case}` twice")]
    Twice {
        /// The case.
        case: String,
        /// Number of the run.
        repeat: u32,
    },
    /// A run that moved nothing, or in no time, or faster than any machine.
    #[error("`{case}` moved {bytes} in {elapsed}: that cannot be")]
    Rate {
        /// The case.
        case: String,
        /// Payload.
        bytes: Bytes,
        /// Time.
        elapsed: Nanos,
    },
    /// A schema that is not that of several nodes.
    #[error("its schema is `{0}`, not `{NODES_SCHEMA}`")]
    NodesSchema(String),
    /// Two nodes of one name.
    #[error("it has the node `{0}` twice")]
    NodeTwice(String),
    /// A node that has neither an answer nor a reason for having none, or both.
    #[error("its node `{0}` has no single answer")]
    NodeAnswer(String),
    /// The record of a node cannot be true.
    #[error("the record of its node `{node}` cannot be true")]
    Node {
        /// The node.
        node: String,
        /// Property of it.
        #[source]
        source: Box<RecordError>,
    },
    /// A run whose parts are not its whole, or that is above its own stated limit.
    #[error("it has a run that cannot be")]
    Nonsense(#[from] Nonsense),
}

/// Checks every run, and makes the summaries again.
///
/// # Errors
/// [`RecordError`] by the first thing that cannot be.
pub fn check(record: &mut BenchRecord) -> Result<(), RecordError> {
    if record.schema != BENCH_SCHEMA {
        return Err(RecordError::Schema(record.schema.clone()));
    }
    workload::check(&record.asked)?;
    let asked: HashMap<&str, _> =
        record.asked.cases.iter().map(|case| (case.name.as_str(), case)).collect();
    let mut seen = BTreeSet::new();
    for run in &record.cases {
        let name = run.asked.name.as_str();
        if asked.get(name) != Some(&&run.asked) || run.repeat >= record.asked.repeats.most {
            return Err(RecordError::NotAsked(name.to_owned()));
        }
        if !seen.insert((name, run.repeat)) {
            return Err(RecordError::Twice { case: name.to_owned(), repeat: run.repeat });
        }
        rate(run)?;
        guards::judge_kept(run, record.basis == Basis::Measured)?;
    }
    record.summaries = summaries(record);
    Ok(())
}

/// Checks the benchmarks of all nodes, and that each node has one answer, or a reason for having none.
///
/// # Errors
/// [`RecordError`] by the first thing that cannot be.
pub fn check_nodes(record: &mut NodesRecord) -> Result<(), RecordError> {
    if record.schema != NODES_SCHEMA {
        return Err(RecordError::NodesSchema(record.schema.clone()));
    }
    let is_divided = record.parts.is_some();
    let mut seen = BTreeSet::new();
    for node in &mut record.nodes {
        if !seen.insert(node.name.clone()) {
            return Err(RecordError::NodeTwice(node.name.clone()));
        }
        let answers = answers(node);
        // A node that did parts of a divided task has no answer of its own, and may be lost after some.
        if answers > 1 || (answers == 0 && !is_divided) {
            return Err(RecordError::NodeAnswer(node.name.clone()));
        }
        if let Some(bench) = &mut node.bench {
            check(bench).map_err(|source| of_node(&node.name, source))?;
        }
    }
    for (position, variant) in record.variants.iter_mut().enumerate() {
        if let Some(bench) = &mut variant.record {
            check(bench).map_err(|source| of_node(&format!("variant {position}"), source))?;
        }
    }
    Ok(())
}

fn of_node(node: &str, source: RecordError) -> RecordError {
    RecordError::Node { node: node.to_owned(), source: Box::new(source) }
}

/// Number of answers that a node has, a reason for having none among them.
fn answers(node: &NodeRecord) -> usize {
    let has = [
        node.bench.is_some(),
        node.doctor.is_some(),
        node.scan.is_some(),
        node.error.is_some(),
        node.missing.is_some(),
    ];
    has.into_iter().filter(|has| *has).count()
}

fn rate(run: &CaseRecord) -> Result<(), RecordError> {
    let can_be = |bytes: Bytes, elapsed: Nanos, flows: usize| {
        let most = RATE_MAX.0.saturating_mul(flows.max(1) as u64);
        bytes > Bytes::ZERO && ByteRate::mean(bytes, elapsed).is_some_and(|rate| rate.0 <= most)
    };
    let whole = (run.bytes, run.elapsed_ns, run.flows.len());
    let parts = run.flows.iter().filter(|flow| flow.bytes > Bytes::ZERO);
    let mut all = parts.map(|flow| (flow.bytes, flow.elapsed_ns, 1)).chain([whole]);
    match all.find(|&(bytes, elapsed, flows)| !can_be(bytes, elapsed, flows)) {
        None => Ok(()),
        Some((bytes, elapsed, _)) => {
            Err(RecordError::Rate { case: run.asked.name.clone(), bytes, elapsed })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn record() -> BenchRecord {
        let mut record = testing::record(&[("a", vec![1e9, 1.1e9]), ("b", vec![2e9])]);
        record.cases[1].repeat = 1;
        record
    }

    #[test]
    fn possible_record_passes_with_own_summaries() {
        let mut found = record();
        check(&mut found).expect("it can be");
        let names: Vec<&str> = found.summaries.iter().map(|one| one.case.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let mut lying = found.clone();
        lying.summaries[0].rate.median = 1e15;
        lying.summaries[1].case = "c".to_owned();
        check(&mut lying).expect("its runs can be");
        assert_eq!(lying.summaries, found.summaries);
    }

    #[test]
    fn a_record_that_cannot_be_is_refused() {
        let lies: [fn(&mut BenchRecord); 9] = [
            |one| one.cases[0].elapsed_ns = Nanos(0),
            |one| one.cases[0].bytes = Bytes(u64::MAX),
            |one| one.cases[0].bytes = Bytes(0),
            |one| one.cases[0].flows[0].elapsed_ns = Nanos(1),
            |one| one.cases[1].repeat = 0,
            |one| one.cases[1].repeat = u32::MAX,
            |one| one.cases[2].asked.name = "c".to_owned(),
            |one| one.asked.cases[0].flows[0].block = Bytes(0),
            |one| one.asked.cases[1].name = "a".to_owned(),
        ];
        for (position, lie) in lies.into_iter().enumerate() {
            let mut found = record();
            lie(&mut found);
            assert!(check(&mut found).is_err(), "lie {position}");
        }
    }

    #[test]
    fn nodes_without_single_answer_are_refused() {
        let sound = || testing::nodes(vec![testing::node("a", Some(record()))]);
        check_nodes(&mut sound()).expect("it can be");
        let lies: [fn(&mut NodesRecord); 5] = [
            |one| one.schema = BENCH_SCHEMA.to_owned(),
            |one| one.nodes.push(one.nodes[0].clone()),
            |one| one.nodes.push(testing::node("b", None)),
            |one| one.nodes[0].missing = Some("gone".to_owned()),
            |one| one.nodes[0].bench.as_mut().expect("one").cases[0].bytes = Bytes(0),
        ];
        for (position, lie) in lies.into_iter().enumerate() {
            let mut found = sound();
            lie(&mut found);
            assert!(check_nodes(&mut found).is_err(), "lie {position}");
        }
    }
}
