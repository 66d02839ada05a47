//! One bar a row, with its spread, its ceiling and its prediction.

use super::frame::{ChartArea, names};
use super::scale::{Scale, ScaleKind, ValueKind};
use super::{Anchor, ChartPicture, ChartSheet, REGULAR, WIDTH, fit, wide};
use crate::ink::SERIES;
use crate::plain::escape;

/// A chart of bars.
#[derive(Debug)]
pub(crate) struct Bars {
    /// Text alternative for readers who do not see the chart.
    pub(crate) about: String,
    /// Name of the values.
    pub(crate) name: &'static str,
    /// Kind of the values.
    pub(crate) values: ValueKind,
    /// The rows, from top to bottom.
    pub(crate) rows: Vec<ChartBar>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChartBar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) colour: usize,
    /// Other possible values, lowest and highest.
    pub(crate) band: Option<(f64, f64)>,
    /// The ceiling.
    pub(crate) limit: Option<f64>,
    /// The predicted value and its interval.
    pub(crate) predicted: Option<(f64, Option<(f64, f64)>)>,
}

const ROW: f64 = 24.0;
/// Most rows; a longer chart is read as a table.
pub(crate) const ROWS_MAX: usize = 40;

impl Bars {
    /// The chart as a picture.
    pub(crate) fn picture(&self) -> ChartPicture {
        let mut sheet = ChartSheet::default();
        let rows = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let longest = rows.iter().map(|row| wide(&row.name)).fold(40.0, f64::max).min(196.0);
        let has = |what: fn(&ChartBar) -> bool| rows.iter().any(what);
        let (limits, predicted) =
            (has(|row| row.limit.is_some()), has(|row| row.predicted.is_some()));
        let top = if limits || predicted { 48.0 } else { 28.0 };
        let height = top + ROW * rows.len() as f64 + 50.0;
        let area =
            ChartArea { left: longest + 14.0, right: WIDTH - 70.0, top, bottom: height - 48.0 };
        let all = rows.iter().flat_map(|row| {
            let (low, high) = row.band.unwrap_or((row.value, row.value));
            let (middle, around) = row.predicted.unwrap_or((row.value, None));
            let (least, most) = around.unwrap_or((middle, middle));
            // Below nothing there is no bandwidth, however wide an interval is.
            [row.value, low, high, middle, least, most, row.limit.unwrap_or(0.0)]
                .map(|value| value.max(0.0))
        });
        let x = Scale::new(ScaleKind::Linear, self.values, all, (area.left, area.right));
        for (value, text) in x.ticks(54.0) {
            let place = x.at(value);
            sheet.path("g", &format!("M{place:.1} {top:.1}V{:.1}", area.bottom));
            sheet.words((place, area.bottom + 16.0), Anchor::Middle, "", &text);
        }
        let named = match x.unit() {
            "" => self.name.to_owned(),
            unit => format!("{} ({unit})", self.name),
        };
        names(&mut sheet, ChartArea { bottom: area.bottom - 3.0, ..area }, &named, "");
        legend(&mut sheet, limits, predicted);
        for (index, row) in rows.iter().enumerate() {
            self.row(&mut sheet, row, top + ROW * (index as f64 + 0.5), area, &x);
        }
        sheet.path("x", &format!("M{:.1} {top:.1}V{:.1}", area.left, area.bottom));
        ChartPicture::new(&self.about, height, sheet)
    }

    fn row(&self, sheet: &mut ChartSheet, row: &ChartBar, y: f64, area: ChartArea, x: &Scale) {
        let colour = row.colour % SERIES;
        sheet.words(
            (area.left - 8.0, y + 4.0),
            Anchor::End,
            "t",
            &fit(&row.name, area.left - 10.0, REGULAR),
        );
        let end = x.at(row.value);
        let limit = row.limit.map(|limit| format!(", limit {}", self.values.long(limit)));
        sheet.add(format_args!(
            r#"<g class="s{colour}"><title>{}</title><rect class="f" x="{:.1}" y="{:.1}" width="{:.1}" height="14" rx="1.5"/></g>"#,
            escape(&format!("{}: {}{}", row.name, self.values.long(row.value), limit.unwrap_or_default())),
            area.left,
            y - 7.0,
            (end - area.left).max(0.0)
        ));
        let mut right = end;
        if let Some((low, high)) = row.band {
            let (low, high) = (x.at(low), x.at(high));
            sheet.path(
                "w",
                &format!(
                    "M{low:.1} {y:.1}H{high:.1}M{low:.1} {:.1}v6M{high:.1} {:.1}v6",
                    y - 3.0,
                    y - 3.0
                ),
            );
            right = right.max(high);
        }
        if let Some((middle, around)) = row.predicted {
            let place = x.at(middle);
            if let Some((low, high)) = around {
                sheet.path("w", &format!("M{:.1} {:.1}H{:.1}", x.at(low), y + 9.0, x.at(high)));
                right = right.max(x.at(high));
            }
            sheet.add(format_args!(
                r#"<path class="w hollow" d="M{place:.1} {:.1}l4.5 4.5l-4.5 4.5l-4.5-4.5z"><title>predicted {}</title></path>"#,
                y + 4.5,
                escape(&self.values.long(middle))
            ));
            right = right.max(place + 5.0);
        }
        if let Some(limit) = row.limit {
            let place = x.at(limit);
            sheet.path("k", &format!("M{place:.1} {:.1}v20", y - 10.0));
            if place > right - 2.0 && place < right + 60.0 {
                right = place;
            }
        }
        sheet.words((right + 6.0, y + 4.0), Anchor::Start, "t n", &self.values.long(row.value));
    }
}

/// Legend of the signs next to bars.
fn legend(sheet: &mut ChartSheet, limits: bool, predicted: bool) {
    let mut left = 2.0;
    if limits {
        sheet.path("k", &format!("M{:.1} 6v18", left + 4.0));
        sheet.words((left + 12.0, 19.0), Anchor::Start, "", "lowest limit");
        left += 110.0;
    }
    if predicted {
        sheet.path("w hollow", &format!("M{:.1} 10.5l4.5 4.5l-4.5 4.5l-4.5-4.5z", left + 5.0));
        sheet.words((left + 15.0, 19.0), Anchor::Start, "", "predicted, with its interval");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_charts_end_and_odd_values_have_a_place() {
        let row = ChartBar {
            name: "x".repeat(900),
            value: f64::INFINITY,
            band: Some((-1.0, f64::NAN)),
            limit: Some(1e300),
            predicted: Some((-5.0, None)),
            ..ChartBar::default()
        };
        let bars = Bars {
            about: String::new(),
            name: "rate",
            values: ValueKind::Rate,
            rows: vec![row; 500],
        };
        let svg = bars.picture().in_page("t");
        assert!(svg.len() < 80_000 && !svg.contains("NaN"), "{}", svg.len());
        assert_eq!(svg.matches("class=\"f\"").count(), ROWS_MAX);
    }
}
