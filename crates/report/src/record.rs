//! Records as they come: JSON of any kind that this program writes, bounded, and told apart by schema.
//!
//! Leaves out reading files. Whoever wrote a record may have been anybody, so sizes are bounded
//! here and text is made safe where it is shown.

use peerlane_results::{
    BENCH_SCHEMA, BenchRecord, COMPARE_SCHEMA, COPY_SCHEMA, CompareRecord, Comparison, CopyRecord,
    DOCTOR_SCHEMA, DoctorRecord, NODES_SCHEMA, NodesRecord, PLAN_SCHEMA, PlanRecord, VERIFY_SCHEMA,
    VerifyRecord,
};
use peerlane_units::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::plain::plain;

/// Most bytes of one record: a hundred thousand runs take less.
pub const RECORD_MAX: Bytes = Bytes(256 << 20);
/// Most runs of one record.
const RUNS_MAX: usize = 200_000;
/// Most flows, evidence, limits or loads of one run, and jobs of one record.
const PARTS_MAX: usize = 4096;
/// Most targets of all jobs of one record: a thousand jobs of 16 are the most that the program takes.
const TARGETS_MAX: usize = 16_384;

/// Every schema that can be shown.
pub(crate) const SCHEMAS: [&str; 7] = [
    BENCH_SCHEMA,
    COMPARE_SCHEMA,
    COPY_SCHEMA,
    VERIFY_SCHEMA,
    DOCTOR_SCHEMA,
    PLAN_SCHEMA,
    NODES_SCHEMA,
];

/// A record of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Results of a workload.
    Bench(Box<BenchRecord>),
    /// Two runs of a workload next to each other.
    Compare(CompareRecord),
    /// Results of copies.
    Copy(CopyRecord),
    /// Result of a comparison of two ends.
    Verify(Box<VerifyRecord>),
    /// A machine examined.
    Doctor(Box<DoctorRecord>),
    /// Plans of copies.
    Plan(PlanRecord),
    /// A task on several nodes.
    Nodes(Box<NodesRecord>),
}

/// A text that is not a record that can be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is larger than any record should be.
    #[error("it has {} and a record at most {RECORD_MAX}", Bytes(*.0))]
    TooLarge(u64),
    /// It is not JSON.
    #[error("it is not JSON")]
    NoJson(#[source] serde_json::Error),
    /// It is something else than an object that names its schema.
    #[error("it is not a JSON object with a `schema`")]
    NoSchema,
    /// Its schema is unknown.
    #[error("its schema `{0}` is not one that can be shown")]
    UnknownSchema(String),
    /// It is the answer to `plan` on two devices between which nothing is copied.
    #[error("it judges two devices, and holds no plan of a copy")]
    NoPlan,
    /// Its content contradicts its schema.
    #[error("it is not what its schema {schema} says")]
    Malformed {
        /// The schema that it names.
        schema: &'static str,
        /// Error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// It has more of something than any record should.
    #[error("it has {count} {what} and at most {most} are shown")]
    TooMany {
        /// Things that there are too many of.
        what: &'static str,
        /// Number of them.
        count: usize,
        /// Largest number that can be shown.
        most: usize,
    },
}

impl ReadError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<String> {
        let known = || format!("schemas that can be shown: {}", SCHEMAS.join(", "));
        match self {
            Self::NoJson(_) | Self::NoSchema => Some(
                "give what `peerlane bench -o FILE`, or any command with `--json`, wrote"
                    .to_owned(),
            ),
            Self::UnknownSchema(_) => Some(known()),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

impl Record {
    /// Reads a record of any kind.
    ///
    /// # Errors
    /// When it is too large, not JSON, of an unknown schema, or contradicts its schema.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() as u64 > RECORD_MAX.0 {
            return Err(ReadError::TooLarge(bytes.len() as u64));
        }
        let head: Head = serde_json::from_slice(bytes).map_err(without_head)?;
        let Some(schema) = SCHEMAS.into_iter().find(|known| *known == head.schema) else {
            return Err(ReadError::UnknownSchema(plain(&head.schema)));
        };
        let record = match schema {
            BENCH_SCHEMA => Self::Bench(parse(schema, bytes)?),
            COMPARE_SCHEMA => Self::Compare(parse(schema, bytes)?),
            COPY_SCHEMA => Self::Copy(parse(schema, bytes)?),
            VERIFY_SCHEMA => Self::Verify(parse(schema, bytes)?),
            DOCTOR_SCHEMA => Self::Doctor(parse(schema, bytes)?),
            PLAN_SCHEMA => {
                let record: PlanRecord = parse(schema, bytes)?;
                if record.targets().all(|target| target.plan.is_none()) {
                    return Err(ReadError::NoPlan);
                }
                Self::Plan(record)
            }
            _ => Self::Nodes(parse(schema, bytes)?),
        };
        record.bounded()?;
        Ok(record)
    }

    fn bounded(&self) -> Result<(), ReadError> {
        match self {
            Self::Bench(bench) => bench_bounded(bench),
            Self::Nodes(record) => nodes_bounded(record),
            Self::Compare(record) => {
                at_most("nodes", record.nodes.len(), PARTS_MAX)?;
                let compared = record.nodes.iter().filter_map(|node| node.comparison.as_ref());
                compared.into_iter().try_for_each(comparison_bounded)
            }
            Self::Copy(record) => {
                at_most("jobs", record.jobs.len(), PARTS_MAX)?;
                at_most("targets", record.outcomes().count(), TARGETS_MAX)
            }
            Self::Doctor(record) => at_most("findings", record.findings.len(), PARTS_MAX),
            Self::Plan(record) => {
                at_most("jobs", record.jobs.len(), PARTS_MAX)?;
                at_most("targets", record.targets().count(), TARGETS_MAX)?;
                let mut plans = record.targets().filter_map(|target| target.plan.as_ref());
                plans.try_for_each(|plan| at_most("memories", plan.candidates.len(), PARTS_MAX))
            }
            Self::Verify(_) => Ok(()),
        }
    }
}

fn bench_bounded(bench: &BenchRecord) -> Result<(), ReadError> {
    at_most("runs", bench.cases.len(), RUNS_MAX)?;
    at_most("cases", bench.summaries.len(), RUNS_MAX)?;
    bench.cases.iter().try_for_each(|case| {
        at_most("flows", case.asked.flows.len().max(case.flows.len()), PARTS_MAX)?;
        at_most("pieces of evidence", case.evidence.len(), PARTS_MAX)?;
        at_most("limits", case.limits.len(), PARTS_MAX)?;
        at_most("link loads", case.links.len(), PARTS_MAX)
    })
}

fn comparison_bounded(record: &Comparison) -> Result<(), ReadError> {
    at_most("cases", record.cases.len(), RUNS_MAX)?;
    at_most("notes", record.notes.len(), PARTS_MAX)?;
    record.cases.iter().try_for_each(|case| at_most("reasons", case.reasons.len(), PARTS_MAX))
}

fn nodes_bounded(record: &NodesRecord) -> Result<(), ReadError> {
    at_most("nodes", record.nodes.len(), PARTS_MAX)?;
    at_most("variants", record.variants.len(), RUNS_MAX)?;
    record.nodes.iter().try_for_each(|node| {
        at_most("used ends", node.used.len(), RUNS_MAX)?;
        at_most("findings", node.doctor.as_ref().map_or(0, |one| one.findings.len()), PARTS_MAX)?;
        node.bench.as_deref().map_or(Ok(()), bench_bounded)
    })
}

fn parse<T: DeserializeOwned>(schema: &'static str, bytes: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(bytes).map_err(|source| ReadError::Malformed { schema, source })
}

/// Returns the error for a text without a head. A parser's error has a line and a column where the
/// text is not JSON; else it has only names of types.
fn without_head(error: serde_json::Error) -> ReadError {
    if error.is_data() { ReadError::NoSchema } else { ReadError::NoJson(error) }
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), ReadError> {
    if count > most { Err(ReadError::TooMany { what, count, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_text_is_refused_by_name() {
        for (text, words) in [
            ("{}", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"schema":"fio/3\u001b[2J"}"#, "`fio/3\\u{1b}[2J` is not one"),
            (r#"{"schema":"peerlane.bench/1"}"#, "not what its schema peerlane.bench/1 says"),
        ] {
            let error = Record::from_json(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
        for text in ["", r#"{"schema":"#] {
            let error = Record::from_json(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "it is not JSON", "{text}");
        }
    }
}
