//! Values along an axis: lines with the spread around them, single points, ceilings.

use super::frame::{ChartArea, apart, axes};
use super::scale::{Scale, ScaleKind, ValueKind};
use super::{Anchor, BOLD, ChartPicture, ChartSheet, REGULAR, SMALL, WIDTH, fit, wide};
use crate::ink::SERIES;
use crate::plain::escape;

/// A chart of lines.
#[derive(Debug)]
pub(crate) struct LineChart {
    /// Text alternative for readers who do not see the chart.
    pub about: String,
    /// Name, layout and kind of the values from left to right.
    pub x: (&'static str, ScaleKind, ValueKind),
    /// The same from bottom to top.
    pub y: (&'static str, ScaleKind, ValueKind),
    /// Words instead of values from left to right; those are then 0, 1, 2 and so on.
    pub names: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
    /// Ceilings.
    pub limits: Vec<LimitLine>,
}

/// A line.
#[derive(Debug)]
pub(crate) struct Series {
    /// Its name.
    pub name: String,
    /// Index of its colour.
    pub colour: usize,
    /// Style of its line.
    pub look: LineStyle,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// Styles of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// A line through marks.
    Line,
    /// A broken line through marks.
    Dashed,
    /// Points only.
    Dots,
}

/// A point of a line.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// Its place from left to right.
    pub x: f64,
    /// Its place from bottom to top.
    pub y: f64,
    /// Other possible values, lowest and highest.
    pub(crate) band: Option<(f64, f64)>,
    /// Text shown when a pointer rests on it.
    pub note: String,
}

/// A ceiling across the chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LimitLine {
    /// Its name.
    pub name: String,
    /// Its place.
    pub y: f64,
}

const HEIGHT: f64 = 320.0;
/// Longest name that stands at the end of its line.
const NAME_MAX: usize = 17;

impl LineChart {
    /// The chart as a picture.
    pub(crate) fn picture(&self) -> ChartPicture {
        let mut sheet = ChartSheet::default();
        let is_listed = self.is_listed();
        let longest = self.series.iter().map(|series| series.name.chars().count()).max();
        let names = if is_listed { 0.0 } else { longest.unwrap_or(0) as f64 * BOLD };
        let rows = if is_listed { self.legend(None) } else { 0.0 };
        let top = 38.0 + 20.0 * rows;
        let height = HEIGHT + 20.0 * (rows - 1.0).max(0.0);
        let area =
            ChartArea { left: 50.0, right: WIDTH - 14.0 - names, top, bottom: height - 48.0 };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Scale::new(
            self.x.1,
            self.x.2,
            points().map(|point| point.x),
            (area.left + 10.0, area.right - 10.0),
        );
        let heights = points()
            .flat_map(|point| {
                let (low, high) = point.band.unwrap_or((point.y, point.y));
                [point.y, low, high]
            })
            .chain(self.limits.iter().map(|limit| limit.y));
        let y = Scale::new(self.y.1, self.y.2, heights, (area.bottom, area.top));
        if self.names.is_empty() {
            axes(&mut sheet, area, (&x, self.x.0), (&y, self.y.0));
        } else {
            let blank = Scale::new(ScaleKind::Linear, ValueKind::Count, [-2.0, -1.0], (-9e9, -8e9));
            axes(&mut sheet, area, (&blank, self.x.0), (&y, self.y.0));
            for (index, name) in self.names.iter().enumerate() {
                let place = x.at(index as f64);
                sheet.path("x", &format!("M{place:.1} {:.1}v5", area.bottom));
                sheet.words((place, area.bottom + 19.0), Anchor::Middle, "", name);
            }
        }
        self.draw_limits(&mut sheet, area, &y);
        self.draw_series(&mut sheet, area, (&x, &y));
        // Over the lines, so that no line runs through a word.
        self.name_limits(&mut sheet, area, &y);
        if is_listed {
            self.legend(Some(&mut sheet));
        }
        ChartPicture::new(&self.about, height, sheet)
    }

    fn draw_limits(&self, sheet: &mut ChartSheet, area: ChartArea, y: &Scale) {
        for limit in &self.limits {
            let line = y.at(limit.y);
            sheet.path("k", &format!("M{:.1} {line:.1}H{:.1}", area.left, area.right));
        }
    }

    fn name_limits(&self, sheet: &mut ChartSheet, area: ChartArea, y: &Scale) {
        let mut places: Vec<f64> = self.limits.iter().map(|limit| y.at(limit.y) - 5.0).collect();
        apart(&mut places, 14.0, (area.top - 4.0, area.bottom));
        for (limit, place) in self.limits.iter().zip(places) {
            let text = fit(&limit.name, area.right - area.left - 8.0, SMALL);
            sheet.words((area.right, place), Anchor::End, "z o", &text);
        }
    }

    fn draw_series(&self, sheet: &mut ChartSheet, area: ChartArea, (x, y): (&Scale, &Scale)) {
        let mut ends = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            let colour = series.colour % SERIES;
            sheet.add(format_args!(r#"<g class="s{colour}">"#));
            band(sheet, &series.points, x, y);
            if series.look != LineStyle::Dots {
                let mut data = String::new();
                for (step, point) in series.points.iter().enumerate() {
                    let letter = if step == 0 { 'M' } else { 'L' };
                    data += &format!("{letter}{:.1} {:.1}", x.at(point.x), y.at(point.y));
                }
                let dash = if series.look == LineStyle::Dashed { " da" } else { "" };
                sheet.path(&format!("v l{dash}"), &data);
            }
            for point in &series.points {
                let size = if series.look == LineStyle::Dots { 2.6 } else { 3.4 };
                mark(sheet, index, series.look, (x.at(point.x), y.at(point.y), size), &point.note);
            }
            sheet.add(format_args!("</g>"));
            if let (Some(last), false) = (series.points.last(), self.is_listed()) {
                ends.push((index, x.at(last.x), y.at(last.y)));
            }
        }
        let mut places: Vec<f64> = ends.iter().map(|(_, _, place)| *place + 4.0).collect();
        apart(&mut places, 15.0, (area.top, area.bottom));
        for ((index, left, _), place) in ends.into_iter().zip(places) {
            let series = &self.series[index];
            let text = series.name.as_str();
            let left = left.max(area.right - 10.0) + 9.0;
            sheet.words(
                (left, place),
                Anchor::Start,
                &format!("n f s{}", series.colour % SERIES),
                text,
            );
        }
    }

    /// Tests whether names stand above the chart: those of points, and long ones.
    fn is_listed(&self) -> bool {
        let has_names = self.series.iter().any(|series| !series.name.is_empty());
        let is_long = |series: &Series| series.name.chars().count() > NAME_MAX;
        let has_no_end = |series: &Series| series.look == LineStyle::Dots;
        has_names && self.series.iter().any(|series| has_no_end(series) || is_long(series))
    }

    /// Writes names above the chart, and says how many rows they take.
    fn legend(&self, mut sheet: Option<&mut ChartSheet>) -> f64 {
        let (mut left, mut row) = (2.0, 0.0);
        for (index, series) in self.series.iter().enumerate() {
            let text = fit(&series.name, WIDTH - 40.0, REGULAR);
            let width = 30.0 + wide(&text) + 16.0;
            if left > 2.0 && left + width > WIDTH {
                (left, row) = (2.0, row + 1.0);
            }
            if let Some(sheet) = sheet.as_deref_mut() {
                let middle = 13.0 + 20.0 * row;
                sheet.add(format_args!(r#"<g class="s{}">"#, series.colour % SERIES));
                if series.look != LineStyle::Dots {
                    let dash = if series.look == LineStyle::Dashed { " da" } else { "" };
                    sheet.path(&format!("v l{dash}"), &format!("M{left:.1} {middle:.1}h24"));
                }
                mark(sheet, index, series.look, (left + 12.0, middle, 3.6), "");
                sheet.add(format_args!("</g>"));
                sheet.words((left + 30.0, middle + 4.0), Anchor::Start, "t", &text);
            }
            left += width;
        }
        row + 1.0
    }
}

/// The spread around a line.
fn band(sheet: &mut ChartSheet, points: &[Point], x: &Scale, y: &Scale) {
    let banded: Vec<(f64, f64, f64)> = points
        .iter()
        .filter_map(|point| point.band.map(|(low, high)| (x.at(point.x), y.at(low), y.at(high))))
        .collect();
    match banded[..] {
        [] => {}
        [(x, low, high)] => sheet.path("v l", &format!("M{x:.1} {low:.1}V{high:.1}")),
        _ => {
            let upper = banded.iter().map(|(x, _, high)| format!("{x:.1} {high:.1}"));
            let lower = banded.iter().rev().map(|(x, low, _)| format!("{x:.1} {low:.1}"));
            let outline: Vec<String> = upper.chain(lower).collect();
            sheet.path("area f", &format!("M{}Z", outline.join("L")));
        }
    }
}

/// A mark whose shape tells the series as its colour does.
fn mark(
    sheet: &mut ChartSheet,
    index: usize,
    look: LineStyle,
    (x, y, size): (f64, f64, f64),
    note: &str,
) {
    let class = match look {
        LineStyle::Line => "f",
        LineStyle::Dots => "f dot",
        LineStyle::Dashed => "l hollow",
    };
    let shape = match index % 4 {
        0 => format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{size}"#),
        1 => {
            let side = size * 1.8;
            let half = side / 2.0;
            format!(
                r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{side:.1}" height="{side:.1}"#,
                x - half,
                y - half
            )
        }
        2 => format!(
            r#"<path class="{class}" d="M{x:.1} {:.1}l{size} {}h-{}z"#,
            y - size,
            size * 1.9,
            size * 2.0
        ),
        _ => format!(
            r#"<path class="{class}" d="M{x:.1} {:.1}l{size} {size}l-{size} {size}l-{size}-{size}z"#,
            y - size
        ),
    };
    if note.is_empty() {
        sheet.add(format_args!("{shape}\"/>"));
    } else {
        let element = &shape[1..shape.find(' ').unwrap_or(1)];
        sheet.add(format_args!("{shape}\"><title>{}</title></{element}>", escape(note)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point { x, y, band: Some((y * 0.9, y * 1.1)), note: "<b>".to_owned() }
    }

    #[test]
    fn a_chart_without_points_is_drawn_too() {
        for series in [
            Vec::new(),
            vec![Series {
                name: "a".to_owned(),
                colour: 0,
                look: LineStyle::Line,
                points: Vec::new(),
            }],
        ] {
            let lines = LineChart {
                about: String::new(),
                x: ("block size", ScaleKind::Log2, ValueKind::Size),
                y: ("bandwidth", ScaleKind::Linear, ValueKind::Rate),
                names: Vec::new(),
                series,
                limits: Vec::new(),
            };
            assert!(lines.picture().in_page("t").contains("</svg>"));
        }
    }

    #[test]
    fn names_and_notes_are_text() {
        let lines = LineChart {
            about: "<script>".to_owned(),
            x: ("block size", ScaleKind::Log2, ValueKind::Size),
            y: ("bandwidth", ScaleKind::Linear, ValueKind::Rate),
            names: Vec::new(),
            series: vec![Series {
                name: "<i>".to_owned(),
                colour: 9,
                look: LineStyle::Dashed,
                points: vec![point(4096.0, 1e9), point(8192.0, f64::NAN)],
            }],
            limits: vec![LimitLine { name: "<u>".to_owned(), y: 2e9 }],
        };
        let svg = lines.picture().in_page("<a>");
        for markup in ["<b>", "<script>", "<i>", "<u>", "<a>", "NaN"] {
            assert!(!svg.contains(markup), "{markup} in {svg}");
        }
    }
}
