//! Two runs of a workload beside each other: is it faster or slower, by how much, how sure.
//!
//! Leaves out why. The one thing to know: the test knows only how runs of one record differ from each
//! other; what changes between two records and not within one (heat, a neighbour, another boot) looks
//! like a difference. The threshold is there for that.

mod comparable;
mod test;
#[cfg(test)]
mod tests;

use peerlane_results::{
    Basis, BenchRecord, COMPARE_SCHEMA, CaseComparison, CaseRecord, CaseSpec, Change, ComparedRun,
    Comparison, Incomparable, WhichRun,
};

use crate::statistics::spread;
pub(crate) use comparable::specs;
use test::{Sample, Tested};

/// How sure all verdicts of a comparison are together.
pub const CONFIDENCE: f64 = 0.95;

/// Compares `after` with `before`, case by case by name; `threshold` is by how much a case may be
/// slower, as a share of the rate before: 0.05. What is no share counts as none.
///
/// Rates are compared as logarithms, by Welch's t test, with the number of runs reduced where neighbours
/// are slow together. Chances are corrected for the number of cases
/// by Holm's method, intervals by Bonferroni's, so that all verdicts hold together with
/// [`CONFIDENCE`]. A case has regressed when it is certain, in the same sense, that its rate is below that
/// before less the threshold. Predicted rates have no spread, and are compared as they are.
///
/// Sources: Welch, "The generalization of 'Student's' problem when several different population
/// variances are involved", 1947; Holm, "A simple sequentially rejective multiple test procedure", 1979.
pub fn compare(before: &BenchRecord, after: &BenchRecord, threshold: f64) -> Comparison {
    let threshold = if (0.0..1.0).contains(&threshold) { threshold } else { 0.0 };
    let mut cases: Vec<Case> = names(before, after)
        .into_iter()
        .map(|name| Case::of(name, before, after, threshold))
        .collect();
    settle(&mut cases);
    let cases: Vec<CaseComparison> = cases.into_iter().map(|case| case.said).collect();
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        before: run(before),
        after: run(after),
        threshold,
        confidence: CONFIDENCE,
        method:
            "Welch's t test of the logarithms of rates, fewer runs counted where neighbours are \
                 alike; chances corrected by Holm, intervals by Bonferroni"
                .to_owned(),
        has_regressed: cases.iter().any(|case| case.has_regressed),
        cases,
        notes: comparable::notes(before, after),
    }
}

fn run(record: &BenchRecord) -> ComparedRun {
    ComparedRun {
        name: record.asked.name.clone(),
        machine: record.machine.clone(),
        basis: record.basis,
        started_s: record.started_s,
    }
}

/// Names of the cases of either run, each once, those of the run before first.
fn names<'a>(before: &'a BenchRecord, after: &'a BenchRecord) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for record in [before, after] {
        let asked = record.asked.cases.iter().chain(record.cases.iter().map(|case| &case.asked));
        names.extend(asked.map(|case| case.name.as_str()).filter(|&name| seen.insert(name)));
    }
    names
}

/// A case while it is judged.
struct Case {
    said: CaseComparison,
    tested: Option<Tested>,
}

impl Case {
    fn of(name: &str, before: &BenchRecord, after: &BenchRecord, threshold: f64) -> Self {
        let (asked_before, asked_after) = (spec(before, name), spec(after, name));
        let (rates_before, rates_after) = (rates(before, name), rates(after, name));
        let mut reasons = comparable::records(before, after);
        for (run, asked) in [(WhichRun::Before, asked_before), (WhichRun::After, asked_after)] {
            if asked.is_none() {
                reasons.push(Incomparable::Missing { run });
            }
        }
        if let (Some(before), Some(after)) = (asked_before, asked_after) {
            reasons.extend(comparable::specs(before, after));
        }
        for (run, record) in [(WhichRun::Before, before), (WhichRun::After, after)] {
            reasons.extend(comparable::route(run, runs(record, name)));
        }
        let needed = if before.basis == Basis::Predicted { 1 } else { test::NEEDED };
        let samples = (Sample::of(&rates_before), Sample::of(&rates_after));
        let middle = |sample: &Option<Sample>| sample.as_ref().map(Sample::geometric_mean);
        let (before_geometric_mean, after_geometric_mean) =
            (middle(&samples.0), middle(&samples.1));
        let tested = samples.0.zip(samples.1);
        let tested =
            tested.and_then(|(before, after)| test::test(&before, &after, threshold, needed));
        if tested.is_none() && reasons.is_empty() {
            reasons.push(Incomparable::TooFew {
                before: count(&rates_before),
                after: count(&rates_after),
                needed,
            });
        }
        let said = CaseComparison {
            case: name.to_owned(),
            before: spread(&rates_before),
            after: spread(&rates_after),
            before_geometric_mean,
            after_geometric_mean,
            ratio: tested.as_ref().map(|tested| tested.ratio).filter(|_| reasons.is_empty()),
            interval: None,
            chance: None,
            verdict: Change::NotComparable,
            has_regressed: false,
            reasons,
        };
        let tested = tested.filter(|_| said.reasons.is_empty());
        Self { said, tested }
    }
}

/// Corrects for the number of cases that are compared, and says what that leaves.
fn settle(cases: &mut [Case]) {
    let mut tested: Vec<(&mut CaseComparison, Tested)> =
        cases.iter_mut().filter_map(|case| Some((&mut case.said, case.tested.take()?))).collect();
    let chances: Vec<f64> = tested.iter().map(|(_, tested)| tested.chance).collect();
    let regressions: Vec<f64> = tested.iter().map(|(_, tested)| tested.chance_of_less).collect();
    let (chances, regressions) = (test::holm(&chances), test::holm(&regressions));
    let number = tested.len() as f64;
    for (position, (said, tested)) in tested.iter_mut().enumerate() {
        let is_certain = chances[position] < 1.0 - CONFIDENCE;
        said.chance = Some(chances[position]);
        said.interval = Some(tested.interval((1.0 - CONFIDENCE) / number));
        said.verdict = match tested.ratio {
            ratio if is_certain && ratio > 1.0 => Change::Faster,
            ratio if is_certain && ratio < 1.0 => Change::Slower,
            _ => Change::Same,
        };
        said.has_regressed = regressions[position] < 1.0 - CONFIDENCE;
    }
}

fn spec<'a>(record: &'a BenchRecord, name: &str) -> Option<&'a CaseSpec> {
    runs(record, name).map(|case| &case.asked).next()
}

fn runs<'a>(record: &'a BenchRecord, name: &str) -> impl Iterator<Item = &'a CaseRecord> {
    record.cases.iter().filter(move |case| case.asked.name == name)
}

/// Rates of a case in bytes a second, more exact than whole bytes.
fn rates(record: &BenchRecord, name: &str) -> Vec<f64> {
    let rate = |case: &CaseRecord| case.bytes.0 as f64 / case.elapsed_ns.0 as f64 * 1e9;
    runs(record, name).map(rate).collect()
}

fn count(rates: &[f64]) -> u32 {
    u32::try_from(rates.len()).unwrap_or(u32::MAX)
}
