//! Plans for the machines of `machines/`, and for made-up variants of them.

use peerlane_fabric::{Bar, DriverBinding, Fabric, FunctionId, Kernel};
use peerlane_results::{
    Asked, DoctorRecord, EndpointKind, MapType, Plan, Route, RouteChoice, Tail, Warning,
};
use peerlane_units::{ByteRate, Bytes};

use super::{PlanError, examine_copy};
use crate::endpoints::guard::Surveyor;
use crate::endpoints::{EndError, EndpointError};

/// Plans with nothing read yet.
pub(super) fn plan(fabric: &Fabric, asked: &Asked) -> Result<Plan, PlanError> {
    super::plan(fabric, asked, &Surveyor::for_tests())
}

pub(super) fn machine(name: &str) -> Fabric {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    Fabric::read_machine_file(format!("{folder}/{name}.toml").as_ref()).expect("a machine file")
}

pub(super) fn asked() -> Asked {
    Asked::between("a", "b")
}

fn planned(name: &str, asked: &Asked) -> Plan {
    plan(&machine(name), asked).expect("a plan")
}

/// The machine of that name with drives of a gibibyte, large enough for the whole depth.
fn large_machine(name: &str) -> Fabric {
    let mut fabric = machine(name);
    for nvme in fabric.functions.iter_mut().filter_map(|function| function.nvme.as_mut()) {
        nvme.namespaces[0].size = Bytes::mib(1024);
    }
    fabric
}

fn function(fabric: &mut Fabric, name: &str) -> FunctionId {
    fabric.find(name).expect("a function of that name")
}

#[test]
fn one_switch_gives_a_route_between_devices() {
    let plan = planned("pair", &asked());
    assert_eq!(plan.route, Some(Route::P2p));
    assert_eq!(plan.memory.as_ref().map(|memory| memory.name.as_str()), Some("cmb:c"));
    assert_eq!(plan.reason, "a and b reach cmb:c inside the switch");
    let best = &plan.candidates[0];
    assert_eq!((best.source, best.target), (MapType::BusAddress, MapType::BusAddress));
    assert_eq!(best.distance, Some(8));
    let shape = plan.shape.expect("a shape");
    assert_eq!((shape.request, shape.slots, shape.tail), (Bytes::mib(1), 4, Tail::None));
    assert_eq!(
        (shape.memory, shape.slots_limit.as_str()),
        (Bytes::mib(4), "the length of the copy")
    );
    assert_eq!((plan.refusals, plan.warnings), (vec![], vec![]));
}

/// A SmartSSD as its drivers show it: a window, and no pool of the kernel's.
fn smartssd() -> Fabric {
    let mut fabric = machine("optiplex-smartssd");
    let id = function(&mut fabric, "fpga0");
    let card = &mut fabric.functions[id.0];
    card.p2pmem = None;
    card.driver = DriverBinding::Bound("xocl".to_owned());
    card.bars = vec![Bar {
        index: 4,
        size: Bytes::mib(8192),
        is_prefetchable: true,
        largest: None,
        address_bits: None,
    }];
    fabric.libraries = Some(vec!["libxrt_coreutil.so.2".to_owned()]);
    // Debian 13's own, which is built without the option.
    let release = Some("6.12.107".to_owned());
    fabric.kernel = Kernel { release, has_p2pdma: Some(false), ..Kernel::default() };
    fabric
}

fn drive_to_itself(via: Option<&str>) -> Asked {
    let via = via.map(str::to_owned);
    Asked { source: "drive0".into(), target: "drive0".into(), via, force: true, ..asked() }
}

#[test]
fn card_memory_taken_only_when_named() {
    let fabric = smartssd();
    let named = plan(&fabric, &drive_to_itself(Some("fpga:fpga0"))).expect("a plan");
    assert_eq!(named.route, Some(Route::P2p), "{}", named.reason);
    let memory = named.memory.expect("a memory");
    assert_eq!((memory.name.as_str(), memory.size), ("fpga:fpga0", Some(Bytes::mib(8192))));
    let candidate = &named.candidates[0];
    assert_eq!(candidate.refusals, Vec::<String>::new());
    assert_eq!((candidate.source, candidate.target), (MapType::Unknown, MapType::Unknown));
    assert!(candidate.facts[0].contains("nothing checks that there is a route"), "{candidate:?}");

    let unnamed = plan(&fabric, &drive_to_itself(None)).expect("a plan");
    assert_eq!((unnamed.route, unnamed.candidates), (Some(Route::Host), vec![]));
}

#[test]
fn card_lack_is_reason_in_plan() {
    let asked = drive_to_itself(Some("fpga:fpga0"));
    let refused = |change: &dyn Fn(&mut Fabric)| {
        let mut fabric = smartssd();
        change(&mut fabric);
        let plan = plan(&fabric, &asked).expect("a plan");
        assert_ne!(plan.route, Some(Route::P2p));
        plan.candidates[0].refusals.join("; ")
    };
    let card = |fabric: &mut Fabric| function(fabric, "fpga0").0;
    let off = |fabric: &mut Fabric| {
        let card = card(fabric);
        fabric.functions[card].fpga_p2p = Some(false);
    };
    let unbound = |fabric: &mut Fabric| {
        let card = card(fabric);
        fabric.functions[card].driver = DriverBinding::Unbound;
    };
    assert!(refused(&off).contains("p2p_enable is 0"));
    assert!(refused(&unbound).contains("it has no driver, and only xocl"));
    assert!(refused(&|fabric| fabric.libraries = Some(vec![])).contains("libxrt_coreutil.so.2"));
    let error = plan(&smartssd(), &drive_to_itself(Some("fpga:drive0"))).expect_err("no card");
    assert!(matches!(error, PlanError::UnknownMemory { .. }), "{error:?}");
}

#[test]
fn fragile_kernel_is_not_asked_for_window() {
    for (option, says) in [
        (Some(true), "on a kernel with CONFIG_PCI_P2PDMA (7.2.13)"),
        (None, "whether kernel 7.2.13 has CONFIG_PCI_P2PDMA is unknown"),
    ] {
        let mut fabric = smartssd();
        let release = Some("7.2.13".to_owned());
        fabric.kernel = Kernel { release, has_p2pdma: option, ..Kernel::default() };
        let asked = drive_to_itself(Some("fpga:fpga0"));
        let auto = plan(&fabric, &asked).expect("a plan");
        assert_eq!(auto.route, Some(Route::Host));
        let why = auto.candidates[0].refusals.join("; ");
        assert!(why.contains(says) && why.contains("refuse the transfer or crash"), "{why}");
        let only = Asked { route: RouteChoice::P2p, ..asked };
        let only = plan(&fabric, &only).expect("a plan");
        assert!(only.route.is_none() && only.reason.contains(says), "{}", only.reason);
    }
}

#[test]
fn non_drive_memory_has_own_notation() {
    let fabric = machine("card");
    let asked = |via: &str| Asked { via: Some(via.to_owned()), ..asked() };
    for via in ["p2pmem:card", "cmb:card", "card"] {
        let plan = plan(&fabric, &asked(via)).expect("a plan");
        let memory = plan.memory.expect("a memory");
        assert_eq!((plan.route, memory.name.as_str()), (Some(Route::P2p), "p2pmem:card"), "{via}");
    }
    for via in ["a", "./card"] {
        let error = plan(&fabric, &asked(via)).expect_err("lends no memory");
        assert!(matches!(error, PlanError::NotMemory { .. }), "{via}: {error:?}");
    }
}

#[test]
fn separate_root_ports_fall_back_with_the_reason() {
    let plan = planned("split", &asked());
    assert_eq!(plan.route, Some(Route::Host));
    assert!(
        plan.reason.starts_with("a cannot reach cmb:c: the kernel refuses the route"),
        "{}",
        plan.reason
    );
    assert_eq!(plan.warnings, [Warning::FellBack { reason: plan.reason.clone() }]);
    assert_eq!(plan.candidates[0].source, MapType::NotSupported);
}

#[test]
fn a_required_route_that_is_refused_leaves_no_route() {
    let plan = planned("split", &Asked { route: RouteChoice::P2p, ..asked() });
    assert_eq!((plan.route, plan.memory, plan.shape), (None, None, None));
    assert!(plan.reason.contains("refuses the route"), "{}", plan.reason);
    assert_eq!(plan.warnings, [], "nothing fell back");
}

#[test]
fn an_amd_cpu_makes_the_host_bridge_a_way() {
    let plan = planned("epyc", &Asked { route: RouteChoice::P2p, ..asked() });
    assert_eq!(plan.route, Some(Route::P2p));
    assert_eq!(plan.candidates[0].source, MapType::ThroughHostBridge);
    assert!(plan.reason.contains("through the host bridge"), "{}", plan.reason);
}

#[test]
fn requested_host_route_has_no_complaint() {
    for asked in [
        Asked { route: RouteChoice::Host, ..asked() },
        Asked { via: Some("host".into()), ..asked() },
    ] {
        let plan = planned("pair", &asked);
        assert_eq!(plan.route, Some(Route::Host));
        assert_eq!(plan.warnings, []);
        assert_eq!(plan.memory.map(|memory| memory.name), Some("host".into()));
    }
}

#[test]
fn memory_is_named_in_every_way_a_device_is() {
    for via in ["cmb:c", "cmb:/dev/lab/c"] {
        let plan = planned("pair", &Asked { via: Some(via.into()), ..asked() });
        assert_eq!(plan.memory.map(|memory| memory.name), Some("cmb:c".into()), "{via}");
    }
}

#[test]
fn unknown_memory_error_lists_known_ones() {
    let via = |via: &str| plan(&machine("pair"), &Asked { via: Some(via.into()), ..asked() });
    for name in ["cmb:a", "cmb:zebra"] {
        let error = via(name).expect_err("no memory");
        assert!(matches!(error, PlanError::UnknownMemory { .. }), "{error:?}");
        assert_eq!(error.hint().as_deref(), Some("its memories are cmb:c"));
    }
    assert!(matches!(via("/tmp/x"), Err(PlanError::NotMemory { .. })));
    let both = Asked { via: Some("host".into()), route: RouteChoice::P2p, ..asked() };
    assert!(matches!(plan(&machine("pair"), &both), Err(PlanError::Contradiction { .. })));
}

#[test]
fn ends_that_are_none_are_errors() {
    let source = |source: &str| plan(&machine("pair"), &Asked { source: source.into(), ..asked() });
    let error = source("gpu:0").expect_err("no GPU");
    assert!(matches!(error, PlanError::UnknownGpu { .. }) && error.hint().is_some(), "{error:?}");
    for name in ["cmb:c", "null", "host"] {
        let error = source(name).expect_err("not an end");
        let is_refused = matches!(
            error,
            PlanError::End(EndError::Endpoint { source: EndpointError::NotPayload { .. }, .. })
        );
        assert!(is_refused && error.hint().is_some(), "{error:?}");
    }
    let error = source("/dev/zebra").expect_err("no such drive");
    assert_eq!(error.hint().as_deref(), Some("its drives are a, b, c"));
    assert!(source("gpu:x").is_err());
}

#[test]
fn nearest_memory_comes_first_then_the_freest() {
    let mut fabric = machine("pair");
    let (b, c) = (function(&mut fabric, "b"), function(&mut fabric, "c"));
    fabric.functions[b.0].p2pmem = fabric.functions[c.0].p2pmem;
    let names = |plan: &Plan| -> Vec<String> {
        plan.candidates.iter().map(|candidate| candidate.memory.name.clone()).collect()
    };
    let plan_for = |fabric: &Fabric| plan(fabric, &asked()).expect("a plan");
    assert_eq!(names(&plan_for(&fabric)), ["cmb:b", "cmb:c"], "memory of the target is nearer");

    if let Some(memory) = fabric.functions[b.0].p2pmem.as_mut() {
        memory.published = false;
    }
    let plan = plan_for(&fabric);
    assert_eq!(names(&plan), ["cmb:c", "cmb:b"], "refused memories come last");
    assert!(plan.candidates[1].refusals[0].contains("not published"));
}

#[test]
fn memory_of_an_end_is_called_its_own() {
    let between = |source: &str, target: &str| {
        let names = Asked { source: source.into(), target: target.into(), ..asked() };
        planned("pair", &Asked { length: Some(Bytes::mib(1)), ..names }).reason
    };
    assert_eq!(between("a", "c"), "c writes out of its own memory, a reaches it inside the switch");
    assert_eq!(between("c", "b"), "c reads into its own memory, b reaches it inside the switch");
    assert_eq!(between("a", "a"), "a reaches cmb:c inside the switch");
    assert_eq!(between("c", "c"), "c reads and writes by its own memory");
}

#[test]
fn long_copy_keeps_requested_depth() {
    let shape = plan(&large_machine("pair"), &asked()).expect("a plan").shape.expect("a shape");
    assert_eq!((shape.slots, shape.memory), (16, Bytes::mib(16)));
    assert_eq!(shape.slots_limit, "the queue depth");
}

#[test]
fn full_memory_refused_tight_takes_fewer() {
    let mut fabric = large_machine("pair");
    let c = function(&mut fabric, "c");
    let mut with = |available: Bytes| {
        if let Some(memory) = fabric.functions[c.0].p2pmem.as_mut() {
            memory.available = available;
        }
        plan(&fabric, &asked()).expect("a plan")
    };
    let tight = with(Bytes::mib(8));
    let shape = tight.shape.expect("a shape");
    assert_eq!((shape.slots, shape.memory), (7, Bytes::mib(7)));
    assert_eq!(shape.slots_limit, "the free memory");
    assert_eq!(tight.warnings, [Warning::DepthReduced { asked: 16, slots: 7 }]);
    let full = with(Bytes::kib(64));
    assert_eq!(full.route, Some(Route::Host));
    assert!(full.reason.contains("64 KiB free"), "{}", full.reason);
}

#[test]
fn kernels_that_cannot_are_named() {
    for (kernel, word) in [
        (
            Kernel {
                release: Some("6.1.0-30-amd64".into()),
                has_p2pdma: None,
                ..Kernel::default()
            },
            "6.1.0-30",
        ),
        (
            Kernel {
                release: Some("6.12.107".into()),
                has_p2pdma: Some(false),
                ..Kernel::default()
            },
            "CONFIG_PCI_P2PDMA",
        ),
    ] {
        let fabric = Fabric { kernel, ..machine("pair") };
        let plan = plan(&fabric, &asked()).expect("a plan");
        assert_eq!(plan.route, Some(Route::Host));
        assert!(plan.reason.contains(word), "{}", plan.reason);
    }
}

#[test]
fn requests_respect_the_limits_of_both_ends() {
    let mut fabric = large_machine("pair");
    let b = function(&mut fabric, "b");
    let nvme = fabric.functions[b.0].nvme.as_mut().expect("a drive");
    nvme.namespaces[0].limits.max_request = Some(Bytes::kib(128));
    nvme.namespaces[0].limits.max_segments = Some(33);
    let shape = plan(&fabric, &asked()).expect("a plan").shape.expect("a shape");
    assert_eq!(shape.request, Bytes::kib(128));
    assert_eq!(shape.slots, 16 * 8, "a block is eight requests");
    assert!(shape.request_limit.ends_with('b'), "{}", shape.request_limit);

    let nvme = fabric.functions[b.0].nvme.as_mut().expect("a drive");
    nvme.namespaces[0].limits.max_request = None;
    let shape = plan(&fabric, &asked()).expect("a plan").shape.expect("a shape");
    assert_eq!(shape.request, Bytes::kib(132), "each page is a segment");
}

#[test]
fn a_few_bytes_take_no_more_slots_than_requests() {
    let asked = Asked { length: Some(Bytes::kib(1536)), ..asked() };
    assert_eq!(planned("pair", &asked).shape.map(|shape| shape.slots), Some(2));
}

#[test]
fn tails_go_by_the_blocks_of_both_ends() {
    let mut fabric = machine("pair");
    let b = function(&mut fabric, "b");
    let nvme = fabric.functions[b.0].nvme.as_mut().expect("a drive");
    nvme.namespaces[0].limits.logical_block = Bytes(4096);
    let with = |length: u64, route: RouteChoice| {
        plan(&fabric, &Asked { length: Some(Bytes(length)), route, ..asked() }).expect("a plan")
    };
    let tail = |plan: &Plan| plan.shape.as_ref().map(|shape| shape.tail);
    assert_eq!(tail(&with(8192, RouteChoice::P2p)), Some(Tail::None));
    assert_eq!(tail(&with(8192 + 512, RouteChoice::P2p)), Some(Tail::MergeInSlot));
    let odd = with(8192 + 100, RouteChoice::Auto);
    assert_eq!(tail(&odd), Some(Tail::MergeInHost));
    assert_eq!(odd.route, Some(Route::P2p));
    assert_eq!(odd.warnings, [Warning::TailByHost { bytes: 100 }]);
    let required = with(8192 + 100, RouteChoice::P2p);
    assert_eq!(required.route, None);
    assert!(required.reason.contains("`--length 8192`"), "{}", required.reason);
    let less_than_a_block = with(100, RouteChoice::P2p);
    assert!(!less_than_a_block.reason.contains("--length"), "{}", less_than_a_block.reason);
}

#[test]
fn unfit_ranges_refused_with_nearest_fit() {
    let refusals = |asked: Asked| planned("pair", &asked).refusals;
    let hint = |asked: Asked| refusals(asked)[0].hint.clone().unwrap_or_default();
    let odd = Asked { offset: Bytes(700), ..asked() };
    assert_eq!(hint(odd), "use `--offset 512` or `--offset 1024`");
    let odd = Asked { target_offset: Bytes(100), length: Some(Bytes(512)), ..asked() };
    assert_eq!(hint(odd), "use `--target-offset 0` or `--target-offset 512`");
    let long = Asked { offset: Bytes::mib(63), length: Some(Bytes::mib(2)), ..asked() };
    assert_eq!(hint(long), "use `--length 1048576`");
    let small = refusals(Asked { target_offset: Bytes::mib(1), ..asked() });
    assert!(small[0].reason.contains("has room for"), "{}", small[0].reason);
    let beyond = refusals(Asked { offset: Bytes::mib(65), ..asked() });
    assert!(beyond[0].reason.contains("beyond the end"), "{}", beyond[0].reason);
    let same = refusals(Asked { target: "a".into(), ..asked() });
    assert!(same[0].reason.contains("overlap") && !same[0].forceable);
}

#[test]
fn nothing_at_a_time_moves_nothing() {
    for asked in [Asked { block: Bytes::ZERO, ..asked() }, Asked { depth: 0, ..asked() }] {
        assert!(matches!(plan(&machine("pair"), &asked), Err(PlanError::Zero { .. })));
    }
}

#[test]
fn described_passthrough_node_is_its_namespace() {
    let mut fabric = machine("pair");
    for (drive, name) in [("a", "nvme0n1"), ("b", "nvme1n1")] {
        let id = function(&mut fabric, drive);
        let nvme = fabric.functions[id.0].nvme.as_mut().expect("a drive");
        nvme.namespaces[0].name = Some(name.to_owned());
        nvme.namespaces[0].limits.max_request = Some(Bytes::kib(512));
    }
    let of = |source: &str, target: &str| {
        let asked = Asked { source: source.into(), target: target.into(), ..asked() };
        plan(&fabric, &asked).expect("a plan")
    };
    let plan = of("/dev/ng0n1", "ng1n1");
    assert_eq!((plan.route, plan.refusals.as_slice()), (Some(Route::P2p), &[][..]));
    assert_eq!(plan.source.kind, EndpointKind::Passthrough);
    assert_eq!(plan.source.device.as_deref(), Some("nvme0n1"));
    assert_eq!(plan.source.request_host, Bytes::kib(512), "nobody splits a command");
    assert_eq!(of("/dev/nvme0n1", "/dev/nvme1n1").source.kind, EndpointKind::BlockDevice);
    for (source, target) in [("/dev/ng0n1", "/dev/nvme0n1"), ("/dev/nvme0n1", "/dev/ng0n1")] {
        let refusals = of(source, target).refusals;
        assert!(refusals.iter().any(|one| one.reason.contains("overlap")), "{refusals:?}");
    }
}

#[test]
fn ceilings_follow_declared_rates() {
    let ceilings = |name: &str, source: &str, target: &str| {
        let asked = Asked { source: source.into(), target: target.into(), force: true, ..asked() };
        let plan = planned(name, &asked);
        let known: Vec<String> = plan
            .limits
            .iter()
            .filter(|limit| !limit.object.starts_with("the link"))
            .map(|limit| format!("{}: {}", limit.object, limit.bytes_per_second))
            .collect();
        assert!(plan.limits.is_sorted_by_key(|limit| limit.bytes_per_second), "{:?}", plan.limits);
        (known, plan.unmeasured)
    };
    let (known, unmeasured) = ceilings("r7515-10-smartssd", "drive0", "drive5");
    assert_eq!(known[..2], ["what drive5 writes: 2.01 GB/s", "what drive0 reads: 3.30 GB/s"]);
    assert_eq!((known.len(), unmeasured.len()), (4, 0), "{known:?}");
    let (known, _) = ceilings("noload-4", "drive0", "drive3");
    assert!(known.contains(&"what is read out of the memory of noload: 12.6 GB/s".to_owned()));
    let (known, unmeasured) = ceilings("pair", "a", "b");
    assert_eq!((known, unmeasured), (vec![], vec!["a".to_owned(), "b".to_owned()]));
    let (known, _) = ceilings("throttled", "a", "b");
    assert!(known.iter().any(|limit| limit.starts_with("what b writes: ")), "{known:?}");
}

#[test]
fn link_bounded_by_port_above() {
    let mut fabric = machine("r7515-10-smartssd");
    let asked = Asked { source: "drive0".into(), target: "drive5".into(), ..asked() };
    let slowest = |fabric: &Fabric| plan(fabric, &asked).expect("a plan").limits[0].clone();
    assert!(!slowest(&fabric).object.starts_with("the link"), "{:?}", slowest(&fabric));
    let drive = fabric.function(fabric.find("drive0").expect("it is there"));
    let peerlane_fabric::Parent::Function(port) = drive.parent else {
        panic!("a port is above it")
    };
    fabric.functions[port.0].link_below = "2.5GT/s x4".parse().ok();
    let limit = slowest(&fabric);
    let expected = ("the link of drive0", ByteRate(1_000_000_000));
    assert_eq!((limit.object.as_str(), limit.bytes_per_second), expected);
}

#[test]
fn root_complex_bounds_its_own_direction() {
    let limits = |name: &str| {
        let mut fabric = machine(name);
        fabric.bridges[0].peer.read = Some(ByteRate(650_000_000));
        plan(&fabric, &asked()).expect("a plan").limits
    };
    assert!(
        limits("epyc").iter().any(|limit| limit.object == "what peers read through pci0000:00")
    );
    assert!(limits("pair").iter().all(|limit| !limit.object.contains("peers")));
}

fn examined(text: &str, source: &str, target: &str) -> DoctorRecord {
    let fabric = Fabric::from_toml(text).expect("a machine");
    let asked = Asked { force: true, ..Asked::between(source, target) };
    examine_copy(&fabric, &plan(&fabric, &asked).expect("a plan"), &[])
}

#[test]
fn a_pair_with_a_route_is_told_which() {
    let record = examined(include_str!("../../../../machines/pair.toml"), "a", "b");
    assert!(record.is_healthy(), "{record:?}");
    assert!(record.verdict.contains("cmb:c"), "{}", record.verdict);
}

#[test]
fn gpu_without_address_is_judged_as_an_end() {
    let text = "name = 'm'\niommu = 'off'\nlibraries = ['libcufile.so.0']\n\
                [kernel]\nrelease = '7.2.6'\nmodules = [{ name = 'nvidia' }, { name = 'nvme' }]\n\
                [[function]]\nname = 'drive'\nkind = 'nvme'\nsize = '1G'\n\
                [[function]]\nname = 'h100'\nkind = 'gpu'\nvendor = '0x10de'\ndevice = '0x2330'\n";
    assert_eq!(examined(text, "drive", "gpu:0").uses.len(), 1);
}
