//! Tests of the findings between two ends.

use peerlane_results::{Asked, Plan, Probe, ProbeAnswer, Verdict};

use super::*;

fn planned(fabric: &Fabric, source: &str, target: &str) -> Plan {
    let asked = Asked { force: true, ..Asked::between(source, target) };
    crate::plan(fabric, &asked, &crate::endpoints::guard::Surveyor::for_tests()).expect("a plan")
}

fn fabric() -> Fabric {
    let sized = SOUND.replace("kind = 'nvme'\n", "kind = 'nvme'\nsize = '1G'\n");
    Fabric::from_toml(&sized).expect("a machine")
}

#[test]
fn a_pair_with_a_route_is_told_which() {
    let fabric = fabric();
    let record = examine_pair(&fabric, &planned(&fabric, "a", "b"), &[]);
    assert!(record.is_healthy(), "{record:?}");
    assert!(record.verdict.contains("cmb:b"), "{}", record.verdict);
}

/// Between a device that takes no peer-to-peer pages and one that is mounted.
pub(super) fn copy_refused() -> DoctorRecord {
    let fabric = fabric();
    let mut plan = planned(&fabric, "a", "b");
    plan.source.refusal = Some("dm-0 is a device-mapper device".to_owned());
    plan.refusals.push(peerlane_results::Refusal {
        reason: "b is mounted".to_owned(),
        hint: Some("umount /data".to_owned()),
        forceable: false,
    });
    examine_pair(&fabric, &plan, &[])
}

pub(super) fn file_refuses() -> DoctorRecord {
    let fabric = fabric();
    let mut plan = planned(&fabric, "a", "b");
    plan.source.refusal = Some("vfat: its direct I/O takes no such pages".to_owned());
    plan.source.file_system = Some("vfat".to_owned());
    plan.source.kind = peerlane_results::EndpointKind::File;
    examine_pair(&fabric, &plan, &[])
}

pub(super) fn stale() -> DoctorRecord {
    let fabric = fabric();
    examine_pair(&fabric, &planned(&fabric, "a", "b"), &[probe(false)])
}

#[test]
fn hot_drive_is_found_as_end() {
    const DRIVE: &str = "name = 'a'\nkind = 'nvme'\n";
    let hot = format!("{DRIVE}temperature = {{ current = 80000, warning = 74000 }}\n");
    let sized =
        SOUND.replace(DRIVE, &hot).replace("kind = 'nvme'\n", "kind = 'nvme'\nsize = '1G'\n");
    let fabric = Fabric::from_toml(&sized).expect("a machine");
    let found = |source: &str, target: &str| {
        kinds(&examine_pair(&fabric, &planned(&fabric, source, target), &[]))
    };
    assert_eq!(found("a", "b"), [FindingKind::DriveHot]);
    assert!(!found("b", "b").contains(&FindingKind::DriveHot));
}

#[test]
fn refusing_endpoint_and_copy_are_found() {
    let both = [FindingKind::QueueRefuses, FindingKind::CopyRefused];
    assert_eq!(kinds(&copy_refused()), both);
    assert_eq!(kinds(&file_refuses()), [FindingKind::FileRefuses]);
}

fn probe(agrees: bool) -> Probe {
    Probe {
        memory: "cmb:b".to_owned(),
        endpoint: "a".to_owned(),
        predicted: Verdict::BusAddress,
        answer: ProbeAnswer::Refused { reason: "no route".to_owned() },
        agrees: Some(agrees),
    }
}

#[test]
fn contradicting_answer_is_stale_needs_rebind() {
    let fabric = fabric();
    let plan = planned(&fabric, "a", "b");
    let record = examine_pair(&fabric, &plan, &[probe(false)]);
    assert_eq!(kinds(&record), [FindingKind::StaleDecision]);
    let commands = &record.findings[0].fix.as_ref().expect("a fix").commands;
    assert!(commands[0].contains("0000:04:00.0") && commands[0].ends_with("/unbind"));
    assert!(examine_pair(&fabric, &plan, &[probe(true)]).is_healthy());
}

#[test]
fn gpu_without_address_is_judged_as_an_end() {
    let text = "name = 'm'\niommu = 'off'\nlibraries = ['libcufile.so.0']\n\
                [kernel]\nrelease = '7.2.6'\nmodules = [{ name = 'nvidia' }, { name = 'nvme' }]\n\
                [[function]]\nname = 'drive'\nkind = 'nvme'\nsize = '1G'\n\
                [[function]]\nname = 'h100'\nkind = 'gpu'\nvendor = '0x10de'\ndevice = '0x2330'\n";
    let fabric = Fabric::from_toml(text).expect("a machine");
    let record = examine_pair(&fabric, &planned(&fabric, "drive", "gpu:0"), &[]);
    assert_eq!(record.uses.len(), 1, "{record:?}");
}
