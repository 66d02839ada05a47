//! Copies by passthrough nodes in booted machines: where the bytes went, what is refused, and that a
//! block device which is beside the node is neither overwritten in use nor left with stale pages.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod lab;

use lab::{Lab, assert_same};
use peerlane_results::{EndpointKind, Route};

const MIB: usize = 1 << 20;

/// `node a` prints the passthrough node of drive a.
const NODE: &str = "node() { readlink -f /dev/lab/$1 | sed s,/dev/nvme,/dev/ng,; }\n";

fn run(lab: &Lab, script: &str) {
    lab.run(&format!("{NODE}{script}"));
}

#[test]
fn commands_move_payload_peer_to_peer_and_leave_guest_memory_alone() {
    const SIZE: usize = 24 * MIB;
    let Some(mut lab) = Lab::open("pair") else { return };
    let source = lab.fill("a", SIZE);
    let mut expected = lab.fill("b", SIZE);
    run(
        &lab,
        "plan planned $(node a) $(node b) --route p2p
         copy both $(node a) $(node b) --route p2p --offset 512 --target-offset 1M --length 8389120
         copy from $(node a) /dev/lab/b --route p2p --offset 1M --target-offset 12M --length 3M
         copy onto /dev/lab/a $(node b) --route p2p --offset 2M --target-offset 16M --length 3M",
    );
    assert_eq!(lab.status("planned"), 0);
    let mut moved = 0;
    for (name, from, to, length) in [
        ("both", 512, MIB, 8 * MIB + 512),
        ("from", MIB, 12 * MIB, 3 * MIB),
        ("onto", 2 * MIB, 16 * MIB, 3 * MIB),
    ] {
        let record = lab.record(name);
        assert_eq!((record.route, record.bytes.0), (Route::P2p, length as u64), "{name}");
        assert_eq!(record.verification.mismatches, 0, "{name}");
        expected[to..to + length].copy_from_slice(&source[from..from + length]);
        moved += 2 * length as u64;
    }
    let both = lab.record("both");
    assert_eq!(both.source.kind, EndpointKind::Passthrough);
    assert!(
        both.evidence.iter().any(|one| one.looked_at.contains("the block device of /dev/ng")),
        "{:?}",
        both.evidence
    );
    assert_same("target", &lab.content("b"), &expected);
    assert_same("source", &lab.content("a"), &source);
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!((lab.dma("payload_bytes_guest_memory"), lab.dma("payload_bytes_p2p")), (0, moved));
}
