//! Words for kinds of content: `an XFS file system` for `xfs`.
//!
//! A kind that is not in the table, as of a later libblkid, is still named by its type and its use.

use super::ContentUsage;

/// Kinds whose type alone is not a word for people, by libblkid's names and those of
/// [`super::magic`].
const PHRASES: &[(&str, &str)] = &[
    ("BitLocker", "a BitLocker volume"),
    ("DM_integrity", "a dm-integrity device"),
    ("DM_snapshot_cow", "the store of a dm-snapshot"),
    ("DM_verity_hash", "the hashes of a dm-verity device"),
    ("LVM1_member", "an LVM1 physical volume"),
    ("LVM2_member", "an LVM physical volume (LVM2_member)"),
    ("PMBR", "the protective MBR of a GPT that is gone"),
    ("ReFS", "a ReFS file system"),
    ("VMFS", "a VMFS file system"),
    ("VMFS_volume_member", "a member of a VMFS volume"),
    ("adaptec_raid_member", "a member of an Adaptec RAID (adaptec_raid_member)"),
    ("aerospike", "an Aerospike device"),
    ("apfs", "an APFS container"),
    ("bcache", "a bcache device"),
    ("bsd", "a BSD disk label"),
    ("btrfs", "a Btrfs file system"),
    ("ceph_bluestore", "a Ceph BlueStore device"),
    ("crypto_LUKS", "a LUKS container"),
    ("cs_fvault2", "a FileVault volume of Core Storage"),
    ("ddf_raid_member", "a member of a DDF firmware RAID"),
    ("dm_cache_metadata", "the metadata of a dm-cache"),
    ("dm_clone_metadata", "the metadata of a dm-clone device"),
    ("dm_era_metadata", "the metadata of a dm-era device"),
    ("dm_log_writes", "a log of dm-log-writes"),
    ("dm_thin_metadata", "the metadata of a dm-thin pool"),
    ("dm_writecache", "a dm-writecache"),
    ("dm_zoned", "a dm-zoned device"),
    ("dos", "an MBR partition table"),
    ("drbd", "the data of a DRBD device"),
    ("drbdmanage_control_volume", "a control volume of DRBD Manage"),
    ("drbdproxy_datalog", "a log of DRBD Proxy"),
    ("erofs", "an EROFS file system"),
    ("exfat", "an exFAT file system"),
    ("f2fs", "an F2FS file system"),
    ("geli", "a GELI container"),
    ("geom_concat", "a member of a GEOM concatenation"),
    ("geom_label", "a GEOM label"),
    ("geom_mirror", "a member of a GEOM mirror"),
    ("geom_raid3", "a member of a GEOM RAID3"),
    ("geom_stripe", "a member of a GEOM stripe"),
    ("gfs", "a GFS file system"),
    ("gfs2", "a GFS2 file system"),
    ("gpt", "a GPT partition table"),
    ("hfs", "an HFS file system"),
    ("hfsplus", "an HFS+ file system"),
    ("hpfs", "an HPFS file system"),
    ("iso9660", "an ISO 9660 file system"),
    ("isw_raid_member", "a member of an Intel RAID (isw_raid_member)"),
    ("jbd", "the external journal of an ext4 file system"),
    ("jfs", "a JFS file system"),
    ("jmicron_raid_member", "a member of a JMicron RAID (jmicron_raid_member)"),
    ("ldm", "a Windows dynamic disk"),
    ("linux_raid_member", "a member of an md array"),
    ("mac", "an Apple partition map"),
    ("mpool", "a member of an mpool"),
    ("nilfs2", "a NILFS2 file system"),
    ("ntfs", "an NTFS file system"),
    ("nvidia_raid_member", "a member of an NVIDIA RAID (nvidia_raid_member)"),
    ("ocfs", "an OCFS file system"),
    ("ocfs2", "an OCFS2 file system"),
    ("open_cas", "a cache of Open CAS"),
    ("oracleasm", "a disk of Oracle ASM"),
    ("qcow2", "a qcow2 image"),
    ("qed", "a QED image"),
    ("reiser4", "a Reiser4 file system"),
    ("reiserfs", "a ReiserFS file system"),
    ("scoutfs_data", "the data of a ScoutFS file system"),
    ("scoutfs_meta", "the metadata of a ScoutFS file system"),
    ("sgi", "an SGI disk label"),
    ("spdk_blobstore", "an SPDK blobstore"),
    ("spdk_ftl", "an SPDK flash translation layer"),
    ("spdk_raid", "a member of an SPDK RAID"),
    ("stratis", "a member of a Stratis pool"),
    ("sun", "a Sun disk label"),
    ("swap", "swap space"),
    ("swsuspend", "a hibernated system in swap space"),
    ("tar", "a tar archive"),
    ("ubi", "a UBI volume"),
    ("udf", "a UDF file system"),
    ("ufs", "a UFS file system"),
    ("vdi", "a VirtualBox disk image"),
    ("vdo", "a VDO device"),
    ("vfat", "a FAT file system"),
    ("vhd", "a VHD image"),
    ("vhdx", "a VHDX image"),
    ("vmdk", "a VMDK image"),
    ("vxfs", "a VxFS file system"),
    ("xfs", "an XFS file system"),
    ("xfs_external_log", "the external log of an XFS file system"),
    ("zfs_member", "a member of a ZFS pool"),
    ("zonefs", "a zonefs file system"),
];

/// A kind as a phrase.
pub(super) fn phrase(kind: &str, usage: ContentUsage) -> String {
    if let Some((_, phrase)) = PHRASES.iter().find(|(known, _)| *known == kind) {
        return (*phrase).to_owned();
    }
    match usage {
        ContentUsage::FileSystem => format!("{} {kind} file system", article(kind)),
        ContentUsage::PartitionTable => format!("{} {kind} partition table", article(kind)),
        ContentUsage::Raid => format!("a member of an array, a pool or a volume group ({kind})"),
        ContentUsage::Crypto => format!("an encrypted volume ({kind})"),
        ContentUsage::Other => format!("content of type {kind}"),
    }
}

/// Returns whether the table has a phrase for a kind.
#[cfg(test)]
pub(super) fn is_known(kind: &str) -> bool {
    PHRASES.iter().any(|(known, _)| *known == kind)
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']) { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_unique() {
        assert!(PHRASES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn phrases_of_kinds_read_well() {
        for (kind, usage, expected) in [
            ("ext4", ContentUsage::FileSystem, "an ext4 file system"),
            ("befs", ContentUsage::FileSystem, "a befs file system"),
            ("xfs", ContentUsage::FileSystem, "an XFS file system"),
            ("LVM2_member", ContentUsage::Raid, "an LVM physical volume (LVM2_member)"),
            ("gpt", ContentUsage::PartitionTable, "a GPT partition table"),
            ("atari", ContentUsage::PartitionTable, "an atari partition table"),
            ("new", ContentUsage::Crypto, "an encrypted volume (new)"),
            ("new", ContentUsage::Other, "content of type new"),
            ("new", ContentUsage::Raid, "a member of an array, a pool or a volume group (new)"),
        ] {
            assert_eq!(phrase(kind, usage), expected);
        }
    }
}
