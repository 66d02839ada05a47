//! A matrix whose cells are the darker the more there is.

use super::scale::ValueKind;
use super::{Anchor, ChartPicture, ChartSheet, SMALL, WIDTH, fit};
use crate::ink::HEATS;
use crate::plain::escape;

/// A matrix.
#[derive(Debug)]
pub(crate) struct Heat {
    /// Text alternative for readers who do not see the chart.
    pub(crate) about: String,
    /// Kind of the values.
    pub(crate) values: ValueKind,
    /// Titles of rows and columns.
    pub(crate) sides: (&'static str, &'static str),
    /// Names of rows and columns.
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// A value for each row and column, if there is one.
    pub(crate) cells: Vec<Vec<Option<f64>>>,
}

/// Most rows and columns; a larger matrix is read as a table.
pub(crate) const SIDE_MAX: usize = 64;
/// Beyond so many columns cells hold no figures.
const FIGURES_MAX: usize = 12;
const LEFT: f64 = 84.0;
/// Room for the name of the last column.
const RIGHT: f64 = 34.0;
const TOP: f64 = 70.0;
/// The scale spans at least this share of the highest value: noise must not look like an effect.
const SPAN: f64 = 0.2;

impl Heat {
    /// The matrix as a picture.
    pub(crate) fn picture(&self) -> ChartPicture {
        let mut sheet = ChartSheet::default();
        let rows = &self.rows[..self.rows.len().min(SIDE_MAX)];
        let columns = &self.columns[..self.columns.len().min(SIDE_MAX)];
        let cell = ((WIDTH - LEFT - RIGHT) / columns.len().max(1) as f64).min(64.0);
        let high = cell.min(42.0).max((WIDTH - LEFT - RIGHT) / SIDE_MAX as f64);
        let values = || self.cells.iter().flatten().flatten().copied().filter(|v| v.is_finite());
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let least = least.min(most * (1.0 - SPAN));
        sheet.words(
            (2.0, 18.0),
            Anchor::Start,
            "t",
            &format!("{} (rows), {} (columns)", self.sides.0, self.sides.1),
        );
        for (index, name) in columns.iter().enumerate() {
            let x = LEFT + cell * (index as f64 + 0.5);
            if cell >= 15.0 {
                sheet.add(format_args!(
                    r#"<text class="z" transform="translate({:.1} {:.1})rotate(-40)">{}</text>"#,
                    x - 2.0,
                    TOP - 6.0,
                    escape(&fit(name, 62.0, SMALL))
                ));
            }
        }
        for (row, name) in rows.iter().enumerate() {
            let y = TOP + high * row as f64;
            if high >= 11.0 {
                sheet.words(
                    (LEFT - 6.0, y + high / 2.0 + 4.0),
                    Anchor::End,
                    "z",
                    &fit(name, LEFT - 8.0, SMALL),
                );
            }
            for (column, other) in columns.iter().enumerate() {
                let Some(value) =
                    self.cells.get(row).and_then(|cells| cells.get(column).copied().flatten())
                else {
                    continue;
                };
                let x = LEFT + cell * column as f64;
                let step = step(value, least, most);
                sheet.add(format_args!(
                    r#"<g><title>{}</title><rect class="h{step}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}"/>"#,
                    escape(&format!("{name} to {other}: {}", self.values.long(value))),
                    cell - 1.0,
                    high - 1.0
                ));
                if columns.len() <= FIGURES_MAX {
                    let ink = if step >= 4 { "strong" } else { "weak" };
                    sheet.words(
                        (x + cell / 2.0 - 0.5, y + high / 2.0 + 4.0),
                        Anchor::Middle,
                        &format!("z {ink}"),
                        &figure(self.values, value, most),
                    );
                }
                sheet.add(format_args!("</g>"));
            }
        }
        let bottom = TOP + high * rows.len() as f64;
        self.scale(&mut sheet, bottom + 18.0, (least, most));
        ChartPicture::new(&self.about, bottom + 44.0, sheet)
    }

    fn scale(&self, sheet: &mut ChartSheet, y: f64, (least, most): (f64, f64)) {
        for step in 0..HEATS {
            sheet.add(format_args!(
                r#"<rect class="h{step}" x="{:.1}" y="{y:.1}" width="30" height="10"/>"#,
                LEFT + 30.0 * step as f64
            ));
        }
        let end = LEFT + 30.0 * HEATS as f64 + 8.0;
        sheet.words((LEFT - 6.0, y + 9.0), Anchor::End, "z", &self.values.long(least));
        sheet.words((end, y + 9.0), Anchor::Start, "z", &self.values.long(most));
    }
}

fn figure(values: ValueKind, value: f64, most: f64) -> String {
    match values {
        ValueKind::Rate => {
            let text = values.short(value, most);
            text.parse().map_or(text, |number: f64| {
                if most >= 1e11 { format!("{number:.0}") } else { format!("{number:.2}") }
            })
        }
        _ => format!("{value:.2}"),
    }
}

/// Returns the step of the colours that a value is in.
fn step(value: f64, least: f64, most: f64) -> usize {
    let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
    (1..HEATS).rev().find(|&step| share * HEATS as f64 >= step as f64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_is_palest_most_is_darkest() {
        assert_eq!(step(1.0, 1.0, 3.0), 0);
        assert_eq!(step(3.0, 1.0, 3.0), HEATS - 1);
        assert_eq!(step(2.0, 2.0, 2.0), 0);
    }

    #[test]
    fn a_ragged_or_empty_matrix_is_drawn() {
        let heat = |cells: Vec<Vec<Option<f64>>>| Heat {
            about: String::new(),
            values: ValueKind::Rate,
            sides: ("source", "target"),
            rows: vec!["a".to_owned(), "b".to_owned()],
            columns: vec!["a".to_owned(), "b".to_owned()],
            cells,
        };
        assert_eq!(heat(vec![vec![Some(1e9)]]).picture().in_page("t").matches("<g>").count(), 1);
        assert!(heat(Vec::new()).picture().in_page("t").contains("</svg>"));
    }
}
