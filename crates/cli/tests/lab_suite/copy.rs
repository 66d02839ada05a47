//! Copies in booted machines: routes of the bytes, content of the targets, refusals.
//!
//! Content is compared on the host with the drives' images; routes are taken from the DMA recorder
//! outside the guest, never from the program's own account alone.

use crate::lab::{LabRun, assert_same};
use peerlane_results::{Route, Warning};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// One copy of a script: source offset, target offset, length.
struct CopyArea {
    name: &'static str,
    from: usize,
    to: usize,
    length: usize,
}

fn area(name: &'static str, from: usize, to: usize, length: usize) -> CopyArea {
    CopyArea { name, from, to, length }
}

impl CopyArea {
    fn command(&self, route: Route) -> String {
        let Self { name, from, to, length } = self;
        format!(
            "copy {name} --force /dev/lab/a /dev/lab/b --route {route} --offset {from} \
             --target-offset {to} --length {length}\n"
        )
    }
}

/// Copies the areas from a to b by `route` and checks records, recorder and every byte of b.
fn check_areas(machine: &'static str, route: Route, areas: &[CopyArea]) {
    const SIZE: usize = 24 * MIB;
    let Some(mut lab) = LabRun::open(machine) else { return };
    let source = lab.fill("a", SIZE);
    let mut expected = lab.fill("b", SIZE);
    lab.run(&areas.iter().map(|area| area.command(route)).collect::<String>());

    let mut moved = 0;
    for area in areas {
        let record = lab.record(area.name);
        let by_route = record.bytes_by_route;
        assert_eq!(record.route, route, "{}", area.name);
        assert_eq!(record.bytes.0, area.length as u64, "{}", area.name);
        assert_eq!(by_route.p2p.0 + by_route.host.0, record.bytes.0, "{}", area.name);
        assert_eq!(record.verification.mismatches, 0, "{}", area.name);
        assert!(
            record.warnings.iter().any(|warning| matches!(warning, Warning::Emulated { .. })),
            "{}: a rate from an emulated machine carries no warning",
            area.name
        );
        expected[area.to..area.to + area.length]
            .copy_from_slice(&source[area.from..area.from + area.length]);
        moved += record.bytes.0;
    }
    assert_same(machine, &lab.content("b"), &expected);
    assert_same("source", &lab.content("a"), &source);

    let (guest_memory, p2p) = (lab.dma("payload_bytes_guest_memory"), lab.dma("payload_bytes_p2p"));
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    // The areas are whole blocks, so each byte is moved twice and nothing else is.
    match route {
        Route::P2p => assert_eq!((guest_memory, p2p), (0, 2 * moved)),
        Route::Host => assert_eq!((guest_memory, p2p), (2 * moved, 0)),
    }
}

fn sizes() -> [CopyArea; 4] {
    [
        area("one_block", 0, 512, 512),
        area("less_than_a_request", 1024, MIB, MIB - 512),
        area("odd_tail", 512, 4 * MIB, 8 * MIB + 512),
        area("to_the_end", 16 * MIB, 20 * MIB, 4 * MIB),
    ]
}

#[test]
fn p2p_copies_avoid_guest_memory() {
    check_areas("pair", Route::P2p, &sizes());
}

#[test]
fn host_copies_pass_through_guest_memory() {
    check_areas("pair", Route::Host, &sizes());
}

#[test]
fn demonstration_confirms_both_routes() {
    if LabRun::open("pair").is_none() {
        return;
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["lab", "demo", "--json"])
        .output()
        .expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", output.status);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(shown["problems"], serde_json::json!([]));
    let size = 64 * MIB;
    for (copy, [guest_memory, p2p]) in [(0, [2 * size, 0]), (1, [0, 2 * size])] {
        let copy = &shown["copies"][copy];
        assert_eq!(copy["bytes"], size);
        assert_eq!(copy["images_equal"], true);
        assert_eq!(copy["payload_guest_memory"], guest_memory);
        assert_eq!(copy["payload_p2p"], p2p);
    }
}

#[test]
fn refused_route_writes_nothing() {
    let Some(mut lab) = LabRun::open("split") else { return };
    let source = lab.fill("a", 4 * MIB);
    let before = lab.fill("b", 4 * MIB);
    lab.run(
        "plan planned /dev/lab/a /dev/lab/b --route p2p
         copy required --force /dev/lab/a /dev/lab/b --route p2p --length 1M
         copy auto --force /dev/lab/a /dev/lab/b --target-offset 2M --length 1M
         leave dry peerlane copy --force /dev/lab/a /dev/lab/b --dry-run --route p2p
         mke2fs /dev/lab/c >/dev/null && mkdir -p /mnt && mount -t ext4 /dev/lab/c /mnt
         copy mounted /dev/lab/a /dev/lab/c --length 1M --force
         umount /mnt
         copy carries /dev/lab/a /dev/lab/c --length 1M
         copy forced /dev/lab/a /dev/lab/c --length 1M --route host --force",
    );
    assert_eq!(lab.status("planned"), 1);
    let planned = lab.plan("planned");
    assert_eq!(planned["route"], serde_json::Value::Null);

    assert_eq!(lab.status("required"), 77, "{}", lab.stderr("required"));
    let why = lab.stderr("required");
    assert!(why.contains("root port") || why.contains("host bridge"), "no reason in: {why}");
    assert_eq!(lab.status("dry"), 1);

    let auto = lab.record("auto");
    assert_eq!(auto.route, Route::Host);
    assert!(auto.warnings.iter().any(|warning| matches!(warning, Warning::FellBack { .. })));
    assert!(lab.stderr("auto").contains("host memory"), "{}", lab.stderr("auto"));

    let mut expected = before;
    expected[2 * MIB..3 * MIB].copy_from_slice(&source[..MIB]);
    assert_same("target", &lab.content("b"), &expected);

    assert_eq!(lab.status("mounted"), 2, "{}", lab.stderr("mounted"));
    assert!(lab.stderr("mounted").contains("mounted"), "{}", lab.stderr("mounted"));
    assert_eq!(lab.status("carries"), 2, "{}", lab.stderr("carries"));
    assert!(lab.stderr("carries").contains("carries"), "{}", lab.stderr("carries"));
    assert_eq!(lab.record("forced").route, Route::Host);
}

#[test]
fn block_sizes_may_differ_either_way() {
    let Some(mut lab) = LabRun::open("blocks") else { return };
    const SIZE: usize = 8 * MIB;
    let mut small = lab.fill("a", SIZE);
    let mut large = lab.fill("b", SIZE);
    let there = [("p2p", 0, 2 * MIB + 512), ("host", 3 * MIB, MIB + 7 * 512)];
    let back = [("p2p", 4 * MIB, MIB + 4 * KIB), ("host", 6 * MIB, 12 * KIB)];
    let mut script = String::new();
    for (route, at, length) in there {
        let options = format!("--route {route} --offset {at} --target-offset {at}");
        script += &format!(
            "copy there_{route} --force /dev/lab/a /dev/lab/b {options} --length {length}\n"
        );
        large[at..at + length].copy_from_slice(&small[at..at + length]);
    }
    for (route, at, length) in back {
        let options = format!("--route {route} --offset {at} --target-offset {at}");
        script += &format!(
            "copy back_{route} --force /dev/lab/b /dev/lab/a {options} --length {length}\n"
        );
        small[at..at + length].copy_from_slice(&large[at..at + length]);
    }
    lab.run(&script);
    for name in ["there_p2p", "there_host", "back_p2p", "back_host"] {
        let record = lab.record(name);
        assert!(name.ends_with(&record.route.to_string()), "{name} by {}", record.route);
    }
    assert_same("drive with large blocks", &lab.content("b"), &large);
    assert_same("drive with small blocks", &lab.content("a"), &small);
}

#[test]
fn files_take_routes_and_stay_kept() {
    const SIZE: u64 = 3_000_123;
    let Some(lab) = LabRun::open("pair") else { return };
    lab.run(&format!(
        "for drive in a b; do
             mke2fs /dev/lab/$drive >/dev/null && mkdir /$drive
             mount -t ext4 /dev/lab/$drive /$drive
         done
         head -c {SIZE} /dev/urandom >/a/set.bin
         sync
         copy p2p /a/set.bin /b/p2p.bin --route p2p
         copy host /a/set.bin /b/host.bin --route host
         copy again /a/set.bin /b/p2p.bin --length 1M
         leave p2p_equal cmp /a/set.bin /b/p2p.bin
         leave host_equal cmp /a/set.bin /b/host.bin
         copy required --force /a/set.bin /dev/lab/c --route p2p
         copy onto_device /a/set.bin /dev/lab/c
         dd if=/dev/lab/c bs=4096 iflag=count_bytes count={SIZE} of=/tmp/back 2>/dev/null
         leave device_equal cmp /a/set.bin /tmp/back"
    ));
    for (name, route) in [("p2p", Route::P2p), ("host", Route::Host), ("onto_device", Route::P2p)] {
        let record = lab.record(name);
        assert_eq!((record.route, record.bytes.0), (route, SIZE), "{name}");
    }
    // A device moves whole blocks, so the last bytes of the file cannot go peer to peer.
    assert_eq!(lab.status("required"), 77);
    assert!(lab.stderr("required").contains("whole block"), "{}", lab.stderr("required"));
    assert_eq!(lab.record("onto_device").bytes_by_route.host.0, SIZE % 512);
    for name in ["p2p_equal", "host_equal", "device_equal"] {
        assert_eq!(lab.status(name), 0, "{name}: {}", lab.text(&format!("{name}.json")));
    }
    assert_eq!(lab.status("again"), 2);
    assert!(lab.stderr("again").contains("exists"), "{}", lab.stderr("again"));
}

#[test]
fn proof_catches_lost_data() {
    let Some(mut lab) = LabRun::open("translating") else { return };
    let source = lab.fill("a", 4 * MIB);
    let before = lab.fill("b", 4 * MIB);
    lab.run(
        "copy required --force /dev/lab/a /dev/lab/b --route p2p --length 1M
         copy auto --force /dev/lab/a /dev/lab/b --target-offset 2M --length 1M",
    );
    assert_eq!(lab.status("required"), 77, "{}", lab.stderr("required"));
    let auto = lab.record("auto");
    assert_eq!(auto.route, Route::Host);
    assert!(auto.warnings.iter().any(|warning| matches!(warning, Warning::FellBack { .. })));
    let mut expected = before;
    expected[2 * MIB..3 * MIB].copy_from_slice(&source[..MIB]);
    assert_same("target", &lab.content("b"), &expected);
}
