//! Charts as SVG: lines, bars, heat matrices. Values in, one picture out; nothing here knows of records.
//!
//! Sized to be read on a phone and to stand two abreast on a wide page. Directly labelled: a line has
//! its name at its end, so no legend has to be matched by colour.

mod bars;
mod forest;
mod frame;
mod heat;
mod lines;
mod scale;

pub(crate) use bars::{Bars, ChartBar, ROWS_MAX};
pub(crate) use forest::{Forest, Ratio};
pub(crate) use heat::{Heat, SIDE_MAX};
pub(crate) use lines::{LimitLine, LineChart, LineStyle, Point, Series};
pub(crate) use scale::{ScaleKind, ValueKind};
pub(crate) use scale::{rate_unit, three};

use crate::ink::{self, Paper, Rules};
use crate::plain::{escape, plain};

/// Rules are within this.
pub(crate) const SCOPE: &str = ".chart ";
/// About how wide a character is at 12 px, of the widest of the usual fonts: regular, bold, and small.
const REGULAR: f64 = 7.3;
const BOLD: f64 = 8.3;
const SMALL: f64 = 6.4;
/// Width of every chart.
pub(crate) const WIDTH: f64 = 520.0;

const RULES: Rules = &[
    (".bg", "fill:$paper"),
    ("text", "font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:$quiet"),
    (".n", "font-weight:600"),
    (".t", "fill:$ink"),
    (".h", "font-size:15px;font-weight:600;fill:$ink"),
    (".z", "font-size:10.5px"),
    (".o", "paint-order:stroke;stroke:$paper;stroke-width:3px;stroke-linejoin:round"),
    (".x", "fill:none;stroke:$edge"),
    (".g", "fill:none;stroke:$rule;stroke-width:.8"),
    (".k", "fill:none;stroke:$quiet;stroke-width:1.3;stroke-dasharray:6 3"),
    (".w", "fill:none;stroke:$ink;stroke-width:1.2"),
    (".v", "fill:none;stroke-width:2;stroke-linejoin:round"),
    (".da", "stroke-dasharray:7 3"),
    (".db", "stroke-dasharray:2 3"),
    (".hollow", "fill:$paper;stroke-width:1.8"),
    (".area", "stroke:none;fill-opacity:.17"),
    (".dot", "fill-opacity:.75"),
    (".s0 .f,.f.s0", "fill:$s0"),
    (".s1 .f,.f.s1", "fill:$s1"),
    (".s2 .f,.f.s2", "fill:$s2"),
    (".s3 .f,.f.s3", "fill:$s3"),
    (".s4 .f,.f.s4", "fill:$s4"),
    (".s5 .f,.f.s5", "fill:$s5"),
    (".s0 .l", "stroke:$s0"),
    (".s1 .l", "stroke:$s1"),
    (".s2 .l", "stroke:$s2"),
    (".s3 .l", "stroke:$s3"),
    (".s4 .l", "stroke:$s4"),
    (".s5 .l", "stroke:$s5"),
    (".h0", "fill:$h0"),
    (".h1", "fill:$h1"),
    (".h2", "fill:$h2"),
    (".h3", "fill:$h3"),
    (".h4", "fill:$h4"),
    (".h5", "fill:$h5"),
    (".h6", "fill:$h6"),
    (".weak", "fill:$ink"),
    (".strong", "fill:$paper"),
];

/// A picture in the making.
#[derive(Debug, Default)]
struct ChartSheet(String);

impl ChartSheet {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{}" class="{class}">{}</text>"#,
            anchor.word(),
            escape(text)
        ));
    }

    fn path(&mut self, class: &str, data: &str) {
        self.add(format_args!(r#"<path class="{class}" d="{data}"/>"#));
    }
}

/// The part of a text that is at its position.
#[derive(Debug, Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A finished chart.
#[derive(Debug, Clone)]
pub(crate) struct ChartPicture {
    /// Text alternative for readers who do not see the picture.
    pub about: String,
    height: f64,
    body: String,
}

impl ChartPicture {
    fn new(about: &str, height: f64, sheet: ChartSheet) -> Self {
        Self { about: about.to_owned(), height, body: sheet.0 }
    }

    /// The chart within a page that has [`style`].
    pub(crate) fn in_page(&self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" class=\"chart\"><title>{}</title><desc>{}</desc>\n{}</svg>",
            self.height,
            escape(&plain(title)),
            escape(&self.about),
            self.body
        )
    }

    /// The chart as a file of its own, with its title above and a sentence below it.
    pub(crate) fn alone(&self, title: &str, note: &str, paper: Paper) -> String {
        const HEAD: f64 = 34.0;
        const SIDE: f64 = 10.0;
        let width = WIDTH + 2.0 * SIDE;
        let notes = lines_of(note, WIDTH - 24.0, 5.6);
        let height = HEAD + self.height + 15.0 * notes.len() as f64 + 12.0;
        let mut frame = ChartSheet::default();
        frame.words((12.0, 24.0), Anchor::Start, "h", &fit(title, WIDTH - 24.0, 8.4));
        for (index, line) in notes.iter().enumerate() {
            let y = HEAD + self.height + 14.0 + 15.0 * index as f64;
            frame.words((12.0, y), Anchor::Start, "z", line);
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" class=\"chart\"><title>{}</title><style>{}</style>\
             <rect width=\"100%\" height=\"100%\" class=\"bg\"/>\n{}<g transform=\"translate({SIDE} {HEAD})\">\n{}</g></svg>\n",
            escape(&plain(title)),
            style(paper),
            frame.0,
            self.body
        )
    }
}

/// The rules of charts.
pub(crate) fn style(paper: Paper) -> String {
    ink::sheet(RULES, SCOPE, paper)
}

/// About how wide a text is at 12 px.
fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * REGULAR
}

/// A text cut to a width, of characters so wide.
fn fit(text: &str, width: f64, each: f64) -> String {
    let room = (width / each).max(1.0);
    if text.chars().count() as f64 <= room {
        return text.to_owned();
    }
    let kept: String =
        text.chars().zip(1..).take_while(|&(_, n)| f64::from(n) < room).map(|(c, _)| c).collect();
    kept.trim_end().to_owned() + "\u{2026}"
}

fn lines_of(text: &str, width: f64, each: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line)
                if (line.chars().count() + word.chars().count() + 1) as f64 * each < width =>
            {
                *line += &format!(" {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
