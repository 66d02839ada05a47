//! A drive of a booted machine that all but stops answering.

use crate::faults;
use crate::faults::{EndCounts, STUCK};
use crate::lab::{LabRun, assert_same};

const MIB: usize = 1 << 20;

/// Copies onto a drive so slow that requests outlive their deadline, and then cuts the power: the
/// kernel would wait for the drive.
fn get_stuck(slow: &str, route: &str) -> Option<EndCounts> {
    let mut lab = LabRun::open_described(&faults::machine(&[(slow, "throttle = \"50KB/s\"")], ""))?;
    let source = lab.fill("a", 8 * MIB);
    let before = lab.fill("b", 16 * MIB);
    lab.format_ext4("d", 16 << 20)?;
    lab.at("over=power-cut");
    let said = lab.run_to_power_cut(&format!(
        "mkdir /d && mount -t ext4 /dev/lab/d /d || exit 9
         peerlane copy /dev/lab/a /dev/lab/b --route {route} --force --block 1M --depth 4 \
             --target-offset 4M --timeout 3 --journal /d/journal
         echo status $? >&2
         sync -f /d/journal 2>/dev/null
         peerlane lab moment over"
    ));
    let (role, drive) = if slow == "a" { ("source", "Ctrl a (") } else { ("target", "Ctrl b (") };
    assert!(said.contains("status 2\n"), "the process could not be left: {said}");
    assert!(said.contains("does not answer: route"), "{said}");
    for part in [drive, role, "no answer in ", " at "] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(said.contains(&format!("route {route}")), "{said}");
    let now = lab.content("b");
    assert_same("before the range", &now[..4 * MIB], &before[..4 * MIB]);
    assert_same("behind the range", &now[12 * MIB..], &before[12 * MIB..]);
    assert_same("source", &lab.content("a"), &source);
    Some(EndCounts::refused())
}

#[test]
fn unresponsive_drive_is_named_and_left() {
    let mut count = EndCounts::default();
    let all = [("b", "host"), ("a", "p2p"), ("b", "p2p"), ("a", "host")];
    for ((slow, route), _) in all.iter().zip(faults::seeds(1, faults::OTHERS)) {
        let Some(end) = get_stuck(slow, route) else { return };
        count.add(&end);
    }
    count.keep(STUCK);
}
