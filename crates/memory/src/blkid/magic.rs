//! Names for content that people keep on NVMe drives and that libblkid 2.38 does not name from the ends of a device.
//!
//! A pure look-up of magic numbers at fixed places. It names content and does nothing else: an
//! empty answer is no sign that a device is blank. Kinds that libblkid knows, too, have its names,
//! so each is listed once.

use super::ContentUsage::{Crypto, FileSystem, Other, PartitionTable, Raid};
use super::{ContentUsage, DeviceContent, DeviceEnds};

/// Start of a magic number.
#[derive(Debug, Clone, Copy)]
enum MagicOffset {
    /// Bytes from the start of the device.
    Start(u64),
    /// Bytes before the end of the device.
    End(u64),
}

/// A magic number and the kind of content that it is a sign of.
struct Magic {
    kind: &'static str,
    usage: ContentUsage,
    place: MagicOffset,
    bytes: &'static [u8],
    /// Further bytes that must be there, with their distance from the start of the magic number.
    also: &'static [(u64, &'static [u8])],
}

const fn at(kind: &'static str, usage: ContentUsage, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { kind, usage, place: MagicOffset::Start(offset), bytes, also: &[] }
}

const fn before_end(
    kind: &'static str,
    usage: ContentUsage,
    distance: u64,
    bytes: &'static [u8],
) -> Magic {
    Magic { kind, usage, place: MagicOffset::End(distance), bytes, also: &[] }
}

impl Magic {
    const fn with(self, also: &'static [(u64, &'static [u8])]) -> Self {
        Self { also, ..self }
    }
}

const BCACHEFS: &[u8; 16] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const BCACHE: &[u8; 16] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BITLOCKER: &[u8; 16] = b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";
const BSD: &[u8; 4] = b"\x57\x45\x56\x82";
const GELI: &[u8; 10] = b"GEOM::ELI\0";
const SCOUTFS: &[u8; 4] = b"\x8b\x42\x3c\x10";
const VHD: &[u8; 8] = b"conectix";
const XFS_LOG: &[u8; 4] = b"\xfe\xed\xba\xbe";

/// Every magic number, with its source.
const MAGICS: &[Magic] = &[
    // SPDK: `lib/blob/blobstore.h`, `module/bdev/raid/bdev_raid.h`, `lib/ftl/ftl_sb_common.h`.
    at("spdk_blobstore", Other, 0, b"SPDKBLOB"),
    at("spdk_raid", Raid, 0, b"SPDKRAID"),
    at("spdk_ftl", Other, 0, &0x1410_1683_1920_1989_u64.to_le_bytes()),
    // Linux `drivers/md/`: `dm-thin-metadata.c`, `dm-cache-metadata.c` (an octal number), `dm-era-target.c`,
    // `dm-clone-metadata.c` keep theirs behind checksum, flags, block number and UUID.
    at("dm_thin_metadata", Other, 32, &27_022_010_u64.to_le_bytes()),
    at("dm_cache_metadata", Other, 32, &0o6_142_003_u64.to_le_bytes()),
    at("dm_era_metadata", Other, 32, &2_126_579_579_u64.to_le_bytes()),
    at("dm_clone_metadata", Other, 32, &0x8af2_7f64_u64.to_le_bytes()),
    // `dm-writecache.c`, with its version; `dm-zoned-metadata.c`, versions 1 and 2; `dm-log-writes.c`.
    at("dm_writecache", Other, 0, b"\x21\x93\x48\x23\x01\0\0\0"),
    at("dm_zoned", Other, 0, b"DBZD\x01\0\0\0"),
    at("dm_zoned", Other, 0, b"DBZD\x02\0\0\0"),
    at("dm_log_writes", Other, 0, &0x6a_7366_7773_6872_u64.to_le_bytes()),
    // Linux `block/partitions/ldm.h`: the first private header, in sector 6.
    at("ldm", PartitionTable, 0xc00, b"PRIVHEAD"),
    // Open CAS, `src/metadata/metadata_superblock.h`, behind two flags and a number.
    at("open_cas", Other, 4, &0x187e_1ca6_u32.to_le_bytes()),
    // Aerospike `as/include/storage/drv_common.h`, and the format before version 3.
    at("aerospike", Other, 0, &0x4349_7472_7573_0322_u64.to_le_bytes()),
    at("aerospike", Other, 0, &0x4349_7472_7573_0707_u64.to_le_bytes()),
    // Images of virtual disks on a device, as hypervisors keep them on volumes. QEMU `docs/interop/qcow2.txt`,
    // `docs/interop/qed_spec.txt`, `block/vdi.c`, `block/vmdk.c`, `block/vhdx.h`, `block/vpc.c`.
    at("qcow2", Other, 0, b"QFI\xfb"),
    at("qed", Other, 0, b"QED\0"),
    at("vdi", Other, 64, &0xbeda_107f_u32.to_le_bytes()),
    at("vmdk", Other, 0, b"KDMV"),
    at("vhdx", Other, 0, b"vhdxfile"),
    at("vhd", Other, 0, VHD),
    before_end("vhd", Other, 512, VHD),
    // FreeBSD `sys/geom/*/g_*.h`: in the last sector, whose size is the device's.
    before_end("geli", Crypto, 512, GELI),
    before_end("geli", Crypto, 4096, GELI),
    before_end("geom_mirror", Raid, 512, b"GEOM::MIRROR\0"),
    before_end("geom_mirror", Raid, 4096, b"GEOM::MIRROR\0"),
    before_end("geom_stripe", Raid, 512, b"GEOM::STRIPE\0"),
    before_end("geom_stripe", Raid, 4096, b"GEOM::STRIPE\0"),
    before_end("geom_concat", Raid, 512, b"GEOM::CONCAT\0"),
    before_end("geom_concat", Raid, 4096, b"GEOM::CONCAT\0"),
    before_end("geom_raid3", Raid, 512, b"GEOM::RAID3\0"),
    before_end("geom_raid3", Raid, 4096, b"GEOM::RAID3\0"),
    before_end("geom_label", Other, 512, b"GEOM::LABEL\0"),
    before_end("geom_label", Other, 4096, b"GEOM::LABEL\0"),
    // BSD `sys/disklabel.h`: both magic numbers, 132 bytes apart, where amd64, sparc64 and alpha keep the label.
    at("bsd", PartitionTable, 512, BSD).with(&[(132, BSD)]),
    at("bsd", PartitionTable, 128, BSD).with(&[(132, BSD)]),
    at("bsd", PartitionTable, 64, BSD).with(&[(132, BSD)]),
    // bcachefs `fs/bcachefs/bcachefs_format.h`: the layout in sector 7, whose magic number was once that of bcache; the
    // superblock at 4 KiB; its copies at 2 MiB and at 1 MiB before the end, where libblkid 2.41 looks.
    at("bcachefs", FileSystem, 7 * 512, BCACHEFS),
    at("bcachefs", FileSystem, 7 * 512, BCACHE),
    at("bcachefs", FileSystem, 4096 + 24, BCACHEFS),
    at("bcachefs", FileSystem, (2 << 20) + 24, BCACHEFS),
    before_end("bcachefs", FileSystem, (1 << 20) - 24, BCACHEFS),
    // ScoutFS `format.h`: the superblock at 64 KiB, with a flag for the device of the metadata.
    at("scoutfs_meta", FileSystem, (64 << 10) + 4, SCOUTFS).with(&[(44, b"\x01\0\0\0\0\0\0\0")]),
    at("scoutfs_data", FileSystem, (64 << 10) + 4, SCOUTFS).with(&[(44, &[0; 8])]),
    // Core Storage by libfvde, `FileVault Drive Encryption (FVDE).asciidoc`: behind it the method of the checksum,
    // before it version and type of the block.
    at("cs_fvault2", Crypto, 8, b"\x01\0\x10\0").with(&[(80, b"CS\x01\0\0\0")]),
    // XFS `fs/xfs/libxfs/xfs_log_format.h`: a record of the log, with its version. libblkid asks for 10 MiB or more.
    at("xfs_external_log", Other, 0, XFS_LOG).with(&[(8, b"\0\0\0\x01")]),
    at("xfs_external_log", Other, 0, XFS_LOG).with(&[(8, b"\0\0\0\x02")]),
    // Kinds of which libblkid wants to see more than the ends: records of the file table, the metadata of the volume,
    // the primary header, the folder at the root. By its `superblocks/` `ntfs.c`, `bitlocker.c`, `ddf_raid.c`, `befs.c`.
    at("ntfs", FileSystem, 3, b"NTFS    "),
    at("BitLocker", Crypto, 3, b"-FVE-FS-"),
    at("BitLocker", Crypto, 424, BITLOCKER),
    before_end("ddf_raid_member", Raid, 512, b"\xde\x11\xde\x11"),
    before_end("ddf_raid_member", Raid, 257 * 512, b"\xde\x11\xde\x11"),
    at("befs", FileSystem, 32, b"1SFBEGIB"),
    at("befs", FileSystem, 512 + 32, b"1SFBEGIB"),
    at("befs", FileSystem, 32, b"BFS1BIGE"),
    at("befs", FileSystem, 512 + 32, b"BFS1BIGE"),
    // EROFS `fs/erofs/erofs_fs.h`, for libblkid 2.36.
    at("erofs", FileSystem, 1024, &0xe0f5_e1e2_u32.to_le_bytes()),
    // DRBD Manage by util-linux, `libblkid/src/superblocks/drbdmanage.c`, which wants the rest to be right, too.
    at("drbdmanage_control_volume", Other, 0, b"$DRBDmgr=q"),
    // POSIX.1-1988 `tar.h`, for archives that are written to a device as to a tape.
    at("tar", Other, 257, b"ustar"),
];

/// Lists the content of a device, each kind once, in the order of the table.
pub fn identify(ends: &DeviceEnds<'_>) -> Vec<DeviceContent> {
    let mut found: Vec<DeviceContent> = Vec::new();
    for magic in MAGICS.iter().filter(|magic| is_there(magic, ends)) {
        if found.iter().all(|content| content.kind() != magic.kind) {
            found.extend(DeviceContent::new(magic.kind.as_bytes(), magic.usage));
        }
    }
    found
}

fn is_there(magic: &Magic, ends: &DeviceEnds<'_>) -> bool {
    let start = match magic.place {
        MagicOffset::Start(offset) => Some(offset),
        MagicOffset::End(distance) => ends.size().0.checked_sub(distance),
    };
    let Some(start) = start else { return false };
    let holds = |distance: u64, bytes: &[u8]| {
        start.checked_add(distance).and_then(|at| ends.bytes(at, bytes.len())) == Some(bytes)
    };
    holds(0, magic.bytes) && magic.also.iter().all(|(distance, bytes)| holds(*distance, bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use peerlane_units::Bytes;
    use proptest::prelude::*;

    use super::super::{END_BYTES, phrases};
    use super::*;

    /// A head and a tail that do not meet.
    const SIZE: u64 = 1 << 30;

    fn kinds(head: &[u8], tail: &[u8]) -> Vec<String> {
        let found = identify(&DeviceEnds::new(head, tail, Bytes(SIZE)));
        found.iter().map(|content| content.kind().to_owned()).collect()
    }

    /// Puts the bytes of an entry `shift` bytes behind their place on a blank device.
    fn planted(magic: &Magic, shift: usize) -> Vec<String> {
        let (mut head, mut tail) = (vec![0; 3 << 20], vec![0; 2 << 20]);
        let (part, start) = match magic.place {
            MagicOffset::Start(offset) => (&mut head, usize::try_from(offset).expect("in memory")),
            MagicOffset::End(distance) => {
                let start = tail.len() - usize::try_from(distance).expect("in memory");
                (&mut tail, start)
            }
        };
        for (distance, bytes) in [(0, magic.bytes)].iter().chain(magic.also) {
            let at = start + shift + usize::try_from(*distance).expect("in memory");
            part[at..at + bytes.len()].copy_from_slice(bytes);
        }
        kinds(&head, &tail)
    }

    #[test]
    fn every_entry_is_found_alone() {
        for magic in MAGICS {
            assert_eq!(planted(magic, 0), [magic.kind], "{:?}", magic.place);
        }
    }

    #[test]
    fn shifted_entry_is_not_found() {
        for magic in MAGICS {
            assert_eq!(planted(magic, 1), Vec::<String>::new(), "{} {:?}", magic.kind, magic.place);
        }
    }

    #[test]
    fn entry_without_further_bytes_is_missed() {
        for magic in MAGICS.iter().filter(|magic| !magic.also.is_empty()) {
            let changed = Magic { also: &[], ..*magic };
            let is_blank = magic.also.iter().all(|(_, bytes)| bytes.iter().all(|&byte| byte == 0));
            let found = planted(&changed, 0);
            assert_eq!(found.contains(&magic.kind.to_owned()), is_blank, "{}", magic.kind);
        }
    }

    #[test]
    fn entries_have_phrases_and_fit_ends() {
        for magic in MAGICS {
            assert!(
                phrases::is_known(magic.kind) || magic.kind == "befs" || magic.kind == "bcachefs"
            );
            let reach = magic.also.iter().map(|(distance, bytes)| distance + bytes.len() as u64);
            let reach = reach.max().unwrap_or(0).max(magic.bytes.len() as u64);
            match magic.place {
                MagicOffset::Start(offset) => assert!(offset + reach <= END_BYTES as u64),
                MagicOffset::End(distance) => {
                    assert!(reach <= distance && distance <= END_BYTES as u64);
                }
            }
        }
    }

    #[test]
    fn entries_differ_in_place_or_bytes() {
        let places: BTreeSet<String> = MAGICS
            .iter()
            .map(|magic| format!("{:?} {:x?} {:x?}", magic.place, magic.bytes, magic.also))
            .collect();
        assert_eq!(places.len(), MAGICS.len());
    }

    #[test]
    fn blank_devices_have_no_kind() {
        assert_eq!(kinds(&[0; 8192], &[0; 8192]), Vec::<String>::new());
        assert_eq!(identify(&DeviceEnds::new(&[], &[], Bytes(0))), []);
    }

    proptest! {
        #[test]
        fn arbitrary_ends_never_panic(
            head in proptest::collection::vec(any::<u8>(), 0..6000),
            tail in proptest::collection::vec(any::<u8>(), 0..6000),
            size: u64,
        ) {
            let found = identify(&DeviceEnds::new(&head, &tail, Bytes(size)));
            prop_assert!(found.len() <= MAGICS.len());
        }
    }
}
