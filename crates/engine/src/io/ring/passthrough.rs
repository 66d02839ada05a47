//! NVMe commands as a passthrough node (`/dev/ngXnY`) takes them through io_uring.
//!
//! There is no block layer here: a request that is too long fails instead of being split, and one
//! that is not aligned is silently copied through host memory (`bio_copy_user_iov` in
//! block/blk-map.c). Both are refused before they are queued. Commands are
//! those of the NVM command set, on a namespace without metadata.

use std::fs::File;

use super::{Action, Operation, PushError};

/// A namespace behind a passthrough node: the facts for its commands, and their largest sizes.
/// All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassthroughNamespace {
    /// Namespace identifier.
    pub nsid: u32,
    /// Bytes of a logical block, a power of two.
    pub block: u64,
    /// Most bytes of one read or write.
    pub request_max: u64,
    /// Most pages of memory that one of them touches.
    pub pages_max: u64,
    /// Most bytes that one write-zeroes command covers; zero if the drive has no such command.
    pub zeroes_max: u64,
}

/// A passthrough node with its namespace.
#[derive(Debug)]
pub struct PassthroughFile {
    /// The open node.
    pub file: File,
    /// The namespace behind it.
    pub namespace: PassthroughNamespace,
}

/// Alignment of memory that no kernel copies: before Linux 6.0 a queue wanted 512 bytes unless its
/// driver said otherwise (`blk_set_default_limits`), since then NVMe wants four.
const ADDRESS_ALIGNMENT: u64 = 512;

/// A page of memory is a segment at worst.
const PAGE: u64 = 4096;

/// `NVME_URING_CMD_IO` of include/uapi/linux/nvme_ioctl.h: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
pub(super) const URING_CMD_IO: u32 = 0xc048_4e80;

/// Commands of the NVM command set (NVM Command Set Specification 1.0, figure 23).
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;

/// Blocks of one command at most: the field has 16 bits and counts from zero.
const BLOCKS_MAX: u64 = 1 << 16;

impl PassthroughNamespace {
    /// Refuses a read or write that the kernel would copy, or fail. Memory is one run of addresses, which
    /// has no gap at a virtual boundary of pages, wherever in a page it begins and ends.
    pub(super) fn check(&self, operation: &Operation, address: u64) -> Result<(), PushError> {
        let (offset, length) = (operation.file_offset, u64::from(operation.length));
        if offset % self.block != 0
            || (operation.action != Action::Flush && length % self.block != 0)
        {
            return Err(PushError::NotInBlocks { offset, length: operation.length });
        }
        if !operation.action.has_memory() {
            return Ok(());
        }
        if address % ADDRESS_ALIGNMENT != 0 {
            return Err(PushError::Misaligned { offset: operation.region_offset });
        }
        let pages = (address % PAGE + length).div_ceil(PAGE);
        let most = self.request_max.min(BLOCKS_MAX * self.block);
        if length == 0 || length > most || pages > self.pages_max {
            return Err(PushError::TooLong { length: operation.length, most });
        }
        Ok(())
    }

    /// Splits off the part that one command does. Only zeroes have a rest: no limit bounds their
    /// length.
    pub(super) fn first_part(&self, operation: &Operation) -> (Operation, Option<Operation>) {
        let most = self.zeroes_max.min(BLOCKS_MAX * self.block) / self.block * self.block;
        let step = u64::from(operation.length).min(most);
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        if operation.action != Action::Zero || step == operation.length {
            return (*operation, None);
        }
        let rest = Operation {
            file_offset: operation.file_offset + u64::from(step),
            length: operation.length - step,
            ..*operation
        };
        (Operation { length: step, ..*operation }, Some(rest))
    }

    /// `struct nvme_uring_cmd` (include/uapi/linux/nvme_ioctl.h) of an operation on whole blocks.
    pub(super) fn command(&self, operation: &Operation, address: u64) -> [u8; 80] {
        let opcode = match operation.action {
            Action::Read => READ,
            Action::Write => WRITE,
            // A ring takes no work of a stage (`PushError::UnknownStage`).
            Action::Flush | Action::Stage => FLUSH,
            Action::Zero => WRITE_ZEROES,
        };
        let mut command = [0; 80];
        let mut put =
            |at: usize, bytes: &[u8]| command[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[opcode]);
        put(4, &self.nsid.to_le_bytes());
        if operation.action.has_memory() {
            put(24, &address.to_le_bytes());
            put(36, &operation.length.to_le_bytes());
        }
        if operation.action != Action::Flush {
            let blocks = u64::from(operation.length) / self.block;
            let count = u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX) & 0xffff;
            put(40, &(operation.file_offset / self.block).to_le_bytes());
            put(48, &count.to_le_bytes());
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::io::ring::{FileId, RegionId};

    const NAMESPACE: PassthroughNamespace = PassthroughNamespace {
        nsid: 7,
        block: 512,
        request_max: 512 << 10,
        pages_max: 128,
        zeroes_max: 1 << 20,
    };

    fn operation(action: Action, file_offset: u64, length: u32) -> Operation {
        Operation {
            action,
            file: FileId(0),
            file_offset,
            region: RegionId(0),
            region_offset: 0,
            length,
            tag: 1,
        }
    }

    #[test]
    fn a_command_names_blocks_from_zero_and_their_memory() {
        let command = NAMESPACE.command(&operation(Action::Read, 0x1_0000_0000, 4096), 0xabcd_e000);
        assert_eq!(command[0], 0x02);
        assert_eq!(command[4..8], 7u32.to_le_bytes());
        assert_eq!(command[24..32], 0xabcd_e000u64.to_le_bytes());
        assert_eq!(command[36..40], 4096u32.to_le_bytes());
        assert_eq!(command[40..48], 0x80_0000u64.to_le_bytes());
        assert_eq!(command[48..52], 7u32.to_le_bytes());
        assert!(command[52..].iter().all(|byte| *byte == 0));
        let flush = NAMESPACE.command(&operation(Action::Flush, 0, 0), 0);
        assert!(flush[8..].iter().all(|byte| *byte == 0) && flush[0] == 0);
        let zeroes = NAMESPACE.command(&operation(Action::Zero, 512, 1024), 0xabcd_e000);
        assert_eq!((zeroes[0], &zeroes[24..40]), (0x08, &[0; 16][..]), "zeroes have no memory");
        assert_eq!((zeroes[40], zeroes[48]), (1, 1));
    }

    #[test]
    fn what_the_kernel_would_copy_or_fail_is_refused() {
        let check = |offset, length, address| {
            NAMESPACE.check(&operation(Action::Write, offset, length), address)
        };
        assert_eq!(check(512, 512 << 10, 0x10_0000), Ok(()));
        assert_eq!(check(0, 512, 0x10_0200), Ok(()));
        assert!(matches!(check(0, 512, 0x10_0002), Err(PushError::Misaligned { .. })));
        assert!(matches!(check(0, 512, 0x10_0080), Err(PushError::Misaligned { .. })));
        assert!(matches!(check(0, (512 << 10) + 512, 0), Err(PushError::TooLong { .. })));
        // 128 pages of data that begin within a page touch 129.
        assert!(matches!(check(0, 512 << 10, 0x10_0200), Err(PushError::TooLong { .. })));
        assert!(matches!(check(0, 0, 0), Err(PushError::TooLong { .. })));
        assert!(matches!(check(100, 512, 0), Err(PushError::NotInBlocks { .. })));
        assert!(matches!(check(0, 100, 0), Err(PushError::NotInBlocks { .. })));
        assert_eq!(NAMESPACE.check(&operation(Action::Zero, 0, 1 << 30), 1), Ok(()));
    }

    proptest! {
        #[test]
        fn zeroes_are_cut_into_commands_that_cover_them_once(
            start in 0u64..1 << 20,
            blocks in 1u32..1 << 20,
        ) {
            let mut rest = Some(operation(Action::Zero, start * 512, blocks * 512));
            let mut reached = start * 512;
            while let Some(operation) = rest {
                let (part, more) = NAMESPACE.first_part(&operation);
                prop_assert_eq!(part.file_offset, reached);
                prop_assert!(part.length > 0 && u64::from(part.length) <= NAMESPACE.zeroes_max);
                reached += u64::from(part.length);
                rest = more;
            }
            prop_assert_eq!(reached, (start + u64::from(blocks)) * 512);
        }
    }
}
