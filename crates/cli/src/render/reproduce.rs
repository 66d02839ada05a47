//! Figures of the documents beside the model, in words.

use std::fmt::Write as _;

use peerlane_sim::reproduce::{Baseline, CurveReport, Report, Role, Row};
use serde_json::Value;

/// Width of the text below a figure.
const WIDTH: usize = 100;

/// The honest count, then every figure with what stands behind it.
pub(crate) fn reproduce(report: &Report) -> String {
    let mut text = wrapped(&report.count, 0);
    for source in &report.sources {
        let kind = if source.held_out { " (held out)" } else { "" };
        let _ = write!(text, "\n{}{kind}  {}\n", source.source, source.title);
        for row in report.rows.iter().filter(|row| row.source == source.source) {
            figure(&mut text, row);
        }
    }
    if !report.curves.is_empty() {
        text.push_str("\nrates by block size, held out\n");
    }
    for curve in &report.curves {
        held_out(&mut text, curve);
    }
    text
}

/// The fits: what was fitted on what, and what that proves.
pub(crate) fn fits(report: &Report) -> String {
    let mut text = String::new();
    for fit in &report.fits {
        for (index, (name, value)) in fit.parameters.iter().enumerate() {
            let error = fit.standard_errors.as_ref().and_then(|errors| errors.get(index));
            let error = error.map_or(String::new(), |error| format!(" +/- {:.2} %", error * 100.0));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} = {}{error}", plain(*value));
        }
        let _ = writeln!(text, "  on {}: {}", fit.rows.join(", "), fit.freedom);
        let residuals: Vec<String> =
            fit.residuals.iter().map(|residual| percent(residual.exp() - 1.0)).collect();
        let _ = writeln!(text, "  residuals {}", residuals.join(", "));
    }
    if text.is_empty() {
        text.push_str("no figure of these asks for a fitted parameter\n");
    }
    text
}

fn figure(text: &mut String, row: &Row) {
    let stated = with_unit(&as_stated(&row.stated), row.unit);
    let predicted = match &row.predicted {
        Value::Null => "-".to_owned(),
        predicted => with_unit(&value(predicted), row.unit),
    };
    let _ = writeln!(
        text,
        "  {:20} stated {stated:24} model {predicted:16} {:26} {}",
        row.figure,
        error(row),
        role(row)
    );
    let mut facts = Vec::new();
    if let Some(before) = row.unfitted {
        facts.push(format!("before the fit {}", with_unit(&number(before), row.unit)));
    }
    if let (Some((low, high)), Role::Predicted) = (row.interval, row.role) {
        let place = match row.inside {
            Some(true) => ", stated inside",
            Some(false) => ", stated outside",
            None => "",
        };
        facts.push(format!("80 % between {} and {}{place}", number(low), number(high)));
    }
    if row.role == Role::Predicted {
        let of = |name: &str, other: &Option<Baseline>| {
            let say = |other: &Baseline| {
                format!("{name} {} ({})", number(other.value), percent(other.error))
            };
            other.as_ref().map(say)
        };
        facts.extend(of("datasheets", &row.plain));
        facts.extend(of("nearest", &row.nearest));
        facts.extend(row.beats_both.map(|beats| {
            if beats { "closer than both" } else { "not closer than both" }.to_owned()
        }));
    }
    if !facts.is_empty() {
        text.push_str(&wrapped(&facts.join("; "), 6));
    }
    text.push_str(&wrapped(&row.reason, 6));
}

fn role(row: &Row) -> String {
    if row.role == row.declared {
        row.role.name().to_owned()
    } else {
        format!("{} (declared {})", row.role.name(), row.declared.name())
    }
}

fn error(row: &Row) -> String {
    match (row.error, row.within) {
        (Some(error), Some(within)) => format!("{} ({within})", percent(error)),
        (Some(error), None) => percent(error),
        (None, Some(within)) => within.to_owned(),
        (None, None) if row.predicted.is_null() => "not compared".to_owned(),
        (None, None) => "another word".to_owned(),
    }
}

fn held_out(text: &mut String, curve: &CurveReport) {
    let _ = writeln!(text, "  {}", curve.says);
    for held in &curve.held {
        let _ = writeln!(
            text,
            "      {} sizes say {} others: mean error {:.1} %, worst {:.1} %; a line through two {:.1} %",
            held.calibrated.len(),
            held.predicted,
            held.mean * 100.0,
            held.worst * 100.0,
            held.line * 100.0
        );
    }
    if let Some(mean) = curve.leave_one_out {
        let _ = writeln!(text, "      each size from all others: mean error {:.1} %", mean * 100.0);
    }
    let _ = writeln!(text, "      {}", curve.reason);
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(ends) => ends.iter().map(self::value).collect::<Vec<_>>().join(" to "),
        value => value.as_f64().map_or_else(|| value.to_string(), number),
    }
}

/// With the digits of the document.
fn as_stated(value: &Value) -> String {
    match value {
        Value::Array(ends) => ends.iter().map(as_stated).collect::<Vec<_>>().join(" to "),
        Value::Number(number) => number.as_f64().map_or_else(String::new, |n| n.to_string()),
        other => self::value(other),
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// Four significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A number of any size: base units are bytes and seconds.
fn plain(value: f64) -> String {
    if (0.01..1e6).contains(&value) { number(value) } else { format!("{value:.4e}") }
}

fn percent(share: f64) -> String {
    // Not `-0.0 %`.
    let percent = (share * 1000.0).round() / 10.0 + 0.0;
    format!("{percent:+.1} %")
}

/// Lines of at most [`WIDTH`] characters, indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    // A number stays with its sign of per cent.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(lines, "{:indent$}{line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(lines, "{:indent$}{line}", "");
    lines.replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_and_indented() {
        let text = wrapped(&"word ".repeat(40), 6);
        assert!(text.lines().all(|line| line.starts_with("      word") && line.len() <= WIDTH));
        assert_eq!(text.split_whitespace().count(), 40);
    }

    #[test]
    fn numbers_keep_four_digits_and_errors_their_sign() {
        assert_eq!(number(2937.57), "2938");
        assert_eq!(number(16.3), "16.30");
        assert_eq!(number(0.65), "0.650");
        assert_eq!(percent(-0.000_01), "+0.0 %");
        assert_eq!(percent(-0.492), "-49.2 %");
    }
}
