//! The kernel's decision table, row by row.

use peerlane_fabric::{BridgeId, Fabric, RootBus};
use peerlane_reach::decide;
use peerlane_reach::{Fact, MapType, Need, Reach};

use MapType::{BusAddress, Conditional, NotSupported, ThroughHostBridge, Unknown};

const INTEL: &str = "[cpu]\nvendor = 'GenuineIntel'\nfamily = 6";
const ZEN: &str = "[cpu]\nvendor = 'AuthenticAMD'\nfamily = 0x17";
const NOBODY: &str = "";

const LISTED: &str = "09a2";
const SAME_BRIDGE: &str = "3c00";
const UNLISTED: &str = "29c0";

/// Relation of provider and initiator in the tree.
#[derive(Debug, Clone, Copy)]
enum Placement {
    /// Below two ports of one switch; the text is the ACS of the provider's port.
    Switch(&'static str),
    /// Below two root ports of one host bridge.
    RootPorts,
    /// Below root ports of two host bridges; the second one's device.
    HostBridges(&'static str),
}

fn fabric(shape: Placement, cpu: &str, host_bridge: &str) -> Fabric {
    let ids = |device: &str| match device {
        "" => String::new(),
        known => format!("8086:{known}"),
    };
    let first = format!("h1 other @0000:00:00.0 {}", ids(host_bridge));
    peerlane_testing::machine(&match shape {
        Placement::Switch(acs) => format!(
            "{cpu}
             one host-bridge
               {first}
               root root-port
                 up upstream-port
                   down-p downstream-port acs = {acs}
                     p nvme
                   down-i downstream-port
                     i nvme"
        ),
        Placement::RootPorts => format!(
            "{cpu}
             one host-bridge
               {first}
               root-p root-port
                 p nvme
               root-i root-port
                 i nvme"
        ),
        Placement::HostBridges(other) => format!(
            "{cpu}
             one host-bridge
               {first}
               root-p root-port
                 p nvme
             two host-bridge
               h2 other @0001:00:00.0 {}
               root-i root-port
                 i nvme",
            ids(other)
        ),
    })
}

#[track_caller]
fn between(fabric: &Fabric, provider: &str, initiator: &str) -> Reach {
    let id = |name| fabric.find(name).expect("a function of that name");
    decide(fabric, id(provider), id(initiator))
}

#[test]
fn decision_table_matches_kernel() {
    use Placement::{HostBridges, RootPorts, Switch};
    const ABSENT: &str = "'absent'";
    const REDIRECT: &str = "'redirect'";
    const HIDDEN: &str = "'unknown'";
    for (shape, cpu, host_bridge, expected) in [
        (Switch(ABSENT), INTEL, UNLISTED, BusAddress),
        (Switch(ABSENT), ZEN, LISTED, BusAddress),
        (Switch(REDIRECT), ZEN, UNLISTED, ThroughHostBridge),
        (Switch(REDIRECT), INTEL, LISTED, ThroughHostBridge),
        (Switch(REDIRECT), INTEL, SAME_BRIDGE, ThroughHostBridge),
        (Switch(REDIRECT), INTEL, UNLISTED, NotSupported),
        (RootPorts, ZEN, UNLISTED, ThroughHostBridge),
        (RootPorts, INTEL, LISTED, ThroughHostBridge),
        (RootPorts, INTEL, SAME_BRIDGE, ThroughHostBridge),
        (RootPorts, INTEL, UNLISTED, NotSupported),
        (HostBridges(UNLISTED), ZEN, UNLISTED, ThroughHostBridge),
        (HostBridges(LISTED), INTEL, LISTED, ThroughHostBridge),
        (HostBridges(SAME_BRIDGE), INTEL, LISTED, NotSupported),
        (HostBridges(LISTED), INTEL, SAME_BRIDGE, NotSupported),
        (HostBridges(UNLISTED), INTEL, LISTED, NotSupported),
        // AMD before Zen, and a vendor that only descends from it.
        (RootPorts, "[cpu]\nvendor = 'AuthenticAMD'\nfamily = 0x16", UNLISTED, NotSupported),
        (RootPorts, "[cpu]\nvendor = 'HygonGenuine'\nfamily = 0x18", UNLISTED, NotSupported),
        // What cannot be read counts only where it would change the answer.
        (Switch(HIDDEN), INTEL, UNLISTED, Unknown),
        (Switch(HIDDEN), ZEN, LISTED, Unknown),
        (Switch(ABSENT), NOBODY, "", BusAddress),
        (Switch(REDIRECT), NOBODY, UNLISTED, Conditional),
        (RootPorts, NOBODY, UNLISTED, Conditional),
        (RootPorts, NOBODY, LISTED, ThroughHostBridge),
        (RootPorts, "[cpu]\nvendor = 'AuthenticAMD'", UNLISTED, Conditional),
        (RootPorts, INTEL, "", Unknown),
        (RootPorts, ZEN, "", ThroughHostBridge),
        (HostBridges(""), INTEL, UNLISTED, NotSupported),
        (HostBridges(""), INTEL, LISTED, Unknown),
    ] {
        let found = between(&fabric(shape, cpu, host_bridge), "p", "i");
        assert_eq!(found.map, expected, "{shape:?}, {cpu:?}, host bridge {host_bridge:?}");
        assert!(!found.facts.is_empty());
    }
}

#[test]
fn only_three_bits_of_acs_redirect() {
    for bit in 0..16 {
        let control = format!("{{ control = {} }}", 1_u32 << bit);
        let text = fabric(Placement::Switch("'absent'"), INTEL, UNLISTED).to_toml();
        let text = text.replace(
            "kind = \"upstream-port\"",
            &format!("kind = \"upstream-port\"\nacs = {control}"),
        );
        let fabric = Fabric::from_toml(&text).expect("a machine");
        let expected = if [2, 3, 5].contains(&bit) { NotSupported } else { BusAddress };
        assert_eq!(between(&fabric, "p", "i").map, expected, "bit {bit}");
    }
}

#[test]
fn acs_counts_up_to_common_ancestor() {
    for (name, expected) in [
        ("p", NotSupported),
        ("i", NotSupported),
        ("down-p", NotSupported),
        ("down-i", NotSupported),
        ("up", NotSupported),
        ("root", BusAddress),
        ("h1", BusAddress),
    ] {
        let mut fabric = fabric(Placement::Switch("'absent'"), INTEL, UNLISTED);
        let id = fabric.find(name).expect("a function of that name");
        fabric.functions[id.0].acs = peerlane_fabric::Acs::Present { control: 0x1d };
        assert_eq!(between(&fabric, "p", "i").map, expected, "{name}");
        fabric.functions[id.0].acs = peerlane_fabric::Acs::NotRedirecting;
        assert_eq!(between(&fabric, "p", "i").map, BusAddress, "{name}");
    }
}

#[test]
fn device_0_or_root_port_identifies_bridge() {
    for (address, kind, expected) in [
        ("0000:00:00.0", "other", ThroughHostBridge),
        ("0000:00:01.0", "other", NotSupported),
        ("0000:00:01.0", "root-port", ThroughHostBridge),
    ] {
        let fabric = peerlane_testing::machine(&format!(
            "{INTEL}
             first {kind} @{address} 8086:{LISTED}
             p nvme @0000:00:02.0
             i nvme @0000:00:03.0"
        ));
        assert_eq!(between(&fabric, "p", "i").map, expected, "{kind} at {address}");
    }
}

#[test]
fn distances_are_the_kernels_hops() {
    let switch = fabric(Placement::Switch("'absent'"), INTEL, UNLISTED);
    let device = peerlane_testing::machine("root root-port\n f0 nvme\n f1 nvme");
    let apart = fabric(Placement::RootPorts, ZEN, UNLISTED);
    let refused = fabric(Placement::RootPorts, INTEL, UNLISTED);
    for (fabric, provider, initiator, expected, what) in [
        (&switch, "p", "p", Some(0), "the same function"),
        (&device, "f0", "f1", Some(2), "two functions of one device"),
        (&switch, "p", "i", Some(4), "two ports of a switch"),
        (&switch, "p", "up", Some(2), "a port above the provider"),
        (&apart, "p", "i", Some(4), "no common ancestor: depth and depth"),
        (&refused, "p", "i", None, "a refused route"),
    ] {
        assert_eq!(between(fabric, provider, initiator).distance, expected, "{what}");
    }
}

#[test]
fn redirecting_function_cannot_reach_itself() {
    let mut fabric = fabric(Placement::Switch("'absent'"), INTEL, UNLISTED);
    let id = fabric.find("p").expect("a function of that name");
    fabric.functions[id.0].acs = peerlane_fabric::Acs::Present { control: 0x04 };
    assert_eq!(between(&fabric, "p", "p").map, NotSupported);
}

#[test]
fn reasons_are_sentences_with_names() {
    let sentences: Vec<String> = [
        (Placement::Switch("'absent'"), INTEL, UNLISTED),
        (Placement::Switch("'redirect'"), INTEL, UNLISTED),
        (Placement::Switch("'redirect'"), ZEN, UNLISTED),
        (Placement::Switch("'unknown'"), INTEL, UNLISTED),
        (Placement::RootPorts, INTEL, UNLISTED),
        (Placement::RootPorts, INTEL, LISTED),
        (Placement::HostBridges(SAME_BRIDGE), INTEL, LISTED),
        (Placement::RootPorts, NOBODY, ""),
    ]
    .into_iter()
    .map(|(shape, cpu, bridge)| between(&fabric(shape, cpu, bridge), "p", "i").summary())
    .collect();
    insta::assert_snapshot!(sentences.join("\n"), @r#"
    the route is direct, below the host bridge: i and p meet at up, below the CPU
    the kernel refuses the route: ACS redirects peer traffic up to the CPU at down-p (ACS control 0x001d: request redirect, completion redirect); the CPU (GenuineIntel family 6) is not an AMD Zen or later; host bridge one (8086:29c0) is not on Linux 7.3's list of those that forward peer traffic
    the route is permitted through the host bridge: ACS redirects peer traffic up to the CPU at down-p (ACS control 0x001d: request redirect, completion redirect); the kernel lets peers talk through AMD CPUs of family 23 (Zen and later)
    the kernel's decision is unknown: ACS unknown on down-p: run lspci or peerlane as root
    the kernel refuses the route: i (below root-i) and p (below root-p) share no switch or port, so traffic between them must pass through the CPU's root complex; the CPU (GenuineIntel family 6) is not an AMD Zen or later; host bridge one (8086:29c0) is not on Linux 7.3's list of those that forward peer traffic
    the route is permitted through the host bridge: i (below root-i) and p (below root-p) share no switch or port, so traffic between them must pass through the CPU's root complex; host bridge one (8086:09a2) is on Linux 7.3's list of those that forward peer traffic
    the kernel refuses the route: i (below root-i) and p (below root-p) share no switch or port, so traffic between them must pass through the CPU's root complex; the CPU (GenuineIntel family 6) is not an AMD Zen or later; host bridge two (8086:3c00) is on Linux 7.3's list only for traffic that stays below it
    the kernel's decision is unknown: i (below root-i) and p (below root-p) share no switch or port, so traffic between them must pass through the CPU's root complex; CPU vendor and family are unknown; the identity of host bridge one is unknown
    "#);
}

#[test]
fn functions_are_named_once() {
    let fact = |provider: &str, initiator: &str, tops: (&str, &str)| {
        Fact::SeparateRootPorts {
            provider: provider.to_owned(),
            initiator: initiator.to_owned(),
            provider_top: tops.0.to_owned(),
            initiator_top: tops.1.to_owned(),
        }
        .to_string()
    };
    let both = fact("0000:00:01.0", "0000:00:02.0", ("0000:00:01.0", "0000:00:02.0"));
    assert!(both.starts_with("0000:00:02.0 and 0000:00:01.0 share no switch or port"), "{both}");
    let one = fact("p", "i", ("p", "root-i"));
    assert!(one.starts_with("i (below root-i) and p share no switch or port"), "{one}");
    let fabric = fabric(Placement::Switch("'absent'"), INTEL, UNLISTED);
    let above = between(&fabric, "p", "up").summary();
    assert!(above.ends_with("p lies below up, and both below the CPU"), "{above}");
}

#[test]
fn conditional_decisions_name_both_outcomes() {
    let found = between(&fabric(Placement::RootPorts, NOBODY, UNLISTED), "p", "i");
    let verdicts: Vec<MapType> = found.conditions.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [ThroughHostBridge, NotSupported]);
    assert!(found.needs.is_empty());
    assert_eq!(found.distance, Some(4));
}

#[test]
fn redirecting_functions_are_listed_once() {
    let fabric = fabric(Placement::Switch("'redirect'"), INTEL, UNLISTED);
    let found = between(&fabric, "p", "i");
    assert_eq!(found.redirecting, [fabric.find("down-p").unwrap()]);
}

#[test]
fn unknown_decisions_name_what_they_need() {
    let hidden = fabric(Placement::Switch("'unknown'"), INTEL, UNLISTED);
    let found = between(&hidden, "p", "i");
    assert_eq!(found.needs, [Need::Acs(vec![hidden.find("down-p").unwrap()])]);
    let unlisted = fabric(Placement::RootPorts, NOBODY, "");
    let found = between(&unlisted, "p", "i");
    assert_eq!(found.needs, [Need::HostBridge(BridgeId(0)), Need::Cpu]);
    let words: Vec<String> = found.needs.iter().map(|need| need.in_words(&unlisted)).collect();
    assert_eq!(words, ["identity of host bridge one", "vendor and family of the CPU"]);
}

#[test]
fn unlisted_bridges_leave_decision_open() {
    let mut fabric = fabric(Placement::HostBridges(LISTED), ZEN, LISTED);
    fabric.bridges[0].root_bus = RootBus::Assumed;
    let found = between(&fabric, "p", "i");
    assert_eq!((found.map, found.distance), (Unknown, None));
    assert_eq!(found.needs, [Need::Bridges(BridgeId(0))]);
}
