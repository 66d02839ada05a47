//! Tests of the findings between two ends.

use peerlane_results::{MapType, Plan, Probe, ProbeAnswer};

use super::*;

/// The plan of a copy from `a` to `b`, as `peerlane plan a b --force --json` makes it of the sound machine.
fn planned() -> Plan {
    serde_json::from_str(include_str!("plan.json")).expect("a plan")
}

fn examine_plan(fabric: &Fabric, plan: &Plan, probes: &[Probe]) -> DoctorRecord {
    let verdict = EndsVerdict { state: RouteState::Direct, sentence: String::new() };
    examine_copy(fabric, PlannedCopy { plan, verdict, probes }, &HostFacts::default())
}

fn fabric() -> Fabric {
    let sized = SOUND.replace("kind = 'nvme'\n", "kind = 'nvme'\nsize = '1G'\n");
    Fabric::from_toml(&sized).expect("a machine")
}

/// Between a device that takes no peer-to-peer pages and one that is mounted.
pub(super) fn copy_refused() -> DoctorRecord {
    let fabric = fabric();
    let mut plan = planned();
    plan.source.refusal = Some("dm-0 is a device-mapper device".to_owned());
    plan.refusals.push(peerlane_results::Refusal {
        reason: "b is mounted".to_owned(),
        hint: Some("umount /data".to_owned()),
        forceable: false,
    });
    examine_plan(&fabric, &plan, &[])
}

pub(super) fn file_refuses() -> DoctorRecord {
    let fabric = fabric();
    let mut plan = planned();
    plan.source.refusal = Some("vfat: its direct I/O takes no such pages".to_owned());
    plan.source.file_system = Some("vfat".to_owned());
    plan.source.kind = peerlane_results::EndpointKind::File;
    examine_plan(&fabric, &plan, &[])
}

pub(super) fn stale() -> DoctorRecord {
    let fabric = fabric();
    examine_plan(&fabric, &planned(), &[probe(false)])
}

#[test]
fn hot_drive_is_found_as_end() {
    const DRIVE: &str = "name = 'a'\nkind = 'nvme'\n";
    let hot = format!("{DRIVE}temperature = {{ current = 80000, warning = 74000 }}\n");
    let sized =
        SOUND.replace(DRIVE, &hot).replace("kind = 'nvme'\n", "kind = 'nvme'\nsize = '1G'\n");
    let fabric = Fabric::from_toml(&sized).expect("a machine");
    let mut plan = planned();
    assert_eq!(kinds(&examine_plan(&fabric, &plan, &[])), [FindingKind::DriveHot]);
    plan.source = plan.target.clone();
    assert!(!kinds(&examine_plan(&fabric, &plan, &[])).contains(&FindingKind::DriveHot));
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
        predicted: MapType::BusAddress,
        answer: ProbeAnswer::Refused { reason: "no route".to_owned() },
        agrees: Some(agrees),
    }
}

#[test]
fn contradicting_answer_is_stale_needs_rebind() {
    let fabric = fabric();
    let plan = planned();
    let record = examine_plan(&fabric, &plan, &[probe(false)]);
    assert_eq!(kinds(&record), [FindingKind::StaleDecision]);
    let commands = &record.findings[0].fix.as_ref().expect("a fix").commands;
    assert!(commands[0].contains("0000:04:00.0") && commands[0].ends_with("/unbind"));
    assert!(examine_plan(&fabric, &plan, &[probe(true)]).is_healthy());
}
