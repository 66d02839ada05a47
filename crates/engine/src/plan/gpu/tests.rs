//! Ways between a drive and a GPU on machines that have or lack something for each.

use super::*;
use peerlane_results::{Finding, FindingKind, MapType, VerifyMode};

/// A drive and a GPU below one switch, with all that every way wants.
const SOUND: &str = concat!(
    include_str!("../../../tests/machines/gpu-stack.toml"),
    include_str!("../../../tests/machines/switch.toml"),
    include_str!("../../../tests/machines/gpu.toml"),
);

fn machine(changes: &[(&str, &str)]) -> Fabric {
    let mut text = SOUND.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replacen(from, to, 1);
    }
    Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn planned(route: RouteChoice, changes: &[(&str, &str)]) -> Result<Plan, PlanError> {
    let between = Asked::between("nvme0", "gpu:0");
    let asked = Asked { route, verify: VerifyMode::Full, ..between };
    super::super::plan(&machine(changes), &asked, &crate::endpoints::guard::Surveyor::for_tests())
}

/// Returns the refusals of each of the four ways.
fn refusals(changes: &[(&str, &str)]) -> Vec<Vec<String>> {
    let plan = planned(RouteChoice::Auto, changes).expect("a plan");
    plan.candidates.into_iter().map(|one| one.refusals).collect()
}

#[test]
fn ways_come_in_order_of_preference_and_are_named() {
    let plan = planned(RouteChoice::Auto, &[]).expect("a plan");
    let names: Vec<&str> = plan.candidates.iter().map(|one| one.memory.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gpu:0 by cuFile, direct by P2PDMA",
            "gpu:0 by cuFile, direct by nvidia-fs",
            "gpu:0 by pinned host memory",
            "gpu:0 by cuFile in compatibility mode, through host memory",
        ]
    );
    assert_eq!(plan.route, Some(Route::P2p));
    assert_eq!(plan.memory.map(|memory| memory.name).as_deref(), Some(names[0]));
    assert_eq!(plan.candidates[0].source, MapType::BusAddress);
    assert!(plan.candidates.iter().all(|one| one.refusals.is_empty()), "{:?}", plan.candidates);
}

#[test]
fn old_gpu_is_refused_with_source() {
    const VENDOR: &str = "vendor = '0x10de'\n";
    let of = |device: &str| {
        let said = format!("{VENDOR}device = '{device}'\n");
        refusals(&[(VENDOR, &said)])
    };
    let k20c = of("0x1022");
    assert!(k20c[0][0].contains("[Tesla K20c], of Kepler, shares no memory by P2PDMA"), "{k20c:?}");
    assert!(k20c[1][0].contains("compatibility mode only"), "{k20c:?}");
    assert!(k20c[..2].iter().all(|way| way[0].contains("NVIDIA, \"")), "a source: {k20c:?}");
    assert!(k20c[2].is_empty() && k20c[3].is_empty(), "{k20c:?}");
    let v100 = of("0x1db4");
    assert!(v100[0][0].contains("of Volta") && v100[1].is_empty(), "{v100:?}");
    let (a100, unknown) = (of("0x20b0"), of("0xfffe"));
    assert!(a100.iter().chain(&unknown).all(Vec::is_empty), "{a100:?} {unknown:?}");
}

#[test]
fn c2c_passes_multipath_and_peer_rules() {
    const VENDOR: &str = "vendor = '0x10de'\n";
    const ACS: &str = "acs = 'absent'\n[[function]]\nname = 'down-b'";
    let of = |device: &str| {
        let (said, redirects) = (
            format!("{VENDOR}device = '{device}'\n"),
            ACS.replace("'absent'", "{ control = 0x1d }"),
        );
        let changes = [
            (VENDOR, said.as_str()),
            (ACS, &redirects),
            ("release = '7.2.13'", "release = '6.12.0'\nnvme_multipath = true"),
        ];
        planned(RouteChoice::Auto, &changes).expect("a plan").candidates.swap_remove(0)
    };
    let (gh200, h100) = (of("0x2342"), of("0x2330"));
    assert!(gh200.refusals.is_empty(), "{gh200:?}");
    assert_eq!(gh200.source, MapType::Unknown);
    assert!(gh200.facts.iter().any(|fact| fact.contains("C2C")), "{gh200:?}");
    assert!(h100.refusals.iter().any(|one| one.contains("multipath")), "{h100:?}");
    assert!(h100.refusals.iter().any(|one| one.contains("ACS")), "{h100:?}");
    assert!(!h100.facts.iter().any(|fact| fact.contains("C2C")), "{h100:?}");
}

#[test]
fn consumer_gpu_is_refused_each_direct_way() {
    const VENDOR: &str = "vendor = '0x10de'\n";
    let geforce = format!("{VENDOR}device = '0x2204'\n");
    let found = refusals(&[(VENDOR, &geforce)]);
    for (way, source) in [(0, "P2PDMA Supported GPUs"), (1, "README of gds-nvidia-fs")] {
        assert_eq!(found[way].len(), 1, "no advice that helps nobody: {found:?}");
        assert!(found[way][0].contains("GeForce") && found[way][0].contains(source), "{found:?}");
    }
    assert!(found[2].is_empty() && found[3].is_empty(), "{found:?}");
}

#[test]
fn gpu_without_address_space_has_no_direct_way() {
    let window = "acs = 'absent'\nbars = [{ index = 1, size = '256M', assigned = false }]\n";
    const GPU: &str = "under = 'down-b'\nacs = 'absent'\n";
    let found = refusals(&[(GPU, &format!("under = 'down-b'\n{window}"))]);
    for way in &found[..2] {
        assert!(way[0].contains("BAR 1") && way[0].contains("Above 4G"), "{found:?}");
    }
}

#[test]
fn gpu_without_vendor_has_no_way() {
    let found = refusals(&[("vendor = '0x10de'\n", "")]);
    assert!(found[0][0].contains("depends on the maker"), "{found:?}");
    assert!(found[0][0].contains("`vendor = \"0x10de\"`"), "{found:?}");
}

#[test]
fn missing_parts_named_for_their_way() {
    for (change, way, says) in [
        (("'7.2.13'", "'6.1.0'"), 0, "older than 6.2"),
        (("p2pdma = true", "p2pdma = false"), 0, "CONFIG_PCI_P2PDMA"),
        (("'580.95.05'", "'550.54'"), 0, "older than 565"),
        (
            (
                "acs = 'absent'\n[[function]]\nname = 'down-b'",
                "acs = { control = 0x1d }\n[[function]]\nname = 'down-b'",
            ),
            0,
            "ACS",
        ),
        (
            ("{ name = 'nvidia_fs', version = '2.30' }", "{ name = 'ext4' }"),
            1,
            "modprobe nvidia_fs",
        ),
        (("nvidia_fs_nvme = true", "nvidia_fs_nvme = false"), 1, "not registered with nvidia_fs"),
        (("'passthrough'", "'translating'"), 1, "iommu=pt"),
        (("'libcuda.so.1'", "'libxrt_coreutil.so.2'"), 2, "libcuda"),
        (("'libcufile.so.0'", "'libxrt_coreutil.so.2'"), 3, "nvidia-gds"),
    ] {
        let found = refusals(&[change]);
        assert!(found[way].iter().any(|one| one.contains(says)), "{change:?}: {found:?}");
    }
    let found = refusals(&[("name = 'nvidia', version", "name = 'nouveau', version")]);
    assert!(found.iter().all(|way| way[0].contains("modprobe nvidia")), "{found:?}");
}

#[test]
fn missing_udev_leaves_pinned_memory() {
    let udev = ("[kernel]\n", "[environment]\ncontainer = 'docker'\nudev = false\n[kernel]\n");
    let found = refusals(&[udev]);
    for way in [0, 1, 3] {
        let way = &found[way];
        assert!(way.len() == 1 && way[0].contains("`-v /run/udev:/run/udev:ro`"), "{found:?}");
    }
    assert!(found[2].is_empty(), "{found:?}");
    let plan = planned(RouteChoice::Auto, &[udev]).expect("a plan");
    let record = crate::plan::examine_copy(&machine(&[udev]), &plan, &[]);
    let steps = record.steps.iter().filter(|step| step.what.contains("-v /run/udev"));
    assert_eq!(steps.count(), 1, "{:?}", record.findings);
    let found = refusals(&[udev, ("p2pdma = true", "p2pdma = false")]);
    assert!(!found[0].iter().any(|one| one.contains("udev")), "no direct way: {found:?}");
}

#[test]
fn unshown_registration_leaves_plan_open() {
    let open = [("nvidia_fs_nvme = true\n", ""), ("p2pdma = true", "p2pdma = false")];
    let plan = planned(RouteChoice::Auto, &open).expect("a plan");
    assert!(plan.reason.contains("`cat /proc/driver/nvidia-fs/modules`"), "{}", plan.reason);
    assert!(super::super::depends_on_unknown(&machine(&open), &plan), "{plan:?}");
    let record = crate::plan::examine_copy(&machine(&open), &plan, &[]);
    assert_eq!(record.state, Some(peerlane_results::RouteState::Unknown), "{record:?}");
    assert!(record.verdict.contains(": unknown: "), "{}", record.verdict);
    let known = &open[1..];
    let plan = planned(RouteChoice::Auto, known).expect("a plan");
    assert!(!super::super::depends_on_unknown(&machine(known), &plan), "{plan:?}");
}

#[test]
fn no_direct_way_auto_explains_p2p_refuses() {
    let lacks = [("p2pdma = true", "p2pdma = false"), ("'passthrough'", "'translating'")];
    let auto = planned(RouteChoice::Auto, &lacks).expect("a plan");
    assert_eq!(auto.route, Some(Route::Host));
    assert!(matches!(auto.warnings.as_slice(), [Warning::FellBack { .. }]), "{:?}", auto.warnings);
    assert_eq!(auto.memory.as_ref().and_then(way_of), Some(GpuWay::Pinned));
    assert!(
        auto.reason.ends_with("what is left is gpu:0 by pinned host memory"),
        "{}",
        auto.reason
    );
    let host = planned(RouteChoice::Host, &[]).expect("a plan");
    assert_eq!(host.memory.as_ref().and_then(way_of), Some(GpuWay::Pinned));
    let p2p = planned(RouteChoice::P2p, &lacks).expect("a plan");
    assert_eq!((p2p.route, p2p.memory), (None, None));
    assert!(p2p.reason.contains("CONFIG_PCI_P2PDMA") && p2p.reason.contains("iommu=pt"));
}

#[test]
fn compatibility_mode_replaces_nothing() {
    let lacks = [("'libcuda.so.1'", "'libxrt_coreutil.so.2'")];
    let host = planned(RouteChoice::Host, &lacks).expect("a plan");
    assert!(host.candidates[3].refusals.is_empty(), "{:?}", host.candidates);
    assert_eq!((host.route, host.memory), (None, None));
    assert!(host.reason.contains("libcuda"), "{}", host.reason);
}

#[test]
fn an_amd_gpu_is_a_stated_gap() {
    let plan = planned(RouteChoice::Auto, &[("'0x10de'", "'0x1002'")]).expect("a plan");
    assert_eq!((plan.route, plan.candidates.len()), (None, 1));
    assert!(plan.candidates[0].refusals[0].contains("hipFile"), "{:?}", plan.candidates);
}

#[test]
fn unknown_gpu_error_lists_known_ones() {
    let error = planned(RouteChoice::Auto, &[("'0x10de'", "'0x8086'")]).expect_err("no GPU");
    assert!(matches!(&error, PlanError::UnknownGpu { gpus, .. } if gpus.is_empty()), "{error}");
}

#[test]
fn obstacles_of_a_pair_have_a_fix() {
    let lacks = [("name = 'nvidia_fs'", "name = 'ext4'"), ("p2pdma = true", "p2pdma = false")];
    let plan = planned(RouteChoice::Auto, &lacks).expect("a plan");
    let record = crate::plan::examine_copy(&machine(&lacks), &plan, &[]);
    assert!(record.verdict.contains(": through host memory: "), "{}", record.verdict);
    let is_module = |one: &&Finding| {
        let commands = one.fix.as_ref().map(|fix| fix.commands.as_slice());
        commands == Some(&["sudo modprobe nvidia_fs".to_owned()])
    };
    assert_eq!(record.findings.iter().filter(is_module).count(), 1, "{:?}", record.findings);
    let is_kernel = |one: &&Finding| one.kind == FindingKind::KernelWithoutP2pdma;
    let kernel: Vec<&Finding> = record.findings.iter().filter(is_kernel).collect();
    assert!(kernel.len() == 1 && kernel[0].fix.is_some(), "{:?}", record.findings);
    let sound = planned(RouteChoice::Auto, &[]).expect("a plan");
    let record = crate::plan::examine_copy(&machine(&[]), &sound, &[]);
    assert!(record.is_healthy() && record.verdict.contains(": unknown: "), "{record:?}");
}

/// Another drive below the switch.
const SECOND: &str = include_str!("../../../tests/machines/second-drive.toml");

fn through(route: RouteChoice, changes: &[(&str, &str)]) -> Plan {
    let changes: Vec<(&str, &str)> = changes.to_vec();
    let mut text = format!("{SOUND}{SECOND}");
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replacen(from, to, 1);
    }
    let fabric = Fabric::from_toml(&text).expect("a machine");
    let via = Some("gpu:0".to_owned());
    let asked = Asked { route, via, depth: 1024, ..Asked::between("nvme0", "nvme1") };
    super::super::plan(&fabric, &asked, &crate::endpoints::guard::Surveyor::for_tests())
        .expect("a plan")
}

#[test]
fn both_drives_or_none_reach_gpu() {
    let plan = through(RouteChoice::P2p, &[]);
    assert_eq!(plan.route, Some(Route::P2p), "{}", plan.reason);
    let best = &plan.candidates[0];
    assert_eq!((best.source, best.target), (MapType::BusAddress, MapType::BusAddress));
    assert_eq!(best.distance, Some(8));
    assert_eq!(
        plan.way.join(" "),
        "nvme0 down-a up down-b gpu:0 by cuFile, direct by P2PDMA down-b up down-c nvme1"
    );
    let slots = plan.shape.expect("a shape").slots;
    assert!(slots <= REQUESTS_MAX, "each is a thread: {slots}");

    let redirects = [(
        "acs = 'absent'\n[[function]]\nname = 'nvme1'",
        "acs = { control = 0x1d }\n[[function]]\nname = 'nvme1'",
    )];
    let plan = through(RouteChoice::P2p, &redirects);
    let best = &plan.candidates[0];
    assert_eq!((best.source, best.target), (MapType::BusAddress, MapType::NotSupported));
    assert!(best.refusals[0].contains("nvme1 cannot reach"), "{:?}", best.refusals);
    assert!(plan.memory.is_some_and(|one| one.name.ends_with("nvidia-fs")), "which asks nobody");
}

#[test]
fn indirect_copy_avoids_gpu_unless_asked() {
    let lacks = [("p2pdma = true", "p2pdma = false"), ("'passthrough'", "'translating'")];
    let auto = through(RouteChoice::Auto, &lacks);
    assert_eq!(auto.route, Some(Route::Host));
    assert_eq!(auto.memory.map(|memory| memory.name), Some("host".to_owned()));
    assert!(matches!(auto.warnings.as_slice(), [Warning::FellBack { .. }]), "{:?}", auto.warnings);
    let host = through(RouteChoice::Host, &[]);
    assert_eq!(host.memory.as_ref().and_then(way_of), Some(GpuWay::Pinned));
    assert_eq!((host.route, host.warnings.len()), (Some(Route::Host), 0));
    let none = through(RouteChoice::Host, &[("'libcuda.so.1', ", "")]);
    assert!(none.route.is_none() && none.reason.contains("libcuda"), "{}", none.reason);
    let amd = through(RouteChoice::P2p, &[("'0x10de'", "'0x1002'")]);
    assert!(amd.route.is_none() && amd.reason.contains("hipFile"), "{}", amd.reason);
}

#[test]
fn the_name_of_a_memory_says_its_way() {
    let memory = |name: &str| MemoryFacts {
        name: name.to_owned(),
        kind: MemoryKind::Gpu,
        address: None,
        size: None,
        available: None,
    };
    for (name, way) in [
        ("gpu:0 by cuFile, direct by P2PDMA", Some(GpuWay::CuFile(Mode::P2pdma))),
        ("gpu:0000:41:00.0 by cuFile, direct by nvidia-fs", Some(GpuWay::CuFile(Mode::NvidiaFs))),
        ("gpu:1 by pinned host memory", Some(GpuWay::Pinned)),
        ("gpu:1 by hipFile", None),
        ("cmb:a by pinned host memory", None),
        ("host", None),
    ] {
        assert_eq!(way_of(&memory(name)), way, "{name}");
    }
}
