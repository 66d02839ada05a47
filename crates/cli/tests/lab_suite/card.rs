//! Copies and benchmarks by the memory of a card in a booted machine.
//!
//! The card's memory is a file of the host, so payload that passed through it can be read there:
//! evidence that neither the guest nor the DMA recorder gives.

use std::collections::{BTreeSet, HashSet};

use crate::bench_records::record;
use crate::lab::{LabRun, assert_same};
use peerlane_results::{MemoryKind, Route};
use peerlane_testing::skip;

pub(super) const MIB: usize = 1 << 20;
/// Memory of the card in `machines/card.toml`.
pub(super) const MEMORY: usize = 64 * MIB;

/// The machine with its card; `None`, with the reason in the skip log, if nothing can be booted or
/// the module for cards was not built.
pub(super) fn open() -> Option<LabRun> {
    let lab = LabRun::open("card")?;
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
fn card_copy_avoids_guest_memory() {
    const LENGTH: usize = 16 * MIB;
    let Some(mut lab) = open() else { return };
    let source = lab.fill("a", 24 * MIB);
    let mut target = lab.fill("b", 24 * MIB);
    let before = lab.fill("card", MEMORY);
    lab.run(&format!(
        "copy moved --force /dev/lab/a /dev/lab/b --route p2p --via p2pmem:/dev/lab/card \
              --verify full --length {LENGTH} --offset 1M --target-offset 4M"
    ));
    let moved = lab.record("moved");
    assert_eq!((moved.route, moved.bytes.0), (Route::P2p, LENGTH as u64));
    assert_eq!(moved.memory.kind, MemoryKind::P2pmem);
    assert!(moved.memory.name.starts_with("p2pmem:0000:"), "{}", moved.memory.name);

    let part = &source[MIB..MIB + LENGTH];
    target[4 * MIB..4 * MIB + LENGTH].copy_from_slice(part);
    assert_same("target", &lab.content("b"), &target);
    assert_same("source", &lab.content("a"), &source);

    assert_eq!(lab.dma("payload_bytes_p2p"), 2 * LENGTH as u64, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0, "{}", lab.report());
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!(bars(&lab), BTreeSet::from([("card".to_owned(), 2)]));

    // What the drives left in the card, by content: blocks of the source that were not there before.
    let sent = blocks(part);
    assert!(blocks(&before).is_disjoint(&sent), "the memory held some of the source before");
    let found = blocks(&lab.content("card")).intersection(&sent).count();
    assert!(found > 0, "the card's memory holds none of {} blocks of the source", sent.len());
    assert_ne!(found, sent.len(), "slots are used again and again, so only the last are left");
}

fn blocks(bytes: &[u8]) -> HashSet<Vec<u8>> {
    bytes.chunks_exact(64 << 10).map(<[u8]>::to_vec).collect()
}

/// BARs that the payload went through, by the DMA recorder: owner and number of each.
fn bars(lab: &LabRun) -> BTreeSet<(String, u64)> {
    let report = lab.report();
    let transfers = report["transfers"].as_array().expect("transfers");
    let moved = transfers.iter().filter(|one| one["memory"] == "bar" && one["phase"] == "move");
    let of = |one: &serde_json::Value| {
        Some((one["memory_device"].as_str()?.to_owned(), one["bar"].as_u64()?))
    };
    moved.map(|one| of(one).expect("a known BAR")).collect()
}

#[test]
fn topo_and_plan_know_card_memory() {
    let Some(mut lab) = open() else { return };
    let source = lab.fill("a", 24 * MIB);
    lab.fill("b", 24 * MIB);
    lab.run(
        "leave topo peerlane topo --json
         card=$(basename $(readlink /dev/lab/card))
         echo $card >$OUT/address
         plan planned /dev/lab/a /dev/lab/b
         plan by_address /dev/lab/a /dev/lab/b --via $card
         plan no_drive_has_one /dev/lab/a /dev/lab/b --via cmb:nvme0
         copy auto /dev/lab/a /dev/lab/b --length 4M --force
         leave end peerlane copy p2pmem:$card /dev/lab/b",
    );
    let address = lab.text("address").trim().to_owned();
    let name = format!("p2pmem:{address}");
    for plan in ["planned", "by_address"] {
        let plan = lab.plan(plan);
        assert_eq!(
            (&plan["memory"]["name"], &plan["route"]),
            (&name.as_str().into(), &"p2p".into())
        );
    }
    let functions = lab.object("topo")["function"].as_array().cloned().unwrap_or_default();
    let card = functions.iter().find(|one| one["address"] == address.as_str());
    let size = card.map(|card| card["p2pmem"]["size"].clone());
    assert_eq!(size, Some("64M".into()), "{card:?}");
    assert!(lab.stderr("no_drive_has_one").contains(&name), "{}", lab.stderr("no_drive_has_one"));
    assert!(lab.stderr("end").contains(&format!("--via {name}")), "{}", lab.stderr("end"));

    // Without `--via` it is found, too; and its memory is cleared behind the copy.
    let auto = lab.record("auto");
    assert_eq!((auto.route, auto.memory.name), (Route::P2p, name));
    assert_same("target", &lab.content("b")[..4 * MIB], &source[..4 * MIB]);
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn drives_stream_through_card_memory() {
        let Some(mut lab) = open() else { return };
        lab.fill("a", 24 * MIB);
        lab.fill("b", 24 * MIB);
        let usual = "--block 256K --length 4M --depth 4 --warm-up 0 --repeats 2 --json";
        lab.run(&format!(
            "card=p2pmem:$(basename $(readlink /dev/lab/card))
             leave in peerlane bench stream --source /dev/lab/a --target $card {usual}
             leave out peerlane bench stream --source $card --target /dev/lab/b --scratch /dev/lab/b --force {usual}
             leave round peerlane bench roundtrip /dev/lab/b --via $card --scratch /dev/lab/b --force {usual}"
        ));
        let (into, out, round) = (record(&lab, "in"), record(&lab, "out"), record(&lab, "round"));
        let moved: u64 =
            [&into, &out].iter().flat_map(|one| &one.cases).map(|run| run.bytes.0).sum();
        assert_eq!(moved, 16 * MIB as u64);
        let of = |device: bool| -> u64 {
            let runs =
                round.cases.iter().filter(|run| (run.bytes_by_route.p2p == run.bytes) == device);
            runs.map(|run| run.bytes.0).sum()
        };
        assert_eq!((of(true), of(false)), (16 * MIB as u64, 16 * MIB as u64));
        assert_eq!(lab.dma("payload_bytes_p2p"), moved + of(true), "{}", lab.report());
        assert_eq!(lab.dma("payload_bytes_guest_memory"), of(false), "{}", lab.report());
        assert_eq!(bars(&lab), BTreeSet::from([("card".to_owned(), 2)]));
    }
}
