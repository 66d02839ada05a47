//! Protocol between host and guest: the job, the ports, and the guest's messages.
//!
//! The job travels in the initramfs; everything else leaves the guest through virtio-serial ports.
//! So the command's bytes never mix with the kernel's console.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::network::NetworkEnd;

/// Path of the job in the guest.
pub(crate) const JOB_PATH: &str = "/etc/peerlane-lab.json";
/// The program in the guest.
pub(crate) const PROGRAM_PATH: &str = "/bin/peerlane";
/// Modules to load, in order, in the guest.
pub(crate) const MODULES_DIR: &str = "/lib/peerlane-modules";
/// The folder whose content comes back.
pub(crate) const OUT_DIR: &str = "/out";
/// Drives and cards by name.
pub(crate) const DRIVES_DIR: &str = "/dev/lab";
/// Ports to programs of the host by name, as udev would name them.
pub(crate) const WORKERS_DIR: &str = "/dev/virtio-ports";

/// A stream from guest to host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestPort {
    /// Standard output of the command.
    Stdout,
    /// Standard error of the command.
    Stderr,
    /// [`Message`]s, one a line; the last is answered by [`DONE`] once the host has all that the guest sent.
    Control,
    /// A tar archive of [`OUT_DIR`].
    Out,
    /// Names of moments, one a line, from `peerlane lab moment`. A line answers each: [`DONE`], or
    /// the reason of a failure.
    Moments,
}

/// The host's answer to the name of a moment once everything that was to happen then has happened, and to the guest's
/// last message.
pub(crate) const DONE: &str = "done";

impl GuestPort {
    pub(crate) const ALL: [Self; 5] =
        [Self::Stdout, Self::Stderr, Self::Control, Self::Out, Self::Moments];

    /// Name as virtio-serial port, and of the host's socket.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "lab.stdout",
            Self::Stderr => "lab.stderr",
            Self::Control => "lab.control",
            Self::Out => "lab.out",
            Self::Moments => "lab.moments",
        }
    }
}

/// Name of the port to the program that works on a card's memory; its lines are between that program and
/// the guest's.
pub(crate) fn worker_port(card: &str) -> String {
    format!("peerlane.worker.{card}")
}

/// The guest's job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestJob {
    /// Host name of the guest: the machine's name.
    pub(crate) machine: String,
    /// Program and arguments; empty for a shell.
    pub(crate) command: Vec<OsString>,
    /// A shell on the console instead of a command.
    pub(crate) shell: bool,
    /// Drives that must be there before the command starts.
    pub(crate) drives: Vec<ExpectedDrive>,
    /// Cards whose memory must be there before the command starts.
    pub(crate) cards: Vec<ExpectedCard>,
    /// File names below [`MODULES_DIR`], in loading order.
    pub(crate) modules: Vec<String>,
    /// Names of ports to programs of the host, from [`worker_port`].
    pub(crate) workers: Vec<String>,
    /// The end of a network.
    pub(crate) network: Option<NetworkEnd>,
    /// Longest wait for the drives.
    pub(crate) drive_wait_seconds: u64,
    /// Longest wait for the host to take the guest's bytes: the deadline of the whole run.
    pub(crate) host_wait_seconds: u64,
}

/// Bytes sent through ports. The kernel takes them before the host does, and forgets them with the power: up to 128
/// pieces a port (`virtio_console`, which does not wait; queues of QEMU's virtio-serial).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Through [`Port::Stdout`].
    pub(crate) stdout: u64,
    /// Through [`Port::Stderr`].
    pub(crate) stderr: u64,
    /// Through [`Port::Out`].
    pub(crate) out: u64,
}

/// A drive the guest waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedDrive {
    /// Name and serial number.
    pub(crate) name: String,
    /// True when it has a namespace.
    pub(crate) namespace: bool,
}

/// A card whose memory the guest waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedCard {
    /// Name.
    pub(crate) name: String,
    /// The way to it from the root bus, `00:02.0/00.0/01.0`: it has no serial number.
    pub(crate) path: String,
}

/// A message from the guest to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Message {
    /// A controller or a card was found.
    Controller {
        /// The drive's name, which is its serial number, or the card's.
        name: String,
        /// PCI address, `0000:04:00.0`.
        address: String,
        /// True when its IOMMU group translates addresses.
        translated: bool,
    },
    /// The command is about to start.
    Started,
    /// The command ended.
    Exited {
        /// Exit status, or 128 plus the number of the signal that killed it.
        status: i32,
        /// Sizes of its outputs and results.
        sent: Sent,
    },
    /// The guest could not do its part.
    Failed {
        /// The failed step and the reason.
        reason: String,
    },
}
