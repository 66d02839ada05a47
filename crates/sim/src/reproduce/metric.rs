//! The quantity of the model that a figure is compared with.

use peerlane_units::Bytes;
use serde_json::Value;

use super::StudyError;
use super::scenario::{Evaluator, MOST_FLOWS};
use super::shape::{DrivesShape, MetricShape};
use crate::devices::drive::{DriveSide, throughput};
use crate::devices::host::page_faults;
use crate::devices::table::SizeTable;
use crate::model::as_f64;
use crate::parameters::View;

impl Evaluator<'_> {
    /// A number in base units, or a word.
    pub(super) fn answer(&self, metric: &MetricShape) -> Result<Value, StudyError> {
        let rate = |name: &str| self.outcome(name, None).map(|outcome| outcome.rate());
        Ok(Value::from(match metric {
            MetricShape::Rate(name) => rate(name)?,
            MetricShape::Ratio([one, other]) => rate(one)? / rate(other)?,
            MetricShape::Loss([one, other]) => 1.0 - rate(one)? / rate(other)?,
            MetricShape::Seconds(name) => self.values.loss(name, 0.0)?,
            MetricShape::Run(name) => self.run(name)?,
            MetricShape::LimitedBy(name) => return Ok(self.outcome(name, None)?.limit.kind.into()),
            MetricShape::HostBytes(name) => self.outcome(name, None)?.traffic.most,
            MetricShape::OverBlocks(names, blocks) => lowest(self.over_blocks(names, blocks)?),
            MetricShape::Growth(names, blocks) => {
                let values = self.over_blocks(names, blocks)?;
                lowest(values.windows(2).map(|pair| pair[1] / pair[0]))
            }
            MetricShape::Spread(name) => self.spread(name)?,
            MetricShape::Faults(names) => self.faults(names)?,
            MetricShape::FaultsRatio(names) => self.faults(names)? / self.values.get(&names[2])?,
            MetricShape::DrivesRate(drives) => self.drives_rate(drives, drives.depth.into())?,
            MetricShape::SaturatingDepth(drives) => self.saturating_depth(drives)?,
        }))
    }

    /// Page faults; datasheets know none.
    fn faults(&self, names: &[String; 3]) -> Result<f64, StudyError> {
        let [bytes, window, at_start] = names;
        let get = |name: &String| self.values.get(name);
        let count = page_faults(get(bytes)?, get(window)?, get(at_start)?);
        Ok(if self.values.view() == View::Plain { f64::INFINITY } else { count })
    }

    /// The rate of a scenario, or the ratio of two, with each block size.
    fn over_blocks(&self, scenarios: &[String], blocks: &[Bytes]) -> Result<Vec<f64>, StudyError> {
        let value = |&block: &Bytes| {
            let rate = |name: &String| Ok(self.outcome(name, Some(block))?.rate());
            let rates: Vec<f64> = scenarios.iter().map(rate).collect::<Result<_, StudyError>>()?;
            Ok(rates.into_iter().reduce(|one, other| one / other).unwrap_or(f64::NAN))
        };
        blocks.iter().map(value).collect()
    }

    /// Highest over lowest rate of the flows of a scenario, each alone.
    fn spread(&self, name: &str) -> Result<f64, StudyError> {
        let scenario = self.find(name)?;
        let rate = |flow| Ok(self.flows(name, scenario, &[flow])?.rate());
        let rates = scenario.each().into_iter().take(MOST_FLOWS).map(rate);
        let rates = rates.collect::<Result<Vec<f64>, StudyError>>()?;
        Ok(rates.iter().copied().fold(0.0, f64::max) / lowest(rates))
    }

    /// Throughput of each drive at a queue depth, all of them together within the link's capacity.
    fn drives_rate(&self, shape: &DrivesShape, depth: f64) -> Result<f64, StudyError> {
        let values = self.values;
        let count = f64::from(shape.drives);
        let time = values.loss(&shape.latency, 0.0)?.max(1e-12);
        let rate = shape.rate.as_ref().map_or(Ok(f64::INFINITY), |name| values.ceiling(name))?;
        let latency = SizeTable::line(time, rate);
        let side = DriveSide { latency, rate, commands: values.ceiling(&shape.commands)? / count };
        let each = throughput(&side, as_f64(shape.block).max(1.0), depth);
        Ok((each * count).min(values.ceiling(&shape.ceiling)?))
    }

    fn saturating_depth(&self, shape: &DrivesShape) -> Result<f64, StudyError> {
        let full = self.values.get(&shape.full)? * self.values.ceiling(&shape.ceiling)?;
        let mut depth = 1.0;
        while depth <= f64::from(shape.depth) && self.drives_rate(shape, depth)? < full {
            depth *= 2.0;
        }
        Ok(depth)
    }
}

fn lowest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}
