//! Every ordered pair of drives: a heat matrix for each path.

use super::case::{RanCase, path_words, short};
use super::sweep;
use crate::chart::{Heat, ValueKind};
use crate::document::{Art, Figure};

/// The figures of a matrix.
pub(super) fn figures(cases: &[RanCase<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut paths: Vec<_> = cases.iter().map(RanCase::path).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let cells = cases.iter().filter(|case| case.path() == path).filter_map(|case| {
            let flow = case.first()?;
            Some((short(&flow.source), short(&flow.target), case.summary.rate.mean))
        });
        let about = format!("Bandwidth of each ordered pair by {}.", path_words(path));
        figures.extend(heat(cells.collect(), ValueKind::Rate, about).map(|art| Figure {
            title: format!("Bandwidth of each pair, {}", path_words(path)),
            caption: "Mean of the runs of each pair, one pair at a time, in the unit of the scale. \
                      Colours end at the highest pair and span a fifth of it, or down to the lowest."
                .to_owned(),
            art,
        }));
    }
    let ratios: Vec<_> = sweep::pairs(cases)
        .into_iter()
        .filter_map(|pair| {
            let flow = pair.p2p.first()?;
            Some((short(&flow.source), short(&flow.target), pair.ratio()?.0))
        })
        .collect();
    let about = "Bandwidth by p2p over bandwidth by the host path, for each pair.".to_owned();
    figures.extend(heat(ratios, ValueKind::Times, about).map(|art| Figure {
        title: "p2p against the host path, for each pair".to_owned(),
        caption: "Ratio of the means; above 1 p2p is faster. Colours span a fifth of the highest, or down to the lowest.".to_owned(),
        art,
    }));
    figures
}

fn heat(cells: Vec<(String, String, f64)>, values: ValueKind, about: String) -> Option<Art> {
    if cells.is_empty() {
        return None;
    }
    let mut rows: Vec<String> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for (source, target, _) in &cells {
        for (names, name) in [(&mut rows, source), (&mut columns, target)] {
            if !names.contains(name) && names.len() < crate::chart::SIDE_MAX {
                names.push(name.clone());
            }
        }
    }
    // Both sides in one order, so that the diagonal is one.
    let order: Vec<String> =
        if columns.len() > rows.len() { columns.clone() } else { rows.clone() };
    let place = |name: &String| order.iter().position(|known| known == name).unwrap_or(usize::MAX);
    rows.sort_by_key(place);
    columns.sort_by_key(place);
    let mut grid = vec![vec![None; columns.len()]; rows.len()];
    for (source, target, value) in cells {
        let place = rows
            .iter()
            .position(|row| *row == source)
            .zip(columns.iter().position(|column| *column == target));
        if let Some((row, column)) = place {
            grid[row][column] = Some(value);
        }
    }
    let heat = Heat { about, values, sides: ("source", "target"), rows, columns, cells: grid };
    Some(Art::Chart(heat.picture()))
}
