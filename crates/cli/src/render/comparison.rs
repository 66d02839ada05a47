//! Two records of benchmarks beside each other, in words.

use peerlane_results::Comparison;

use super::Sheet;
use super::bench::{aligned, in_words};

/// A row for each case; the last line says whether something became slower.
pub(crate) fn comparison(found: &Comparison) -> String {
    let head = ["case", "before", "after", "ratio", "between", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let none = || "-".to_owned();
    for case in &found.cases {
        let rate = |of: fn((f64, f64)) -> f64| {
            case.geometric_means.map_or_else(none, |both| in_words(of(both)))
        };
        let verdict = match case.has_regressed {
            true => format!("{}, past the threshold", case.verdict),
            false => case.verdict.to_string(),
        };
        rows.push(vec![
            case.case.clone(),
            rate(|both| both.0),
            rate(|both| both.1),
            case.ratio.map_or_else(none, |ratio| format!("{ratio:.3}")),
            case.interval.map_or_else(none, |(low, high)| format!("{low:.3} to {high:.3}")),
            verdict,
        ]);
    }
    let mut sheet = Sheet::default();
    sheet.line(format_args!("{} against {}", found.after.name, found.before.name));
    for line in aligned(&rows) {
        sheet.line(line);
    }
    if found.cases.iter().any(|case| case.geometric_means.is_some()) {
        sheet.line("rates are geometric means of the runs, and the ratio is that of them");
    }
    for case in &found.cases {
        for reason in &case.reasons {
            sheet.line(format_args!("{}: {reason}", case.case));
        }
    }
    for note in &found.notes {
        sheet.line(format_args!("note: {note}"));
    }
    sheet.line(format_args!(
        "{} ({}; {:.0} % sure of all together)",
        match found.has_regressed {
            true => "something became slower",
            false => "nothing became slower for certain",
        },
        found.method,
        found.confidence * 100.0
    ));
    sheet.0
}
