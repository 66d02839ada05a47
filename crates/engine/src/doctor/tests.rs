//! Every finding on a machine that has it, and its absence on one that has not.

use super::*;
use peerlane_results::{FindingKind, Needs};

/// Three drives below one switch, the last of which lends memory; no fault.
const SOUND: &str = "
name = 'm'
iommu = 'passthrough'
[kernel]
release = '7.2.13'
p2pdma = true
[cpu]
vendor = 'GenuineIntel'
family = 6
[[function]]
name = 'host-bridge'
kind = 'other'
address = '0000:00:00.0'
vendor = '0x8086'
device = '0x29c0'
[[function]]
name = 'root'
kind = 'root-port'
address = '0000:00:01.0'
acs = 'absent'
[[function]]
name = 'up'
kind = 'upstream-port'
address = '0000:01:00.0'
under = 'root'
acs = 'absent'
[[function]]
name = 'down-a'
kind = 'downstream-port'
address = '0000:02:00.0'
under = 'up'
acs = 'absent'
[[function]]
name = 'down-b'
kind = 'downstream-port'
address = '0000:02:01.0'
under = 'up'
acs = 'absent'
[[function]]
name = 'a'
kind = 'nvme'
address = '0000:03:00.0'
under = 'down-a'
acs = 'absent'
[[function]]
name = 'b'
kind = 'nvme'
address = '0000:04:00.0'
under = 'down-b'
acs = 'absent'
p2pmem = { size = '64M', available = '64M', published = true }
";

fn examined(changes: &[(&str, &str)]) -> DoctorRecord {
    let mut text = SOUND.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replacen(from, to, 1);
    }
    examine(&Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn only(changes: &[(&str, &str)]) -> Finding {
    let mut record = examined(changes);
    assert_eq!(record.findings.len(), 1, "{:?}", record.findings);
    record.findings.remove(0)
}

const REDIRECTS: (&str, &str) = (
    "under = 'up'\nacs = 'absent'\n[[function]]\nname = 'down-b'",
    "under = 'up'\nacs = { control = 0x1d }\n[[function]]\nname = 'down-b'",
);
const ZEN: (&str, &str) = ("'GenuineIntel'\nfamily = 6", "'AuthenticAMD'\nfamily = 25");

#[test]
fn a_sound_machine_has_no_findings() {
    let record = examined(&[]);
    assert_eq!((record.findings, record.unknown), (vec![], vec![]));
    assert_eq!(record.verdict, "nothing stands in the way of peer-to-peer copies");
}

#[test]
fn kernels_without_mappable_memory_are_found() {
    assert_eq!(only(&[("'7.2.13'", "'6.1.0'")]).kind, FindingKind::KernelTooOld);
    let found = only(&[("p2pdma = true", "p2pdma = false")]);
    assert_eq!((found.kind, found.cost), (FindingKind::KernelWithoutP2pdma, Cost::Everything));
}

#[test]
fn a_redirection_that_the_root_complex_refuses_costs_the_route_and_is_fixed_by_path() {
    let found = only(&[REDIRECTS]);
    assert_eq!((found.kind, found.cost), (FindingKind::AcsRedirect, Cost::Everything));
    assert_eq!(found.object, "down-a");
    let fix = found.fix.expect("a fix");
    assert!(
        fix.commands.iter().all(|at| at.contains("pci=disable_acs_redir=0000:00:01.0/00.0/00.0")),
        "{fix:?}"
    );
    assert!(fix.weakens.is_some_and(|cost| cost.contains("IOMMU groups")));
    assert_eq!(fix.needs, Needs::Reboot);
}

#[test]
fn a_redirection_that_the_root_complex_forwards_costs_speed() {
    let found = only(&[REDIRECTS, ZEN]);
    assert_eq!((found.kind, found.cost), (FindingKind::AcsRedirect, Cost::Speed));
}

#[test]
fn devices_apart_are_refused_by_an_unlisted_host_bridge_and_by_no_setting_to_be_changed() {
    let apart = ("address = '0000:04:00.0'\nunder = 'down-b'", "address = '0000:00:02.0'");
    let found = only(&[apart]);
    assert_eq!((found.kind, found.cost), (FindingKind::HostBridgeNotListed, Cost::Everything));
    assert_eq!(found.fix.map(|fix| fix.needs), Some(Needs::Hardware));
    assert!(examined(&[apart, ZEN]).is_healthy(), "a CPU that forwards is no fault");
}

#[test]
fn acs_bits_that_cannot_be_read_are_unknown_and_no_finding() {
    let record = examined(&[(REDIRECTS.0, &REDIRECTS.0.replacen("'absent'", "'unknown'", 1))]);
    assert!(record.is_healthy());
    assert!(record.unknown[0].needs.contains("sudo peerlane doctor"), "{:?}", record.unknown);
}

#[test]
fn a_translating_iommu_costs_speed() {
    let found = only(&[("'passthrough'", "'translating'")]);
    assert_eq!((found.kind, found.cost), (FindingKind::IommuTranslates, Cost::Speed));
}

#[test]
fn memory_that_is_missing_withheld_or_taken_is_found() {
    const MEMORY: &str = "p2pmem = { size = '64M', available = '64M', published = true }\n";
    assert_eq!(only(&[(MEMORY, "")]).kind, FindingKind::NoMemory);
    let withheld = only(&[("published = true", "published = false")]);
    assert_eq!((withheld.kind, withheld.cost), (FindingKind::MemoryNotPublished, Cost::Everything));
    assert_eq!(only(&[("available = '64M'", "available = '4K'")]).kind, FindingKind::MemoryInUse);
}

#[test]
fn a_machine_without_drives_is_told_what_is_possible_there() {
    let record = examine(&Fabric::from_toml("name = 'vm'").expect("a machine"));
    assert_eq!(record.findings[0].kind, FindingKind::NoDrive);
    assert_eq!(record.unknown, vec![]);
}
