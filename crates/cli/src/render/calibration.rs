//! Parameters of drives, with the error of what they predict.

use peerlane_sim::calibrate::{Calibration, Rows, SideCalibration};
use peerlane_units::{ByteRate, Bytes};

use super::Sheet;

/// What was learnt, and how well it says what it was not learnt from.
pub(crate) fn calibration(found: &Calibration) -> String {
    let mut sheet = Sheet::default();
    for side in &found.sides {
        one(&mut sheet, side);
    }
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
    let rate = ByteRate(whole(side.side.rate));
    sheet.row("at most", format_args!("{rate}, {:.0} commands a second", side.side.commands));
    error(sheet, &side.rows);
    if let Some(random) = &side.random {
        sheet.line(format_args!("{}, random {}", side.drive, side.op.name()));
        sheet.row("at most", format_args!("{:.0} commands a second", random.commands));
        error(sheet, &random.rows);
    }
}

fn error(sheet: &mut Sheet, rows: &Rows) {
    sheet.row(
        "error",
        format_args!(
            "{:.1} % in the mean, {:.1} % at worst, on {} rows held out; {} made the parameters",
            rows.mean_error() * 100.0,
            rows.worst_error() * 100.0,
            rows.held_out.len(),
            rows.fitted.len()
        ),
    );
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and rates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
