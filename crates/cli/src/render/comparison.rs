//! Two records of benchmarks, compared in words.

use peerlane_results::{Basis, Change, CompareRecord, Comparison};

use super::LabelSheet;
use super::bench::{aligned, in_words};

/// A row for each case; the last line says whether something became slower.
fn one_comparison(found: &Comparison) -> String {
    let head = ["case", "before", "after", "ratio", "between", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let none = || "-".to_owned();
    let is_predicted =
        [&found.before, &found.after].iter().all(|run| run.basis == Basis::Predicted);
    for case in &found.cases {
        let [before, after] = case.rates().map(|rate| rate.map_or_else(none, in_words));
        let verdict = match case.has_regressed {
            true => format!("{}, past the threshold", case.verdict),
            false if is_predicted && case.ratio.is_some() => {
                format!("{} by the model", case.verdict)
            }
            false => case.verdict.to_string(),
        };
        rows.push(vec![
            case.case.clone(),
            before,
            after,
            case.ratio.map_or_else(none, |ratio| format!("{ratio:.3}")),
            case.interval.map_or_else(none, |(low, high)| format!("{low:.3} to {high:.3}")),
            verdict,
        ]);
    }
    let mut sheet = LabelSheet::default();
    sheet.line(format_args!("{} against {}", found.after.name, found.before.name));
    for line in aligned(&rows) {
        sheet.line(line);
    }
    let rates = match found.turns {
        0 | 1 => "rates are geometric means of the runs, and the ratio is that of them".to_owned(),
        turns => format!(
            "rates are geometric means of all runs; the ratio is the middle one of {turns} turns (Hodges and Lehmann)"
        ),
    };
    if !is_predicted {
        sheet.line(rates);
    }
    for case in &found.cases {
        for reason in &case.reasons {
            sheet.line(format_args!("{}: {reason}", case.case));
        }
    }
    for note in &found.notes {
        sheet.line(format_args!("note: {note}"));
    }
    let is_compared = found.cases.iter().any(|case| case.verdict != Change::NotComparable);
    if is_predicted {
        sheet.line(if is_compared { &found.method } else { "nothing could be compared" });
        return sheet.0;
    }
    sheet.line(format_args!(
        "{} ({}; {:.0} % sure of all together)",
        match (found.has_regressed, is_compared) {
            (true, _) => "something became slower",
            (false, true) => "nothing became slower for certain",
            (false, false) => "nothing could be compared",
        },
        found.method,
        found.confidence * 100.0
    ));
    sheet.0
}

/// The comparison of one machine, or that of each node below its name; nodes without one with their reasons.
pub(crate) fn comparison(found: &CompareRecord) -> String {
    if let Some(only) = found.only() {
        return one_comparison(only);
    }
    let mut sheet = LabelSheet::default();
    for node in &found.nodes {
        sheet.line(format_args!("node {}", node.node.as_deref().unwrap_or_default()));
        match &node.comparison {
            Some(one) => {
                for line in one_comparison(one).lines() {
                    sheet.line(format_args!("  {line}"));
                }
            }
            None => sheet.line(format_args!("  not compared: {}", node.reasons.join("; "))),
        }
    }
    let compared = found.nodes.iter().filter(|node| node.comparison.is_some()).count();
    sheet.line(format_args!(
        "{} of {} nodes compared; {}",
        compared,
        found.nodes.len(),
        match (found.has_regressed, compared) {
            (true, _) => "something became slower",
            (false, 0) => "nothing could be compared",
            (false, _) => "nothing became slower for certain",
        }
    ));
    sheet.0
}
