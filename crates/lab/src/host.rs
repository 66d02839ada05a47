//! One lab run on the host: prepare, boot, pass streams on, collect the results.
//!
//! Everything the run makes lies in one temporary folder that goes away with it. QEMU never outlives
//! the run: it is killed on every way out, and by the kernel when this process dies.

mod background;
mod moments;
mod monitor;
mod out;
mod outlet;
mod process;
mod session;
mod workers;

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use peerlane_fabric::{Fabric, IommuMode};
use peerlane_units::Nanos;

use crate::cards::{self, LabCard};
use crate::drives::{self, Drive};
use crate::event::{self, HostEvent};
use crate::protocol::{ExpectedCard, ExpectedDrive, GuestJob};
use crate::recorder::{self, DmaReport};
use crate::tools::{self, QemuFeatures};
use crate::{
    KernelImage, LabError, LabNetwork, initramfs, machine, modules, network, protocol, vmlinux,
};
use moments::Moments;
pub use out::unpack_archive;
use outlet::Outlets;
pub use outlet::Output;
use process::Qemu;
use session::{GuestEnd, GuestSession};
use workers::CardWorkers;

/// The machine to boot and the command to run in it.
#[derive(Debug, Clone)]
pub struct BootOptions {
    /// The machine.
    pub machine: Fabric,
    /// Raw images by drive name, and files that become the memory of cards by the card's; the others get
    /// an empty one for this run.
    pub drives: Vec<(String, PathBuf)>,
    /// Path of the DMA report, which is recorded only when this is set.
    pub dma: Option<PathBuf>,
    /// Folder for the files that the command leaves in `$OUT`.
    pub out: Option<PathBuf>,
    /// Modules of the guest's kernel that are loaded before the command, in addition to the
    /// necessary ones; their dependencies come along.
    pub modules: Vec<String>,
    /// Programs of this machine, by path or by name, that the guest has in `/bin` with their shared
    /// libraries.
    pub programs: Vec<PathBuf>,
    /// Program and arguments; arguments of the program itself when its first word is not a program
    /// of the guest. Ignored for a shell.
    pub command: Vec<OsString>,
    /// An interactive shell on this terminal instead of the command.
    pub shell: bool,
    /// Kernel to boot, from [`crate::find_kernel`].
    pub kernel: KernelImage,
    /// QEMU, from [`crate::find_qemu`].
    pub qemu: PathBuf,
    /// The running program, which also runs in the guest.
    pub program: PathBuf,
    /// Events of the machine while the command runs.
    pub events: Vec<HostEvent>,
    /// Programs of the host by card: each gets the file of the card's memory as its argument, and a port
    /// of the guest, `/dev/virtio-ports/peerlane.worker.CARD`, as its standard input and output.
    pub workers: Vec<(String, PathBuf)>,
    /// A network with another machine.
    pub network: Option<LabNetwork>,
    /// Deadline of the whole run.
    pub timeout: Nanos,
    /// Output for the guest's console, written when the run is over.
    pub console: Option<Console>,
    /// Final reader of `stdout`: the run is over when it goes away.
    pub output: Option<Arc<OwnedFd>>,
    /// Set from elsewhere to end the run within a quarter of a second.
    pub interrupt: Arc<AtomicBool>,
}

impl BootOptions {
    /// Deadline of a run when nothing else is asked for.
    pub const DEFAULT_TIMEOUT: Nanos = Nanos::seconds(600);
}

/// Output for a guest's console.
#[derive(Debug, Clone)]
pub enum Console {
    /// A file that is not there yet.
    File(PathBuf),
    /// A stream that the caller has open: a terminal, a pipe.
    Stream {
        /// Its name for messages.
        name: PathBuf,
        /// The console is written to this.
        open: Arc<OwnedFd>,
    },
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Exit status of the command; 128 plus the signal's number when a signal ended it.
    pub status: i32,
    /// Report of the payload's routes, when [`BootOptions::dma`] asked for it.
    pub dma: Option<DmaReport>,
    /// Moments of [`BootOptions::events`] that never came.
    pub missed: Vec<String>,
    /// Programs of [`BootOptions::workers`] that ended before the command, by card.
    pub early_workers: Vec<(String, ExitStatus)>,
}

/// File names in the run's folder.
const CONSOLE: &str = "console.log";
const INITRAMFS: &str = "initramfs.cpio";
const EVENTS: &str = "trace.events";
const TRACE: &str = "trace.log";

/// Boots the machine, runs the command in it and waits for its end.
///
/// The command's output goes to `stdout` and `stderr` byte for byte as it comes. One that lets the writer wait holds the
/// command up, as a pipe does, and never the run: its deadline, its events and an interrupt are heeded.
///
/// # Errors
/// Any [`LabError`]; a command that ends with a status, whatever it is, is none.
pub fn run(
    options: &BootOptions,
    stdout: Output,
    stderr: Output,
) -> Result<CommandOutcome, LabError> {
    let deadline = Instant::now() + Duration::from(options.timeout);
    if options.command.is_empty() && !options.shell {
        return Err(LabError::Usage("no command was given to run in the lab".to_owned()));
    }
    out::check(options)?;
    let folder = tempfile::Builder::new()
        .prefix("peerlane-lab-")
        .tempdir()
        .map_err(LabError::io("create a folder in", std::env::temp_dir()))?;
    let folder = folder.path();
    let (memories, images) = cards::part(&options.machine, &options.drives);
    let drives = drives::prepare(&options.machine, &images, folder)?;
    let cards = cards::prepare(&options.machine, &memories, folder)?;
    let workers = CardWorkers::new(&options.workers, &cards)?;
    let (arguments, devices) = prepare(options, &drives, &cards, folder)?;
    tracing::debug!(qemu = %options.qemu.display(), ?arguments, "boot");

    let moments = Moments::new(&options.events, devices, folder);
    let outlets = Outlets::new(stdout, stderr, options.output.clone())?;
    let mut session = GuestSession::listen(folder, outlets, moments, workers)?;
    let mut qemu = Qemu::start(&options.qemu, &arguments, folder, options.shell)?;
    let ended = session.serve(&mut qemu, deadline, &options.interrupt);
    drop(qemu);
    options.network.iter().for_each(LabNetwork::clear);
    let passed = match &ended {
        Ok(_) => session.finish(deadline, &options.interrupt),
        Err(_) => Ok(()),
    };
    let kept = keep_console(options, folder, deadline);
    let status = ended.and_then(|ended| {
        status_of(ended, options, folder).map_err(|end| session.workers.explain(end))
    });
    let (status, passed) = match (status, passed) {
        (Err(end), Err(LabError::Unread { stdout, stderr, .. })) => {
            return Err(LabError::Unread { stdout, stderr, end: Some(Box::new(end)) });
        }
        (Err(end), _) => return Err(end),
        (Ok(status), passed) => (status, passed),
    };
    if let Some(target) = &options.out {
        out::unpack(&session.results, target)?;
    }
    let dma = match &options.dma {
        Some(target) => Some(report(options, &drives, &session, folder, target)?),
        None => None,
    };
    // Last, so that outputs that cannot be written cost nothing else.
    passed?;
    kept?;
    let (missed, early_workers) = (session.moments.missed(), session.workers.early_ends());
    Ok(CommandOutcome { status, dma, missed, early_workers })
}

/// Names of drives, with their names in QEMU.
type Devices = Vec<(String, String)>;

/// Writes the files that QEMU boots from and returns its arguments.
fn prepare(
    options: &BootOptions,
    drives: &[Drive],
    cards: &[LabCard],
    folder: &Path,
) -> Result<(Vec<String>, Devices), LabError> {
    const LONGEST_DRIVE_WAIT: u64 = 120;
    let features = QemuFeatures::ask(&options.qemu)?;
    let virtual_machine =
        machine::build(&options.machine, drives, cards, &options.kernel, features)?;
    let has_network = options.network.is_some();
    event::check(&options.events, &virtual_machine.devices, has_network)?;
    let mut wanted = options.modules.clone();
    wanted.extend(has_network.then(|| network::MODULE.to_owned()));
    let mut modules = modules::needed(&options.kernel, &wanted)?;
    if !cards.is_empty() {
        modules.push(modules::ram_bar(&options.kernel)?);
    }
    let job = GuestJob {
        machine: options.machine.name.clone(),
        command: options.command.clone(),
        shell: options.shell,
        drives: drives
            .iter()
            .map(|drive| ExpectedDrive {
                name: drive.name.clone(),
                namespace: drive.namespace.is_some(),
            })
            .collect(),
        cards: virtual_machine
            .cards
            .iter()
            .map(|(name, path)| ExpectedCard { name: name.clone(), path: path.clone() })
            .collect(),
        modules: modules.iter().map(|module| module.file_name.clone()).collect(),
        workers: options.workers.iter().map(|(card, _)| protocol::worker_port(card)).collect(),
        network: options.network.as_ref().map(|network| network.end),
        drive_wait_seconds: LONGEST_DRIVE_WAIT.min(options.timeout.0 / 1_000_000_000),
        host_wait_seconds: options.timeout.0.div_ceil(1_000_000_000),
    };
    let content = initramfs::BootContent {
        program: &options.program,
        busybox: &tools::find_busybox()?,
        programs: &options.programs,
        modules: &modules,
        job: &job,
    };
    initramfs::write(&content, &folder.join(INITRAMFS))?;

    let mut arguments = virtual_machine.arguments;
    let mut add = |words: [&str; 2]| arguments.extend(words.map(str::to_owned));
    let image = vmlinux::unpacked(&options.kernel.image, folder)?;
    let image = image.to_str().ok_or_else(|| LabError::NotAKernel {
        path: image.clone(),
        reason: "its path is not UTF-8".to_owned(),
    })?;
    add(["-kernel", image]);
    add(["-initrd", INITRAMFS]);
    add(["-append", &virtual_machine.kernel_parameters.join(" ")]);
    let console = if options.shell {
        format!("stdio,id=console,signal=off,logfile={CONSOLE}")
    } else {
        format!("file,id=console,path={CONSOLE}")
    };
    add(["-chardev", &console]);
    add(["-serial", "chardev:console"]);
    if options.dma.is_some() {
        let events = folder.join(EVENTS);
        let list: String = recorder::EVENTS.iter().map(|event| format!("{event}\n")).collect();
        fs::write(&events, list).map_err(LabError::io("write", &events))?;
        add(["-D", TRACE]);
        add(["-trace", &format!("events={EVENTS}")]);
    }
    arguments.extend(workers::arguments(&options.workers));
    if !options.events.is_empty() {
        arguments.extend(monitor::arguments());
    }
    if let Some(network) = &options.network {
        network.prepare(folder)?;
        arguments.extend(network.arguments());
    }
    Ok((arguments, virtual_machine.devices))
}

/// Writes the console to where it was asked to go, even of a run that has used up its time.
fn keep_console(options: &BootOptions, folder: &Path, deadline: Instant) -> Result<(), LabError> {
    const LEAST: Duration = Duration::from_secs(30);
    let Some(target) = &options.console else { return Ok(()) };
    let console = fs::read(folder.join(CONSOLE)).unwrap_or_default();
    let deadline = deadline.max(Instant::now() + LEAST);
    out::write_console(console, target, deadline, &options.interrupt)
}

/// The exit status, or why there is none.
fn status_of(ended: GuestEnd, options: &BootOptions, folder: &Path) -> Result<i32, LabError> {
    let console = || tail(&fs::read(folder.join(CONSOLE)).unwrap_or_default());
    match ended {
        GuestEnd::Exited(status) => Ok(status),
        GuestEnd::Failed(reason) => Err(LabError::GuestFailed { reason, console: console() }),
        GuestEnd::Died(reason) => Err(LabError::GuestDied { reason, console: console() }),
        GuestEnd::TimedOut => {
            Err(LabError::TimedOut { limit: options.timeout, console: console() })
        }
        GuestEnd::Interrupted => Err(LabError::Interrupted),
        GuestEnd::PowerCut(moment) => Err(LabError::PowerCut { moment }),
    }
}

/// The last lines of the console, indented, without control characters; before them the line with
/// the kernel's reason for its panic, since a long trace may follow that.
fn tail(console: &[u8]) -> String {
    const LINES: usize = 20;
    const LAST_WORDS: &str = "Kernel panic";
    let text = String::from_utf8_lossy(console);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "  (the console is empty)".to_owned();
    }
    let (before, last) = lines.split_at(lines.len().saturating_sub(LINES));
    let panic = before.iter().find(|line| line.contains(LAST_WORDS));
    let shown = panic.into_iter().chain(last).map(|line| {
        let plain: String = line.chars().filter(|c| !c.is_control()).collect();
        format!("  console: {plain}")
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Reads the trace and writes the report.
fn report(
    options: &BootOptions,
    drives: &[Drive],
    session: &GuestSession,
    folder: &Path,
    target: &Path,
) -> Result<DmaReport, LabError> {
    let path = folder.join(TRACE);
    let boot = options.machine.lab.clone().unwrap_or_default();
    let machine = recorder::TracedMachine {
        memory: boot.memory,
        is_translating: options.machine.iommu == IommuMode::Translating
            || session.controllers.iter().any(|controller| controller.translated),
        drives: drives
            .iter()
            .filter_map(|drive| Some((drive.namespace.as_ref()?.nsid, drive.name.clone())))
            .collect(),
        addresses: session
            .controllers
            .iter()
            .map(|controller| (without_domain(&controller.address), controller.name.clone()))
            .collect(),
    };
    let trace = fs::File::open(&path).map_err(LabError::io("read the trace", &path))?;
    let report = recorder::read(std::io::BufReader::with_capacity(1 << 20, trace), &machine)
        .map_err(|error| LabError::Recorder { path, reason: error.to_string() })?;
    out::write_json(&report, target)?;
    Ok(report)
}

/// `04:00.0` for `0000:04:00.0`.
fn without_domain(address: &str) -> String {
    match address.split_once(':') {
        Some((_, rest)) if rest.contains(':') => rest.to_owned(),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_holds_clean_last_lines() {
        let console: String = (0..50).map(|n| format!("\x1b[31mline {n}\r\n\n")).collect();
        let tail = tail(console.as_bytes());
        assert_eq!(tail.lines().count(), 20);
        assert!(tail.ends_with("line 49") && !tail.contains('\x1b'), "{tail}");
    }

    #[test]
    fn tail_keeps_panic_reason() {
        let trace = "trace\n".repeat(100);
        let tail = tail(format!("boot\nKernel panic - not syncing: no init\n{trace}").as_bytes());
        assert!(tail.starts_with("  console: Kernel panic - not syncing: no init\n"), "{tail}");
    }

    #[test]
    fn domain_is_cut_where_present() {
        assert_eq!(without_domain("0000:04:00.0"), "04:00.0");
        assert_eq!(without_domain("04:00.0"), "04:00.0");
    }
}
