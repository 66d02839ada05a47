//! From arguments to a booted machine.

use std::ffi::OsString;

use peerlane_lab::{BootOptions, CommandOutcome, LabError, find_kernel, find_qemu};

use crate::args::{FabricArgs, MachineArgs};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, signals};

/// Status that a shell reports for a command ended by SIGPIPE (13).
const BROKEN_PIPE: i32 = 128 + 13;

/// Options that boot the machine and run `command` in it; nothing is recorded and nothing comes
/// back yet.
///
/// # Errors
/// When the machine, a kernel or QEMU cannot be found.
pub(super) fn options(
    args: &MachineArgs,
    command: Vec<OsString>,
    printer: Printer,
) -> Result<BootOptions, Failure> {
    let wanted = FabricArgs { machine: Some(args.machine.clone()) };
    let machine = machines::fabric_quietly(&wanted, printer)?;
    Ok(BootOptions {
        machine,
        drives: args.drives.iter().map(|drive| (drive.name.clone(), drive.image.clone())).collect(),
        dma: None,
        out: None,
        modules: args.modules.clone(),
        programs: args.programs.clone(),
        command,
        shell: false,
        kernel: find_kernel(args.kernel.as_deref()).map_err(failure)?,
        qemu: find_qemu().map_err(failure)?,
        program: std::env::current_exe().map_err(Tried::to("find the running program"))?,
        events: Vec::new(),
        workers: Vec::new(),
        network: args.network.clone(),
        timeout: BootOptions::DEFAULT_TIMEOUT,
        console: None,
        output: None,
        interrupt: signals::stop_flag()?,
    })
}

/// Boots, and passes on the output of the command.
///
/// # Errors
/// When the machine does not boot, or its command does not run to its end.
pub(super) fn run(options: &BootOptions, printer: Printer) -> Result<CommandOutcome, Failure> {
    let stdout = printer.pass_on_stdout().map_err(Tried::to("pass on standard output"))?;
    let stderr = printer.pass_on_stderr().map_err(Tried::to("pass on standard error"))?;
    match peerlane_lab::run(options, Box::new(stdout), Box::new(stderr)) {
        Err(LabError::ReaderGone) => Ok(CommandOutcome {
            status: BROKEN_PIPE,
            dma: None,
            missed: Vec::new(),
            early_workers: Vec::new(),
        }),
        result => result.map_err(failure),
    }
}

/// The exit status of a command in the guest.
pub(super) fn exit(status: i32) -> Exit {
    match u8::try_from(status) {
        Ok(0) => Exit::Done,
        Ok(status) => Exit::Command(status),
        Err(_) => Exit::Failed,
    }
}

fn failure(error: LabError) -> Failure {
    let exit = match error.end() {
        LabError::Interrupted => Exit::Interrupted,
        LabError::PowerCut { .. } => Exit::PowerCut,
        LabError::MissingTool { .. } | LabError::MissingKernel { .. } => Exit::NotPossible,
        _ => Exit::Failed,
    };
    let hint = error.hint();
    Failure::new(error).hint(hint).exit(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_run_outranks_unread_output() {
        let unread = |end: Option<LabError>| {
            failure(LabError::Unread { stdout: 7, stderr: 0, end: end.map(Box::new) })
        };
        let interrupted = unread(Some(LabError::Interrupted));
        assert_eq!(interrupted.status(), Exit::Interrupted);
        let chain: Vec<String> = interrupted.chain().collect();
        let taken =
            "the command's output was not read to its end: at least 7 bytes of standard output";
        assert_eq!(chain, [taken, "lab run was interrupted"]);
        assert_eq!(unread(None).status(), Exit::Failed);
        let cut = unread(Some(LabError::PowerCut { moment: "half".to_owned() }));
        assert_eq!(cut.status(), Exit::PowerCut);
    }
}
