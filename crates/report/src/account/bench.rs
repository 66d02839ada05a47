//! Verdict, facts and figures of one run of a workload.

use peerlane_results::{Basis, BenchRecord, WorkloadKind};

use super::case::{RanCase, cases};
use super::{
    Drawn, crowd, donard, headline, latency, loads, machine_facts, matrix, order, rows, sweep,
    tables, warnings,
};
use crate::document::{Block, Figure, RecordVerdict, Section};
use crate::plain::{count, plain};

/// The verdict on it, and its section.
pub(super) fn section(
    name: &str,
    bench: &BenchRecord,
    drawn: &[Drawn<'_>],
) -> (RecordVerdict, Section) {
    let cases = cases(bench);
    let mut blocks = vec![Block::Facts(facts(name, bench, &cases))];
    if bench.basis == Basis::Emulated {
        let text = "Emulated machine: semantics, not speed. Times and rates below are those of an \
                    emulator and say nothing about hardware.";
        blocks.push(Block::Text(text.to_owned()));
    }
    let all = bench.warnings.iter().chain(bench.cases.iter().flat_map(|case| &case.warnings));
    blocks.extend(warnings(all));
    if cases.is_empty() {
        let text = "There are no figures: the record holds what was requested, and no run.";
        blocks.push(Block::Text(text.to_owned()));
    } else {
        blocks.extend(figures(bench, &cases).into_iter().map(Block::Figure));
        blocks.extend(loads::figures(bench, &cases, drawn).into_iter().map(Block::Figure));
        blocks.extend(donard::blocks(bench));
        blocks.push(Block::Table(tables::cases(&cases, bench.basis)));
        blocks.extend(tables::gains(&cases).map(Block::Table));
        blocks.extend(tables::evidence(&cases).map(Block::Table));
    }
    let (kind, title) = (bench.asked.kind.to_string(), plain(&bench.asked.name));
    let heading = if title.starts_with(&kind) { title } else { format!("{kind}: {title}") };
    (headline::verdict(bench, &cases), Section { heading, blocks })
}

fn figures(bench: &BenchRecord, cases: &[RanCase<'_>]) -> Vec<Figure> {
    let mut figures = match bench.asked.kind {
        WorkloadKind::Sweep => sweep::figures(cases),
        WorkloadKind::Matrix => matrix::figures(cases),
        WorkloadKind::Crowd => crowd::figures(cases),
        WorkloadKind::Stream | WorkloadKind::Roundtrip => rows::figures(cases),
    };
    figures.extend(latency::figure(bench.asked.kind, cases));
    if bench.basis != Basis::Predicted {
        figures.extend(order::figure(bench, cases));
    }
    for figure in &mut figures {
        figure.caption.insert_str(0, mark(bench.basis));
    }
    figures
}

/// Opening words of the caption of every figure.
pub(super) fn mark(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "",
        Basis::Emulated => "Emulated: semantics, not speed. ",
        Basis::Predicted => "Predicted, not measured. ",
    }
}

/// The origin of figures, in a word or two.
pub(super) fn basis_words(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Emulated => "emulated machine",
        Basis::Predicted => "predicted",
    }
}

fn facts(name: &str, bench: &BenchRecord, cases: &[RanCase<'_>]) -> Vec<(&'static str, String)> {
    let asked = &bench.asked;
    let repeats = asked.repeats;
    let until = repeats.until_per_mille.map_or(String::new(), |per_mille| {
        let percent = f64::from(per_mille) / 10.0;
        format!(", until the 95 % interval of the mean is within {percent} % of it")
    });
    let often = if repeats.least == repeats.most {
        format!("{} of each case", repeats.most)
    } else {
        format!("{} to {} of each case", repeats.least, repeats.most)
    };
    let warm_up = match repeats.warm_up {
        0 => "without warm-up".to_owned(),
        number => format!("after {number} that do not count"),
    };
    let ran = if cases.is_empty() {
        format!("none of {}", asked.cases.len())
    } else if cases.len() < asked.cases.len() {
        format!("{} of {} (the others did not run)", cases.len(), asked.cases.len())
    } else {
        cases.len().to_string()
    };
    let mut facts = vec![("record", plain(name)), ("figures", basis_words(bench.basis).to_owned())];
    facts.extend(machine_facts(&bench.machine));
    facts.extend(bench.started_s.map(|seconds| ("started", date(seconds))));
    facts.push(("cases", ran));
    if bench.basis != Basis::Predicted && !cases.is_empty() {
        let runs = count(bench.cases.len(), "run");
        facts.push(("runs", format!("{runs}: {often}, {warm_up}{until}")));
    }
    facts.extend(tables::host_memory(cases).map(|reason| ("host memory", reason)));
    facts.push(("seed", asked.seed.to_string()));
    facts
}

/// A date of the civil calendar, UTC (Hinnant, "chrono-compatible low-level date algorithms", 2013).
pub(super) fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (seconds % 86_400 / 3600, seconds % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_civil_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_240_300), "2026-11-21 05:51 UTC");
    }
}
