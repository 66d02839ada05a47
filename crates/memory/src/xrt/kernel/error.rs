//! Errors of a kernel of a card.

use std::io;

use peerlane_units::Bytes;

/// Error of a kernel of a card.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardKernelError {
    /// No image is on the card.
    #[error("cannot open kernel {kernel}: card {address} has no image (xclbin)")]
    NoImage {
        /// The kernel.
        kernel: String,
        /// The card.
        address: String,
    },
    /// XRT did not open the kernel.
    #[error("cannot open kernel {kernel} of card {address}")]
    Open {
        /// The kernel.
        kernel: String,
        /// The card.
        address: String,
        /// XRT's reason.
        source: io::Error,
    },
    /// Argument 0 is not a buffer of the card.
    #[error("cannot use kernel {kernel}: its argument 0 is not connected to memory of the card")]
    NoMemory {
        /// The kernel.
        kernel: String,
    },
    /// The kernel's argument is connected to another bank than the buffer.
    #[error(
        "cannot run kernel {kernel} on this buffer: its argument 0 is connected to memory group {kernel_group}, and \
         the buffer is in memory group {buffer_group}"
    )]
    OtherGroup {
        /// The kernel.
        kernel: String,
        /// The group of its argument.
        kernel_group: u32,
        /// The group of the buffer.
        buffer_group: u32,
    },
    /// A buffer of another card, or of the same card opened again.
    #[error("cannot run kernel {kernel} of card {address} on a buffer of card {buffer_address}")]
    OtherCard {
        /// The kernel.
        kernel: String,
        /// Its card.
        address: String,
        /// The buffer's card.
        buffer_address: String,
    },
    /// A chunk that is empty or reaches beyond the buffer.
    #[error("cannot run a kernel on {length} at {offset} of a buffer of {size}")]
    Range {
        /// Its offset in the buffer.
        offset: Bytes,
        /// Its length.
        length: Bytes,
        /// The length of the buffer.
        size: Bytes,
    },
    /// A call of XRT failed.
    #[error("{call} failed for kernel {kernel}")]
    Call {
        /// The kernel.
        kernel: String,
        /// The function.
        call: &'static str,
        /// XRT's reason.
        source: io::Error,
    },
    /// The kernel ended in another state than `COMPLETED`.
    #[error("kernel {kernel} ended with {} ({state})", name_of(*state))]
    Ended {
        /// The kernel.
        kernel: String,
        /// `enum ert_cmd_state` of `ert.h`.
        state: u32,
    },
}

impl CardKernelError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoImage { .. } => {
                Some("name the image: `xrt:FILE.xclbin:KERNEL`, or PEERLANE_XCLBIN=FILE".to_owned())
            }
            Self::Open { .. } => Some(
                "`xclbinutil --info --input FILE.xclbin` lists the kernels of an image; `xrt-smi examine` shows \
                 which image the card has"
                    .to_owned(),
            ),
            Self::NoMemory { kernel } => Some(format!(
                "the kernel's arguments are `{kernel}(unsigned char *chunk, uint64_t bytes, uint64_t offset)`, with an \
                 AXI master port for the first"
            )),
            Self::OtherGroup { kernel, buffer_group, .. } => Some(format!(
                "link the kernel to the buffer's memory: `v++ --link --connectivity.sp {kernel}_1.chunk:BANK`, where \
                 `xclbinutil --info` shows bank {buffer_group}"
            )),
            Self::Ended { .. } => {
                Some("`sudo dmesg | grep -i xocl` and `xrt-smi examine` show the card's errors".to_owned())
            }
            Self::OtherCard { .. } | Self::Range { .. } | Self::Call { .. } => None,
        }
    }
}

/// Names of `enum ert_cmd_state` for runs that are over (`ert.h`).
fn name_of(state: u32) -> &'static str {
    match state {
        5 => "an error",
        6 => "an abort",
        8 => "a timeout",
        9 => "no response to a reset",
        10 => "an error of a soft kernel",
        11 => "a crash of a soft kernel",
        _ => "an unknown state",
    }
}
