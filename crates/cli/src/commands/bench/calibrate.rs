//! Parameters of a drive out of the rows that were measured on it.

use peerlane_results::BenchRecord;
use peerlane_sim::calibrate::calibrate;

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
    // First what took a quarter of an hour; then what a full disk may refuse, and neither for want of the other.
    let shown = if printer.is_json() { Ok(()) } else { printer.data(&render::calibration(&found)) };
    if let Some(file) = &args.parameters {
        OutputFile::at(file, Kind::New)?.write(found.to_toml().as_bytes())?;
        printer.note(&format!("wrote {}", file.display()));
    }
    shown
}
