//! What the engines cost over four decades of flows, as measured once.

use peerlane_report::chart::{Kind, Lines, Look, Values};

use super::{Plot, comment, rows, series};

const FILE: &str = "cost.csv";

pub(super) fn plots() -> [Plot; 2] {
    let of = |engine: &str, scale: f64| -> Vec<(f64, f64)> {
        let rows = rows(FILE);
        let all = rows.iter().filter(|row| row[0] == engine);
        let number = |text: &String| text.parse::<f64>().expect("a number");
        all.map(|row| (number(&row[1]), number(&row[3]) * scale)).collect()
    };
    let lines = |about: &str, y, name: &str, points| Lines {
        about: about.to_owned(),
        x: ("flows", Kind::Log10, Values::Count),
        y,
        names: Vec::new(),
        series: vec![series(name, 0, Look::Line, points)],
        limits: Vec::new(),
    };
    let note = format!("{}.", comment(FILE));
    let time = lines(
        "Time of the flow engine by the number of flows",
        ("time to find all rates", Kind::Log10, Values::Time),
        "flow engine",
        of("flow", 1e6),
    );
    let events = lines(
        "Events a second of the TLP engine by the number of flows",
        ("million events for a second of one core", Kind::Linear, Values::Count),
        "TLP engine",
        of("tlp", 1.0),
    );
    [
        Plot {
            file: "cost-flow.svg",
            title: "Flow engine: cost of more flows",
            note: note.clone(),
            lines: time,
        },
        Plot { file: "cost-tlp.svg", title: "TLP engine: cost of more flows", note, lines: events },
    ]
}
