//! Parameters of drives, processor and memories, with the error of what they predict.

use peerlane_results::{DevicePackets, Packets};
use peerlane_sim::calibrate::{
    Calibration, HostCalibration, MemoryCalibration, Rows, SideCalibration, TrafficCalibration,
};
use peerlane_units::{ByteRate, Bytes};

use super::Sheet;

/// What was learnt, and how well it says what it was not learnt from.
pub(crate) fn calibration(found: &Calibration) -> String {
    let mut sheet = Sheet::default();
    found.sides.iter().for_each(|side| one(&mut sheet, side));
    host(&mut sheet, &found.host);
    found.memories.iter().for_each(|found| memory(&mut sheet, found));
    found.packets.iter().for_each(|found| packets(&mut sheet, found));
    traffic(&mut sheet, &found.traffic);
    if found.is_emulated {
        sheet.line("emulated: semantics, not speed");
    }
    sheet.0
}

fn one(sheet: &mut Sheet, side: &SideCalibration) {
    sheet.line(format_args!("{}, {}", side.drive, side.op.name()));
    for &(block, time) in side.side.latency.points() {
        sheet.row("alone", format_args!("{:.1} us for {}", time * 1e6, Bytes(whole(block))));
    }
    let commands = side.side.commands;
    sheet.row("at most", format_args!("{}, {commands:.0} commands a second", rate(side.side.rate)));
    error(sheet, &side.rows);
    if let Some(random) = &side.random {
        sheet.line(format_args!("{}, random {}", side.drive, side.op.name()));
        sheet.row("at most", format_args!("{:.0} commands a second", random.commands));
        error(sheet, &random.rows);
    }
}

fn host(sheet: &mut Sheet, host: &HostCalibration) {
    if let Some(copy) = &host.copy {
        sheet.line("host, copies by one core");
        sheet.row("at most", rate(copy.rate));
        error(sheet, &copy.rows);
    }
    if let Some(found) = &host.fault {
        sheet.line("host, maps of a file in memory");
        let window = Bytes(whole(found.window));
        sheet.row("a fault", format_args!("{:.0} ns for {window}", found.fault * 1e9));
        error(sheet, &found.rows);
    }
    for cached in &host.cached {
        sheet.line(format_args!("{}, read by {}", cached.drive, cached.path));
        error(sheet, &cached.rows);
    }
}

fn memory(sheet: &mut Sheet, found: &MemoryCalibration) {
    sheet.line(format_args!("{}, {}", found.drive, found.way()));
    match found.rate {
        Some(found) => sheet.row("at most", rate(found)),
        None => sheet.row("at most", "as the drive: nothing was learnt of the memory"),
    }
    error(sheet, &found.rows);
}

fn packets(sheet: &mut Sheet, found: &DevicePackets) {
    sheet.line(format_args!("{}, packets", found.device));
    match (found.packets, &found.reason) {
        (Some(Packets { payload, request, tags }), _) => {
            let said = format!("payload {payload}, read request {request}, {tags} tags");
            sheet.row("set to", said);
        }
        (None, Some(reason)) => sheet.row("not read", reason),
        (None, None) => {}
    }
}

fn traffic(sheet: &mut Sheet, found: &TrafficCalibration) {
    if found.rows.is_empty() && found.not_counted.is_none() {
        return;
    }
    sheet.line("host memory, bytes for each byte of payload");
    for row in &found.rows {
        let (least, most) = (row.predicted.least, row.predicted.most);
        let said =
            format!("{:.2} for {}; the model says {least} to {most}", row.measured, row.what);
        sheet.row("counted", said);
    }
    if let Some(reason) = &found.not_counted {
        sheet.row("not read", reason);
    }
}

fn rate(found: f64) -> ByteRate {
    ByteRate(whole(found))
}

fn error(sheet: &mut Sheet, rows: &Rows) {
    let fitted = match rows.fitted.len() {
        0 => "other rows".to_owned(),
        number => number.to_string(),
    };
    sheet.row(
        "error",
        format_args!(
            "{:.1} % in the mean, {:.1} % at worst, on {} rows held out; {fitted} made the parameters",
            rows.mean_error() * 100.0,
            rows.worst_error() * 100.0,
            rows.held_out.len()
        ),
    );
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and rates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
