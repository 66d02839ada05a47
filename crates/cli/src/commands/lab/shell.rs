//! `peerlane lab shell`: a shell in a booted machine.

use peerlane_lab::BootOptions;
use peerlane_units::Nanos;

use super::boot;
use crate::args::ShellArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Time after which a forgotten machine is stopped.
const A_DAY: Nanos = Nanos::seconds(86_400);

/// Boots, and connects this terminal with a shell until it is left.
///
/// # Errors
/// When the machine does not boot.
pub(super) fn run(args: &ShellArgs, printer: Printer) -> Result<Exit, Failure> {
    let options = BootOptions {
        shell: true,
        timeout: A_DAY,
        ..boot::options(&args.machine, Vec::new(), printer)?
    };
    printer.note("drives are /dev/lab/NAME; `exit` powers the machine off");
    Ok(boot::exit(boot::run(&options, printer)?.status))
}
