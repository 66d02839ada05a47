//! Parameters of drives, with the error of their predictions.

use peerlane_results::{DevicePackets, Packets};
use peerlane_sim::calibrate::{Calibration, Rows, SideCalibration};
use peerlane_units::{ByteRate, Bytes};

use super::LabelSheet;

/// The parameters of each direction, and their error on rows held out of the fit.
pub(crate) fn calibration(found: &Calibration) -> String {
    let mut sheet = LabelSheet::default();
    found.sides.iter().for_each(|found| side(&mut sheet, found));
    found.packets.iter().for_each(|found| packets(&mut sheet, found));
    if found.is_emulated {
        sheet.line("emulated: semantics, not speed");
    }
    sheet.0
}

fn side(sheet: &mut LabelSheet, found: &SideCalibration) {
    let (drive, op) = (&found.drive, found.op.name());
    sheet.line(format_args!("{drive}, {op}"));
    for &(block, time) in found.side.latency.points() {
        sheet.row("alone", format_args!("{:.1} us for {}", time * 1e6, Bytes(whole(block))));
    }
    let (rate, commands) = (ByteRate(whole(found.side.rate)), found.side.commands);
    sheet.row("at most", format_args!("{rate}, {commands:.0} commands a second"));
    errors(sheet, &found.rows);
    if let Some(random) = &found.random {
        sheet.line(format_args!("{drive}, random {op}"));
        sheet.row("at most", format_args!("{:.0} commands a second", random.commands));
        errors(sheet, &random.rows);
    }
}

fn errors(sheet: &mut LabelSheet, rows: &Rows) {
    let (held_out, fitted) = (rows.held_out.len(), rows.fitted.len());
    let [mean, worst] = [rows.mean_error(), rows.worst_error()].map(|error| error * 100.0);
    sheet.row(
        "error",
        format_args!(
            "{mean:.1} % in the mean, {worst:.1} % at worst, on {held_out} rows held out; fitted on {fitted}"
        ),
    );
    for row in rows.misfits() {
        let (block, depth, error) = (Bytes(whole(row.block)), row.depth, row.error() * 100.0);
        sheet.row("no fit", format_args!("{block} at depth {depth}: predicted {error:+.0} %"));
    }
}

fn packets(sheet: &mut LabelSheet, found: &DevicePackets) {
    sheet.line(format_args!("{}, packets", found.device));
    match (found.packets, &found.reason) {
        (Some(Packets { payload, request, tags }), _) => {
            let values = format!("payload {payload}, read request {request}, {tags} tags");
            sheet.row("set to", values);
        }
        (None, Some(reason)) => sheet.row("not read", reason),
        (None, None) => {}
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and rates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
