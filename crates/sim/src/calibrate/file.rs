//! A calibration as a parameter file, in the form of `sources/parameters.toml`.

use std::fmt::Write as _;

use peerlane_results::Packets;

use super::{Calibration, RateRow, Rows, SideCalibration};

const HEADER: &str = "# Written by a calibration. Errors are those of rows held out of the fit. A range holds all \
                      repeats, and is as\n# wide as the mean error at least.\n";

impl Calibration {
    /// The file: each parameter with its range and source, each group of rows with its held-out error.
    ///
    /// A range is as wide as that error at least, because repeats say nothing of other sizes and depths.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(HEADER);
        for side in &self.sides {
            self.write_side(&mut text, side);
        }
        self.write_packets(&mut text);
        text
    }

    fn write_side(&self, text: &mut String, side: &SideCalibration) {
        let (owner, op) = (owner(&side.drive), side.op.name());
        write_errors(text, &side.drive, op, &side.rows);
        let mut group = FitGroup { calibration: self, text, done: op.to_owned(), rows: &side.rows };
        let name = |quantity: &str| format!("{owner}.{op}.{quantity}");
        for row in side.rows.fitted.iter().filter(|row| row.depth == 1.0) {
            // By the table, which averages times that fall with size.
            let value = side.side.latency.time(row.block);
            let [lo, hi] = [row.most, row.least].map(|rate| row.block / rate);
            let range = [lo.min(value), value, hi.max(value)];
            group.write(&name(&format!("time-{:.0}", row.block)), "s", range, row);
        }
        let mut deep = side.rows.fitted.iter().filter(|row| row.depth > 1.0);
        if let (Some(small), Some(large)) = (deep.next(), deep.next_back()) {
            let range = [large.least, side.side.rate, large.most].map(|rate| rate / 1e6);
            group.write(&name("rate"), "MB/s", range, large);
            group.write_commands(&name("commands"), side.side.commands, small);
        }
        let Some(random) = &side.random else { return };
        let done = format!("random {op}");
        write_errors(group.text, &side.drive, &done, &random.rows);
        let mut group = FitGroup { done, rows: &random.rows, ..group };
        for row in &random.rows.fitted {
            group.write_commands(&format!("{owner}.random-{op}.commands"), random.commands, row);
        }
    }

    /// Packet sizes and tags of the drives. The model has one setting for a machine: the least of them.
    fn write_packets(&self, text: &mut String) {
        for device in self.packets.iter().filter(|device| device.packets.is_none()) {
            let (name, reason) = (&device.device, device.reason.as_deref());
            let reason = reason.unwrap_or("they were not read");
            let _ = writeln!(
                text,
                "\n# {}: no pcie.mps, pcie.mrrs and pcie.tags: {}.",
                one_line(name),
                one_line(reason)
            );
        }
        let known = self.packets.iter().filter_map(|device| {
            let Packets { payload, request, tags } = device.packets?;
            Some((device, [payload.0, request.0, tags.into()]))
        });
        let names = [("pcie.mps", "B"), ("pcie.mrrs", "B"), ("pcie.tags", "count")];
        for (index, (name, unit)) in names.into_iter().enumerate() {
            let least = known.clone().min_by_key(|(_, numbers)| numbers[index]);
            let Some((device, numbers)) = least else { return };
            let address = device.address.as_deref().unwrap_or("no address");
            let (drive, machine) = (&device.device, &self.machine);
            let source = format!("configuration space of {drive} ({address}) on {machine}");
            write_parameter(text, name, unit, &numbers[index].to_string(), "", &source);
        }
    }
}

/// Parameters that are fitted to the same rows.
struct FitGroup<'a> {
    calibration: &'a Calibration,
    text: &'a mut String,
    /// Direction and order, in words.
    done: String,
    rows: &'a Rows,
}

impl FitGroup<'_> {
    fn write_commands(&mut self, name: &str, value: f64, row: &RateRow) {
        self.write(name, "count", [row.least / row.block, value, row.most / row.block], row);
    }

    /// A parameter with the range of its repeats, widened to the mean held-out error.
    fn write(&mut self, name: &str, unit: &str, [lo, value, hi]: [f64; 3], row: &RateRow) {
        let error = self.rows.mean_error();
        let (lo, hi) = (lo.min(value / (1.0 + error)), hi.max(value * (1.0 + error)));
        let Calibration { machine, is_emulated, .. } = self.calibration;
        let emulated = if *is_emulated { "; emulated: semantics, not speed" } else { "" };
        let source = format!(
            "calibration on {machine}: {} of {:.0} bytes at depth {:.0}; mean error of held-out rows {:.1} %{emulated}",
            self.done,
            row.block,
            row.depth,
            error * 100.0
        );
        let range = format!("lo = {lo:e}\nhi = {hi:e}\n");
        write_parameter(self.text, name, unit, &format!("{value:e}"), &range, &source);
    }
}

/// The held-out errors of a group, and each row that the model does not fit.
fn write_errors(text: &mut String, drive: &str, done: &str, rows: &Rows) {
    let (drive, count) = (one_line(drive), rows.held_out.len());
    let [mean, worst] = [rows.mean_error(), rows.worst_error()].map(|error| error * 100.0);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n# {drive}, {done}: {count} rows held out, mean error {mean:.1} %, worst {worst:.1} %."
    );
    for row in rows.misfits() {
        let (block, depth, error) = (row.block, row.depth, row.error() * 100.0);
        let _ = writeln!(
            text,
            "# Does not fit: {block:.0} bytes at depth {depth:.0}, predicted {error:+.0} %."
        );
    }
}

fn write_parameter(text: &mut String, name: &str, unit: &str, value: &str, range: &str, of: &str) {
    let _ = write!(text, "\n[parameter.{}]\nvalue = {value}\n{range}", quoted(name));
    let _ = writeln!(text, "unit = {}", quoted(unit));
    let _ = writeln!(text, "from = \"measured-elsewhere\"\nsource = {}", quoted(of));
}

/// The name of a drive in keys, where `drive` alone stands for any drive.
fn owner(drive: &str) -> &str {
    if drive == "drive" { "/dev/drive" } else { drive }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Replaces control characters: a name with a line end could forge lines of the file.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
