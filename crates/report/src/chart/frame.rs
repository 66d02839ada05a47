//! The axes around a chart.

use super::scale::Scale;
use super::{Anchor, ChartSheet, wide};

/// Area of the values.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChartArea {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Draws both axes, with a line across for each value at the left one.
pub(super) fn axes(
    sheet: &mut ChartSheet,
    area: ChartArea,
    (x, x_name): (&Scale, &str),
    (y, y_name): (&Scale, &str),
) {
    for (value, text) in y.ticks(38.0) {
        let place = y.at(value);
        sheet.path("g", &format!("M{:.1} {place:.1}H{:.1}", area.left, area.right));
        sheet.words((area.left - 7.0, place + 4.0), Anchor::End, "", &text);
    }
    sheet.path("x", &format!("M{:.1} {:.1}H{:.1}", area.left, area.bottom, area.right));
    let mut end = f64::NEG_INFINITY;
    for (value, text) in x.ticks(46.0) {
        let place = x.at(value);
        sheet.path("x", &format!("M{place:.1} {:.1}v5", area.bottom));
        let half = wide(&text) / 2.0;
        if place - half > end + 6.0 {
            sheet.words((place, area.bottom + 19.0), Anchor::Middle, "", &text);
            end = place + half;
        }
    }
    names(sheet, area, &with_unit(x_name, x), &with_unit(y_name, y));
}

/// Writes the names of the axes: above the left one, and below the lower one.
pub(super) fn names(sheet: &mut ChartSheet, area: ChartArea, x: &str, y: &str) {
    sheet.words((2.0, area.top - 14.0), Anchor::Start, "t", y);
    sheet.words((f64::midpoint(area.left, area.right), area.bottom + 38.0), Anchor::Middle, "t", x);
}

fn with_unit(name: &str, scale: &Scale) -> String {
    match scale.unit() {
        "" => name.to_owned(),
        unit => format!("{name} ({unit})"),
    }
}

/// Moves labels apart: places, highest first, at least `gap` apart and between `top` and `bottom`.
pub(super) fn apart(places: &mut [f64], gap: f64, (top, bottom): (f64, f64)) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
    let mut last = top - gap;
    for &index in &order {
        places[index] = places[index].max(last + gap);
        last = places[index];
    }
    let mut next = bottom + gap;
    for &index in order.iter().rev() {
        places[index] = places[index].min(next - gap);
        next = places[index];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let mut places = [50.0, 52.0, 51.0, 98.0];
        apart(&mut places, 14.0, (0.0, 100.0));
        let mut sorted = places;
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 13.99), "{places:?}");
        assert!(sorted[3] <= 100.0 && places[0] < places[2] && places[2] < places[1]);
    }
}
