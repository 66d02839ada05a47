//! Nonsense and warnings, one case each.

use peerlane_fabric::{Acs, Fabric, FunctionId, LinkSpeed, Temperature};
use peerlane_results::{BytesByRoute, CaseRecord, Limit, Path, Warning};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::*;
use crate::testing::{machine, run};
use peerlane_evidence::{CaseDrive, DriveBytes, Requests, Root};
use peerlane_testing::Scratch;

const GIGABYTE: Bytes = Bytes(1_000_000_000);
const SECOND: Nanos = Nanos(1_000_000_000);

fn gigabyte() -> CaseRecord {
    run("1M p2p", Path::P2p, GIGABYTE, SECOND)
}

/// A case of several such flows at the same time.
fn crowd(flows: usize) -> CaseRecord {
    let mut case = gigabyte();
    case.flows = vec![case.flows[0].clone(); flows];
    case.bytes = Bytes(GIGABYTE.0 * flows as u64);
    case.bytes_by_route = BytesByRoute { p2p: case.bytes, host: Bytes(0) };
    case
}

fn ceiling(rate: u64, flows: &[usize], firmness: Firmness) -> Surroundings {
    let limit = Limit { object: "a link".to_owned(), bytes_per_second: ByteRate(rate) };
    let ceilings = vec![Ceiling { limit, flows: flows.to_vec(), firmness }];
    Surroundings { ceilings, ..Surroundings::default() }
}

fn is_above(case: &CaseRecord, around: &Surroundings) -> bool {
    matches!(judge(case, around), Err(Nonsense::AboveLimit { .. }))
}

#[test]
fn only_stated_limits_have_tolerance() {
    let of = |rate, firmness| is_above(&gigabyte(), &ceiling(rate, &[0], firmness));
    assert!(!of(GIGABYTE.0, Firmness::Physical));
    assert!(of(GIGABYTE.0 - 1, Firmness::Physical));
    assert!(!of(960_000_000, Firmness::Stated));
    assert!(of(950_000_000, Firmness::Stated));
}

#[test]
fn flows_add_up_on_shared_links() {
    let shared = ceiling(2_500_000_000, &[0, 1, 2], Firmness::Physical);
    assert!(is_above(&crowd(3), &shared));
    let of_two = ceiling(2_500_000_000, &[0, 2], Firmness::Physical);
    assert!(!is_above(&crowd(3), &of_two));
    assert!(!is_above(&crowd(1), &shared), "flows that are not there count nothing");
}

#[test]
fn recorded_limit_binds_single_flow_only() {
    let limit = Limit { object: "a drive".to_owned(), bytes_per_second: ByteRate(500_000_000) };
    let mut case = gigabyte();
    case.limits = vec![limit.clone()];
    assert!(is_above(&case, &Surroundings::default()));
    let mut case = crowd(2);
    case.limits = vec![limit];
    assert!(!is_above(&case, &Surroundings::default()), "whose limit it is is unknown");
}

#[test]
fn fast_flow_is_judged_by_own_time() {
    let mut case = gigabyte();
    case.flows[0].elapsed_ns = Nanos(SECOND.0 / 4);
    assert!(is_above(&case, &ceiling(2_000_000_000, &[0], Firmness::Physical)));
    case.flows[0].elapsed_ns = Nanos(0);
    let judged = judge(&case, &ceiling(2_000_000_000, &[0], Firmness::Physical));
    assert!(matches!(judged, Err(Nonsense::NoTime { .. })));
}

#[test]
fn the_links_of_an_emulated_machine_limit_nothing() {
    let mut around = ceiling(1, &[0], Firmness::Physical);
    around.machine = vec![Warning::Emulated { sign: "QEMU NVMe Ctrl".to_owned() }];
    assert!(judge(&gigabyte(), &around).is_ok());
}

#[test]
fn parts_that_are_not_the_whole_are_an_error() {
    let mut case = gigabyte();
    case.flows[0].bytes = Bytes(1);
    assert!(matches!(judge(&case, &Surroundings::default()), Err(Nonsense::SumDiffers { .. })));
    let mut case = gigabyte();
    case.bytes_by_route.host = Bytes(1);
    let error = judge(&case, &Surroundings::default()).unwrap_err();
    assert_eq!(error.to_string(), "1M p2p: 1000000000 bytes in all, and 1000000001 by its routes");
}

fn drive(requests: Requests) -> DriveSurroundings {
    DriveSurroundings {
        content: SourceContent::NotLookedAt,
        drive: CaseDrive { name: "nvme0n1".to_owned(), address: None, requests },
        claimed: DriveBytes { read: GIGABYTE, written: GIGABYTE },
        counted: Some(DriveBytes { read: GIGABYTE, written: GIGABYTE }),
        temperature: None,
        has_write_cache: None,
        in_use: None,
        size: Some(Bytes(1 << 40)),
    }
}

fn with(drive: DriveSurroundings) -> Surroundings {
    Surroundings { drives: vec![drive], ..Surroundings::default() }
}

#[test]
fn bytes_missing_at_drive_are_error() {
    let short = DriveBytes { read: Bytes(GIGABYTE.0 - 512), written: GIGABYTE };
    let around = with(DriveSurroundings { counted: Some(short), ..drive(Requests::Direct) });
    let judged = judge(&gigabyte(), &around);
    assert!(matches!(judged, Err(Nonsense::AboveCompleted { .. })), "{judged:?}");
    let around = with(DriveSurroundings { counted: Some(short), ..drive(Requests::PageCache) });
    assert_eq!(judge(&gigabyte(), &around), Ok(vec![]), "a cache may answer, and is named");
    assert_eq!(judge(&gigabyte(), &with(drive(Requests::Direct))), Ok(vec![]));
}

#[test]
fn hot_caching_or_unwritten_drives_are_named() {
    let of = |drive| judge(&gigabyte(), &with(drive)).unwrap();
    let plain = || drive(Requests::Direct);
    let warm = |current| Some(Temperature { current, warning: Some(70_000), critical: None });
    let hot = of(DriveSurroundings { temperature: warm(68_000), ..plain() });
    assert!(matches!(hot[..], [Warning::DriveHot { temperature: 68_000, .. }]), "{hot:?}");
    assert_eq!(of(DriveSurroundings { temperature: warm(50_000), ..plain() }), []);
    let caching = of(DriveSurroundings { has_write_cache: Some(true), ..plain() });
    assert!(matches!(caching[..], [Warning::InWriteCache { .. }]), "{caching:?}");
    let empty = of(DriveSurroundings { in_use: Some(Bytes(4096)), ..plain() });
    assert!(matches!(empty[..], [Warning::NeverWritten { .. }]), "{empty:?}");
    let only_read = DriveBytes { read: GIGABYTE, written: Bytes(0) };
    let reading =
        of(DriveSurroundings { claimed: only_read, has_write_cache: Some(true), ..plain() });
    assert_eq!(reading, [], "nothing was written");
}

#[test]
fn falling_rate_and_zero_source_are_named() {
    let fell = RateDrift { first: ByteRate(3_000_000_000), last: ByteRate(1_000_000_000) };
    let around = Surroundings { pace: Some(fell), ..with(drive(Requests::Direct)) };
    let found = judge(&gigabyte(), &around).unwrap();
    let [Warning::InWriteCache { sign, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(sign, "the rate fell from 3.00 GB/s to 1.00 GB/s while it ran");
    let content = SourceContent::AllZero;
    let around = with(DriveSurroundings { content, ..drive(Requests::Direct) });
    let found = judge(&gigabyte(), &around).unwrap();
    assert!(matches!(found[..], [Warning::NeverWritten { .. }]), "{found:?}");
}

#[test]
fn drift_compares_first_and_last_third() {
    let mut bytes = 0;
    let mut looks = Vec::new();
    for second in 0..9 {
        looks.push((Nanos::seconds(second), Bytes(bytes)));
        bytes += if second < 4 { 3_000_000_000 } else { 1_000_000_000 };
    }
    let expected = RateDrift { first: ByteRate(3_000_000_000), last: ByteRate(1_000_000_000) };
    assert_eq!(RateDrift::from_looks(&looks), Some(expected));
    assert_eq!(RateDrift::from_looks(&looks[..5]), None, "too few looks");
    assert_eq!(RateDrift::from_looks(&[(Nanos(5), Bytes(1)); 9]), None, "no time passed");
    looks.reverse();
    assert_eq!(RateDrift::from_looks(&looks), None, "time runs forwards");
}

fn at(fabric: &Fabric, name: &str) -> FunctionId {
    fabric.find(name).unwrap()
}

fn by_way_of_c(fabric: &Fabric) -> FlowPath {
    let at = |name| Some(at(fabric, name));
    FlowPath { source: at("a"), target: at("b"), memory: at("c") }
}

fn read(fabric: &Fabric, tree: &Scratch) -> Surroundings {
    Surroundings::read(fabric, &Root::at(tree.path()), &[by_way_of_c(fabric)], &[])
}

#[test]
fn ceilings_are_links_by_direction() {
    let fabric = machine();
    let found = read(&fabric, &Scratch::new()).ceilings;
    let objects: Vec<&str> = found.iter().map(|one| one.limit.object.as_str()).collect();
    assert_eq!(
        objects,
        [
            "the link of a, upwards",
            "the link of b, downwards",
            "the link of c, upwards",
            "the link of c, downwards",
        ]
    );
    let host = FlowPath { memory: None, ..by_way_of_c(&fabric) };
    let found =
        Surroundings::read(&fabric, &Root::at(Scratch::new().path()), &[host], &[]).ceilings;
    let objects: Vec<&str> = found.iter().map(|one| one.limit.object.as_str()).collect();
    assert_eq!(
        objects,
        [
            "the link of a, upwards",
            "the link of b, downwards",
            "the link of switch, upwards",
            "the link of switch, downwards",
        ]
    );
}

#[test]
fn flows_that_meet_on_a_link_share_its_ceiling() {
    let fabric = machine();
    let there = by_way_of_c(&fabric);
    let back = FlowPath { source: there.target, target: there.source, memory: there.memory };
    let root = Root::at(Scratch::new().path());
    let found = Surroundings::read(&fabric, &root, &[there.clone(), there, back], &[]).ceilings;
    let of =
        |object: &str| found.iter().find(|one| one.limit.object == object).unwrap().flows.clone();
    assert_eq!(of("the link of a, upwards"), [0, 1]);
    assert_eq!(of("the link of a, downwards"), [2]);
    assert_eq!(of("the link of c, downwards"), [0, 1, 2]);
}

#[test]
fn what_a_machine_is_set_to_is_named() {
    let mut fabric = machine();
    let tree = Scratch::new();
    let usual = read(&fabric, &tree).machine;
    let (a, c, down) = (at(&fabric, "a"), at(&fabric, "c"), at(&fabric, "down-c"));
    let slow = LinkSpeed { megatransfers: 8_000, width: 4 };
    fabric.functions[a.0].link.as_mut().unwrap().current = Some(slow);
    fabric.functions[c.0].numa_node = Some(1);
    fabric.functions[down.0].acs = Acs::Present { control: 0x4 };
    tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    let found = read(&fabric, &tree).machine;
    let new: Vec<String> =
        found.iter().filter(|one| !usual.contains(one)).map(ToString::to_string).collect();
    assert_eq!(
        new,
        [
            "the processor's frequency changes with its load (`powersave`)",
            "the link of a runs at 8GT/s x4, and both ends support 16GT/s x4",
            "down-c sends peer-to-peer traffic up to the root complex (ACS)",
            "c is on node 1, and a is on node 0",
        ]
    );
    assert!(found.iter().all(|one| !one.advice().is_empty()));
}

#[test]
fn remote_drive_is_named_with_host_memory() {
    let fabric = machine();
    let tree = Scratch::new();
    let fields = ["0"; 35].join(" ");
    tree.write("proc/self/stat", format!("42 (a) b) R {fields} 7 0 0\n"));
    tree.write("sys/devices/system/cpu/cpu7/node1/x", "");
    let peers = by_way_of_c(&fabric);
    let host = FlowPath { memory: None, ..peers.clone() };
    let far = |way| {
        let found = Surroundings::read(&fabric, &Root::at(tree.path()), &[way], &[]).machine;
        let far = |one: &&Warning| matches!(one, Warning::RemoteNumaNode { used_from: 1, .. });
        found.iter().filter(far).count()
    };
    assert_eq!((far(host), far(peers)), (2, 0));
}

#[test]
fn steady_or_invalid_governor_is_not_named() {
    let fabric = machine();
    for text in ["performance", "", "a\u{7}b", &"x".repeat(4000)] {
        let tree = Scratch::new();
        tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text);
        let found = read(&fabric, &tree).machine;
        let is_named = found.iter().any(|one| matches!(one, Warning::FrequencyScaling { .. }));
        assert!(!is_named, "{text:?}");
    }
}

#[test]
fn what_sysfs_says_of_a_drive_is_read() {
    let tree = Scratch::new();
    let fabric = machine();
    for (file, text) in [
        ("queue/write_cache", "write back\n"),
        ("queue/logical_block_size", "4096\n"),
        ("nuse", "10\n"),
        ("size", "2097152\n"),
    ] {
        tree.write(format!("sys/class/block/nvme0n1/{file}"), text);
    }
    let drive = |name: &str| CaseDrive {
        name: name.to_owned(),
        address: Some("0000:04:00.0".parse().unwrap()),
        requests: Requests::Direct,
    };
    let drives = [drive("nvme0n1"), drive("nvme9n1")];
    let found = Surroundings::read(&fabric, &Root::at(tree.path()), &[], &drives).drives;
    assert_eq!(found[0].has_write_cache, Some(true));
    assert_eq!((found[0].in_use, found[0].size), (Some(Bytes(40_960)), Some(Bytes(1 << 30))));
    assert_eq!((found[1].has_write_cache, found[1].in_use, found[1].size), (None, None, None));
}
