//! `peerlane export`: serves a drive to other machines until a signal.

mod end_watch;
mod memory;

use std::path::Path;

use peerlane_engine::MonotonicClock;
use peerlane_engine::export::{HeldDrive, HoldError, hold};
use peerlane_fabric::Fabric;
use peerlane_nvmet::{AllowedHosts, ExportRequest, Listen, NSID, NotedExport, Nqn, ServeError};
use peerlane_results::{Export, ExportRecord, ServedExport};

use super::copy::seed;
use crate::args::ExportArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;
use end_watch::{EndReason, EndWatch};
use memory::MemoryPlan;

const ROOT: &str = "/";

/// Exports a drive and waits, or lists or removes exports.
///
/// # Errors
/// When the drive is in use or the kernel refuses; nothing is left then.
pub(crate) fn run(args: &ExportArgs, printer: Printer) -> Result<Exit, Failure> {
    if let Some(subsystem) = &args.remove {
        let removed = peerlane_nvmet::remove(Path::new(ROOT), subsystem).map_err(failure)?;
        printer.note(&format!(
            "removed {}, the export of {}",
            removed.subsystem,
            removed.device.display()
        ));
        return Ok(Exit::Done);
    }
    if args.list {
        return list(printer);
    }
    // From here on a signal does not end the program: every step is undone first.
    let end = EndWatch::new()?;
    for own in peerlane_nvmet::sweep(Path::new(ROOT)).map_err(failure)? {
        printer.note(&format!(
            "removed {}, the export of {} that a killed program left",
            own.subsystem,
            own.device.display()
        ));
    }
    serve(args, &end, printer)
}

fn serve(args: &ExportArgs, end: &EndWatch, printer: Printer) -> Result<Exit, Failure> {
    let listen = args.listen().ok_or_else(|| {
        let error = format!("`--listen ADDRESS` is needed for {}", args.transport);
        Failure::new(error).hint("`ip address` lists the addresses of this machine".to_owned())
    })?;
    if args.has_idle_address() {
        printer.warning("--listen changes nothing with --transport loop");
    }
    let fabric =
        Fabric::discover_quietly(Path::new(ROOT)).map_err(Tried::to("read this machine"))?;
    if let Listen::Rdma(address) = listen {
        if let Some(port) = peerlane_reach::unusable_port(&fabric, address.ip()) {
            printer.warning(&port);
        }
    }
    let typed = args.drive.as_deref().unwrap_or_default();
    let held = hold(&fabric, typed, &MonotonicClock::start(), args.deadline(), seed());
    let held = held.map_err(|error: HoldError| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let memory = MemoryPlan::new(&fabric, held.function, &args.memory(), listen)?;
    let request = ExportRequest {
        subsystem: match &args.name {
            Some(name) => name.clone(),
            None => default_name(&held)?,
        },
        device: held.path.clone(),
        uuid: held.uuid.clone(),
        memory: memory.memory.clone(),
        listen,
        hosts: args.hosts(),
    };
    let served = peerlane_nvmet::serve(Path::new(ROOT), &request).map_err(failure)?;
    let record = record(&fabric, &held, &request, memory);
    let shown = if printer.is_json() {
        printer.object(&record)
    } else {
        printer.text(&render::exports(&record))
    };
    let ended = shown.and_then(|()| end.wait_for(&held.path));
    served.end().map_err(failure)?;
    match ended? {
        EndReason::Signal => {
            printer.note("the export is undone");
            Ok(Exit::Done)
        }
        EndReason::DriveGone => {
            let error = format!("{} went away; the export is undone", held.path.display());
            Err(Failure::new(error).hint("dmesg | tail".to_owned()))
        }
    }
}

/// The UUID-based form of an NQN (NVM Express Base Specification, NVMe Qualified Names).
fn default_name(held: &HeldDrive) -> Result<Nqn, Failure> {
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", held.uuid);
    Nqn::new(&name).map_err(Failure::new)
}

fn record(
    fabric: &Fabric,
    held: &HeldDrive,
    request: &ExportRequest,
    plan: MemoryPlan,
) -> ExportRecord {
    let address = request.listen.address();
    let transport = request.listen.transport();
    let subsystem = &request.subsystem;
    let at = address.map_or_else(String::new, |address| {
        format!(" --traddr {} --trsvcid {}", address.ip(), address.port())
    });
    let option = if transport == "rdma" { "?transport=rdma" } else { "" };
    let served = ServedExport {
        machine: fabric.into(),
        drive: held.facts.clone(),
        namespace: NSID,
        uuid: request.uuid.clone(),
        hosts: match &request.hosts {
            AllowedHosts::Any => None,
            AllowedHosts::These(hosts) => Some(hosts.iter().map(ToString::to_string).collect()),
        },
        memory: plan.kind(),
        reason: plan.reason,
        rdma_device: plan.rdma_device.map(|device| device.name),
        memories: plan.memories,
        remote_name: address.map(|address| format!("nvme://{address}/{subsystem}{option}")),
        connect: format!("nvme connect --transport {transport}{at} --nqn {subsystem}"),
        warnings: held.warnings.clone(),
    };
    ExportRecord::new(vec![Export {
        subsystem: subsystem.to_string(),
        drive: held.path.display().to_string(),
        listen: request.listen.to_string(),
        process: Some(std::process::id()),
        served: Some(served),
    }])
}

fn list(printer: Printer) -> Result<Exit, Failure> {
    let noted = peerlane_nvmet::noted(Path::new(ROOT)).map_err(failure)?;
    let exports = noted.into_iter().map(|noted: NotedExport| Export {
        subsystem: noted.subsystem,
        drive: noted.device.display().to_string(),
        listen: noted.listen,
        process: noted.process,
        served: None,
    });
    let list = ExportRecord::new(exports.collect());
    if printer.is_json() {
        printer.object(&list)?;
    } else {
        printer.text(&render::exports(&list))?;
    }
    Ok(Exit::Done)
}

fn failure(error: ServeError) -> Failure {
    let hint = error.hint();
    let exit = match error {
        ServeError::NoTarget | ServeError::NoRdma { .. } => Exit::NotPossible,
        _ => Exit::Failed,
    };
    Failure::new(error).hint(hint).exit(exit)
}
