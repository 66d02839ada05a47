//! Asks the drive itself about the namespace behind an open passthrough node.
//!
//! Names and numbers in sysfs may be of yesterday's drive; an open node is asked for its namespace,
//! and the drive for the namespace's blocks, before a command is made from either.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;

use peerlane_units::Nanos;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use super::apart;
use super::passthrough::PassthroughNamespace;
use super::status::NvmeStatus;

/// Bytes of the answer (NVMe Base Specification 2.0, section 5.17).
pub(super) const ANSWER: usize = 4096;
/// Identify (NVMe Base Specification 2.0, figure 138).
const IDENTIFY: u8 = 0x06;

impl PassthroughNamespace {
    /// Compares with the open node's own facts; `size` is in bytes. A drive that may not be
    /// asked, since that took `CAP_SYS_ADMIN` before Linux 6.2, is taken at sysfs's word.
    ///
    /// # Errors
    /// When the node is of another namespace, or of one with other blocks or with metadata; `TimedOut` when the
    /// controller does not answer within `deadline`.
    pub fn confirm(&self, node: &File, size: u64, deadline: Nanos) -> io::Result<()> {
        // SAFETY: `NVME_IOCTL_ID` takes no argument and writes nothing; its answer is a number.
        let nsid = unsafe { ioctl(node, NamespaceId) }?;
        if nsid != self.nsid {
            let reason = format!("it is namespace {nsid} now, not {}", self.nsid);
            return Err(io::Error::other(reason));
        }
        match identify(node, Structure::Namespace, nsid, deadline) {
            Ok(answer) => self.matches(&answer, size).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => match Errno::from_io_error(&error).and_then(NvmeStatus::from_errno) {
                Some(status) => Err(io::Error::other(format!("cannot identify it: {status}"))),
                None => Err(error),
            },
        }
    }

    /// Compares with the data structure of Identify Namespace (NVM Command Set Specification 1.0,
    /// figure 97).
    fn matches(&self, answer: &[u8; ANSWER], size: u64) -> Result<(), String> {
        let mut blocks = [0; 8];
        blocks.copy_from_slice(&answer[..8]);
        let blocks = u64::from_le_bytes(blocks);
        // The format in use: four bits and two more above the one that says where metadata goes.
        let format = usize::from((answer[26] & 0x0f) | ((answer[26] >> 1) & 0x30));
        let at = 128 + 4 * format;
        let metadata = u16::from_le_bytes([answer[at], answer[at + 1]]);
        let block = 1u64.checked_shl(answer[at + 2].into()).unwrap_or(0);
        if metadata != 0 {
            return Err(format!("its blocks have {metadata} bytes of metadata"));
        }
        if block != self.block || blocks.checked_mul(block) != Some(size) {
            return Err(format!(
                "it has {blocks} blocks of {block} bytes, where sysfs shows {size} bytes in blocks of {}",
                self.block
            ));
        }
        Ok(())
    }
}

/// `NVME_IOCTL_ID` of include/uapi/linux/nvme_ioctl.h.
pub(super) struct NamespaceId;

// SAFETY: the request takes no pointer, so none of ours is read or written.
unsafe impl Ioctl for NamespaceId {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::none(b'N', 0x40)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::null_mut()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(output).map_err(|_| Errno::IO)
    }
}

/// `struct nvme_passthru_cmd` of include/uapi/linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
pub(super) struct NvmePassthruCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    unused: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    length: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

impl NvmePassthruCommand {
    fn new(opcode: u8, nsid: u32, words_10_to_15: [u32; 6], answer: &mut [u8]) -> Self {
        Self {
            opcode,
            nsid,
            words_10_to_15,
            address: answer.as_mut_ptr() as u64,
            length: u32::try_from(answer.len()).unwrap_or(0),
            ..Self::default()
        }
    }
}

/// A command of the controller, `NVME_IOCTL_ADMIN_CMD`.
pub(super) struct AdminCommand(NvmePassthruCommand);

/// A command of the namespace, `NVME_IOCTL_IO_CMD`.
pub(super) struct IoCommand(NvmePassthruCommand);

impl IoCommand {
    pub(super) fn new(opcode: u8, nsid: u32, words: [u32; 6], answer: &mut [u8]) -> Self {
        Self(NvmePassthruCommand::new(opcode, nsid, words, answer))
    }
}

// SAFETY: the pointer is to a whole `nvme_passthru_cmd`, which the kernel reads and writes in place.
unsafe impl Ioctl for IoCommand {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<NvmePassthruCommand>(b'N', 0x43)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

// SAFETY: the pointer is to a whole `nvme_passthru_cmd`, which the kernel reads and writes in place.
unsafe impl Ioctl for AdminCommand {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<NvmePassthruCommand>(b'N', 0x41)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// Data structure that Identify is to return (NVMe Base Specification 2.0, figure 274).
#[derive(Clone, Copy)]
pub(super) enum Structure {
    Namespace = 0,
    Controller = 1,
    /// Controllers that the namespace is attached to.
    AttachedControllers = 0x12,
}

/// Returns the Identify data of the controller behind an open node (NVMe Base Specification 2.0,
/// figure 276).
///
/// # Errors
/// The system's answer, or the drive's; before Linux 6.2 it takes `CAP_SYS_ADMIN`. `TimedOut` after `deadline`.
pub(crate) fn identify_controller(node: &File, deadline: Nanos) -> io::Result<Box<[u8; ANSWER]>> {
    identify(node, Structure::Controller, 0, deadline).map_err(|error| match Errno::from_io_error(
        &error,
    )
    .and_then(NvmeStatus::from_errno)
    {
        Some(status) => io::Error::other(status.to_string()),
        None => error,
    })
}

pub(super) fn identify(
    node: &File,
    structure: Structure,
    nsid: u32,
    deadline: Nanos,
) -> io::Result<Box<[u8; ANSWER]>> {
    let mut answer = Box::new([0; ANSWER]);
    let ask = |node: BorrowedFd<'_>, answer: &mut [u8]| {
        let words = [structure as u32, 0, 0, 0, 0, 0];
        let command = AdminCommand(NvmePassthruCommand::new(IDENTIFY, nsid, words, answer));
        // SAFETY: the command asks for as many bytes as `answer` has, which outlives the call and is not
        // looked at before it returns.
        let status = unsafe { ioctl(node, command) }?;
        NvmeStatus::check(status).map(|()| 0)
    };
    // SAFETY: `ask` makes one system call, and compares numbers.
    unsafe { apart::call_with_answer(node.as_fd(), deadline, answer.as_mut_slice(), ask) }?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: PassthroughNamespace = PassthroughNamespace {
        nsid: 1,
        block: 4096,
        request_max: 4096,
        pages_max: 1,
        zeroes_max: 0,
    };

    fn answer(blocks: u64, format: u8, metadata: u16, shift: u8) -> [u8; ANSWER] {
        let mut answer = [0; ANSWER];
        answer[..8].copy_from_slice(&blocks.to_le_bytes());
        answer[26] = (format & 0x0f) | ((format & 0x30) << 1);
        let at = 128 + 4 * usize::from(format);
        answer[at..at + 2].copy_from_slice(&metadata.to_le_bytes());
        answer[at + 2] = shift;
        answer
    }

    #[test]
    fn blocks_of_the_format_in_use_are_compared() {
        for format in [0, 3, 17, 63] {
            assert_eq!(NAMESPACE.matches(&answer(256, format, 0, 12), 1 << 20), Ok(()));
        }
        for (blocks, metadata, shift) in [(256, 8, 12), (256, 0, 9), (255, 0, 12), (1, 0, 255)] {
            assert!(NAMESPACE.matches(&answer(blocks, 0, metadata, shift), 1 << 20).is_err());
        }
    }

    #[test]
    fn the_command_has_the_kernels_size() {
        assert_eq!(size_of::<NvmePassthruCommand>(), 72);
        let file = File::open("/dev/null").unwrap();
        assert!(
            NAMESPACE.confirm(&file, 1 << 20, Nanos::seconds(5)).is_err(),
            "no passthrough node"
        );
        assert!(identify_controller(&file, Nanos::seconds(5)).is_err(), "no controller");
    }
}
