//! The page of predictions, in Markdown: a template with the rates that it quotes.

use std::fmt::Write as _;

use super::Study;
use super::predictions::Prediction;

/// In braces: both tables, and `all` of a prediction or its `fastest` transfer, in GB/s.
const TEMPLATE: &str = include_str!("page.md");

/// `docs/predictions.md`.
pub fn page(study: &Study, predictions: &[Prediction]) -> String {
    let (mut cases, mut changes) = (String::new(), String::new());
    let mut text = TEMPLATE.to_owned();
    for (shape, found) in study.predictions.prediction.iter().zip(predictions) {
        let Prediction { prediction, says, limited_by, each, host_memory, .. } = found;
        let (rate, interval) = (giga(found.rate), range(found.interval));
        // Writing to a String cannot fail.
        let _ = writeln!(
            cases,
            "| {says} | {} | {rate} | {interval} | {} | {limited_by} | {} | {} |",
            found.flows,
            range(*each),
            range(*host_memory),
            found.date,
        );
        if let Some((before, why)) = &shape.changed {
            let now = format!("{rate} ({interval}), {limited_by}");
            let _ = writeln!(changes, "| {says} | {before} | {now} | {why} |");
        }
        text = text.replace(&format!("{{all {prediction}}}"), &rate);
        text = text.replace(&format!("{{fastest {prediction}}}"), &giga(each.1));
    }
    text.replace("{cases}", &cases).replace("{changes}", &changes)
}

/// Both ends of a range; one number where they print alike.
fn range((least, most): (f64, f64)) -> String {
    let (least, most) = (giga(least), giga(most));
    if least == most { least } else { format!("{least} to {most}") }
}

fn giga(rate: f64) -> String {
    match rate / 1e9 {
        0.0 => "0".to_owned(),
        small if small < 1.0 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}
