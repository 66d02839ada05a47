//! Errors before, during and after a lab run.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use peerlane_units::Nanos;

/// Reason why a lab run did not end with an exit status of its command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A program that the lab runs on the host is not there.
    #[error("cannot find `{program}`: {searched}")]
    MissingTool {
        /// Name of the program.
        program: String,
        /// Places that were searched, or the fault of the program that was found.
        searched: String,
        /// Debian and Ubuntu package that holds it.
        package: &'static str,
    },
    /// No kernel with peer-to-peer DMA that could be read.
    #[error("cannot find a kernel with CONFIG_PCI_P2PDMA=y: {searched}")]
    MissingKernel {
        /// Each place, with the finding there.
        searched: String,
    },
    /// A file that is not a bootable kernel image.
    #[error("cannot boot {}: {reason}", path.display())]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A module that the guest needs is neither built in nor next to the kernel.
    #[error("cannot load kernel module `{module}` in the guest: {reason}")]
    MissingModule {
        /// Module name.
        module: String,
        /// Places that were searched.
        reason: String,
    },
    /// The module for cards was not built for this kernel.
    #[error("cannot show the memory of a card to kernel {release}: there is no {}", path.display())]
    MissingRamBar {
        /// Release of the kernel.
        release: String,
        /// Expected path of the module.
        path: PathBuf,
    },
    /// The machine has parts that this QEMU cannot emulate.
    #[error("cannot emulate {function} of machine {machine}: {reason}")]
    NotEmulated {
        /// Name of the machine.
        machine: String,
        /// Name of the function or other part.
        function: String,
        /// The reason.
        reason: String,
    },
    /// A drive image that does not fit the machine.
    #[error("cannot use {} as drive `{drive}`: {reason}", image.display())]
    BadDrive {
        /// Name of the drive.
        drive: String,
        /// The image.
        image: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A program that cannot work on the memory of a card.
    #[error("cannot run {} on the memory of card `{card}`: {reason}", program.display())]
    BadWorker {
        /// Name of the card.
        card: String,
        /// The program.
        program: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A failed run whose program of a card had ended before the guest's command.
    #[error("the program on the memory of card `{card}` ended early ({status})")]
    WorkerEnded {
        /// Name of the card.
        card: String,
        /// Its exit status.
        status: ExitStatus,
        /// The failure.
        #[source]
        end: Box<LabError>,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file operation on the host failed.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// A system call on the host that concerns no file failed.
    #[error("cannot {action}")]
    Os {
        /// The failed operation.
        action: &'static str,
        /// Answer of the system.
        source: io::Error,
    },
    /// The guest ended without an exit status of the command.
    #[error("guest ended without running the command to its end: {reason}\n{console}")]
    GuestDied {
        /// Known facts about the end.
        reason: String,
        /// Last lines of the guest's console, indented.
        console: String,
    },
    /// The guest's init could not do its part.
    #[error("guest could not run the command: {reason}\n{console}")]
    GuestFailed {
        /// Message of the guest.
        reason: String,
        /// Last lines of the guest's console, indented.
        console: String,
    },
    /// The run did not end in time.
    #[error("lab run did not end within {limit}\n{console}")]
    TimedOut {
        /// The deadline of the whole run.
        limit: Nanos,
        /// Last lines of the guest's console, indented.
        console: String,
    },
    /// The caller asked to stop.
    #[error("lab run was interrupted")]
    Interrupted,
    /// The machine lost its power, as an event asked for.
    #[error(
        "power was cut at `{moment}`, as requested; images given with --drive keep what their drives had"
    )]
    PowerCut {
        /// The moment.
        moment: String,
    },
    /// The reader of the command's output is gone.
    #[error("lab run was ended: its output has no reader")]
    ReaderGone,
    /// The reader of the command's outputs did not take all of them before the run was over.
    #[error("the command's output was not read to its end: at least {}", unread(*stdout, *stderr))]
    Unread {
        /// Bytes of standard output.
        stdout: u64,
        /// Bytes of standard error.
        stderr: u64,
        /// Error that ended the run, unless the command's end did.
        #[source]
        end: Option<Box<LabError>>,
    },
    /// The recorder saw no window: nothing can be said about DMA.
    #[error("cannot account for DMA in {}: {reason}", path.display())]
    Recorder {
        /// The trace.
        path: PathBuf,
        /// The missing part.
        reason: String,
    },
}

impl LabError {
    /// Error that ended the run.
    pub fn end(&self) -> &Self {
        match self {
            Self::Unread { end: Some(end), .. } | Self::WorkerEnded { end, .. } => end.end(),
            error => error,
        }
    }

    /// A command or an action that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unread { .. } => Some(
                "let the output go to a file or to a reader that goes on, or give the run more time"
                    .to_owned(),
            ),
            Self::MissingTool { package, .. } => Some(format!("apt-get install {package}")),
            Self::MissingKernel { .. } => Some(
                "run ./demo, which fetches one without installing it, or name one with \
                 PEERLANE_KERNEL=/path/to/vmlinuz"
                    .to_owned(),
            ),
            Self::MissingModule { .. } => Some(
                "use a kernel with its modules next to it, such as the one ./demo fetches"
                    .to_owned(),
            ),
            Self::MissingRamBar { .. } => Some(
                "tools/build-ram-bar of the repository builds it; PEERLANE_RAM_BAR=FILE names one"
                    .to_owned(),
            ),
            Self::TimedOut { .. } => {
                Some("give the run more time, or look at its console".to_owned())
            }
            Self::NotEmulated { .. } => Some(
                "`peerlane topo --machine WHAT --format toml > machine.toml`, then take it out or state what is \
                 missing, and boot `--machine machine.toml`"
                    .to_owned(),
            ),
            Self::BadDrive { .. } => Some(
                "--drive takes an image file for each drive of the machine: make an empty one with \
                 `truncate -s SIZE FILE`, or copy a device to a file first"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Wraps an error of a file operation.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Wraps an error of a system call.
    pub(crate) fn os<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os { action, source: source.into() }
    }
}

/// `12 bytes of standard output, 3 of standard error`.
fn unread(stdout: u64, stderr: u64) -> String {
    match (stdout, stderr) {
        (_, 0) => format!("{stdout} bytes of standard output"),
        (0, _) => format!("{stderr} bytes of standard error"),
        _ => format!("{stdout} bytes of standard output and {stderr} of standard error"),
    }
}
