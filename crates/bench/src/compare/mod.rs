//! Compares two runs of a workload: faster or slower, by how much, how sure.
//!
//! Leaves out why. A test of two records knows only how runs of one record differ from each other;
//! what changes between two records and not within one (heat, a neighbour, another boot) looks like
//! a difference. Records made in turns are there for that, and the threshold.

mod comparable;
mod nodes;
mod test;
#[cfg(test)]
mod tests;
mod turns;

use peerlane_results::{
    Basis, BenchRecord, CaseComparison, CaseRecord, CaseSpec, Change, ComparedRun, Comparison,
    Incomparable, WhichRun,
};

use crate::statistics::spread;
pub(crate) use comparable::specs;
pub use nodes::compare_nodes;
use test::{MeansTest, Sample};
use turns::SignedRank;

/// Confidence level of all verdicts of a comparison together.
pub const CONFIDENCE: f64 = 0.95;

const OF_ONE_TURN: &str = "Welch's t test of the logarithms of rates, fewer runs counted where neighbours \
                           are alike; chances corrected by Holm, intervals by Bonferroni";

const OF_TURNS: &str = "Wilcoxon's signed-rank test of the turns' ratios, with the estimate of Hodges and \
                        Lehmann; chances corrected by Holm, intervals by Bonferroni";

const OF_PREDICTIONS: &str =
    "both are predicted: ratios are those of the model, and no test is made of them";

/// Least distance from one at which the ratio of two predictions counts as a difference.
const DIFFERENCE_MIN: f64 = 1e-9;

/// A record before and one after, measured one after the other, in either order.
pub type Turn<'a> = (&'a BenchRecord, &'a BenchRecord);

/// Compares `after` with `before`, case by case by name; `threshold` is the share of the rate
/// before by which a case may be slower, e.g. 0.05. A value that is not a share counts as 0.
///
/// Rates are compared as logarithms, by Welch's t test, with the number of runs reduced where neighbours
/// are slow together. Chances are corrected for the number of cases
/// by Holm's method, intervals by Bonferroni's, so all verdicts hold together with
/// [`CONFIDENCE`]. A case has regressed when it is certain, in the same sense, that its rate is below that
/// before less the threshold. Of two predictions the ratio is said as it is: they do not spread,
/// their common error is unknown, and nothing is certain; no case has regressed then. A record that
/// is given
/// twice is compared with nothing; a prediction is so by the same reference.
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
    let is_predicted =
        turns.iter().all(|turn| [turn.0, turn.1].iter().all(|run| run.basis == Basis::Predicted));
    let compared = ComparedCases { turns: &turns, common, cases, threshold, is_predicted };
    let mut cases: Vec<JudgedCase> = names.iter().map(|name| compared.case(name)).collect();
    settle(&mut cases);
    let cases: Vec<CaseComparison> = cases.into_iter().map(|case| case.said).collect();
    Comparison {
        before: run(first.0),
        after: run(first.1),
        turns: u32::try_from(turns.len()).unwrap_or(u32::MAX),
        threshold,
        confidence: CONFIDENCE,
        method: match (is_predicted, more) {
            (true, _) => OF_PREDICTIONS,
            (false, []) => OF_ONE_TURN,
            (false, _) => OF_TURNS,
        }
        .to_owned(),
        has_regressed: cases.iter().any(|case| case.has_regressed),
        cases,
        notes: without_repetition(turns.iter().flat_map(|turn| comparable::notes(turn.0, turn.1))),
    }
}

/// Each once, in the order of first occurrence.
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

/// Result of the test of a case.
enum Tested {
    Means(MeansTest),
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
struct JudgedCase {
    said: CaseComparison,
    tested: Option<Tested>,
}

/// The compared records, and the number of all cases.
struct ComparedCases<'a> {
    turns: &'a [Turn<'a>],
    /// Reasons against comparing any case.
    common: Vec<Incomparable>,
    cases: usize,
    threshold: f64,
    /// True when all records are predictions.
    is_predicted: bool,
}

impl ComparedCases<'_> {
    fn case(&self, name: &str) -> JudgedCase {
        let rates: [Vec<f64>; 2] = [
            self.turns.iter().flat_map(|turn| rates(turn.0, name)).collect(),
            self.turns.iter().flat_map(|turn| rates(turn.1, name)).collect(),
        ];
        let mut reasons = self.reasons(name);
        let found = if self.is_predicted {
            of_predictions(&rates).map(|ratio| (ratio, None))
        } else {
            self.test(name, &rates).map(|tested| (tested.ratio(), Some(tested)))
        };
        let found = match found {
            Ok(found) => Some(found).filter(|_| reasons.is_empty()),
            Err(too_few) => {
                if reasons.is_empty() {
                    reasons.push(too_few);
                }
                None
            }
        };
        let (ratio, tested) = found.unzip();
        let middle = |rates: &[f64]| Sample::new(rates).map(|sample| sample.geometric_mean());
        let said = CaseComparison {
            case: name.to_owned(),
            before: spread(&rates[0]),
            after: spread(&rates[1]),
            before_geometric_mean: middle(&rates[0]),
            after_geometric_mean: middle(&rates[1]),
            ratio,
            interval: None,
            chance: None,
            // That of a test is settled when all have been made.
            verdict: ratio.map_or(Change::NotComparable, by_model),
            has_regressed: false,
            reasons,
        };
        JudgedCase { said, tested: tested.flatten() }
    }

    /// Returns the reasons against comparing a case, each once.
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

    fn test(&self, name: &str, rates: &[Vec<f64>; 2]) -> Result<Tested, Incomparable> {
        match self.turns {
            [_] => self.of_means(rates),
            turns => self.of_turns(turns, name, rates),
        }
    }

    fn of_means(&self, rates: &[Vec<f64>; 2]) -> Result<Tested, Incomparable> {
        let samples = Sample::new(&rates[0]).zip(Sample::new(&rates[1]));
        samples
            .and_then(|(before, after)| test::test(&before, &after, self.threshold))
            .map(Tested::Means)
            .ok_or_else(|| too_few(rates, test::NEEDED))
    }

    fn of_turns(
        &self,
        turns: &[Turn<'_>],
        name: &str,
        rates: &[Vec<f64>; 2],
    ) -> Result<Tested, Incomparable> {
        let mean =
            |record: &BenchRecord| Sample::new(&self::rates(record, name)).map(|one| one.mean);
        let difference = |turn: &Turn<'_>| Some(mean(turn.1)? - mean(turn.0)?);
        let differences: Option<Vec<f64>> = turns.iter().map(difference).collect();
        let differences = differences
            .ok_or_else(|| too_few(rates, u32::try_from(turns.len()).unwrap_or(u32::MAX)))?;
        let needed = turns::needed(self.cases, 1.0 - CONFIDENCE);
        let turns = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        if turns < needed {
            return Err(Incomparable::TooFewTurns { turns, needed });
        }
        Ok(Tested::Turns(SignedRank::new(&differences, self.threshold)))
    }
}

/// Corrects for the number of compared cases, and sets their verdicts.
fn settle(cases: &mut [JudgedCase]) {
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

/// The ratio of predicted rates.
fn of_predictions(rates: &[Vec<f64>; 2]) -> Result<f64, Incomparable> {
    match Sample::new(&rates[0]).zip(Sample::new(&rates[1])) {
        Some((before, after)) => Ok((after.mean - before.mean).exp()),
        None => Err(too_few(rates, 1)),
    }
}

/// Returns the change that a ratio of predictions states.
fn by_model(ratio: f64) -> Change {
    match ratio {
        ratio if ratio > 1.0 + DIFFERENCE_MIN => Change::Faster,
        ratio if ratio < 1.0 - DIFFERENCE_MIN => Change::Slower,
        _ => Change::Same,
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

fn too_few(rates: &[Vec<f64>; 2], needed: u32) -> Incomparable {
    Incomparable::TooFew { before: count(&rates[0]), after: count(&rates[1]), needed }
}

fn count(rates: &[f64]) -> u32 {
    u32::try_from(rates.len()).unwrap_or(u32::MAX)
}
