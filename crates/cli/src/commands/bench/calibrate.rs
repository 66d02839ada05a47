//! Parameters of a drive from the rows that `bench calibrate` measured.

use peerlane_results::BenchRecord;
use peerlane_sim::calibrate::{Calibration, LARGE_ERROR, Rows, calibrate};

use crate::args::CalibrateArgs;
use crate::error::{Failure, Tried};
use crate::output_file::{OutputFile, OutputKind};
use crate::printer::Printer;
use crate::render;

/// Shows the parameters with their error, and writes them to the file that `--parameters` names.
pub(super) fn learn(
    args: &CalibrateArgs,
    record: &BenchRecord,
    printer: Printer,
) -> Result<(), Failure> {
    let found = calibrate(record).map_err(Tried::to(format!("calibrate {}", args.drive)))?;
    for warning in large_errors(&found) {
        printer.warning(&warning);
    }
    // The parameters took minutes: where nobody can read them, the file is still written.
    let shown = if printer.is_json() { Ok(()) } else { printer.text(&render::calibration(&found)) };
    if let Some(file) = &args.parameters {
        OutputFile::at(file, OutputKind::New)?.write(found.to_toml().as_bytes())?;
        printer.note(&format!("wrote {}", file.display()));
    }
    shown
}

/// A warning for each group of rows whose mean held-out error is large.
fn large_errors(found: &Calibration) -> Vec<String> {
    let groups = found.sides.iter().flat_map(|side| {
        let random = side.random.as_ref().map(|random| ("random ", &random.rows));
        let kinds = [("", &side.rows)].into_iter().chain(random);
        kinds.map(|(order, rows)| (format!("{}, {order}{}", side.drive, side.op.name()), rows))
    });
    groups
        .filter(|(_, rows)| rows.mean_error() >= LARGE_ERROR)
        .map(|(name, rows)| warning(&name, rows))
        .collect()
}

fn warning(name: &str, rows: &Rows) -> String {
    format!(
        "{name}: the parameters predict rows held out {:.0} % off in the mean, {:.0} % at worst; the model does not fit \
         this drive, or the runs were disturbed: use the ranges, or calibrate again on an idle machine",
        rows.mean_error() * 100.0,
        rows.worst_error() * 100.0
    )
}

#[cfg(test)]
mod tests {
    use peerlane_sim::calibrate::RateRow;

    use super::*;

    #[test]
    fn warnings_state_held_out_errors() {
        let row = RateRow {
            block: 4096.0,
            depth: 1.0,
            measured: 1e9,
            least: 1e9,
            most: 1e9,
            predicted: 1.35e9,
        };
        let rows = Rows { fitted: Vec::new(), held_out: vec![row] };
        let text = warning("d, read", &rows);
        assert!(
            text.starts_with("d, read: the parameters predict rows held out 35 % off"),
            "{text}"
        );
    }
}
