//! The page of predictions, in Markdown.

use std::fmt::Write as _;

use super::predictions::Prediction;
use super::{Study, StudyError};

const HEAD: &str = "\
# Predictions

`peerlane reproduce --predictions` prints this page: cases that nobody had measured or published on
the day in the last column. A measurement outside the interval refutes the parameters; another limit
refutes the model.

Rates are payload in GB/s (10^9 bytes a second). *All* is the sum of the transfers that run at once,
*each* the slowest and the fastest of them. The interval holds 80 % of a hundred draws from the
ranges of the parameters, so that its ends are known to some percent; it leaves out what the model
leaves out. *Host memory* is traffic, an interval because the share that stays in the processor's
cache is not known.

| Case | Transfers | All | 80 % | Each | Limited by | Host memory | Made on |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// In braces: `all` of a prediction, or its `fastest` transfer, in GB/s.
const FIRST: &str = "
## What to look at first

- The victim: the fifth drive keeps {fastest victim-isolated} GB/s where each output has its queue,
  and falls to {fastest victim-shared} where all share one. No public measurement fixes that.
- Nine drives into one FPGA: the sum is the capacity of a SmartSSD's link, above the rate of any
  pair.
- Three drives into the NoLoad: {all noload-into-3} GB/s, as with four, says that the card is the
  limit, as its makers say; less says that drives or host are.
- Direct Connect at x2: the conventional copy is as fast as at x8 if lanes are 2.5 GT/s, as assumed.
  The 86 % at x1 of document 001 decided a parameter.
- The GPU to four Gen5 drives: the widest interval. The bytes of peer reads that a root complex keeps
  in flight are published for none.
- A drive read and written at once: {all gen5-both} GB/s if its medium does one thing after the
  other, as assumed; {all gen5-read} and {all gen5-write} if neither takes from the other.
- Four Gen5 drives to the GPU: {all gen5-read-four} GB/s is what AiSIO measured of four drives
  through a Xeon, assumed of any root complex.

## The numbers behind it

Rates come from the flow engine on machines of `machines/`, with the parameters of `sources/`, which
`peerlane reproduce --json` prints with their provenance. Those that were fitted on figures of the
documents bring their errors along. `peerlane sim` solves the same cases by the same engine with the
numbers of `crates/sim/src/predict/defaults.toml` and of the machine file, so that it says something
else unless `--parameters` gives it these.
";

const CHANGED: &str = "
## What changed

| Case | Before | Now | Why |
| --- | --- | --- | --- |
";

/// `docs/predictions.md`.
///
/// # Errors
/// When the text quotes a prediction that is not there, which a test rules out.
pub fn page(study: &Study, predictions: &[Prediction]) -> Result<String, StudyError> {
    let mut text = HEAD.to_owned();
    for found in predictions {
        let each = range(giga(found.each.0), giga(found.each.1));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {each} | {} | {} | {} |",
            found.says,
            found.flows,
            giga(found.rate),
            interval(found),
            found.limited_by,
            range(giga(found.host_memory.0), giga(found.host_memory.1)),
            found.date,
        );
    }
    text += &quoted(FIRST, predictions)?;
    let mut changes = String::new();
    for (shape, found) in study.predictions.prediction.iter().zip(predictions) {
        if let Some((before, why)) = &shape.changed {
            let now = format!("{} ({}), {}", giga(found.rate), interval(found), found.limited_by);
            let _ = writeln!(changes, "| {} | {before} | {now} | {why} |", found.says);
        }
    }
    if !changes.is_empty() {
        text = text + CHANGED + &changes;
    }
    Ok(text)
}

/// A text with the rates that it quotes.
fn quoted(text: &str, predictions: &[Prediction]) -> Result<String, StudyError> {
    let mut pieces = text.split(['{', '}']);
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    while let (Some(quote), Some(rest)) = (pieces.next(), pieces.next()) {
        let found = quote.split_once(' ').and_then(|(what, name)| {
            let found = predictions.iter().find(|found| found.prediction == name)?;
            Some(if what == "fastest" { found.each.1 } else { found.rate })
        });
        let rate = found.ok_or_else(|| StudyError::unknown("prediction", quote))?;
        filled = filled + &giga(rate) + rest;
    }
    Ok(filled)
}

fn interval(found: &Prediction) -> String {
    format!("{} to {}", giga(found.interval.0), giga(found.interval.1))
}

fn range(least: String, most: String) -> String {
    if least == most { least } else { format!("{least} to {most}") }
}

fn giga(rate: f64) -> String {
    match rate / 1e9 {
        0.0 => "0".to_owned(),
        small if small < 1.0 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}
