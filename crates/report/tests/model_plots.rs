//! The plots of `docs/model.md`: drawn here from the engines and from `docs/model/data`, and compared with
//! the files there. `UPDATE=1 cargo test -p peerlane-report --test model_plots` writes them.

#[path = "model_plots/engines.rs"]
mod engines;
#[path = "model_plots/figures.rs"]
mod figures;
#[path = "model_plots/laws.rs"]
mod laws;

use std::path::{Path, PathBuf};

use peerlane_report::Paper;
use peerlane_report::chart::{Lines, Look, Point, Series};

/// A plot: its file, its title, the sentence below it, and what is drawn.
struct Plot {
    file: &'static str,
    title: &'static str,
    note: String,
    lines: Lines,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model").join(name)
}

/// The rows of a file of data: no comments, no head.
fn rows(file: &str) -> Vec<Vec<String>> {
    let path = folder("data").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The comment at the top of a file of data.
fn comment(file: &str) -> String {
    let text = std::fs::read_to_string(folder("data").join(file)).expect("a file of data");
    let first = text.lines().next().and_then(|line| line.strip_prefix("# "));
    first.expect("it says where it comes from").to_owned()
}

fn series(name: &str, index: usize, look: Look, points: Vec<(f64, f64)>) -> Series {
    let point = |(x, y)| Point { x, y, band: None, note: String::new() };
    Series {
        name: name.to_owned(),
        colour: index,
        look,
        points: points.into_iter().map(point).collect(),
    }
}

fn compare(plot: &Plot) {
    let drawn = plot.lines.picture().alone(plot.title, &plot.note, Paper::Alone);
    let path = folder("plots").join(plot.file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(folder("plots")).expect("a folder");
        std::fs::write(&path, &drawn).expect("the plot can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let file = plot.file;
    let command = "UPDATE=1 cargo test -p peerlane-report --test model_plots";
    assert!(there == drawn, "{file} is not what is drawn now: {command}");
    let page = std::fs::read_to_string(folder("../model.md")).expect("docs/model.md");
    assert!(page.contains(&format!("model/plots/{file}")), "docs/model.md does not show {file}");
}

#[test]
fn packets_reach_what_formulas_say() {
    [laws::links(), laws::tags(), laws::credits()].iter().for_each(compare);
}

#[test]
fn fluids_beside_packets() {
    compare(&engines::plot());
}

#[test]
fn figures_beside_the_model() {
    compare(&figures::plot());
}
