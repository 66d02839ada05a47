//! `peerlane export`: serves a drive to other machines until a signal.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use peerlane_engine::MonotonicClock;
use peerlane_engine::export::{HeldDrive, HoldError, hold};
use peerlane_fabric::Fabric;
use peerlane_memory::provider::PROVIDERS;
use peerlane_nvmet::{
    AllowedHosts, ExportRequest, Listen, NSID, NotedExport, Nqn, PayloadMemory, ServeError,
};
use peerlane_results::{
    EXPORT_SCHEMA, EXPORTS_SCHEMA, ExportList, ExportListen, ExportRecord, MemoryKind, OwnExport,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use signal_hook::low_level::pipe;

use super::copy::seed;
use crate::args::ExportArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{render, signals};

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
        let error = "cannot listen: --listen names no address of this machine";
        Failure::new(error).hint("`ip address` lists them".to_owned())
    })?;
    if args.has_idle_address() {
        printer.warning("--listen changes nothing with --transport loop");
    }
    let fabric =
        Fabric::discover_quietly(Path::new(ROOT)).map_err(Tried::to("read this machine"))?;
    let memory = memory_of(&fabric, args.memory())?;
    let typed = args.drive.as_deref().unwrap_or_default();
    let held = hold(&fabric, typed, &MonotonicClock::start(), args.deadline(), seed());
    let held = held.map_err(|error: HoldError| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let request = ExportRequest {
        subsystem: match &args.name {
            Some(name) => name.clone(),
            None => default_name(&held)?,
        },
        device: held.path.clone(),
        uuid: held.uuid.clone(),
        memory,
        listen,
        hosts: args.hosts(),
    };
    let served = peerlane_nvmet::serve(Path::new(ROOT), &request).map_err(failure)?;
    let record = record(&fabric, &held, &request);
    let shown = if printer.is_json() {
        printer.object(&record)
    } else {
        printer.data(&render::export(&record))
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

/// Resolves a memory as `--via` names it; the kernel takes PCI addresses.
fn memory_of(fabric: &Fabric, memory: PayloadMemory) -> Result<PayloadMemory, Failure> {
    let PayloadMemory::P2p(typed) = memory else { return Ok(memory) };
    let function = PROVIDERS.find(fabric, &typed).map(|id| fabric.function(id));
    let Some(function) = function else {
        let hint = "`peerlane topo` lists memories: --p2pmem cmb:nvme0, auto or off".to_owned();
        return Err(Failure::new(format!("cannot find the memory {typed}")).hint(hint));
    };
    match function.address.filter(|_| function.p2pmem.is_some()) {
        Some(address) => Ok(PayloadMemory::P2p(address.to_string())),
        None => {
            let error = format!("cannot use {typed}: {} has no P2P memory", function.name);
            Err(Failure::new(error).hint("`peerlane topo` lists memories".to_owned()))
        }
    }
}

/// The UUID-based form of an NQN (NVM Express Base Specification, NVMe Qualified Names).
fn default_name(held: &HeldDrive) -> Result<Nqn, Failure> {
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", held.uuid);
    Nqn::new(&name).map_err(Failure::new)
}

fn record(fabric: &Fabric, held: &HeldDrive, request: &ExportRequest) -> ExportRecord {
    let address = request.listen.address();
    let transport = request.listen.transport();
    let at = address.map_or_else(String::new, |address| {
        format!(" --traddr {} --trsvcid {}", address.ip(), address.port())
    });
    let (memory, reason) = match (&request.memory, request.listen) {
        (PayloadMemory::Host, Listen::Tcp(_)) => {
            (MemoryKind::Host, "over tcp payload goes through host memory on both sides".to_owned())
        }
        (PayloadMemory::Host, Listen::Loop) => {
            (MemoryKind::Host, "by loop payload goes through host memory".to_owned())
        }
        (PayloadMemory::Host, Listen::Rdma(_)) => (MemoryKind::Host, "asked for".to_owned()),
        (PayloadMemory::AnyP2p, _) => {
            let reason = "the kernel chose P2P memory; it does not say which".to_owned();
            (MemoryKind::P2pmem, reason)
        }
        (PayloadMemory::P2p(address), _) => {
            (MemoryKind::P2pmem, format!("{address} was asked for"))
        }
    };
    ExportRecord {
        schema: EXPORT_SCHEMA.to_owned(),
        machine: peerlane_engine::machine_of(fabric),
        drive: held.facts.clone(),
        subsystem: request.subsystem.to_string(),
        namespace: NSID,
        uuid: request.uuid.clone(),
        listen: ExportListen {
            transport: transport.to_owned(),
            address: address.map(|address| address.ip().to_string()),
            port: address.map(|address| address.port()),
        },
        hosts: match &request.hosts {
            AllowedHosts::Any => None,
            AllowedHosts::These(hosts) => Some(hosts.iter().map(ToString::to_string).collect()),
        },
        memory,
        reason,
        connect: format!("nvme connect --transport {transport}{at} --nqn {}", request.subsystem),
        warnings: held.warnings.clone(),
    }
}

fn list(printer: Printer) -> Result<Exit, Failure> {
    let noted = peerlane_nvmet::noted(Path::new(ROOT)).map_err(failure)?;
    let exports = noted.into_iter().map(|noted: NotedExport| OwnExport {
        subsystem: noted.subsystem,
        drive: noted.device.display().to_string(),
        listen: noted.listen,
        process: noted.process,
    });
    let list = ExportList { schema: EXPORTS_SCHEMA.to_owned(), exports: exports.collect() };
    if printer.is_json() {
        printer.object(&list)?;
    } else {
        printer.data(&render::exports(&list))?;
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

/// Reason for the end of an export.
enum EndReason {
    Signal,
    DriveGone,
}

/// Waits for the end of an export.
struct EndWatch {
    signal: UnixStream,
}

impl EndWatch {
    fn new() -> Result<Self, Failure> {
        let listened = UnixStream::pair().and_then(|(signal, told)| {
            for number in signals::heeded() {
                pipe::register(number, told.try_clone()?)?;
            }
            Ok(Self { signal })
        });
        listened.map_err(Tried::to("listen for signals"))
    }

    /// Waits for a signal, or for the removal of the drive's node.
    fn wait_for(&self, node: &Path) -> Result<EndReason, Failure> {
        self.wait(node).map_err(Tried::to(format!("watch {}", node.display())))
    }

    fn wait(&self, node: &Path) -> io::Result<EndReason> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let nodes = inotify::init(flags)?;
        let folder = node.parent().unwrap_or(Path::new("/dev"));
        inotify::add_watch(&nodes, folder, inotify::WatchFlags::DELETE)?;
        loop {
            if !node.exists() {
                return Ok(EndReason::DriveGone);
            }
            let ends =
                &mut [PollFd::new(&self.signal, PollFlags::IN), PollFd::new(&nodes, PollFlags::IN)];
            match poll(ends, None) {
                Err(Errno::INTR) | Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !ends[0].revents().is_empty() {
                return Ok(EndReason::Signal);
            }
            // The loop looks for the node itself.
            let _ = rustix::io::read(nodes.as_fd(), &mut [0; 4096]);
        }
    }
}
