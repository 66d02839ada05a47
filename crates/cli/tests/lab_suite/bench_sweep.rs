//! A sweep in a booted machine: by the peer-to-peer route past guest memory, by the host route through it
//! twice.

use crate::bench_records::{payload, shown};
use crate::lab;
use crate::lab::LabRun;
use peerlane_results::Path;

const MIB: usize = 1 << 20;
const SIZE: usize = 24 * MIB;

#[test]
fn p2p_sweep_avoids_guest_memory() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", SIZE);
    lab.fill("b", SIZE);
    lab.run(
        "leave sweep peerlane bench sweep /dev/lab/a /dev/lab/b --routes p2p --block 16K,256K,1M \
         --length 4M --target-offset 8M --depth 4 --warm-up 0 --repeats 2 --scratch /dev/lab/b --force --json
         leave kept peerlane bench sweep /dev/lab/a /dev/lab/b --routes p2p --length 4M --json",
    );
    let [found] = shown(&lab, ["sweep"]);
    assert_eq!((found.cases.len(), payload(&found)), (6, 6 * 4 * MIB as u64));
    for run in &found.cases {
        assert_eq!(run.bytes_by_route.p2p, run.bytes);
        let checked = run.verification.expect("content is checked");
        assert_eq!(checked.bytes, run.bytes);
    }
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(lab.dma("payload_bytes_p2p"), 2 * payload(&found));
    lab::assert_same("source", &lab.content("a"), &source);
    let range = 8 * MIB..12 * MIB;
    lab::assert_same("target", &lab.content("b")[range], &source[..4 * MIB]);

    assert_eq!(lab.status("kept"), 2);
    assert!(lab.stderr("kept").contains("`--scratch` does not name it"), "{}", lab.stderr("kept"));
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn host_sweep_crosses_memory_twice() {
        let Some(mut lab) = LabRun::open("pair") else { return };
        let source = lab.fill("a", SIZE);
        lab.fill("b", SIZE);
        lab.run(
            "leave sweep-host peerlane bench sweep /dev/lab/a /dev/lab/b --routes host,host-serial \
             --block 64K,1M --length 4M --depth 4 --warm-up 0 --repeats 2 --scratch /dev/lab/b --force --json",
        );
        let [found] = shown(&lab, ["sweep-host"]);
        assert_eq!((found.cases.len(), payload(&found)), (8, 8 * 4 * MIB as u64));
        let serial =
            |run: &&peerlane_results::CaseRecord| run.asked.flows[0].path == Path::HostSerial;
        assert_eq!(found.cases.iter().filter(serial).count(), 4);
        assert_eq!(lab.dma("payload_bytes_p2p"), 0);
        assert_eq!(lab.dma("payload_bytes_guest_memory"), 2 * payload(&found), "{}", lab.report());
        lab::assert_same("target", &lab.content("b")[..4 * MIB], &source[..4 * MIB]);
    }
}
