//! Figures of documents next to the model: a table, and the details behind it.

use std::fmt::Write as _;

use peerlane_sim::reproduce::{Baseline, BoundSide, CurveReport, FigureRole, FigureRow, Report};
use serde_json::{Value, json};

/// Width of wrapped text.
const WIDTH: usize = 100;
/// Longest stated word in the table.
const LONGEST: usize = 24;
const HEADINGS: [&str; 6] = ["source", "figure", "stated", "predicted", "error", "role"];

/// The count, a table with a line for each figure, and the titles of the sources; details below
/// each figure with `-v`.
pub(crate) fn reproduce(report: &Report, is_verbose: bool) -> String {
    let mut text = wrapped(&report.count, 0) + "\n";
    let cells: Vec<[String; 6]> = report.rows.iter().map(cells).collect();
    let headings = HEADINGS.map(str::to_owned);
    let lines = || std::iter::once(&headings).chain(&cells);
    let widths: [usize; 6] = std::array::from_fn(|at| {
        lines().map(|line| line[at].chars().count()).max().unwrap_or_default()
    });
    for (index, line) in lines().enumerate() {
        let padded = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let padded = padded.collect::<Vec<_>>().join("  ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", padded.trim_end());
        if let Some(row) = index.checked_sub(1).filter(|_| is_verbose) {
            details(&mut text, &report.rows[row]);
        }
    }
    text.push('\n');
    for source in &report.sources {
        let kind = if source.held_out { " (held out)" } else { "" };
        let width = widths[0];
        let _ = writeln!(text, "{:width$}  {}{kind}", source.source, source.title);
        for setting in source.settings.iter().filter(|_| is_verbose) {
            text += &wrapped(setting, 6);
        }
    }
    if is_verbose && !report.curves.is_empty() {
        text.push_str("\nrates by block size, held out\n");
        report.curves.iter().for_each(|curve| held_out(&mut text, curve));
    }
    text
}

fn cells(row: &FigureRow) -> [String; 6] {
    let side = match row.bound {
        Some(BoundSide::AtMost) => "<= ",
        Some(BoundSide::AtLeast) => ">= ",
        None => "",
    };
    let mut stated = side.to_owned() + &with_unit(&as_stated(&row.stated), row.unit);
    if stated.chars().count() > LONGEST {
        stated = stated.chars().take(LONGEST - 3).collect::<String>() + "...";
    }
    let predicted = match &row.predicted {
        Value::Null => "-".to_owned(),
        predicted => with_unit(&value(predicted), row.unit),
    };
    let error = match (row.error, row.within) {
        (Some(_), Some("bound")) => "bound holds".to_owned(),
        (Some(_), Some("range")) => "in range".to_owned(),
        (Some(error), _) => percent(error),
        (None, Some(within)) => within.to_owned(),
        (None, None) if row.predicted.is_null() => "-".to_owned(),
        (None, None) => "other word".to_owned(),
    };
    let mut role = value(&json!(row.role));
    if row.role != row.declared {
        role += &format!(" (declared {})", value(&json!(row.declared)));
    }
    [row.source.clone(), row.figure.clone(), stated, predicted, error, role]
}

/// The statement of the document, baselines, interval and reason.
fn details(text: &mut String, row: &FigureRow) {
    let mut facts = Vec::new();
    facts.extend(
        row.within.filter(|_| row.error.is_some()).map(|within| format!("within {within}")),
    );
    if let Some((low, high)) = row.interval {
        let place = match row.inside {
            Some(true) => ", stated inside",
            Some(false) => ", stated outside",
            None => "",
        };
        facts.push(format!("80 % between {} and {}{place}", number(low), number(high)));
    }
    if row.role == FigureRole::Predicted {
        let baseline = |name: &str, other: &Option<Baseline>| {
            let other = other.as_ref()?;
            Some(format!("{name} {} ({})", number(other.value), percent(other.error)))
        };
        facts.extend(baseline("datasheets", &row.plain));
        facts.extend(baseline("nearest", &row.nearest));
        facts.extend(row.beats_both.map(|beats| {
            if beats { "closer than both" } else { "not closer than both" }.to_owned()
        }));
    }
    *text += &wrapped(&row.says, 6);
    if !facts.is_empty() {
        *text += &wrapped(&facts.join("; "), 6);
    }
    *text += &wrapped(&row.reason, 6);
}

fn held_out(text: &mut String, curve: &CurveReport) {
    let _ = writeln!(text, "  {}", curve.says);
    for held in &curve.held {
        let _ = writeln!(
            text,
            "      {} sizes predict {} others: mean error {:.1} %, worst {:.1} %; a line {:.1} %",
            held.calibrated.len(),
            held.predicted,
            held.mean * 100.0,
            held.worst * 100.0,
            held.line * 100.0
        );
    }
    let mean = curve.leave_one_out * 100.0;
    let _ = writeln!(text, "      each size from all others: mean error {mean:.1} %");
    *text += &wrapped(&curve.reason, 6);
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.as_f64().map_or_else(|| value.to_string(), number),
    }
}

/// The digits of the document.
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
    fn numbers_keep_four_digits() {
        assert_eq!(number(2937.57), "2938");
        assert_eq!(number(16.3), "16.30");
        assert_eq!(number(0.65), "0.650");
        assert_eq!(percent(-0.000_01), "+0.0 %");
        assert_eq!(percent(-0.492), "-49.2 %");
    }
}
