//! The machine loses its power at random moments of a copy, boots again and goes on.

use crate::faults;
use crate::faults::{EndCounts, MOMENTS, POWER_DEVICE, POWER_FILE, Random};
use crate::lab::{LabRun, assert_same};

const MIB: usize = 1 << 20;
const SIZE: usize = 12 * MIB;
/// Sectors of the target that are written when a copy is complete, journal and file system included.
const SECTORS: u64 = 26_000;
/// Four seconds, with a journal saved every two.
const OPTIONS: &str = "--route p2p --block 128K --depth 8 --limit 3M --verify full";

/// True when the second boot resumed a copy that was cut off.
fn completed(lab: &LabRun) -> bool {
    if lab.status("resumed") == 0 {
        return true;
    }
    let (resumed, anew) = (lab.stderr("resumed"), lab.stderr("anew"));
    assert!(resumed.contains("there is no journal"), "{resumed}");
    // Cut before the first journal, or after the end.
    let was_complete = lab.text("before").contains("complete");
    assert!(lab.status("anew") == 0 || was_complete, "{anew}");
    true
}

/// Copies from drive a to a file on drive b.
fn cut_a_file(seed: u64) -> Option<EndCounts> {
    let mut random = Random::new(seed);
    let sectors = random.below(SECTORS);
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    lab.format_ext4("b", 64 << 20)?;
    lab.at("now=power-cut");
    lab.run_to_power_cut(&format!(
        "{MOMENTS}
         mkdir /b && mount -t ext4 /dev/lab/b /b || exit 9
         head -c 1000000 /dev/urandom >/b/keep; md5sum /b/keep >/b/sum; sync
         start=$(written b)
         copy first /dev/lab/a /b/copy {OPTIONS} &
         after b {sectors} first
         peerlane lab moment now"
    ));
    lab.run(&format!(
        "mkdir /b && mount -t ext4 /dev/lab/b /b || exit 9
         same() {{ cmp /dev/lab/a /b/copy >/dev/null 2>&1; }}
         if [ ! -e /b/copy ]; then echo absent; elif same; then echo complete; else echo wrong; fi >$OUT/before
         copy resumed /dev/lab/a /b/copy {OPTIONS} --resume ||:
         [ $(cat $OUT/resumed.status) = 0 ] || copy anew /dev/lab/a /b/copy {OPTIONS}
         leave kept md5sum -c /b/sum
         ls -A /b | sort >$OUT/names
         cat /b/copy >$OUT/copy"
    ));
    assert!(!lab.text("before").contains("wrong"), "seed {seed}: an unfinished file had its name");
    assert!(completed(&lab), "seed {seed}");
    assert_same(&format!("seed {seed}: the file"), &lab.bytes("copy"), &source);
    assert_same("source", &lab.content("a"), &source);
    assert_eq!(lab.status("kept"), 0, "seed {seed}: another file changed");
    let names = lab.text("names");
    let known = ["copy", "keep", "lost+found", "sum"];
    let strays: Vec<&str> = names.lines().filter(|name| !known.contains(name)).collect();
    // A cut before the first journal leaves the unfinished file, which nothing knows any more.
    let is_anew = lab.status("resumed") != 0;
    let is_known = |name: &&str| is_anew && name.starts_with(".copy.peerlane-");
    assert!(
        strays.len() <= 1 && strays.iter().all(is_known),
        "seed {seed}: {strays:?} is left over"
    );
    Some(EndCounts::completed())
}

/// Copies from drive a to a part of drive b, with the journal on drive d.
fn cut_a_drive(seed: u64) -> Option<EndCounts> {
    let mut random = Random::new(seed ^ 0xb10c);
    let sectors = random.below(SECTORS);
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    let mut expected = lab.fill("b", 16 * MIB);
    lab.format_ext4("d", 16 << 20)?;
    lab.at("now=power-cut");
    let copy = format!("/dev/lab/a /dev/lab/b {OPTIONS} --target-offset 2M --journal /d/journal");
    lab.run_to_power_cut(&format!(
        "{MOMENTS}
         mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
         sync
         start=$(written b)
         copy first {copy} --force &
         after b {sectors} first
         peerlane lab moment now"
    ));
    let cut = lab.content("b");
    assert!(cut[..2 * MIB] == expected[..2 * MIB], "seed {seed}: before the range");
    assert!(cut[14 * MIB..] == expected[14 * MIB..], "seed {seed}: behind the range");
    expected[2 * MIB..14 * MIB].copy_from_slice(&source);
    let was_complete = cut == expected;
    lab.run(&format!(
        "mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
         echo {} >$OUT/before
         copy resumed {copy} --resume
         [ $(cat $OUT/resumed.status) = 0 ] || copy anew {copy} --force",
        if was_complete { "complete" } else { "absent" }
    ));
    assert!(completed(&lab), "seed {seed}");
    assert_same(&format!("seed {seed}: the target"), &lab.content("b"), &expected);
    assert_same("source", &lab.content("a"), &source);
    Some(EndCounts::completed())
}

fn run(case: &str, short: u64, one: fn(u64) -> Option<EndCounts>) {
    let mut count = EndCounts::default();
    for seed in faults::seeds(short, 2) {
        let Some(end) = one(seed) else { return };
        count.add(&end);
    }
    count.keep(case);
}

#[test]
fn file_completes_after_power_cut() {
    run(POWER_FILE, 2, cut_a_file);
}

#[test]
fn drive_completes_after_power_cut() {
    run(POWER_DEVICE, 1, cut_a_drive);
}
