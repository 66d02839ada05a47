//! Drives pulled out of a booted machine in the middle of a copy: the source, the target, the one that
//! lends its memory.

use crate::faults;
use crate::faults::{
    EndCounts, MOMENTS, Random, UNPLUG_MEMORY, UNPLUG_MEMORY_AUTO, UNPLUG_SOURCE, UNPLUG_TARGET,
};
use crate::lab::{LabRun, assert_same};
use peerlane_results::{Route, Warning};

const MIB: usize = 1 << 20;
const SIZE: usize = 12 * MIB;
const BEFORE: usize = 2 * MIB;

/// A copy during which a drive went, and all that was there.
struct Pulled {
    lab: LabRun,
    copy: String,
    source: Vec<u8>,
    target: Vec<u8>,
}

/// Copies from a to b, with the journal on d, and pulls `drive` out in the middle.
fn pull(seed: u64, drive: &str, route: &str) -> Option<Pulled> {
    // From the first block on, but never so late that nothing is in flight any more: there are three
    // seconds at least, however long a machine that is busy takes to tell the host.
    let sectors = Random::new(seed).below(SIZE as u64 / 512 / 2);
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    let target = lab.fill("b", 16 * MIB);
    lab.format_ext4("d", 16 << 20)?;
    lab.at(&format!("now=unplug:{drive}"));
    let copy = format!(
        "/dev/lab/a /dev/lab/b --route {route} --block 128K --depth 8 --limit 2M --timeout 20 \
         --verify full --target-offset {BEFORE} --journal /d/journal"
    );
    lab.run(&format!(
        "{MOMENTS}
         mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
         start=$(written b)
         copy first {copy} --force &
         after b {sectors} first
         leave moment peerlane lab moment now
         wait
         umount /d"
    ));
    assert_eq!(lab.status("moment"), 0, "{}", lab.stderr("moment"));
    Some(Pulled { lab, copy, source, target })
}

impl Pulled {
    /// The program ended by itself and named the drive as gone.
    fn check_error(&self, drive: &str) {
        let said = self.lab.stderr("first");
        assert_eq!(self.lab.status("first"), 2, "{said}");
        assert!(said.contains(drive) && said.contains("is gone"), "{drive}: {said}");
        self.check_surroundings();
    }

    fn check_surroundings(&self) {
        let now = self.lab.content("b");
        let end = BEFORE + SIZE;
        assert_same("before the range", &now[..BEFORE], &self.target[..BEFORE]);
        assert_same("behind the range", &now[end..], &self.target[end..]);
        assert_same("source", &self.lab.content("a"), &self.source);
    }

    /// Boots with every drive in its place and goes on.
    fn go_on(&self) {
        let Self { lab, copy, source, .. } = self;
        lab.run(&format!(
            "mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
             copy resumed {copy} --resume
             [ $(cat $OUT/resumed.status) = 0 ] || copy anew {copy} --force
             umount /d"
        ));
        if lab.status("resumed") != 0 {
            let said = lab.stderr("resumed");
            assert!(said.contains("there is no journal"), "{said}");
            assert_eq!(lab.status("anew"), 0, "{}", lab.stderr("anew"));
        }
        assert_same("target", &lab.content("b")[BEFORE..BEFORE + SIZE], source);
        self.check_surroundings();
    }
}

fn run(case: &str, mut one: impl FnMut(u64) -> Option<EndCounts>) {
    let mut count = EndCounts::default();
    for seed in faults::seeds(1, faults::OTHERS) {
        let Some(end) = one(seed) else { return };
        count.add(&end);
    }
    count.keep(case);
}

#[test]
fn unplugged_source_is_named_and_resumable() {
    run(UNPLUG_SOURCE, |seed| {
        let pulled = pull(seed ^ 0x50, "a", "p2p")?;
        pulled.check_error("source QEMU NVMe Ctrl a ");
        pulled.go_on();
        Some(EndCounts::completed())
    });
}

#[test]
fn unplugged_target_is_named_and_resumable() {
    run(UNPLUG_TARGET, |seed| {
        let pulled = pull(seed ^ 0x7a, "b", "p2p")?;
        pulled.check_error("target QEMU NVMe Ctrl b ");
        pulled.go_on();
        Some(EndCounts::completed())
    });
}

#[test]
fn unplugged_lender_is_named_and_resumable() {
    run(UNPLUG_MEMORY, |seed| {
        let pulled = pull(seed ^ 0xc0, "c", "p2p")?;
        pulled.check_error("memory cmb:");
        pulled.go_on();
        Some(EndCounts::completed())
    });
}

#[test]
fn auto_copy_outlives_the_lender() {
    run(UNPLUG_MEMORY_AUTO, |seed| {
        let pulled = pull(seed ^ 0xca, "c", "auto")?;
        let record = pulled.lab.record("first");
        assert_eq!(record.route, Route::Host);
        let fell_back =
            record.warnings.iter().any(|warning| matches!(warning, Warning::FellBack { .. }));
        assert!(fell_back, "{:?}", record.warnings);
        assert!(
            pulled.lab.stderr("first").contains("host memory"),
            "{}",
            pulled.lab.stderr("first")
        );
        let now = pulled.lab.content("b");
        assert_same("target", &now[BEFORE..BEFORE + SIZE], &pulled.source);
        pulled.check_surroundings();
        Some(EndCounts::completed())
    });
}
