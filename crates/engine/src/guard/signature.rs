//! Tells what a device carries from the bytes at its start and end.
//!
//! A pure function over a table of magic numbers; it answers "something is here that a person may
//! want to keep", not what state it is in. Whatever the table does not know counts as nothing, so an
//! empty answer is no proof that a device is empty.

/// Bytes to read at the start of a device: the last magic number looked at, that of VMFS, begins at 2 MiB.
pub const HEAD_BYTES: usize = (2 << 20) + 4096;
/// Bytes to read at the end of a device: md 0.90 keeps its superblock up to 128 KiB before the end.
pub const TAIL_BYTES: usize = 128 << 10;

/// The two ends of a device.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// From offset 0, [`HEAD_BYTES`] or the whole of a smaller device.
    pub head: &'a [u8],
    /// Up to the end, [`TAIL_BYTES`] or the whole of a smaller device.
    pub tail: &'a [u8],
    /// Size of the device in bytes.
    pub size: u64,
}

/// One magic number at a fixed offset.
struct Magic {
    name: &'static str,
    offset: usize,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: usize, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

const LVM: &str = "an LVM physical volume";
const MD: &str = "a member of an md array";
const SWAP: &str = "swap space";
const STRATIS: &str = "a member of a Stratis pool";
const OCFS2: &str = "an OCFS2 file system";
const LVM1: &str = "an LVM1 physical volume";
const DRBD: &str = "the data of a DRBD device";
const STRATIS_MAGIC: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const BCACHEFS: &str = "a bcachefs file system or bcache device";

/// Magic numbers from the start of the device. Sources: `include/uapi/linux/magic.h`, the headers
/// of each file system in Linux 7.2, and util-linux `libblkid/src/superblocks/`.
const HEAD: &[Magic] = &[
    magic("an XFS file system", 0, b"XFSB"),
    magic("a LUKS container", 0, b"LUKS\xba\xbe"),
    magic("a LUKS container", 0x4000, b"SKUL\xba\xbe"),
    magic("a squashfs file system", 0, b"hsqs"),
    magic("a squashfs file system", 0, b"sqsh"),
    magic("a dm-integrity device", 0, b"integrt\0"),
    magic("a VDO device", 0, b"dmvdo001"),
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic(MD, 0, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    magic(MD, 4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("a BitLocker volume", 3, b"-FVE-FS-"),
    magic("an APFS container", 32, b"NXSB"),
    magic("a FAT file system", 54, b"FAT12   "),
    magic("a FAT file system", 54, b"FAT16   "),
    magic("a FAT file system", 82, b"FAT32   "),
    magic("a GPT partition table", 512, b"EFI PART"),
    magic("a GPT partition table", 4096, b"EFI PART"),
    magic("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    magic("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    magic("an HFS+ file system", 1024, b"H+\0\x04"),
    magic("an HFS+ file system", 1024, b"HX\0\x05"),
    magic("a NILFS2 file system", 1024 + 6, b"\x34\x34"),
    magic("an ext2, ext3 or ext4 file system", 1024 + 0x38, b"\x53\xef"),
    magic(BCACHEFS, 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    magic(BCACHEFS, 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    magic("a JFS file system", 0x8000, b"JFS1"),
    magic("an ISO 9660 file system", 0x8001, b"CD001"),
    magic("a UDF file system", 0x8001, b"BEA01"),
    magic("a btrfs file system", 0x10000 + 64, b"_BHRfS_M"),
    magic("a ReiserFS file system", 0x10000 + 52, b"ReIsEr"),
    magic(LVM1, 0, b"HM\x01\0"),
    magic(LVM1, 0, b"HM\x02\0"),
    magic("an OCFS file system", 8, b"OracleCFS"),
    magic("a log of DRBD Proxy", 16, b"DRBDdlh*"),
    magic("a disk of Oracle ASM", 32, b"ORCLDISK"),
    magic("a control volume of DRBD Manage", 32, b"$DRBDmgr=q"),
    magic(STRATIS, 512 + 4, STRATIS_MAGIC),
    magic(STRATIS, 9 * 512 + 4, STRATIS_MAGIC),
    magic(OCFS2, 1 << 10, b"OCFSV2"),
    magic(OCFS2, 2 << 10, b"OCFSV2"),
    magic(OCFS2, 4 << 10, b"OCFSV2"),
    magic(OCFS2, 8 << 10, b"OCFSV2"),
    magic("a GFS or GFS2 file system", 0x10000, b"\x01\x16\x19\x70"),
    magic("a member of a VMFS volume", 1 << 20, b"\x0d\xd0\x01\xc0"),
    magic("a VMFS file system", 2 << 20, b"\x5e\xf1\xab\x2f"),
];

/// Where a label is, in bytes from the start of the device: a magic number, then place and length.
struct Labelled {
    name: &'static str,
    offset: usize,
    bytes: &'static [u8],
    label: (usize, usize),
}

const fn labelled(magic: Magic, place: usize, length: usize) -> Labelled {
    Labelled { name: magic.name, offset: magic.offset, bytes: magic.bytes, label: (place, length) }
}

/// Labels of fixed place. Sources: `fs/xfs/libxfs/xfs_format.h` (`sb_fname`), `fs/ext4/ext4.h`
/// (`s_volume_name`), `include/uapi/linux/btrfs_tree.h` (`label`), `include/linux/swap.h`
/// (`volume_name`), cryptsetup `lib/luks2/luks2.h` (`label`), the FAT boot sector (`BS_VolLab`), ECMA-119
/// section 8.4.7.
const LABELS: &[Labelled] = &[
    labelled(magic("an XFS file system", 0, b"XFSB"), 108, 12),
    labelled(magic("an ext2, ext3 or ext4 file system", 1024 + 0x38, b"\x53\xef"), 1024 + 0x78, 16),
    labelled(magic("a btrfs file system", 0x10000 + 64, b"_BHRfS_M"), 0x10000 + 0x12b, 256),
    labelled(magic("a LUKS container", 0, b"LUKS\xba\xbe\0\x02"), 24, 48),
    labelled(magic("a FAT file system", 54, b"FAT12   "), 43, 11),
    labelled(magic("a FAT file system", 54, b"FAT16   "), 43, 11),
    labelled(magic("a FAT file system", 82, b"FAT32   "), 71, 11),
    labelled(magic("an ISO 9660 file system", 0x8001, b"CD001"), 0x8028, 32),
    labelled(magic(SWAP, 4096 - 10, b"SWAPSPACE2"), 1024 + 28, 16),
];

/// Offset of the MBR's partition entries and of its closing mark.
const MBR_ENTRIES: usize = 446;
const MBR_MARK: usize = 510;

/// Says what the device carries, each thing once, in the order of the table; empty when nothing is
/// known.
pub fn identify(ends: Ends<'_>) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut add = |name: &'static str| {
        if !found.contains(&name) {
            found.push(name);
        }
    };
    for entry in HEAD.iter().filter(|entry| holds(ends.head, entry.offset, entry.bytes)) {
        add(entry.name);
    }
    if has_lvm_label(ends.head) {
        add(LVM);
    }
    if has_swap_mark(ends.head) {
        add(SWAP);
    }
    if has_zfs_label(ends.head) {
        add("a member of a ZFS pool");
    }
    if has_md_at_end(ends) {
        add(MD);
    }
    if has_drbd_at_end(ends) {
        add(DRBD);
    }
    if has_firmware_raid(ends.tail) {
        add("a member of a firmware RAID");
    }
    if has_gpt_backup(ends.tail) {
        add("a backup GPT partition table");
    }
    if has_mbr(ends.head) {
        add("an MBR partition table");
    }
    found
}

/// Says what the device carries as [`identify`] does, each with the label that a person gave it.
pub fn describe(ends: Ends<'_>) -> Vec<String> {
    let describe = |what: &'static str| match label(what, ends.head) {
        Some(label) => format!("{what} labelled {label}"),
        None => what.to_owned(),
    };
    identify(ends).into_iter().map(describe).collect()
}

/// The label of `what`, where its place is known and holds one.
fn label(what: &str, head: &[u8]) -> Option<String> {
    let of_this_kind = LABELS.iter().filter(|entry| entry.name == what);
    of_this_kind.filter(|entry| holds(head, entry.offset, entry.bytes)).find_map(|entry| {
        let field = head.get(entry.label.0..entry.label.0 + entry.label.1)?;
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        let text = String::from_utf8_lossy(&field[..end]).trim().to_owned();
        (!text.is_empty() && text != "NO NAME").then_some(text)
    })
}

fn holds(bytes: &[u8], offset: usize, magic: &[u8]) -> bool {
    offset.checked_add(magic.len()).and_then(|end| bytes.get(offset..end)) == Some(magic)
}

/// The label may lie in any of the first four sectors (lvm2 `lib/label/label.h`).
fn has_lvm_label(head: &[u8]) -> bool {
    (0..4).any(|sector| {
        let at = sector * 512;
        holds(head, at, b"LABELONE") && holds(head, at + 24, b"LVM2 001")
    })
}

/// The mark ends the first page, whatever the page size of the machine that made it
/// (`include/linux/swap.h`).
fn has_swap_mark(head: &[u8]) -> bool {
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10].into_iter().any(|page: usize| {
        [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0"]
            .into_iter()
            .any(|mark| holds(head, page - mark.len(), mark))
    })
}

/// Uberblocks lie in the second half of the 256 KiB label, 1 KiB or more apart; the pool's
/// description starts at 16 KiB with the pair `version` (OpenZFS `vdev_impl.h`, XDR nvlist).
fn has_zfs_label(head: &[u8]) -> bool {
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let described = holds(head, 16 << 10, b"\x01\x01\0\0") || holds(head, 16 << 10, b"\x01\0\0\0");
    let has_version = holds(head, (16 << 10) + 24, b"version\0");
    (described && has_version)
        || (128..256).any(|kib| {
            holds(head, kib << 10, &UBERBLOCK.to_le_bytes())
                || holds(head, kib << 10, &UBERBLOCK.to_be_bytes())
        })
}

/// md 0.90 in the last whole 64 KiB but one, either byte order; md 1.0 in the last 8 to 12 KiB
/// (`include/uapi/linux/raid/md_p.h`, `drivers/md/md.c`).
fn has_md_at_end(ends: Ends<'_>) -> bool {
    const MAGIC: u32 = 0xa92b_4efc;
    let at = |offset: Option<u64>, magic: &[u8]| holds_at(ends, offset, magic);
    let old = (ends.size & !0xffff).checked_sub(0x10000);
    let new = ends.size.checked_sub(8192).map(|offset| offset & !0xfff);
    at(old, &MAGIC.to_le_bytes())
        || at(old, &MAGIC.to_be_bytes())
        || at(new, b"\xfc\x4e\x2b\xa9\x01\0\0\0")
}

/// Metadata that are kept on the device itself fill its last whole 4 KiB; their magic number is the 60th
/// byte, for version 8 (clean, unclean) and version 9 (`drivers/block/drbd/drbd_main.c`,
/// util-linux `libblkid/src/superblocks/drbd.c`).
fn has_drbd_at_end(ends: Ends<'_>) -> bool {
    let at = (ends.size & !0xfff).checked_sub(4096).map(|block| block + 60);
    [0x8374_026b_u32, 0x8374_026c, 0x8374_026d]
        .into_iter()
        .any(|magic| holds_at(ends, at, &magic.to_be_bytes()))
}

/// Whether the end of the device has a magic number at an offset from the start of the device.
fn holds_at(ends: Ends<'_>, offset: Option<u64>, magic: &[u8]) -> bool {
    let tail_start = ends.size.checked_sub(ends.tail.len() as u64);
    offset
        .zip(tail_start)
        .and_then(|(offset, start)| usize::try_from(offset.checked_sub(start)?).ok())
        .is_some_and(|offset| holds(ends.tail, offset, magic))
}

/// Intel's lies in the last sector but one, the SNIA's (DDF) in the last.
fn has_firmware_raid(tail: &[u8]) -> bool {
    let from_end = |distance: usize, magic: &[u8]| {
        tail.len().checked_sub(distance).is_some_and(|offset| holds(tail, offset, magic))
    };
    from_end(1024, b"Intel Raid ISM Cfg Sig. ") || from_end(512, b"\xde\x11\xde\x11")
}

/// In the last block, whose size is the disk's (UEFI 2.10 section 5.3.2).
fn has_gpt_backup(tail: &[u8]) -> bool {
    [512, 4096].into_iter().any(|block| {
        tail.len().checked_sub(block).is_some_and(|offset| holds(tail, offset, b"EFI PART"))
    })
}

/// A boot sector ends like an MBR; only one with a sensible used entry is a partition table.
fn has_mbr(head: &[u8]) -> bool {
    if !holds(head, MBR_MARK, b"\x55\xaa") {
        return false;
    }
    let Some(entries) = head.get(MBR_ENTRIES..MBR_MARK) else { return false };
    let is_sensible = |entry: &[u8]| matches!(entry.first(), Some(0x00 | 0x80));
    let is_used = |entry: &[u8]| {
        entry.get(4).is_some_and(|&kind| kind != 0)
            && entry.get(12..16).is_some_and(|sectors| sectors != [0; 4])
    };
    entries.chunks(16).all(is_sensible) && entries.chunks(16).any(is_used)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 4 << 20;

    fn blank() -> Vec<u8> {
        vec![0; SIZE]
    }

    fn identify_all(device: &[u8]) -> Vec<&'static str> {
        let head = &device[..device.len().min(HEAD_BYTES)];
        let tail = &device[device.len().saturating_sub(TAIL_BYTES)..];
        identify(Ends { head, tail, size: device.len() as u64 })
    }

    fn with(offset: usize, bytes: &[u8]) -> Vec<u8> {
        let mut device = blank();
        device[offset..offset + bytes.len()].copy_from_slice(bytes);
        device
    }

    #[test]
    fn nothing_is_found_on_a_blank_device() {
        assert_eq!(identify_all(&blank()), Vec::<&str>::new());
        assert_eq!(identify_all(&[]), Vec::<&str>::new());
    }

    #[test]
    fn every_magic_number_of_the_table_is_found_alone() {
        for entry in HEAD {
            assert_eq!(identify_all(&with(entry.offset, entry.bytes)), [entry.name]);
        }
    }

    #[test]
    fn a_magic_number_one_byte_off_is_not_found() {
        for entry in HEAD {
            assert_eq!(identify_all(&with(entry.offset + 1, entry.bytes)), Vec::<&str>::new());
        }
    }

    #[test]
    fn labels_that_move_are_found_where_they_may_be() {
        for sector in 0..4 {
            let mut device = with(sector * 512, b"LABELONE");
            device[sector * 512 + 24..sector * 512 + 32].copy_from_slice(b"LVM2 001");
            assert_eq!(identify_all(&device), [LVM]);
        }
        for page in [4096, 8192, 16384, 65536] {
            assert_eq!(identify_all(&with(page - 10, b"SWAPSPACE2")), [SWAP]);
        }
        let uberblock = 0x00ba_b10c_u64.to_le_bytes();
        for kib in [128, 129, 255] {
            assert_eq!(identify_all(&with(kib << 10, &uberblock)), ["a member of a ZFS pool"]);
        }
        assert_eq!(identify_all(&with(SIZE - 4096, b"EFI PART")), ["a backup GPT partition table"]);
        assert_eq!(identify_all(&with(SIZE - 512, b"EFI PART")), ["a backup GPT partition table"]);
        let raid = b"Intel Raid ISM Cfg Sig. 1.3.00";
        assert_eq!(identify_all(&with(SIZE - 1024, raid)), ["a member of a firmware RAID"]);
    }

    #[test]
    fn md_members_are_found_by_either_end() {
        let old = 0xa92b_4efc_u32;
        assert_eq!(identify_all(&with(SIZE - 0x10000, &old.to_le_bytes())), [MD]);
        assert_eq!(identify_all(&with(SIZE - 0x10000, &old.to_be_bytes())), [MD]);
        assert_eq!(identify_all(&with(SIZE - 8192, b"\xfc\x4e\x2b\xa9\x01\0\0\0")), [MD]);
        let mut odd = vec![0; SIZE + 0x8000];
        odd[SIZE - 0x10000..SIZE - 0x10000 + 4].copy_from_slice(&old.to_le_bytes());
        assert_eq!(identify_all(&odd), [MD], "0.90 counts whole 64 KiB from the start");
    }

    #[test]
    fn both_ends_of_a_device_below_drbd_are_looked_at() {
        for magic in [0x8374_026b_u32, 0x8374_026c, 0x8374_026d] {
            assert_eq!(identify_all(&with(SIZE - 4096 + 60, &magic.to_be_bytes())), [DRBD]);
            let mut odd = with(SIZE - 4096 + 60, &magic.to_be_bytes());
            odd.resize(SIZE + 512, 0);
            assert_eq!(identify_all(&odd), [DRBD], "whole 4 KiB count from the start");
            assert_eq!(identify_all(&with(SIZE - 4096, &magic.to_be_bytes())), Vec::<&str>::new());
        }
    }

    #[test]
    fn members_of_clusters_and_pools_are_found_where_their_formats_put_them() {
        for (offset, bytes, name) in [
            (0x20, b"ORCLDISK".as_slice(), "a disk of Oracle ASM"),
            (0, b"HM\x02\0", "an LVM1 physical volume"),
            (0x1000, b"OCFSV2", "an OCFS2 file system"),
            (0x204, STRATIS_MAGIC, "a member of a Stratis pool"),
            (0x1204, STRATIS_MAGIC, "a member of a Stratis pool"),
            (0x1_0000, b"\x01\x16\x19\x70", "a GFS or GFS2 file system"),
            (0x10_0000, b"\x0d\xd0\x01\xc0", "a member of a VMFS volume"),
            (0x20_0000, b"\x5e\xf1\xab\x2f", "a VMFS file system"),
        ] {
            assert_eq!(identify_all(&with(offset, bytes)), [name]);
        }
        assert_eq!(identify_all(&with(0, b"HM\x05\0")), Vec::<&str>::new(), "no version of LVM1");
    }

    #[test]
    fn a_boot_sector_without_partitions_is_no_partition_table() {
        assert_eq!(identify_all(&with(MBR_MARK, b"\x55\xaa")), Vec::<&str>::new());
        let mut device = with(MBR_MARK, b"\x55\xaa");
        device[MBR_ENTRIES + 4] = 0x83;
        device[MBR_ENTRIES + 12] = 1;
        assert_eq!(identify_all(&device), ["an MBR partition table"]);
        device[MBR_ENTRIES] = 0x17;
        assert_eq!(identify_all(&device), Vec::<&str>::new(), "no such boot flag");
    }

    #[test]
    fn every_label_of_the_table_is_read_and_an_empty_one_left_out() {
        for entry in LABELS {
            let mut device = with(entry.offset, entry.bytes);
            let described = |device: &[u8]| {
                let (head, tail) = (&device[..HEAD_BYTES], &device[SIZE - TAIL_BYTES..]);
                describe(Ends { head, tail, size: device.len() as u64 })
            };
            assert_eq!(described(&device), [entry.name]);
            let (place, length) = entry.label;
            device[place..place + length].fill(b' ');
            assert_eq!(described(&device), [entry.name]);
            device[place..place + 4].copy_from_slice(b"root");
            assert_eq!(described(&device), [format!("{} labelled root", entry.name)]);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            head in proptest::collection::vec(any::<u8>(), 0..6000),
            tail in proptest::collection::vec(any::<u8>(), 0..6000),
            size: u64,
        ) {
            describe(Ends { head: &head, tail: &tail, size });
        }
    }
}
