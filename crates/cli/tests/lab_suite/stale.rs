//! A new file never shows the old content of its blocks, wherever the power fails.
//!
//! The question is Donard's: device memory is written into a file whose blocks were allocated before.
//! The drive is full of a marker below its file system; the machine goes away while the file is
//! written, on ext4 and on XFS, and every block of it holds the source's data or zeroes afterwards.

use std::fs;

use crate::lab::{LabRun, tool};

const SIZE: usize = 24 << 20;
const DRIVE: usize = 64 << 20;
/// Least size of a drive for mkfs.xfs.
const XFS_DRIVE: usize = 320 << 20;
const BLOCK: usize = 4096;
const MARKER: &[u8; 16] = b"stale, not yours";

/// Blocks with a marker in them.
fn marked(bytes: &[u8]) -> usize {
    let is_marked = |block: &&[u8]| block.chunks_exact(MARKER.len()).any(|chunk| chunk == MARKER);
    bytes.chunks(BLOCK).filter(is_marked).count()
}

/// A lab whose drive b has a file system over markers, and the content of its drive a.
fn over_markers(size: usize, make: &str, arguments: &[&str]) -> Option<(LabRun, Vec<u8>)> {
    let mut lab = LabRun::open("throttled")?;
    let source = lab.fill("a", SIZE);
    lab.fill("b", 0);
    let image = lab.image("b");
    fs::write(&image, MARKER.repeat(size / MARKER.len())).expect("an image");
    tool(make, arguments, &image)?;
    Some((lab, source))
}

/// Copies to a new file on drive b and takes the machine away when `sectors` are written.
fn cut_after(lab: &LabRun, sectors: u32, kind: &str) {
    // After `sync` the file system knows the file and its blocks, of which most were not written. The rest of them
    // take seconds, in which a machine that is busy comes to `sync`.
    lab.run_until_cut(&format!(
        "mkdir /b && mount -t {kind} /dev/lab/b /b
         stat=/sys/class/block/$(basename $(readlink -f /dev/lab/b))/stat
         written() {{ set -- $(cat $stat); echo $7; }}
         start=$(written)
         peerlane copy /dev/lab/a /b/set --route p2p --limit 4M &
         until [ $(($(written) - start)) -gt {sectors} ]; do kill -0 $! || exit 3; done
         sync
         kill -0 $! || exit 4
         echo b >/proc/sysrq-trigger
         sleep 60"
    ));
    let image = lab.content("b");
    assert!(marked(&image) > image.len() / BLOCK / 4, "the markers are gone");
}

/// Checks that each block of an unfinished file is the source's or zero, and that some are of each.
fn check_unfinished(file: &[u8], source: &[u8]) {
    assert_eq!(file.len(), SIZE);
    assert_eq!(marked(file), 0, "blocks of the file show what was there before");
    let mut written = 0;
    for (index, (found, expected)) in file.chunks(BLOCK).zip(source.chunks(BLOCK)).enumerate() {
        let is_zero = found.iter().all(|&byte| byte == 0);
        assert!(is_zero || found == expected, "block {index} is neither");
        written += usize::from(!is_zero);
    }
    let all = SIZE / BLOCK;
    assert!((1..all).contains(&written), "{written} of {all} blocks: not in the middle");
}

/// As the module says, on ext4: looked at from outside.
fn check_cut_after(sectors: u32) {
    let make = ["-q", "-F", "-E", "nodiscard,lazy_itable_init=0"];
    let Some((lab, source)) = over_markers(DRIVE, "mkfs.ext4", &make) else { return };
    cut_after(&lab, sectors, "ext4");
    let image = lab.image("b");
    tool("e2fsck", &["-fy"], &image).expect("e2fsprogs");
    let names = tool("debugfs", &["-R", "ls -p /"], &image).expect("e2fsprogs");
    let names: Vec<&str> = names
        .lines()
        .filter_map(|line| line.split('/').nth(5))
        .filter(|name| !name.contains("journal") && name.contains(".set."))
        .collect();
    let [name] = names[..] else { panic!("not one unfinished file: {names:?}") };
    let dumped = image.with_extension("dumped");
    let dump = format!("dump /{name} {}", dumped.display());
    tool("debugfs", &["-R", &dump], &image).expect("e2fsprogs");
    check_unfinished(&fs::read(&dumped).expect("what was in the file"), &source);
}

#[test]
fn begun_file_shows_no_stale_blocks() {
    check_cut_after(2048);
}

#[test]
fn partial_file_shows_no_stale_blocks() {
    check_cut_after(24576);
}

#[test]
fn xfs_partial_file_hides_stale_blocks() {
    let Some((mut lab, source)) = over_markers(XFS_DRIVE, "mkfs.xfs", &["-q", "-f", "-K"]) else {
        return;
    };
    lab.load(&["xfs"]);
    cut_after(&lab, 24576, "xfs");
    // XFS puts itself right when it is mounted; the file goes to drive a, which is read from outside.
    lab.run(
        "mkdir /b && mount -t xfs /dev/lab/b /b || exit 9
         ls -A /b | grep '[.]set[.]' | grep -v journal >$OUT/names
         dd if=/b/$(cat $OUT/names) of=/dev/lab/a bs=1M
         sync",
    );
    let names = lab.text("names");
    assert_eq!(names.lines().count(), 1, "not one unfinished file: {names:?}");
    check_unfinished(&lab.content("a"), &source);
}
