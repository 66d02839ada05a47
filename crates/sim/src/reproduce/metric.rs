//! What of an outcome is compared with a figure.

use peerlane_units::Bytes;

use super::StudyError;
use super::scenario::Evaluator;
use super::shape::{DrivesShape, FaultsShape, FlowShape, MetricShape};
use crate::devices::drive::{Side, throughput};
use crate::devices::host;
use crate::devices::table::Table;
use crate::parameters::View;

/// Ends of which every ordered pair is looked at.
const MOST_ENDS: u32 = 128;

/// What the model says of a figure: a number in base units, or a word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Number(f64),
    Word(String),
}

pub(super) fn answer(evaluator: &Evaluator, metric: &MetricShape) -> Result<Answer, StudyError> {
    let rate = |name: &str| evaluator.outcome(name).map(|outcome| outcome.rate);
    let time = |name: &str| evaluator.outcome(name).map(|outcome| outcome.block_time);
    Ok(Answer::Number(match metric {
        MetricShape::Rate(name) => rate(name)?,
        MetricShape::Ratio([one, other]) => rate(one)? / rate(other)?,
        MetricShape::Loss([one, other]) => 1.0 - rate(one)? / rate(other)?,
        MetricShape::ExtraSeconds([one, other]) => time(one)? - time(other)?,
        MetricShape::Seconds(name) => evaluator.values.get(name)?,
        MetricShape::Run(name) => evaluator.run(name)?,
        MetricShape::LimitedBy(name) => {
            return Ok(Answer::Word(evaluator.outcome(name)?.limited_by));
        }
        MetricShape::HostBytes(name) => evaluator.outcome(name)?.traffic.most,
        MetricShape::LeastRatio { scenarios, blocks } => {
            ratios(evaluator, scenarios, blocks)?.into_iter().fold(f64::INFINITY, f64::min)
        }
        MetricShape::LeastFall { scenarios, blocks } => {
            let falling: Vec<f64> =
                ratios(evaluator, scenarios, blocks)?.into_iter().rev().collect();
            least_growth(&falling)
        }
        MetricShape::LeastGrowth { scenario, blocks } => {
            least_growth(&sized(evaluator, scenario, blocks)?)
        }
        MetricShape::SpreadOverPairs { scenario, source, target, count } => {
            spread(evaluator, scenario, source, target, *count)?
        }
        MetricShape::Faults(faults) => {
            let (count, at_start) = page_faults(evaluator, faults)?;
            count / at_start
        }
        MetricShape::FaultCount(faults) => page_faults(evaluator, faults)?.0,
        MetricShape::DrivesRate(drives) => drives_rate(evaluator, drives, drives.depth)?,
        MetricShape::SaturatingDepth(drives) => saturating_depth(evaluator, drives)?,
    }))
}

/// The rate of a scenario with each block size.
fn sized(evaluator: &Evaluator, scenario: &str, blocks: &[Bytes]) -> Result<Vec<f64>, StudyError> {
    let rate = |&block| Ok(evaluator.changed(scenario, |flow| flow.block = block)?.rate);
    blocks.iter().map(rate).collect()
}

/// The rate of the first over that of the second with each block size.
fn ratios(
    evaluator: &Evaluator,
    [one, other]: &[String; 2],
    blocks: &[Bytes],
) -> Result<Vec<f64>, StudyError> {
    let (ones, others) = (sized(evaluator, one, blocks)?, sized(evaluator, other, blocks)?);
    Ok(ones.iter().zip(&others).map(|(one, other)| one / other).collect())
}

/// The lowest ratio of a number to the one before it.
fn least_growth(numbers: &[f64]) -> f64 {
    numbers.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min)
}

fn spread(
    evaluator: &Evaluator,
    scenario: &str,
    source: &str,
    target: &str,
    count: u32,
) -> Result<f64, StudyError> {
    if count > MOST_ENDS {
        return Err(StudyError::TooMany(count, MOST_ENDS));
    }
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for one in 0..count {
        for other in (0..count).filter(|&other| other != one) {
            let pair = |flow: &mut FlowShape| {
                flow.source = format!("{source}{one}");
                flow.target = format!("{target}{other}");
            };
            let rate = evaluator.changed(scenario, pair)?.rate;
            least = least.min(rate);
            most = most.max(rate);
        }
    }
    Ok(most / least)
}

/// `min(q n / L, IOPS n)` of each drive, and all of them together no more than the link.
fn drives_rate(evaluator: &Evaluator, shape: &DrivesShape, depth: u32) -> Result<f64, StudyError> {
    let values = evaluator.values;
    let count = f64::from(shape.drives);
    let block = crate::way::as_f64(shape.block).max(1.0);
    let latency = values.loss(&shape.latency, 0.0)?.max(1e-12);
    let ceiling = values.ceiling(&shape.ceiling)?;
    let (table, rate) = match &shape.rate {
        Some(rate) => {
            let rate = values.ceiling(rate)?;
            (Table::line(latency, rate), rate)
        }
        None => (Table::constant(latency), f64::INFINITY),
    };
    let side = Side { latency: table, rate, commands: values.ceiling(&shape.commands)? / count };
    Ok((throughput(&side, block, f64::from(depth)) * count).min(ceiling))
}

fn saturating_depth(evaluator: &Evaluator, shape: &DrivesShape) -> Result<f64, StudyError> {
    let values = evaluator.values;
    let full = values.get(&shape.full)? * values.ceiling(&shape.ceiling)?;
    let depths = (0..31).map(|power| 1_u32 << power).take_while(|&depth| depth <= shape.depth);
    for depth in depths {
        if drives_rate(evaluator, shape, depth)? >= full {
            return Ok(f64::from(depth));
        }
    }
    Ok(2.0 * f64::from(shape.depth))
}

/// How many, and how many of them at the start. Without rounding, so that a fit is smooth.
fn page_faults(evaluator: &Evaluator, shape: &FaultsShape) -> Result<(f64, f64), StudyError> {
    let at_start = evaluator.values.get(&shape.at_start)?;
    let (bytes, window) =
        (evaluator.values.get(&shape.bytes)?, evaluator.values.get(&shape.window)?);
    let count = match evaluator.values.view() {
        View::Model => host::page_faults(bytes, window, at_start),
        View::Plain => f64::INFINITY,
    };
    Ok((count, at_start))
}
