//! Every flow of the cases that look for mistakes: the flow engine beside the TLP engine.

use std::collections::BTreeMap;

use peerlane_report::chart::{Kind, Lines, Look, Values};

use super::{Plot, comment, rows, series};

const FILE: &str = "engines.csv";

pub(super) fn plot() -> Plot {
    let mut families: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows(FILE) {
        let rate = |at: usize| row[at].parse::<f64>().expect("a rate") * 1e9;
        families.entry(row[0].clone()).or_default().push((rate(3), rate(4)));
    }
    let errors: Vec<f64> =
        families.values().flatten().map(|(tlp, flow)| (flow / tlp - 1.0).abs()).collect();
    let near = errors.iter().filter(|&&error| error < 0.02).count();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64 * 100.0;
    let all = || families.values().flatten().flat_map(|&(x, y)| [x, y]);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let mut lines = vec![series("equal", 5, Look::Dashed, vec![(low, low), (high, high)])];
    for (index, (name, points)) in families.iter().enumerate() {
        lines.push(series(name, index % 5, Look::Dots, points.clone()));
    }
    Plot {
        file: "engines.svg",
        title: "Flow engine beside TLP engine, every flow",
        note: format!(
            "{} flows, {near} within 2 %, mean difference {mean:.2} %. {}.",
            errors.len(),
            comment(FILE)
        ),
        lines: Lines {
            about: "Rate of each flow by the flow engine over its rate by the TLP engine"
                .to_owned(),
            x: ("by packets", Kind::Log10, Values::Rate),
            y: ("by fluids", Kind::Log10, Values::Rate),
            names: Vec::new(),
            series: lines,
            limits: Vec::new(),
        },
    }
}
