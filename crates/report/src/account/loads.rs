//! The machine with what its links carried.

use peerlane_results::{BenchRecord, CaseRecord, Path};

use super::bench::mark;
use super::case::{Case, path_words};
use super::{Drawn, crowd, rate};
use crate::document::{Art, Figure};
use crate::ink::Paper;
use crate::machine::Drawing;
use crate::plain::plain;

/// A drawing for each route: the fastest case whose link loads are known.
pub(super) fn figures(bench: &BenchRecord, cases: &[Case<'_>], drawn: Drawn<'_>) -> Vec<Figure> {
    let is_same = bench.machine.fabric == drawn.digest;
    if !is_same && !drawn.is_named {
        return Vec::new();
    }
    let mut figures = Vec::new();
    // The two routes; slower ways through host memory load the same links.
    for path in [Some(Path::P2p), Some(Path::HostPipelined)] {
        let fastest = cases
            .iter()
            .filter(|case| case.path() == path)
            .filter_map(|case| {
                Some((case, crowd::middle(case).filter(|run| !run.links.is_empty())?))
            })
            .max_by(|a, b| a.0.summary.rate.mean.total_cmp(&b.0.summary.rate.mean));
        if let Some((case, run)) = fastest {
            figures.push(figure(case, run, (path_words(path), mark(bench.basis)), is_same, drawn));
        }
    }
    figures
}

fn figure(
    case: &Case<'_>,
    run: &CaseRecord,
    (path, mark): (&str, &str),
    is_same: bool,
    drawn: Drawn<'_>,
) -> Figure {
    let other = if is_same {
        String::new()
    } else {
        format!(
            " The drawing is of {}, which was named for it; the record is of a machine with another digest.",
            plain(&drawn.fabric.name)
        )
    };
    let caption = format!(
        "{mark}Payload on each link in {}, the fastest case of this path that names it: the run with the median \
             total, {}.{other}",
        case.name(),
        run.rate().map_or_else(|| "of unknown rate".to_owned(), |found| rate(found.0 as f64))
    );
    let draw = |note, paper| Drawing { fabric: drawn.fabric, loads: &run.links, note, paper }.svg();
    let art = Art::Machine { page: draw("", Paper::Page), alone: draw(&caption, Paper::Light) };
    Figure { title: format!("Load of the links, {path}"), caption, art }
}
