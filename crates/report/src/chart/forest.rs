//! One ratio a row with its interval, about the line where nothing changed.

use super::frame::{ChartArea, names};
use super::scale::{Scale, ScaleKind, ValueKind};
use super::{Anchor, ChartPicture, ChartSheet, REGULAR, ROWS_MAX, WIDTH, fit, wide};
use crate::ink::SERIES;
use crate::plain::escape;

/// A chart of ratios.
#[derive(Debug)]
pub(crate) struct Forest {
    /// Text alternative for readers who do not see the chart.
    pub(crate) about: String,
    /// Name of the ratio.
    pub(crate) name: &'static str,
    /// The ratio below which a case has regressed.
    pub(crate) least: f64,
    /// The rows, from top to bottom.
    pub(crate) rows: Vec<Ratio>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) colour: usize,
    /// Verdict, in a word.
    pub(crate) word: String,
}

const ROW: f64 = 24.0;
const TOP: f64 = 34.0;

impl Forest {
    /// The chart as a picture.
    pub(crate) fn picture(&self) -> ChartPicture {
        let mut sheet = ChartSheet::default();
        let rows = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let longest = rows.iter().map(|row| wide(&row.name)).fold(40.0, f64::max).min(196.0);
        let height = TOP + ROW * rows.len() as f64 + 50.0;
        let area = ChartArea {
            left: longest + 14.0,
            right: WIDTH - 104.0,
            top: TOP,
            bottom: height - 48.0,
        };
        let all = rows.iter().flat_map(|row| {
            let (low, high) = row.interval.unwrap_or((row.value, row.value));
            [row.value, low, high]
        });
        let ends = [1.0, self.least];
        let x =
            Scale::new(ScaleKind::Free, ValueKind::Times, all.chain(ends), (area.left, area.right));
        for (value, text) in x.ticks(54.0) {
            let place = x.at(value);
            sheet.path("g", &format!("M{place:.1} {TOP:.1}V{:.1}", area.bottom));
            sheet.words((place, area.bottom + 16.0), Anchor::Middle, "", &text);
        }
        names(&mut sheet, ChartArea { bottom: area.bottom - 3.0, ..area }, self.name, "");
        sheet.path("x", &format!("M{:.1} {TOP:.1}V{:.1}", x.at(1.0), area.bottom));
        sheet.path("k", &format!("M{:.1} {TOP:.1}V{:.1}", x.at(self.least), area.bottom));
        legend(&mut sheet);
        for (index, row) in rows.iter().enumerate() {
            draw(&mut sheet, row, TOP + ROW * (index as f64 + 0.5), area, &x);
        }
        ChartPicture::new(&self.about, height, sheet)
    }
}

fn draw(sheet: &mut ChartSheet, row: &Ratio, y: f64, area: ChartArea, x: &Scale) {
    let name = fit(&row.name, area.left - 10.0, REGULAR);
    sheet.words((area.left - 8.0, y + 4.0), Anchor::End, "t", &name);
    if let Some((low, high)) = row.interval {
        let (low, high) = (x.at(low), x.at(high));
        let (top, bottom) = (y - 3.0, y + 3.0);
        sheet.path(
            "w",
            &format!("M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}V{bottom:.1}M{high:.1} {top:.1}V{bottom:.1}"),
        );
    }
    sheet.add(format_args!(
        r#"<g class="s{}"><title>{}</title><rect class="f" x="{:.1}" y="{:.1}" width="9" height="9"/></g>"#,
        row.colour % SERIES,
        escape(&format!("{}: {:.3}, {}", row.name, row.value, row.word)),
        x.at(row.value) - 4.5,
        y - 4.5
    ));
    let words = format!("{:.3} {}", row.value, row.word);
    sheet.words((area.right + 6.0, y + 4.0), Anchor::Start, "t n", &words);
}

/// Legend of the lines.
fn legend(sheet: &mut ChartSheet) {
    sheet.path("x", "M6.0 6v18");
    sheet.words((14.0, 19.0), Anchor::Start, "", "as before");
    sheet.path("k", "M96.0 6v18");
    sheet.words((104.0, 19.0), Anchor::Start, "", "threshold");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_charts_end_and_odd_values_have_a_place() {
        let row = Ratio {
            name: "x".repeat(900),
            value: f64::INFINITY,
            interval: Some((-1e300, f64::NAN)),
            ..Ratio::default()
        };
        let chart =
            Forest { about: String::new(), name: "ratio", least: f64::NAN, rows: vec![row; 500] };
        let svg = chart.picture().in_page("t");
        assert!(svg.len() < 80_000 && !svg.contains("\"NaN"), "{}", svg.len());
        assert_eq!(svg.matches("class=\"f\"").count(), ROWS_MAX);
    }
}
