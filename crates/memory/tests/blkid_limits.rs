//! Limits of time and memory on content that is made to waste both.
//!
//! A program of its own, since it looks at the memory and the threads of its process.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::blkid::{BlkidError, MEMORY_LIMIT};
use peerlane_units::Bytes;

#[path = "blkid_images/mod.rs"]
mod blkid_images;

use blkid_images::{Header, ImageDevice, ext4, gpt, library};

/// The most memory that this process has had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// Looks for a thread of this process that libblkid runs in.
fn has_thread() -> bool {
    let mut tasks = fs::read_dir("/proc/self/task").expect("/proc").flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.any(|task| name(task).is_some_and(|name| name.trim() == "blkid"))
}

/// Waits until libblkid runs no more.
fn expect_end() {
    let start = Instant::now();
    while has_thread() {
        assert!(start.elapsed() < Duration::from_secs(20), "libblkid goes on without its file");
        thread::yield_now();
    }
}

/// A GPT whose entries take 1 GiB, between the ends of a device: libblkid reads them at once, for their checksum.
#[test]
fn hostile_gpt_stays_within_limits() {
    let Some(blkid) = library() else { return };
    let device = ext4(ImageDevice::blank(1 << 40), b"data");
    let mut hostile = gpt(device, 512, Header::Primary, 1024);
    // As many entries as are wanted, and a new sum of the header.
    let header = &mut hostile.head[512..512 + 92];
    header[80..84].copy_from_slice(&(8_u32 << 20).to_le_bytes());
    header[16..20].fill(0);
    let sum = blkid_images::crc32(header.iter().copied());
    header[16..20].copy_from_slice(&sum.to_le_bytes());

    let start = Instant::now();
    let found = blkid.identify(&hostile.ends(), Bytes(512), Duration::from_secs(60));
    // Since 2.40 libblkid itself refuses to read more than 8 MiB at once.
    assert!(matches!(found.fault, None | Some(BlkidError::Memory { .. })), "{found:?}");
    assert_eq!(found.contents[0].label(), Some("data"), "what was found before is kept");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(peak() < 3 * MEMORY_LIMIT.0, "{}", Bytes(peak()));
    expect_end();

    let start = Instant::now();
    let found = blkid.identify(&hostile.ends(), Bytes(512), Duration::from_millis(1));
    assert!(matches!(found.fault, None | Some(BlkidError::Deadline { .. })), "{found:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    expect_end();
}
