//! A calibration as a file of parameters, in the form of `sources/parameters.toml`.

use std::fmt::Write as _;

use super::{Calibration, Row, Rows, SideCalibration};

impl Calibration {
    /// The file: each parameter with its range, its rows, and the error of the rows held out. A range is that over
    /// repeats, and at least as wide as that error: repeats that agree say nothing of other sizes and depths.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Written by a calibration. Parameters come from a quarter of the rows; the errors are those of the rest,\n\
             # and ranges are as wide as their mean at least.\n",
        );
        for side in &self.sides {
            self.side(&mut text, side);
        }
        text
    }

    fn side(&self, text: &mut String, side: &SideCalibration) {
        let (drive, op) = (&side.drive, side.op.name());
        let mut group = Group { calibration: self, text, what: op.to_owned(), rows: &side.rows };
        group.title(drive);
        let name = |what: &str| format!("{drive}.{op}.{what}");
        for row in side.rows.fitted.iter().filter(|row| row.depth == 1.0) {
            let time = |rate: f64| row.block / rate;
            // By the table, which evens out times that fall.
            let value = side.side.latency.time(row.block);
            let range = (time(row.most).min(value), value, time(row.least).max(value));
            group.parameter(&name(&format!("time-{:.0}", row.block)), "s", range, row);
        }
        let deep: Vec<&Row> = side.rows.fitted.iter().filter(|row| row.depth > 1.0).collect();
        if let (Some(small), Some(large)) = (deep.first(), deep.last()) {
            let rate = (large.least / 1e6, side.side.rate / 1e6, large.most / 1e6);
            group.parameter(&name("rate"), "MB/s", rate, large);
            group.commands(&name("commands"), side.side.commands, small);
        }
        let Some(random) = &side.random else { return };
        let what = format!("random {op}");
        let mut group = Group { calibration: self, text, what, rows: &random.rows };
        group.title(drive);
        for row in &random.rows.fitted {
            group.commands(&format!("{drive}.random-{op}.commands"), random.commands, row);
        }
    }
}

/// Parameters out of rows of one kind.
struct Group<'a> {
    calibration: &'a Calibration,
    text: &'a mut String,
    /// What the drive did.
    what: String,
    rows: &'a Rows,
}

impl Group<'_> {
    fn title(&mut self, drive: &str) {
        let rows = self.rows;
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "\n# {}, {}: {} rows held out, mean error {:.1} %, worst {:.1} %.",
            one_line(drive),
            self.what,
            rows.held_out.len(),
            rows.mean_error() * 100.0,
            rows.worst_error() * 100.0
        );
    }

    fn commands(&mut self, name: &str, value: f64, row: &Row) {
        let range = (row.least / row.block, value, row.most / row.block);
        self.parameter(name, "count", range, row);
    }

    fn parameter(&mut self, name: &str, unit: &str, (lo, value, hi): (f64, f64, f64), row: &Row) {
        let error = self.rows.mean_error();
        let (lo, hi) = (lo.min(value / (1.0 + error)), hi.max(value * (1.0 + error)));
        let Calibration { machine, is_emulated, .. } = self.calibration;
        let emulated = if *is_emulated { "; emulated: semantics, not speed" } else { "" };
        let source = format!(
            "calibration on {machine}: {} of {:.0} bytes at depth {:.0}; the range holds all repeats, and the {:.1} % by which rows held out are off in the mean{emulated}",
            self.what,
            row.block,
            row.depth,
            error * 100.0
        );
        let text = &mut *self.text;
        let _ = writeln!(text, "\n[parameter.{}]", quoted(name));
        let _ =
            writeln!(text, "value = {value:e}\nlo = {lo:e}\nhi = {hi:e}\nunit = {}", quoted(unit));
        let _ = writeln!(text, "from = \"measured-elsewhere\"\nsource = {}", quoted(&source));
    }
}

/// A basic string of TOML, which may be a key, too: names are typed by people, and may hold anything.
fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Names may have line ends in them, and could forge lines with those.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
