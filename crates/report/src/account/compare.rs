//! Two compared runs, as `bench compare` judged them.

use peerlane_results::{
    Basis, CaseComparison, Change, CompareRecord, ComparedRun, Comparison, Incomparable, Spread,
};

use super::bench::{basis_words, date, mark};
use super::rate;
use crate::chart::{Forest, ROWS_MAX, Ratio};
use crate::document::{Art, Block, Cell, Figure, RecordVerdict, Section, Table, Tone};
use crate::plain::{count, plain};

/// The verdict on two runs, and its section: of one machine in full, else of each node.
pub(super) fn section(name: &str, record: &CompareRecord) -> (RecordVerdict, Section) {
    record.only().map_or_else(|| of_nodes(name, record), |only| one(name, only))
}

fn of_nodes(name: &str, record: &CompareRecord) -> (RecordVerdict, Section) {
    let mut blocks = vec![Block::Facts(vec![("record", plain(name))])];
    let mut more = Vec::new();
    let mut rows = Vec::new();
    for node in &record.nodes {
        let name = node.node.as_deref().unwrap_or_default();
        let answer = match &node.comparison {
            None => format!("not compared: {}", node.reasons.join("; ")),
            Some(comparison) => {
                let (verdict, section) = one(name, comparison);
                blocks.extend(section.blocks.into_iter().filter_map(of_node(name)));
                verdict.text
            }
        };
        more.push(format!("{}: {}", plain(name), plain(&answer)));
        rows.push(vec![Cell::text(name), Cell::text(answer)]);
    }
    blocks.insert(1, Block::Table(Table::new("Nodes", vec!["node", "verdict"], rows)));
    let compared = record.nodes.iter().filter(|node| node.comparison.is_some()).count();
    let change = if record.has_regressed {
        "something became slower"
    } else {
        "nothing became slower for certain"
    };
    let text = format!("{compared} of {} compared: {change}.", count(record.nodes.len(), "node"));
    let tone = match (record.has_regressed, compared == record.nodes.len()) {
        (true, _) => Tone::Bad,
        (false, false) => Tone::Limited,
        (false, true) => Tone::Firm,
    };
    let heading = format!("compare: {}", count(record.nodes.len(), "node"));
    (RecordVerdict { tone, basis: "several nodes", text, more }, Section { heading, blocks })
}

/// Figures and tables of a node, under its name.
fn of_node(node: &str) -> impl FnMut(Block) -> Option<Block> {
    let node = plain(node);
    move |block| match block {
        Block::Figure(mut figure) => {
            figure.title = format!("{node}: {}", figure.title);
            Some(Block::Figure(figure))
        }
        Block::Table(mut table) => {
            table.caption = format!("{node}: {}", table.caption);
            Some(Block::Table(table))
        }
        _ => None,
    }
}

fn one(name: &str, record: &Comparison) -> (RecordVerdict, Section) {
    let basis = basis(record);
    let mut blocks = vec![Block::Facts(facts(name, record, basis))];
    if basis == Basis::Emulated {
        let text = "Emulated machine: semantics, not speed. What follows compares times of an emulator \
                    and says nothing about hardware.";
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.extend(figure(record, basis).map(Block::Figure));
    blocks.push(Block::Table(cases(record, basis)));
    blocks.extend(record.notes.iter().map(|note| Block::Text(sentence(note))));
    let heading = if record.after.name == record.before.name {
        format!("compare: {}", plain(&record.after.name))
    } else {
        format!("compare: {} with {}", plain(&record.after.name), plain(&record.before.name))
    };
    (verdict(record, basis), Section { heading, blocks })
}

/// Returns the origin of the figures; a run that was not measured decides.
fn basis(record: &Comparison) -> Basis {
    let both = [record.before.basis, record.after.basis];
    [Basis::Emulated, Basis::Predicted]
        .into_iter()
        .find(|basis| both.contains(basis))
        .unwrap_or(Basis::Measured)
}

fn verdict(record: &Comparison, basis: Basis) -> RecordVerdict {
    let of = |change| record.cases.iter().filter(move |case| case.verdict == change);
    let regressed: Vec<&CaseComparison> =
        record.cases.iter().filter(|case| case.has_regressed).collect();
    let percent = record.threshold * 100.0;
    let said = if let [first, ..] = regressed.as_slice() {
        format!(
            "{} certainly slower by more than {percent:.1} %{}.",
            count(regressed.len(), "case"),
            if regressed.len() == 1 {
                format!(": {}", plain(&first.case))
            } else {
                format!(", {} among them", plain(&first.case))
            }
        )
    } else if of(Change::NotComparable).count() == record.cases.len() {
        "No case can be compared.".to_owned()
    } else if basis == Basis::Predicted {
        "Two predictions, of which nothing is certain.".to_owned()
    } else {
        format!("No case is certainly slower by more than {percent:.1} %.")
    };
    let text = format!("{}{said}", mark(basis));
    let mut more = vec![format!(
        "Faster: {}; slower: {}; {}: {}; not comparable: {}{}.",
        of(Change::Faster).count(),
        of(Change::Slower).count(),
        if basis == Basis::Predicted { "the same" } else { "no difference certain" },
        of(Change::Same).count(),
        of(Change::NotComparable).count(),
        match basis {
            Basis::Predicted => "; all of it by the model".to_owned(),
            _ => format!(
                "; all of it holds together with {:.0} % confidence",
                record.confidence * 100.0
            ),
        }
    )];
    more.push(format!("Machine: {}.", plain(&record.after.machine.name)));
    let tone = if record.has_regressed && basis == Basis::Measured {
        Tone::Bad
    } else if basis != Basis::Measured
        || record.has_regressed
        || of(Change::NotComparable).next().is_some()
    {
        Tone::Limited
    } else {
        Tone::Firm
    };
    RecordVerdict { tone, basis: basis_words(basis), text, more }
}

fn facts(name: &str, record: &Comparison, basis: Basis) -> Vec<(&'static str, String)> {
    let run = |run: &ComparedRun| {
        let started = run.started_s.map_or(String::new(), |seconds| format!(", {}", date(seconds)));
        format!(
            "{} on {}, {}{started}; peerlane {}",
            plain(&run.name),
            plain(&run.machine.name),
            basis_words(run.basis),
            plain(&run.machine.program)
        )
    };
    let mut facts = vec![
        ("record", plain(name)),
        ("before", run(&record.before)),
        ("after", run(&record.after)),
        (
            "records",
            match record.turns {
                0 | 1 => "one record of each".to_owned(),
                turns => {
                    format!("{turns} records of each, in turns; before and after are the first")
                }
            },
        ),
        ("method", plain(&record.method)),
    ];
    if basis != Basis::Predicted {
        facts.push(("threshold", format!("{:.1} %", record.threshold * 100.0)));
    }
    facts
}

fn figure(record: &Comparison, basis: Basis) -> Option<Figure> {
    let rows: Vec<Ratio> = record.cases.iter().filter_map(ratio).collect();
    if rows.is_empty() {
        return None;
    }
    let more = rows.len().saturating_sub(ROWS_MAX);
    let rest =
        if more == 0 { String::new() } else { format!(" {more} more cases are in the table.") };
    let left_out = record.cases.len() - rows.len();
    let left_out =
        if left_out == 0 { String::new() } else { format!(" Cases without a ratio: {left_out}.") };
    let chart = Forest {
        about: format!("Ratio of rates, after to before, of each of {} cases.", rows.len()),
        name: "rate after to before (below 1 is slower)",
        least: 1.0 - record.threshold,
        rows,
    };
    Some(Figure {
        title: "Ratio of each case".to_owned(),
        caption: match basis {
            Basis::Predicted => format!(
                "{}Ratios of the model, of which there is no test.{left_out}{rest}",
                mark(basis)
            ),
            _ => format!(
                "{}The bars hold together with {:.0} % confidence. One that crosses the line of 1 shows no \
                 difference; one wholly left of the broken line is a regression.{left_out}{rest}",
                mark(basis),
                record.confidence * 100.0
            ),
        },
        art: Art::Chart(chart.picture()),
    })
}

fn ratio(case: &CaseComparison) -> Option<Ratio> {
    // The hues of the paths, in the order in which readers of the ratio meet them.
    let colour = match case.verdict {
        Change::Faster => 0,
        Change::Slower => 1,
        Change::Same | Change::NotComparable => 5,
    };
    Some(Ratio {
        name: plain(&case.case),
        value: case.ratio?,
        interval: case.interval,
        colour,
        word: case.verdict.to_string(),
    })
}

fn cases(record: &Comparison, basis: Basis) -> Table {
    let runs = |spread: Option<&Spread>| spread.map_or(0, |spread| spread.count);
    let rates = |geometric: Option<f64>| {
        geometric.map_or_else(Cell::none, |value| Cell::number(value, rate(value)))
    };
    let rows = record
        .cases
        .iter()
        .map(|case| {
            let why: Vec<String> = case.reasons.iter().map(Incomparable::to_string).collect();
            vec![
                Cell::text(&case.case),
                Cell::text(format!(
                    "{}, {}",
                    runs(case.before.as_ref()),
                    runs(case.after.as_ref())
                )),
                rates(case.before_geometric_mean),
                rates(case.after_geometric_mean),
                case.ratio.map_or_else(Cell::none, |one| Cell::number(one, format!("{one:.3}"))),
                case.interval.map_or_else(Cell::none, |(low, high)| {
                    Cell::text(format!("{low:.3} to {high:.3}"))
                }),
                case.chance.map_or_else(Cell::none, |one| Cell::number(one, chance(one))),
                Cell::text(if case.has_regressed {
                    format!("{}, by more than the threshold", case.verdict)
                } else if basis == Basis::Predicted && case.ratio.is_some() {
                    format!("{} by the model", case.verdict)
                } else {
                    case.verdict.to_string()
                }),
                if why.is_empty() { Cell::none() } else { Cell::text(why.join("; ")) },
            ]
        })
        .collect();
    Table::new(
        "Each case, before and after; rates are geometric means of the runs",
        vec![
            "case", "runs", "before", "after", "ratio", "interval", "chance", "verdict", "why not",
        ],
        rows,
    )
}

fn chance(value: f64) -> String {
    const LEAST: f64 = 0.001;
    if value < LEAST { format!("below {LEAST}") } else { format!("{value:.3}") }
}

fn sentence(note: &str) -> String {
    format!("Note: {}.", plain(note.trim_end_matches('.')))
}
