//! Too little room in a booted machine: device memory, the target, the journal's place. And a clock
//! that jumps.

use crate::faults;
use crate::faults::{CLOCK, EndCounts, JOURNAL_PLACE, MEMORY_TAKEN, MOMENTS, Random, TARGET_FULL};
use crate::lab::{LabRun, assert_same};
use peerlane_results::{Route, Warning};
use peerlane_units::Nanos;

const MIB: usize = 1 << 20;
const SIZE: usize = 8 * MIB;

/// Shell functions that hold pieces of the memory of drive c: `hold NAME SIZE...`, `let_go NAME`.
const HOLD: &str = "
address=$(basename $(dirname $(ls -d /sys/bus/pci/devices/*/p2pmem)))
# The driver keeps some of it for its queues.
free=$(cat /sys/bus/pci/devices/$address/p2pmem/available)
hold() {
    name=$1; shift
    mkfifo /tmp/$name.in /tmp/$name.out
    peerlane lab hold $address \"$@\" </tmp/$name.in >/tmp/$name.out &
    eval \"$name=$!\"
    # Held open by a process of its own, so that the memory is given back when that one ends.
    sleep 1000 >/tmp/$name.in &
    eval \"${name}_open=$!\"
    read said </tmp/$name.out
    [ \"$said\" = held ] || exit 9
}
let_go() {
    eval \"kill \\$$1_open; wait \\$$1\"
}
";

#[test]
fn taken_memory_is_avoided_or_refused() {
    let mut count = EndCounts::default();
    for seed in faults::seeds(1, faults::OTHERS) {
        let Some(end) = share_memory(seed) else { return };
        count.add(&end);
    }
    count.keep(MEMORY_TAKEN);
}

fn share_memory(seed: u64) -> Option<EndCounts> {
    let mut random = Random::new(seed ^ 0x3e3);
    let sectors = random.below(SIZE as u64 / 512);
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    let before = lab.fill("b", 6 * SIZE);
    let area = |index: usize| format!("/dev/lab/a /dev/lab/b --target-offset {}", index * SIZE);
    let [refused, host, less, pieces, under_way] = [0, 1, 2, 3, 4].map(area);
    lab.run(&format!(
        "{MOMENTS}{HOLD}
         hold all $free
         copy refused --force {refused} --route p2p
         copy host {host} --force
         let_go all
         hold most 62M
         copy less {less} --route p2p --force --verify full
         let_go most
         hold pieces --fragment $(for i in $(seq 63); do echo 1M; done)
         copy pieces {pieces} --route p2p --force --verify full --block 1M
         let_go pieces
         start=$(written b)
         copy under_way {under_way} --route p2p --force --verify full --limit 4M &
         copying=$!
         after b {sectors} under_way
         hold rest 32M
         let_go rest
         wait $copying
         echo $(($(cat /sys/bus/pci/devices/$address/p2pmem/available) - free)) >$OUT/missing"
    ));
    let said = lab.stderr("refused");
    assert_eq!(lab.status("refused"), 77, "{said}");
    assert!(said.contains("memory"), "{said}");
    let record = lab.record("host");
    assert_eq!(record.route, Route::Host);
    let fell_back = |one: &Warning| matches!(one, Warning::FellBack { .. });
    assert!(record.warnings.iter().any(fell_back), "{:?}", record.warnings);
    for name in ["less", "pieces", "under_way"] {
        assert_eq!(lab.record(name).route, Route::P2p, "{name}");
    }
    assert!(lab.record("less").shape.memory.0 <= 2 << 20, "{:?}", lab.record("less").shape);
    let mut expected = before;
    for area in 1..5 {
        expected[area * SIZE..(area + 1) * SIZE].copy_from_slice(&source);
    }
    assert_same("target", &lab.content("b"), &expected);
    assert_eq!(lab.text("missing").trim(), "0", "memory was not given back");
    Some(EndCounts { completed: 4, refused_clearly: 1 })
}

#[test]
fn full_target_and_journal_are_named() {
    let (mut full, mut journal) = (EndCounts::default(), EndCounts::default());
    for seed in faults::seeds(1, faults::OTHERS) {
        let Some([of_target, of_journal]) = fill_up(seed) else { return };
        full.add(&of_target);
        journal.add(&of_journal);
    }
    full.keep(TARGET_FULL);
    journal.keep(JOURNAL_PLACE);
}

fn fill_up(seed: u64) -> Option<[EndCounts; 2]> {
    let mut random = Random::new(seed ^ 0xf11);
    // Less than the copy needs, whatever the file system takes for itself.
    let left = random.below(SIZE as u64 - MIB as u64);
    let sectors = random.below(SIZE as u64 / 512 * 3 / 4);
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    let before = lab.fill("b", 2 * SIZE);
    lab.format_ext4("d", 24 << 20)?;
    lab.run(&format!(
        "{MOMENTS}
         mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
         free() {{ set -- $(stat -f -c '%a %S' /d); echo $(($1 * $2)); }}
         head -c 100000 /dev/urandom >/d/keep; sync
         head -c $(($(free) - {left})) /dev/zero >/d/filler; sync
         md5sum /d/keep >/tmp/keep
         md5sum /d/keep /d/filler >/tmp/sums
         copy full_p2p /dev/lab/a /d/copy --route p2p
         copy full_host /dev/lab/a /d/copy --route host
         ls -A /d | sort | tr '\\n' ' ' >$OUT/names
         leave kept md5sum -c /tmp/sums
         rm /d/filler
         copy room /dev/lab/a /d/copy --route p2p
         leave equal cmp /dev/lab/a /d/copy
         rm /d/copy
         start=$(written d)
         copy filling /dev/lab/a /d/copy --route p2p --block 128K --limit 4M &
         after d {sectors} filling
         cat /dev/zero >/d/filler 2>/dev/null
         sync
         wait
         leave filled cmp /dev/lab/a /d/copy
         leave still_kept md5sum -c /tmp/keep
         mkdir /j && mount -t tmpfs -o size=64k none /j
         cat /dev/zero >/j/filler 2>/dev/null
         copy no_room /dev/lab/a /dev/lab/b --force --route p2p --journal /j/journal
         rm /j/filler; mount -o remount,ro /j
         copy read_only /dev/lab/a /dev/lab/b --force --route p2p --journal /j/journal
         mount -o remount,rw /j
         cat /dev/lab/b >$OUT/unchanged
         copy writable /dev/lab/a /dev/lab/b --force --route p2p --journal /j/journal"
    ));
    for name in ["full_p2p", "full_host"] {
        let said = lab.stderr(name);
        assert_eq!(lab.status(name), 2, "{name}: {said}");
        assert!(said.contains("the file system of /d/copy has "), "{name}: {said}");
        assert!(said.contains(" free, and 8 MiB are to be copied"), "{name}: {said}");
    }
    assert_eq!(lab.text("names"), "filler keep lost+found ", "what failed left something");
    assert_eq!(lab.status("kept"), 0, "another file changed");
    lab.record("room");
    assert_eq!(lab.status("equal"), 0, "{}", lab.text("equal.json"));
    // Its blocks were reserved before the first byte moved.
    lab.record("filling");
    for name in ["filled", "still_kept"] {
        assert_eq!(lab.status(name), 0, "{name}: {}", lab.text(&format!("{name}.json")));
    }
    for (name, reason) in [("no_room", "No space left"), ("read_only", "Read-only file system")] {
        let said = lab.stderr(name);
        assert_eq!(lab.status(name), 2, "{name}: {said}");
        assert!(said.contains("/j/journal") && said.contains(reason), "{name}: {said}");
    }
    assert_same("target of refused copies", &lab.bytes("unchanged"), &before);
    lab.record("writable");
    let mut expected = before;
    expected[..SIZE].copy_from_slice(&source);
    assert_same("target", &lab.content("b"), &expected);
    // The refused ones were complete when there was room.
    let full = EndCounts { completed: 3, refused_clearly: 0 };
    let journal = EndCounts { completed: 2, refused_clearly: 0 };
    Some([full, journal])
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    let mut count = EndCounts::default();
    for seed in faults::seeds(1, faults::OTHERS) {
        let Some(end) = jump(seed) else { return };
        count.add(&end);
    }
    count.keep(CLOCK);
}

fn jump(seed: u64) -> Option<EndCounts> {
    let mut random = Random::new(seed ^ 0xc10c);
    let mut at = || random.below(SIZE as u64 / 512 / 2);
    let (forward, back, stop) = (at(), at(), at());
    let mut lab = LabRun::open_described(&faults::machine(&[], ""))?;
    let source = lab.fill("a", SIZE);
    let mut expected = lab.fill("b", 3 * SIZE);
    let options = "--route p2p --force --verify full --block 128K --limit 3M --timeout 60";
    lab.run(&format!(
        "{MOMENTS}
         jump() {{ date -s @$(($(date +%s) + $1)) >/dev/null; }}
         start=$(written b)
         copy whole /dev/lab/a /dev/lab/b {options} &
         after b {forward} whole; jump 864000
         after b {} whole; jump -2000000
         wait
         start=$(written b)
         copy stopped /dev/lab/a /dev/lab/b --target-offset {SIZE} {options} &
         after b {stop} stopped; jump 864000
         killall -TERM peerlane; wait
         jump -8640000
         copy resumed /dev/lab/a /dev/lab/b --target-offset {SIZE} {options} --resume
         [ $(cat $OUT/resumed.status) = 0 ] ||
             copy anew /dev/lab/a /dev/lab/b --target-offset {SIZE} {options}",
        forward + back
    ));
    let whole = lab.record("whole");
    // Of 864,000 s forward; no machine takes a tenth of them for a few MiB.
    assert!(whole.elapsed_ns < Nanos::seconds(86_400), "a jump was counted: {}", whole.elapsed_ns);
    if lab.status("resumed") != 0 {
        let said = lab.stderr("resumed");
        assert!(said.contains("there is no journal"), "{said}");
        lab.record("anew");
    }
    for area in 0..2 {
        expected[area * SIZE..(area + 1) * SIZE].copy_from_slice(&source);
    }
    assert_same("target", &lab.content("b"), &expected);
    Some(EndCounts { completed: 2, refused_clearly: 0 })
}
