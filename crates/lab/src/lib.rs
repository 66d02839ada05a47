//! A fabric booted as a virtual machine under QEMU, with a recorder of every DMA.
//!
//! [`run`] boots a machine description with emulated NVMe drives, runs one command in it as root and
//! returns the command's exit status, output and files. The recorder reads from outside the guest
//! which memory each drive's payload went to or came from. It proves bytes and semantics, not speed:
//! QEMU moves peer-to-peer data by CPU, so rates in the lab say nothing about hardware.
//!
//! The program that calls [`run`] also runs in the guest: its `main` must begin with
//! `if peerlane_lab::is_guest() { return peerlane_lab::guest_main(); }`.
#![forbid(unsafe_code)]

mod cards;
mod drives;
mod elf;
mod error;
mod event;
mod guest;
mod host;
mod initramfs;
mod kernel;
mod machine;
mod mark;
mod modules;
mod network;
mod protocol;
pub mod recorder;
mod short_path;
mod tools;
mod vmlinux;

pub use error::LabError;
pub use event::{HostEvent, MachineAction, NotAnEvent};
pub use guest::{guest_main, is_guest, moment};
pub use host::{BootOptions, CommandOutcome, Console, Output, run, unpack_archive};
pub use kernel::{KernelImage, find_generic_kernel, find_kernel, find_older_kernel, find_ram_bar};
pub use machine::can_boot;
pub use mark::{MarkPhase, mark};
pub use network::{LabNetwork, NetworkEnd, NotANetwork};
pub use recorder::{DMA_SCHEMA, DmaReport, DriveOperation, DriveTransfers, TargetKind};
pub use tools::{find_busybox, find_qemu};
