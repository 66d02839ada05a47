//! A copy in a booted machine by a user who is not root.

use crate::lab::{LabRun, assert_same};
use peerlane_results::Route;

#[test]
fn group_with_devices_copies_without_root() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", 4 << 20);
    lab.fill("b", 4 << 20);
    lab.run(
        "printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/:/bin/sh\\n' >/etc/passwd
         printf 'root:x:0:\\nuser:x:1000:\\npeerlane:x:900:user\\n' >/etc/group
         chmod 1777 $OUT /tmp
         memory=$(ls /sys/bus/pci/devices/*/p2pmem/allocate)
         echo $memory >$OUT/memory
         user() { leave $1 su -s /bin/sh user -c \"XDG_STATE_HOME=/tmp peerlane $2\"; }
         user no_drive 'plan /dev/lab/a /dev/lab/b --json'
         for drive in a b; do
             node=$(readlink -f /dev/lab/$drive)
             chgrp peerlane $node && chmod 660 $node
         done
         user no_memory 'plan /dev/lab/a /dev/lab/b --route p2p --json'
         user doctor 'doctor --json'
         user by_host 'copy --force /dev/lab/a /dev/lab/b --length 1M --json'
         chgrp peerlane $memory && chmod 660 $memory
         user copied 'copy --force /dev/lab/a /dev/lab/b --route p2p --json'",
    );
    assert_eq!(lab.status("no_drive"), 1, "{}", lab.stderr("no_drive"));
    let refusals = lab.plan("no_drive")["refusals"].to_string();
    assert!(refusals.contains("cannot read /dev/"), "{refusals}");
    assert!(refusals.contains("for writing: Permission denied"), "{refusals}");
    assert_eq!(lab.status("no_memory"), 1, "{}", lab.stderr("no_memory"));
    let reason = lab.plan("no_memory")["reason"].to_string();
    assert!(reason.contains("no permission to read and write"), "{reason}");
    assert!(reason.contains(lab.text("memory").trim()), "{reason}");
    let findings = lab.object("doctor")["findings"].clone();
    assert_eq!(findings[0]["kind"], "memory-not-permitted", "{findings}");
    assert_eq!(lab.status("doctor"), 1);
    assert_eq!(lab.record("by_host").route, Route::Host);
    let record = lab.record("copied");
    assert_eq!(record.route, Route::P2p);
    assert_same("target", &lab.content("b"), &source);
}
