//! Copies and benchmarks by the memory of a card in a booted machine.
//!
//! The card's memory is a file of the host, so that what passed through it can be read there: evidence
//! that neither the guest nor the DMA recorder gives.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod bench_records;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod lab;

use bench_records::record;
use lab::{Lab, assert_same, skip};
use peerlane_results::{MemoryKind, Route};

const MIB: usize = 1 << 20;
/// Memory of the card in `machines/card.toml`.
const MEMORY: usize = 64 * MIB;

/// The machine with its card; `None`, with the reason in the skip log, where nothing can be booted or the
/// module for cards was not built.
fn open() -> Option<Lab> {
    let lab = Lab::open("card")?;
    let kernel = peerlane_lab::find_kernel(None).expect("the lab was opened");
    match peerlane_lab::find_ram_bar(&kernel) {
        Ok(_) => Some(lab),
        Err(reason) => {
            skip("ram-bar", &reason.to_string());
            None
        }
    }
}

#[test]
fn a_copy_by_the_memory_of_a_card_leaves_guest_memory_alone_and_its_bytes_in_the_card() {
    const LENGTH: usize = 16 * MIB;
    let Some(mut lab) = open() else { return };
    let source = lab.fill("a", 24 * MIB);
    let mut target = lab.fill("b", 24 * MIB);
    let before = lab.fill("card", MEMORY);
    // Clearing the slots would take away what is looked for.
    lab.run(&format!(
        "leave topo peerlane topo --json
         plan planned /dev/lab/a /dev/lab/b --via p2pmem:/dev/lab/card
         copy moved /dev/lab/a /dev/lab/b --route p2p --via /dev/lab/card --scrub never \
              --verify full --length {LENGTH} --offset 1M --target-offset 4M"
    ));
    let moved = lab.record("moved");
    assert_eq!((moved.route, moved.bytes.0), (Route::P2p, LENGTH as u64));
    assert_eq!(moved.memory.kind, MemoryKind::P2pmem);
    assert!(moved.memory.name.starts_with("p2pmem:0000:"), "{}", moved.memory.name);
    let planned = lab.object("planned");
    assert_eq!(planned["memory"]["name"], moved.memory.name.as_str());

    let part = &source[MIB..MIB + LENGTH];
    target[4 * MIB..4 * MIB + LENGTH].copy_from_slice(part);
    assert_same("target", &lab.content("b"), &target);
    assert_same("source", &lab.content("a"), &source);

    let bytes = LENGTH as u64;
    assert!(lab.dma("payload_bytes_p2p") >= 2 * bytes, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);

    let memory = lab.content("card");
    assert_same("size of the memory", &memory[..0], &before[..0]);
    let blocks = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
        bytes.chunks_exact(64 << 10).map(<[u8]>::to_vec).collect()
    };
    let (sent, there) = (blocks(part), blocks(&memory));
    let found = sent.intersection(&there).count();
    assert!(found > 0, "the card's memory holds none of {} blocks of the source", sent.len());
    assert!(blocks(&before).intersection(&sent).next().is_none(), "it held them before");
}
