//! Memory that a card's library mapped as the slots of a relay: direct I/O into the map and out of it, on
//! the io_uring of the running kernel. The library is a stand-in; there is no card.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;
#[path = "../../../tools/testing.rs"]
mod testing;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../memory/tests/xrt_mock/mod.rs"]
mod xrt_mock;

use common::{direct, folder, noise, ring};
use peerlane_engine::MonotonicClock;
use peerlane_engine::relay::{DEADLINE, Transfer, relay};
use peerlane_engine::ring::{Ring, Uring};
use peerlane_memory::xrt::Xrt;
use peerlane_results::{MemoryKind, Tail};
use peerlane_units::Bytes;
use xrt_mock::{CARD, Mock};

const BLOCK: u64 = 4096;

#[test]
fn a_map_of_a_card_holds_the_slots_of_a_relay_and_is_freed_behind_it() {
    let Some(mut uring): Option<Uring> = ring(64) else { return };
    let Some(mock) = Mock::build(&[]) else { return };
    let folder = folder();
    let (source_path, target_path) = (folder.path().join("source"), folder.path().join("target"));
    let payload = noise(3 << 20, 7);
    std::fs::write(&source_path, &payload).unwrap();
    std::fs::write(&target_path, b"").unwrap();
    let Some(source) = direct(&source_path) else { return };
    let Some(target) = direct(&target_path) else { return };
    let (source, target) = (uring.attach_file(source).unwrap(), uring.attach_file(target).unwrap());

    let xrt = Xrt::load_from(mock.library().as_os_str()).unwrap();
    let card = xrt.open(&mock.root(), CARD).unwrap();
    let region = uring.attach_region(card.allocate(Bytes(4 * 16 * BLOCK)).unwrap());
    assert!(uring.host_bytes(region).is_none(), "the engine is not shown it either");
    let transfer = Transfer {
        source,
        target,
        region,
        memory: MemoryKind::P2pmem,
        source_offset: 0,
        target_offset: 0,
        length: payload.len() as u64,
        request: 16 * BLOCK,
        slots: 4,
        slot_stride: 16 * BLOCK,
        source_block: BLOCK,
        target_block: BLOCK,
        tail: Tail::None,
        stages: 0,
        deadline: DEADLINE,
    };
    let moved = relay(&mut uring, &transfer, &MonotonicClock::start(), &mut ()).unwrap();
    assert_eq!(moved.bytes, payload.len() as u64);
    assert!(std::fs::read(&target_path).unwrap() == payload, "the content differs");

    assert_eq!(mock.calls().last().map(String::as_str), Some("map"), "held as long as the ring is");
    drop((card, xrt));
    drop(uring);
    assert_eq!(mock.calls()[3..], ["free", "close"]);
}
