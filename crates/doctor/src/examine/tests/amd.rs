//! Machines with two AMD GPUs: options of the kernel, and windows beyond a GPU's address range.

use super::*;

/// Two R9700 below one switch of an X99, whose windows lie at 0x380000000000 (ROCm/ROCR-Runtime #355).
const X99: &str = concat!(
    "\
name = 'm'
iommu = 'translating'
[kernel]
release = '6.19.2'
p2pdma = true
amd_p2p = true
move_notify = true
",
    include_str!("../../../../engine/tests/machines/switch.toml"),
    "\
[[function]]
name = 'a'
kind = 'gpu'
vendor = '0x1002'
device = '0x7551'
driver = 'amdgpu'
address = '0000:03:00.0'
under = 'down-a'
acs = 'absent'
bars = [{ index = 0, size = '32G', prefetchable = true, largest = '32G', address_bits = 46 }]
[[function]]
name = 'b'
kind = 'gpu'
vendor = '0x1002'
device = '0x7551'
driver = 'amdgpu'
address = '0000:04:00.0'
under = 'down-b'
acs = 'absent'
bars = [{ index = 0, size = '32G', prefetchable = true, largest = '32G', address_bits = 46 }]
"
);
const LOW: (&str, &str) = ("address_bits = 46", "address_bits = 40");

fn fabric(changes: &[(&str, &str)]) -> Fabric {
    let mut text = X99.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replace(from, to);
    }
    Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(super) fn two_r9700(changes: &[(&str, &str)]) -> DoctorRecord {
    examine(&fabric(changes))
}

/// A kernel of Debian 13 with the first option alone.
const DEBIAN: &[(&str, &str)] = &[
    ("6.19.2", "6.12.107+deb13-amd64"),
    ("amd_p2p = true", "amd_p2p = false"),
    ("move_notify = true", "move_notify = false"),
    ("'translating'", "'off'"),
    LOW,
];

pub(super) fn without_options() -> DoctorRecord {
    two_r9700(DEBIAN)
}

fn finding_of(record: &DoctorRecord, kind: FindingKind) -> &Finding {
    let found = record.findings.iter().find(|one| one.kind == kind);
    found.unwrap_or_else(|| panic!("{:?}", record.findings))
}

#[test]
fn passthrough_is_not_advised_to_high_windows() {
    let record = two_r9700(&[]);
    let found = finding_of(&record, FindingKind::IommuTranslates);
    assert!(found.what.contains("`iommu=pt` is no remedy here"), "{}", found.what);
    assert_eq!((found.fix.as_ref(), record.steps.as_slice()), (None, &[][..]));
    let low = two_r9700(&[LOW]);
    let step = low.steps.iter().find(|step| step.command.contains("iommu=pt"));
    assert!(step.is_some(), "{:?}", low.steps);
}

#[test]
fn high_windows_want_translation_back() {
    let record = two_r9700(&[("'translating'", "'passthrough'")]);
    let found = finding_of(&record, FindingKind::WindowOutOfReach);
    assert!(found.what.contains("`iommu=pt` is wrong here"), "{}", found.what);
    assert_eq!((found.pairs, found.evidence[0].showed.as_str()), (1, "BAR 0: 46 address bits"));
    assert!(record.steps[0].command.contains("iommu=nopt"), "{:?}", record.steps);
    let off = two_r9700(&[("'translating'", "'off'")]);
    assert!(off.steps[0].command.contains("intel_iommu=on"), "{:?}", off.steps);
    let low = two_r9700(&[("'translating'", "'passthrough'"), LOW]);
    assert_eq!(kinds(&low), []);
}

#[test]
fn missing_options_are_named_with_their_release() {
    let record = without_options();
    let found = finding_of(&record, FindingKind::KernelOptionMissing);
    assert!(
        found.what.contains("without CONFIG_HSA_AMD_P2P and CONFIG_DMABUF_MOVE_NOTIFY"),
        "{}",
        found.what
    );
    assert_eq!((found.pairs, found.evidence.len()), (1, 2));
    let fix = found.fix.as_ref().expect("a fix");
    assert!(fix.what.contains("before Linux 7.1, CONFIG_DMABUF_MOVE_NOTIFY=y"), "{}", fix.what);
    let unlinked = examine(&Fabric { xgmi: Some(Vec::new()), ..fabric(DEBIAN) });
    assert_eq!(unlinked.uses[0].state, RouteState::Host, "{:?}", unlinked.uses);
}

#[test]
fn option_of_old_kernels_is_not_missed_in_7_1() {
    let record = two_r9700(&[
        ("6.19.2", "7.1.0"),
        ("move_notify = true", "move_notify = false"),
        ("'translating'", "'off'"),
        LOW,
    ]);
    assert_eq!(kinds(&record), []);
    assert_eq!(record.uses[0].state, RouteState::Direct);
}

#[test]
fn unknown_options_stay_unknown() {
    let record =
        two_r9700(&[("amd_p2p = true\nmove_notify = true\n", ""), ("'translating'", "'off'"), LOW]);
    let unknown = &record.unknown[0];
    assert!(
        unknown.what.ends_with("CONFIG_HSA_AMD_P2P and CONFIG_DMABUF_MOVE_NOTIFY"),
        "{unknown:?}"
    );
    assert!(unknown.needs.contains("zgrep"), "{unknown:?}");
    assert_eq!((kinds(&record), record.uses[0].state), (vec![], RouteState::Unknown));
}

#[test]
fn pair_of_gpus_gets_the_same_advice() {
    let fabric = fabric(&[("'translating'", "'passthrough'")]);
    let ends = ["a", "b"].map(|name| fabric.find(name).expect("a GPU"));
    let typed = ["a", "b"].map(str::to_owned);
    let record = examine_devices(&fabric, (ends[0], ends[1]), typed);
    finding_of(&record, FindingKind::WindowOutOfReach);
}
