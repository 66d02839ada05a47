//! Names by the libblkid of this machine, of devices made by hand.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::LibraryError;
use peerlane_memory::blkid::{Blkid, ContentUsage, DeviceContent, DeviceEnds, identify};
use peerlane_units::Bytes;
use proptest::prelude::*;

use crate::blkid_images::{Header, ImageDevice, UUID_TEXT, ext4, gpt, library, luks1, mbr, swap};

const LIMIT: Duration = Duration::from_secs(30);
const MIB: u64 = 1 << 20;

/// Contents by libblkid of a device with logical blocks of a size.
fn contents_with(blkid: &Blkid, device: &ImageDevice, block: u64) -> Vec<DeviceContent> {
    let found = blkid.identify(&device.ends(), Bytes(block), LIMIT);
    assert!(found.fault.is_none(), "{found:?}");
    found.contents
}

fn contents(blkid: &Blkid, device: &ImageDevice) -> Vec<DeviceContent> {
    contents_with(blkid, device, 512)
}

fn words(contents: &[DeviceContent]) -> Vec<String> {
    contents.iter().map(ToString::to_string).collect()
}

#[test]
fn ext4_has_label_and_uuid() {
    let Some(blkid) = library() else { return };
    let found = contents(&blkid, &ext4(ImageDevice::blank(64 * MIB), b"data"));
    let [content] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((content.kind(), content.usage()), ("ext4", ContentUsage::FileSystem));
    assert_eq!((content.label(), content.uuid()), (Some("data"), Some(UUID_TEXT)));
    let expected = format!("an ext4 file system labelled \"data\", UUID {UUID_TEXT}");
    assert_eq!(content.to_string(), expected);
}

#[test]
fn swap_has_label() {
    let Some(blkid) = library() else { return };
    let found = contents(&blkid, &swap(ImageDevice::blank(64 * MIB), b"spare"));
    assert_eq!(words(&found), [format!("swap space labelled \"spare\", UUID {UUID_TEXT}")]);
    assert_eq!(found[0].usage(), ContentUsage::Other);
}

#[test]
fn luks_is_encrypted_volume() {
    let Some(blkid) = library() else { return };
    let found = contents(&blkid, &luks1(ImageDevice::blank(64 * MIB)));
    assert_eq!(words(&found), [format!("a LUKS container, UUID {UUID_TEXT}")]);
    assert_eq!(found[0].usage(), ContentUsage::Crypto);
}

#[test]
fn mbr_is_partition_table() {
    let Some(blkid) = library() else { return };
    let found = contents(&blkid, &mbr(ImageDevice::blank(64 * MIB), 0x83));
    assert_eq!(words(&found), ["an MBR partition table, identifier 12345678"]);
    assert_eq!((found[0].kind(), found[0].usage()), ("dos", ContentUsage::PartitionTable));
}

#[test]
fn gpt_counts_in_logical_blocks() {
    let Some(blkid) = library() else { return };
    for block in [512, 4096] {
        for header in [Header::Primary, Header::Backup] {
            let table = gpt(ImageDevice::blank(64 * MIB), block, header, 128);
            let expected = "a GPT partition table, identifier 67452301-ab89-efcd-0123-456789abcdef";
            assert_eq!(words(&contents_with(&blkid, &table, block)), [expected]);
            // A protective MBR is part of it.
            let table = mbr(table, 0xee);
            assert_eq!(words(&contents_with(&blkid, &table, block)), [expected]);
            assert_eq!(contents_with(&blkid, &table, 4608 - block).len(), 1, "the MBR alone");
        }
    }
}

#[test]
fn protective_mbr_without_gpt_is_named() {
    let Some(blkid) = library() else { return };
    let found = contents(&blkid, &mbr(ImageDevice::blank(64 * MIB), 0xee));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(["PMBR", "dos"].contains(&found[0].kind()), "{found:?}");
}

#[test]
fn ambivalent_content_is_listed_in_full() {
    let Some(blkid) = library() else { return };
    let device = mbr(ext4(ImageDevice::blank(64 * MIB), b"a"), 0x83).with(4086, b"SWAPSPACE2");
    let device = device.with(0x1_0040, b"_BHRfS_M");
    let kinds: Vec<_> =
        contents(&blkid, &device).iter().map(|content| content.kind().to_owned()).collect();
    for kind in ["ext4", "dos"] {
        assert!(kinds.contains(&kind.to_owned()), "{kinds:?}");
    }
}

#[test]
fn blank_devices_have_no_content() {
    let Some(blkid) = library() else { return };
    for size in [0, 1, 511, 512, 513, 1025, 4096, 1_474_561, MIB, 8 * MIB, 16 * MIB + 1, 1 << 40] {
        assert_eq!(contents(&blkid, &ImageDevice::blank(size)), [], "{size}");
    }
}

#[test]
fn hostile_label_is_safe_to_print() {
    let Some(blkid) = library() else { return };
    let label = b"\x1b]0;x\x07\r\"\xff\xe2\x80\xaez";
    let found = contents(&blkid, &ext4(ImageDevice::blank(64 * MIB), label));
    let text = found[0].to_string();
    assert!(text.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{text}");
    assert_eq!(found[0].label(), Some(r#"\u{1b}]0;x\u{7}\r\"\xff\u{202e}z"#));
}

#[test]
fn sparse_tebibyte_takes_no_time() {
    let Some(blkid) = library() else { return };
    let device = ext4(ImageDevice::blank(1 << 40), b"big");
    let start = Instant::now();
    assert_eq!(contents(&blkid, &device)[0].label(), Some("big"));
    // Some milliseconds; a machine that does other things, too, has its time.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn content_at_the_end_is_found() {
    let Some(blkid) = library() else { return };
    let size = (1 << 40) + 512;
    let magic = 0xa92b_4efc_u32.to_le_bytes();
    let offset = (size & !0xffff) - 0x1_0000;
    let device =
        ImageDevice::blank(size).with(offset, &magic).with(offset + 8, &90_u32.to_le_bytes());
    let found = contents(&blkid, &device);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind(), "linux_raid_member");
}

#[test]
fn short_head_is_enough() {
    let Some(blkid) = library() else { return };
    let mut device = ext4(ImageDevice::blank(64 * MIB), b"data");
    device.head.truncate(4096);
    device.tail.clear();
    assert_eq!(contents(&blkid, &device)[0].label(), Some("data"));
    device.head.clear();
    assert_eq!(contents(&blkid, &device), []);
}

#[test]
fn oversized_device_is_a_fault() {
    let Some(blkid) = library() else { return };
    let ends = DeviceEnds::new(&[1; 512], &[1; 512], Bytes(u64::MAX));
    let found = blkid.identify(&ends, Bytes(512), LIMIT);
    assert_eq!(found.contents, []);
    let text = found.fault.expect("no such file").to_string();
    assert!(text.starts_with("cannot make a memory file"), "{text}");
}

#[test]
fn odd_block_sizes_still_find_ext4() {
    let Some(blkid) = library() else { return };
    let device = ext4(ImageDevice::blank(64 * MIB), b"data");
    for block in [0, 1, 520, 4095, 1 << 31, u64::MAX] {
        assert_eq!(contents_with(&blkid, &device, block)[0].kind(), "ext4", "{block}");
    }
}

#[test]
fn parallel_probes_are_independent() {
    let Some(blkid) = library() else { return };
    thread::scope(|scope| {
        for index in 0..8 {
            let blkid = &blkid;
            scope.spawn(move || {
                let label = format!("label-{index}");
                let device = ext4(ImageDevice::blank(64 * MIB), label.as_bytes());
                for _ in 0..8 {
                    assert_eq!(contents(blkid, &device)[0].label(), Some(label.as_str()));
                }
            });
        }
    });
}

#[test]
fn missing_library_is_a_value() {
    let error = Blkid::open_from(Path::new("/nonexistent/libblkid.so.1")).unwrap_err();
    assert!(matches!(error, LibraryError::NotThere { .. }), "{error}");
    let error = Blkid::open_from(Path::new("libc.so.6")).unwrap_err();
    assert!(matches!(error, LibraryError::NoFunction { .. }), "{error}");
}

#[test]
fn table_names_content_without_library() {
    let device = ImageDevice::blank(64 * MIB).with(0, b"SPDKBLOB");
    let found = identify(None, &device.ends(), Bytes(512), LIMIT);
    assert_eq!(words(&found.contents), ["an SPDK blobstore"]);
    assert!(found.fault.is_none());
}

#[test]
fn both_sources_list_each_kind_once() {
    let Some(blkid) = library() else { return };
    // The table has NTFS, of which this has the boot sector only, and libblkid the rest.
    let device = swap(ImageDevice::blank(64 * MIB).with(3, b"NTFS    "), b"spare");
    let found = identify(Some(&blkid), &device.ends(), Bytes(512), LIMIT);
    let kinds: Vec<_> = found.contents.iter().map(DeviceContent::kind).collect();
    assert_eq!(kinds, ["swap", "ntfs"]);
    assert!(!blkid.version().is_empty());
}

/// Beginnings of superblocks that lead libblkid into its probers.
const BAIT: [(u64, &[u8]); 16] = [
    (0, b"LUKS\xba\xbe\0\x02"),
    (0, b"XFSB"),
    (3, b"EXFAT   "),
    (3, b"NTFS    "),
    (32, b"BFS1BIGE"),
    (82, b"FAT32   "),
    (510, b"\x55\xaa"),
    (512, b"LABELONE"),
    (512, b"EFI PART"),
    (1024, b"H+"),
    (1080, b"\x53\xef"),
    (4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    (0x8001, b"BEA01"),
    (0x8001, b"CD001"),
    (0x1_0040, b"_BHRfS_M"),
    (0x2_0000, b"\x0c\xb1\xba\0\0\0\0\0"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_ends_never_panic(
        head in proptest::collection::vec(any::<u8>(), 0..70_000),
        tail in proptest::collection::vec(any::<u8>(), 0..70_000),
        bait in proptest::collection::vec(0..BAIT.len(), 0..4),
        size in prop_oneof![0..200_000_u64, Just(1 << 30), Just(1 << 40)],
    ) {
        let Some(blkid) = library() else { return Ok(()) };
        let mut device = ImageDevice { head, tail, size };
        device.head.resize(0x2_0400, 0);
        let most = usize::try_from(size).unwrap_or(usize::MAX);
        device.head.truncate(most);
        device.tail.truncate(most);
        for index in bait {
            let (offset, bytes) = BAIT[index];
            device = device.with(offset, bytes);
        }
        let found = identify(Some(&blkid), &device.ends(), Bytes(512), LIMIT);
        for content in &found.contents {
            prop_assert!(!content.to_string().chars().any(char::is_control));
        }
    }
}
