//! Two runs of a workload beside each other: is it faster or slower, by how much, how sure.
//!
//! Leaves out why. The one thing to know: a test of two records knows only how runs of one record differ
//! from each other; what changes between two records and not within one (heat, a neighbour, another boot)
//! looks like a difference. Records made in turns are there for that, and the threshold.

mod comparable;
mod test;
#[cfg(test)]
mod tests;
mod turns;

use peerlane_results::{
    Basis, BenchRecord, COMPARE_SCHEMA, CaseComparison, CaseRecord, CaseSpec, Change, ComparedRun,
    Comparison, Incomparable, WhichRun,
};

use crate::statistics::spread;
pub(crate) use comparable::specs;
use test::{Means, Sample};
use turns::SignedRank;

/// How sure all verdicts of a comparison are together.
pub const CONFIDENCE: f64 = 0.95;

const OF_ONE_TURN: &str = "Welch's t test of the logarithms of rates, fewer runs counted where neighbours \
                           are alike; chances corrected by Holm, intervals by Bonferroni";

const OF_TURNS: &str = "Wilcoxon's signed-rank test of the turns' ratios, with the estimate of Hodges and \
                        Lehmann; chances corrected by Holm, intervals by Bonferroni";

/// A record before and one after, measured one after the other, in either order.
pub type Turn<'a> = (&'a BenchRecord, &'a BenchRecord);

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
    compare_turns((before, after), &[], threshold)
}

/// Compares the same as [`compare`] where both sides were measured several times, in turns. Of each turn
/// the geometric means count, by Wilcoxon's signed-rank test and the estimate of Hodges and Lehmann; for
/// one case at least six turns are needed, for more cases more.
pub fn compare_turns(first: Turn<'_>, more: &[Turn<'_>], threshold: f64) -> Comparison {
    let threshold = if (0.0..1.0).contains(&threshold) { threshold } else { 0.0 };
    let turns: Vec<Turn<'_>> = std::iter::once(first).chain(more.iter().copied()).collect();
    let names = names(&turns);
    let (common, cases) = (comparable::turns(&turns), names.len());
    let compared = Compared { turns: &turns, common, cases, threshold };
    let mut cases: Vec<Case> = names.iter().map(|name| compared.case(name)).collect();
    settle(&mut cases);
    let cases: Vec<CaseComparison> = cases.into_iter().map(|case| case.said).collect();
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        before: run(first.0),
        after: run(first.1),
        turns: u32::try_from(turns.len()).unwrap_or(u32::MAX),
        threshold,
        confidence: CONFIDENCE,
        method: if more.is_empty() { OF_ONE_TURN } else { OF_TURNS }.to_owned(),
        has_regressed: cases.iter().any(|case| case.has_regressed),
        cases,
        notes: without_repetition(turns.iter().flat_map(|turn| comparable::notes(turn.0, turn.1))),
    }
}

/// Each once, in the order in which they came first.
fn without_repetition<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    all.into_iter().fold(Vec::new(), |mut each, one| {
        if !each.contains(&one) {
            each.push(one);
        }
        each
    })
}

fn run(record: &BenchRecord) -> ComparedRun {
    ComparedRun {
        name: record.asked.name.clone(),
        machine: record.machine.clone(),
        basis: record.basis,
        started_s: record.started_s,
    }
}

/// Names of all cases, each once, those of the runs before first.
fn names(turns: &[Turn<'_>]) -> Vec<String> {
    let befores = turns.iter().map(|turn| turn.0);
    let records = befores.chain(turns.iter().map(|turn| turn.1));
    let mut seen = std::collections::BTreeSet::new();
    records
        .flat_map(|record| {
            record.asked.cases.iter().chain(record.cases.iter().map(|case| &case.asked))
        })
        .map(|case| case.name.clone())
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// What the test of a case found.
enum Tested {
    Means(Means),
    Turns(SignedRank),
}

impl Tested {
    fn ratio(&self) -> f64 {
        match self {
            Self::Means(means) => means.ratio,
            Self::Turns(turns) => turns.ratio(),
        }
    }

    fn chance(&self) -> f64 {
        match self {
            Self::Means(means) => means.chance,
            Self::Turns(turns) => turns.chance(),
        }
    }

    fn chance_of_less(&self) -> f64 {
        match self {
            Self::Means(means) => means.chance_of_less,
            Self::Turns(turns) => turns.chance_of_less(),
        }
    }

    fn interval(&self, share: f64) -> (f64, f64) {
        match self {
            Self::Means(means) => means.interval(share),
            Self::Turns(turns) => turns.interval(share),
        }
    }
}

/// A case while it is judged.
struct Case {
    said: CaseComparison,
    tested: Option<Tested>,
}

/// What is compared, and how many cases there are in all.
struct Compared<'a> {
    turns: &'a [Turn<'a>],
    /// What stands against comparing any case.
    common: Vec<Incomparable>,
    cases: usize,
    threshold: f64,
}

impl Compared<'_> {
    fn case(&self, name: &str) -> Case {
        let rates: [Vec<f64>; 2] = [
            self.turns.iter().flat_map(|turn| rates(turn.0, name)).collect(),
            self.turns.iter().flat_map(|turn| rates(turn.1, name)).collect(),
        ];
        let mut reasons = self.reasons(name);
        let tested = match self.turns {
            [only] => self.of_means(only.0.basis, &rates),
            turns => self.of_turns(turns, name, &rates),
        };
        let tested = match tested {
            Ok(tested) => Some(tested).filter(|_| reasons.is_empty()),
            Err(too_few) => {
                if reasons.is_empty() {
                    reasons.push(too_few);
                }
                None
            }
        };
        let middle = |rates: &[f64]| Sample::of(rates).map(|sample| sample.geometric_mean());
        let said = CaseComparison {
            case: name.to_owned(),
            before: spread(&rates[0]),
            after: spread(&rates[1]),
            before_geometric_mean: middle(&rates[0]),
            after_geometric_mean: middle(&rates[1]),
            ratio: tested.as_ref().map(Tested::ratio),
            interval: None,
            chance: None,
            verdict: Change::NotComparable,
            has_regressed: false,
            reasons,
        };
        Case { said, tested }
    }

    /// What stands against comparing a case, each reason once.
    fn reasons(&self, name: &str) -> Vec<Incomparable> {
        let mut reasons = self.common.clone();
        let Some(first) = self.turns.first() else { return reasons };
        for turn in self.turns {
            let (asked_before, asked_after) = (spec(turn.0, name), spec(turn.1, name));
            for (run, asked) in [(WhichRun::Before, asked_before), (WhichRun::After, asked_after)] {
                reasons.extend(asked.is_none().then_some(Incomparable::Missing { run }));
            }
            // Turns must be of the same thing as each other, too.
            let known = spec(first.0, name);
            for (before, after) in [(asked_before, asked_after), (known, asked_before)] {
                reasons.extend(
                    before.zip(after).into_iter().flat_map(|(a, b)| comparable::specs(a, b)),
                );
            }
            for (run, record) in [(WhichRun::Before, turn.0), (WhichRun::After, turn.1)] {
                reasons.extend(comparable::route(run, runs(record, name)));
            }
        }
        without_repetition(reasons)
    }

    fn of_means(&self, basis: Basis, rates: &[Vec<f64>; 2]) -> Result<Tested, Incomparable> {
        let needed = if basis == Basis::Predicted { 1 } else { test::NEEDED };
        let samples = Sample::of(&rates[0]).zip(Sample::of(&rates[1]));
        samples
            .and_then(|(before, after)| test::test(&before, &after, self.threshold, needed))
            .map(Tested::Means)
            .ok_or(Incomparable::TooFew {
                before: count(&rates[0]),
                after: count(&rates[1]),
                needed,
            })
    }

    fn of_turns(
        &self,
        turns: &[Turn<'_>],
        name: &str,
        rates: &[Vec<f64>; 2],
    ) -> Result<Tested, Incomparable> {
        let mean =
            |record: &BenchRecord| Sample::of(&self::rates(record, name)).map(|one| one.mean);
        let difference = |turn: &Turn<'_>| Some(mean(turn.1)? - mean(turn.0)?);
        let differences: Option<Vec<f64>> = turns.iter().map(difference).collect();
        let differences = differences.ok_or(Incomparable::TooFew {
            before: count(&rates[0]),
            after: count(&rates[1]),
            needed: u32::try_from(turns.len()).unwrap_or(u32::MAX),
        })?;
        let needed = turns::needed(self.cases, 1.0 - CONFIDENCE);
        let turns = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        if turns < needed {
            return Err(Incomparable::TooFewTurns { turns, needed });
        }
        Ok(Tested::Turns(SignedRank::of(&differences, self.threshold)))
    }
}

/// Corrects for the number of cases that are compared, and says what that leaves.
fn settle(cases: &mut [Case]) {
    let mut tested: Vec<(&mut CaseComparison, Tested)> =
        cases.iter_mut().filter_map(|case| Some((&mut case.said, case.tested.take()?))).collect();
    let chances: Vec<f64> = tested.iter().map(|(_, tested)| tested.chance()).collect();
    let regressions: Vec<f64> = tested.iter().map(|(_, tested)| tested.chance_of_less()).collect();
    let (chances, regressions) = (test::holm(&chances), test::holm(&regressions));
    let number = tested.len() as f64;
    for (position, (said, tested)) in tested.iter_mut().enumerate() {
        let is_certain = chances[position] < 1.0 - CONFIDENCE;
        said.chance = Some(chances[position]);
        said.interval = Some(tested.interval((1.0 - CONFIDENCE) / number));
        said.verdict = match tested.ratio() {
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
