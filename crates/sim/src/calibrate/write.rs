//! A calibration as a file of parameters, in the form of `sources/parameters.toml`.

use std::fmt::Write as _;

use peerlane_results::Packets;

use super::{
    Calibration, CopyCalibration, FaultCalibration, MemoryCalibration, Row, Rows, SideCalibration,
};

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
        if let Some(copy) = &self.host.copy {
            self.copy(&mut text, copy);
        }
        if let Some(fault) = &self.host.fault {
            self.fault(&mut text, fault);
        }
        for cached in &self.host.cached {
            let (of, what) = (&cached.drive, format!("read by {}", cached.path));
            self.group(&mut text, of, what, &cached.rows);
        }
        for memory in &self.memories {
            self.memory(&mut text, memory);
        }
        self.packets(&mut text);
        self.traffic(&mut text);
        text
    }

    fn emulated(&self) -> &'static str {
        if self.is_emulated { "; emulated: semantics, not speed" } else { "" }
    }

    /// A group of rows, with its title written.
    fn group<'a>(
        &'a self,
        text: &'a mut String,
        of: &str,
        what: String,
        rows: &'a Rows,
    ) -> Group<'a> {
        let mut group = Group { calibration: self, text, what, rows };
        group.title(of);
        group
    }

    fn side(&self, text: &mut String, side: &SideCalibration) {
        let (drive, op) = (&side.drive, side.op.name());
        let mut group = self.group(text, drive, op.to_owned(), &side.rows);
        let owner = owner(drive);
        let name = |what: &str| format!("{owner}.{op}.{what}");
        for row in side.rows.fitted.iter().filter(|row| row.depth == 1.0) {
            // By the table, which evens out times that fall.
            let value = side.side.latency.time(row.block);
            let range = Range::of_times(row, value);
            group.parameter(&name(&format!("time-{:.0}", row.block)), "s", range, row);
        }
        let deep: Vec<&Row> = side.rows.fitted.iter().filter(|row| row.depth > 1.0).collect();
        if let (Some(small), Some(large)) = (deep.first(), deep.last()) {
            group.rate(&name("rate"), side.side.rate, large);
            group.commands(&name("commands"), side.side.commands, small);
        }
        let Some(random) = &side.random else { return };
        let mut group = self.group(text, drive, format!("random {op}"), &random.rows);
        for row in &random.rows.fitted {
            group.commands(&format!("{owner}.random-{op}.commands"), random.commands, row);
        }
    }

    fn copy(&self, text: &mut String, copy: &CopyCalibration) {
        let mut group = self.group(text, "host", "copy by one core".to_owned(), &copy.rows);
        for row in &copy.rows.fitted {
            group.rate("host.copy", copy.rate, row);
        }
    }

    fn fault(&self, text: &mut String, found: &FaultCalibration) {
        let what = "map of a file in memory".to_owned();
        let mut group = self.group(text, "host", what, &found.rows);
        for row in &found.rows.fitted {
            // A count of pages, which repeats agree on.
            let window = Range { lo: found.window, value: found.window, hi: found.window };
            group.exact("host.window", "B", window, row);
            let of_window = Row { block: found.window, ..*row };
            group.parameter("host.fault", "s", Range::of_times(&of_window, found.fault), row);
        }
    }

    fn memory(&self, text: &mut String, memory: &MemoryCalibration) {
        let mut group = self.group(text, &memory.drive, memory.way(), &memory.rows);
        for row in &memory.rows.fitted {
            let name = format!("{}.memory.{}", memory.memory, memory.done());
            match memory.rate {
                Some(rate) => group.rate(&name, rate, row),
                None => group.note(&format!(
                    "no {name}: the drive was the limit, at {:.0} MB/s, or another drive was faster",
                    row.measured / 1e6
                )),
            }
        }
    }

    /// What is set on the drives. The model has one setting for a machine: the least of them.
    fn packets(&self, text: &mut String) {
        let known: Vec<_> =
            self.packets.iter().filter_map(|one| Some((one, one.packets?))).collect();
        for unread in self.packets.iter().filter(|one| one.packets.is_none()) {
            let reason = unread.reason.as_deref().unwrap_or("it was not read");
            let _ = writeln!(
                text,
                "\n# {}: no pcie.mps, pcie.mrrs and pcie.tags: {}.",
                one_line(&unread.device),
                one_line(reason)
            );
        }
        let settings = known.iter().map(|&(device, packets)| {
            let Packets { payload, request, tags } = packets;
            (device, [payload.0, request.0, u64::from(tags)])
        });
        let names = [("pcie.mps", "B"), ("pcie.mrrs", "B"), ("pcie.tags", "count")];
        for (index, (name, unit)) in names.into_iter().enumerate() {
            let Some((device, numbers)) = settings.clone().min_by_key(|one| one.1[index]) else {
                return;
            };
            let number = numbers[index];
            let (device, address) =
                (&device.device, device.address.as_deref().unwrap_or("no address"));
            let source = format!("configuration space of {device} ({address}) on {}", self.machine);
            write_parameter(text, name, unit, &number.to_string(), "", &source);
        }
    }

    fn traffic(&self, text: &mut String) {
        for row in &self.traffic.rows {
            let _ = writeln!(
                text,
                "\n# {}: {:.2} bytes in host memory a byte of payload; the model says {} to {}.",
                one_line(&row.what),
                row.measured,
                row.predicted.least,
                row.predicted.most
            );
        }
        if let Some(reason) = &self.traffic.not_counted {
            let _ =
                writeln!(text, "\n# Host-memory traffic was not counted: {}.", one_line(reason));
        }
    }
}

/// A number and between what it is believed to lie.
#[derive(Clone, Copy)]
struct Range {
    lo: f64,
    value: f64,
    hi: f64,
}

impl Range {
    /// Seconds of a block of a row, over its repeats.
    fn of_times(row: &Row, value: f64) -> Self {
        let time = |rate: f64| row.block / rate;
        Self { lo: time(row.most).min(value), value, hi: time(row.least).max(value) }
    }

    /// As wide as an error at least.
    fn at_least(self, error: f64) -> Self {
        let Self { lo, value, hi } = self;
        Self { lo: lo.min(value / (1.0 + error)), value, hi: hi.max(value * (1.0 + error)) }
    }
}

/// Parameters out of rows of one kind.
struct Group<'a> {
    calibration: &'a Calibration,
    text: &'a mut String,
    /// What was done.
    what: String,
    rows: &'a Rows,
}

impl Group<'_> {
    fn title(&mut self, of: &str) {
        let rows = self.rows;
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "\n# {}, {}: {} rows held out, mean error {:.1} %, worst {:.1} %.",
            one_line(of),
            one_line(&self.what),
            rows.held_out.len(),
            rows.mean_error() * 100.0,
            rows.worst_error() * 100.0
        );
    }

    fn note(&mut self, note: &str) {
        let _ = writeln!(self.text, "# {}", one_line(note));
    }

    fn rate(&mut self, name: &str, value: f64, row: &Row) {
        let range = Range { lo: row.least / 1e6, value: value / 1e6, hi: row.most / 1e6 };
        self.parameter(name, "MB/s", range, row);
    }

    fn commands(&mut self, name: &str, value: f64, row: &Row) {
        let range = Range { lo: row.least / row.block, value, hi: row.most / row.block };
        self.parameter(name, "count", range, row);
    }

    /// A parameter whose range is as wide as the error of the rows held out.
    fn parameter(&mut self, name: &str, unit: &str, range: Range, row: &Row) {
        let error = self.rows.mean_error();
        let range_says = format!(
            "; the range holds all repeats, and the {:.1} % by which rows held out are off in the mean",
            error * 100.0
        );
        self.write(name, unit, range.at_least(error), row, &range_says);
    }

    /// A parameter that was counted.
    fn exact(&mut self, name: &str, unit: &str, range: Range, row: &Row) {
        self.write(name, unit, range, row, "; counted");
    }

    fn write(&mut self, name: &str, unit: &str, range: Range, row: &Row, range_says: &str) {
        let (machine, emulated) = (&self.calibration.machine, self.calibration.emulated());
        let source = format!(
            "calibration on {machine}: {} of {:.0} bytes at depth {:.0}{range_says}{emulated}",
            self.what, row.block, row.depth
        );
        let Range { lo, value, hi } = range;
        let ends = format!("lo = {lo:e}\nhi = {hi:e}\n");
        write_parameter(self.text, name, unit, &format!("{value:e}"), &ends, &source);
    }
}

fn write_parameter(
    text: &mut String,
    name: &str,
    unit: &str,
    value: &str,
    ends: &str,
    source: &str,
) {
    let _ = write!(text, "\n[parameter.{}]\nvalue = {value}\n{ends}", quoted(name));
    let _ = writeln!(text, "unit = {}", quoted(unit));
    let _ = writeln!(text, "from = \"measured-elsewhere\"\nsource = {}", quoted(source));
}

/// A drive as keys name it: `drive` alone means any.
fn owner(drive: &str) -> &str {
    if drive == "drive" { "/dev/drive" } else { drive }
}

/// A basic string of TOML, which may be a key, too: names are typed by people, and may hold anything.
fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Names may have line ends in them, and could forge lines with those.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn a_drive_that_is_called_as_any_drive_is_named_by_its_path() {
        assert_eq!((owner("drive"), owner("drive0")), ("/dev/drive", "drive0"));
    }
}
