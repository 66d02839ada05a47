//! Parameters of a drive, the host and memories out of the rows that were measured.

use peerlane_results::BenchRecord;
use peerlane_sim::calibrate::{Calibration, LARGE_ERROR, Rows, calibrate};

use crate::args::CalibrateArgs;
use crate::error::{Failure, Tried};
use crate::output_file::{Kind, OutputFile};
use crate::printer::Printer;
use crate::render;

/// Writes the parameters where a file is named, and says how far they are to be believed.
pub(super) fn learn(
    args: &CalibrateArgs,
    record: &BenchRecord,
    printer: Printer,
) -> Result<(), Failure> {
    let found = calibrate(record).map_err(Tried::to(format!("calibrate {}", args.drive)))?;
    for warning in large_errors(&found) {
        printer.warning(&warning);
    }
    // First what took a quarter of an hour; then what a full disk may refuse, and neither for want of the other.
    let shown = if printer.is_json() { Ok(()) } else { printer.data(&render::calibration(&found)) };
    if let Some(file) = &args.parameters {
        OutputFile::at(file, Kind::New)?.write(found.to_toml().as_bytes())?;
        printer.note(&format!("wrote {}", file.display()));
    }
    shown
}

/// A warning for each kind of rows that the parameters say little of.
fn large_errors(found: &Calibration) -> Vec<String> {
    groups(found)
        .filter(|(_, rows)| rows.mean_error() >= LARGE_ERROR)
        .map(|(what, rows)| {
            format!(
                "{what}: predictions by these parameters are off by {:.0} % in the mean and {:.0} % at worst on \
                 what was measured beside them: it behaves otherwise than the model has it, or was disturbed; \
                 ranges are as wide as that mean",
                rows.mean_error() * 100.0,
                rows.worst_error() * 100.0
            )
        })
        .collect()
}

/// Everything that has rows held out.
fn groups(found: &Calibration) -> impl Iterator<Item = (String, &Rows)> {
    let of_sides = found.sides.iter().flat_map(|side| {
        let random = side.random.as_ref().map(|random| ("random ", &random.rows));
        let kinds = [("", &side.rows)].into_iter().chain(random);
        kinds.map(|(order, rows)| (format!("{}, {order}{}", side.drive, side.op.name()), rows))
    });
    let host = &found.host;
    let copy = host.copy.as_ref().map(|copy| ("host, copies by one core".to_owned(), &copy.rows));
    let fault = host.fault.as_ref().map(|fault| ("host, maps".to_owned(), &fault.rows));
    let cached = host.cached.iter().map(|one| {
        let what = format!("{}, read by {}", one.drive, one.path);
        (what, &one.rows)
    });
    let memories = found.memories.iter().map(|one| {
        let what = format!("{}, {}", one.drive, one.way());
        (what, &one.rows)
    });
    of_sides.chain(copy).chain(fault).chain(cached).chain(memories)
}

#[cfg(test)]
mod tests {
    use peerlane_sim::calibrate::{CopyCalibration, HostCalibration, Op, Row, SideCalibration};
    use peerlane_sim::devices::drive::Side;
    use peerlane_sim::devices::table::Table;

    use super::*;

    #[test]
    fn a_large_error_of_rows_held_out_is_warned_of() {
        let of = |predicted: f64| {
            let row =
                Row { block: 4096.0, depth: 1.0, measured: 1e9, least: 1e9, most: 1e9, predicted };
            let latency = Table::line(80e-6, 2.5e9);
            let side = Side { latency, rate: 1e9, commands: 1e5 };
            let rows = Rows { fitted: Vec::new(), held_out: vec![row] };
            let (drive, op) = ("d".to_owned(), Op::Read);
            let copy = Some(CopyCalibration { rate: 1e9, rows: rows.clone() });
            let sides = vec![SideCalibration { drive, op, side, rows, random: None }];
            let host = HostCalibration { copy, ..HostCalibration::default() };
            large_errors(&Calibration { sides, host, ..Calibration::default() })
        };
        assert_eq!(of(1.19e9), Vec::<String>::new());
        let off = "predictions by these parameters are off by 35 %";
        let [read, copy] = &of(1.35e9)[..] else { panic!("both are off") };
        assert!(read.starts_with(&format!("d, read: {off}")), "{read}");
        assert!(copy.starts_with(&format!("host, copies by one core: {off}")), "{copy}");
    }
}
