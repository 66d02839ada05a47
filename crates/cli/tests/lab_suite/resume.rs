//! A copy between devices of a virtual machine that is stopped and goes on.

use crate::lab::{LabRun, assert_same};
use peerlane_results::{ResumedWithout, Route, Warning};

const SIZE: usize = 24 << 20;

#[test]
fn only_stopped_device_copy_resumes() {
    let Some(mut lab) = LabRun::open("throttled") else { return };
    let source = lab.fill("a", SIZE);
    lab.fill("b", SIZE);
    // A drive of 10 MB/s takes more than two seconds; the signal comes after 4 MiB.
    lab.run(
        "stat=/sys/class/block/$(basename $(readlink -f /dev/lab/b))/stat
         written() { set -- $(cat $stat); echo $7; }
         start=$(written)
         copy stopped --force /dev/lab/a /dev/lab/b --route p2p &
         until [ $(($(written) - start)) -gt 8192 ]; do :; done
         killall -TERM peerlane
         wait
         copy part /dev/lab/a /dev/lab/b --route p2p --resume --length 1M
         copy other /dev/lab/a /dev/lab/c --route p2p --resume --length 4M
         copy anew /dev/lab/a /dev/lab/b --route p2p
         copy resumed /dev/lab/a /dev/lab/b --route p2p --resume --verify full
         copy again /dev/lab/a /dev/lab/b --route p2p --resume",
    );
    assert_eq!(lab.status("stopped"), 130, "{}", lab.stderr("stopped"));
    let hint = "copy /dev/lab/a /dev/lab/b --route p2p --force --resume`";
    assert!(lab.stderr("stopped").contains(hint), "{}", lab.stderr("stopped"));
    for (name, reason) in
        [("part", "the length was 25165824 bytes and is 1048576"), ("anew", "is not finished")]
    {
        assert_eq!(lab.status(name), 2, "{name}");
        assert!(lab.stderr(name).contains(reason), "{name}: {}", lab.stderr(name));
    }
    for (name, outcome) in [("other", ResumedWithout::Begun), ("again", ResumedWithout::Equal)] {
        let told = lab.record(name).warnings.into_iter().find_map(|one| match one {
            Warning::NothingToResume { outcome, .. } => Some(outcome),
            _ => None,
        });
        assert_eq!(told, Some(outcome), "{name}");
    }
    let record = lab.record("resumed");
    let content = record.content;
    assert_eq!((record.route, record.bytes_by_route.host.0), (Route::P2p, 0));
    assert_eq!(content.before.0 + content.data.0, SIZE as u64, "{content:?}");
    assert!(content.before.0 > 1 << 20 && content.data.0 > 1 << 20, "{content:?}");
    assert_eq!(record.verification.bytes.0, SIZE as u64);
    assert_same("target", &lab.content("b"), &source);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "no payload in host memory");
}
