//! Peer access of NVIDIA GPUs, each rule with its source: a file of the open kernel modules 595.45.04, or a
//! public thread.

use peerlane_fabric::Fabric;

use super::{DriverAnswer, device, id, machine, only, with_switch};
use crate::drivers::{GuestVerdict, guest};
use crate::{Pair, RouteState, Verdict, used_gpu_link};

const H100: &str = "vendor = '0x10de';device = '0x2330';driver = 'nvidia'";
const RTX_3090: &str = "vendor = '0x10de';device = '0x2204';driver = 'nvidia'";
const RTX_4090: &str = "vendor = '0x10de';device = '0x2684';driver = 'nvidia'";
const RTX_5090: &str = "vendor = '0x10de';device = '0x2b85';driver = 'nvidia'";
const RTX_PRO_6000: &str = "vendor = '0x10de';device = '0x2bb5';driver = 'nvidia'";
const Q35: &str = "[[function]]\nname = 'q35'\nkind = 'other'\naddress = '0000:00:00.0'\n\
                   vendor = '0x8086'\ndevice = '0x29c0'\n";

fn pair(a: &str, b: &str) -> String {
    device("a", "p0", "gpu", a) + &device("b", "p1", "gpu", b)
}

fn divided(gpu: &str) -> String {
    format!("{gpu};mig_instances = 2")
}

fn apart(gpu: &str) -> String {
    device("a", "p0", "gpu", gpu) + &device("b", "apart", "gpu", gpu)
}

/// A GPU with this window and memory.
fn sized(gpu: &str, window: &str, memory: &str) -> String {
    let bar = format!("[[function.bars]];index = 1;size = '{window}';prefetchable = true");
    format!("{gpu};memory_size = '{memory}';{bar}")
}

fn keys(text: &str) -> String {
    format!("[nvidia]\nversion = '595.45.04'\n[nvidia.parameters]\nRegistryDwords = '{text}'")
}

/// The answer of `nvidia-smi topo -p2p r` for both directions.
fn answered(status: &str) -> String {
    ["'a', 'b'", "'b', 'a'"]
        .map(|gpus| {
            format!("[[peer_access]]\ngpus = [{gpus}]\ncapability = 'read'\nstatus = '{status}'\n")
        })
        .concat()
}

/// p2p_caps.c, `_kp2pCapsGetStatusOverPcie`: the key comes before chips and before the GPU's own ban.
#[test]
fn forced_geforce_is_granted_without_proof() {
    let forced = |a, b| machine(&keys("ForceP2P=0x11"), &pair(a, b));
    only(&forced(RTX_4090, RTX_4090), DriverAnswer::Conditional, "no proof that data arrives");
    only(&forced(RTX_4090, RTX_3090), DriverAnswer::Conditional, "on every chipset and GPU");
    only(&machine("", &pair(RTX_4090, RTX_4090)), DriverAnswer::Refused, "GeForce");
}

/// NVIDIA/nccl #2335: cards of one clique see a private copy, or hang.
#[test]
fn cliqued_geforce_is_granted_without_proof() {
    let system = "[environment]\nhypervisor = 'KVM'";
    let rule = only(
        &machine(system, &pair(RTX_3090, RTX_3090)),
        DriverAnswer::Conditional,
        "reach a private copy or to hang",
    );
    assert!(rule.source.contains("NVIDIA/nccl #2335"), "{}", rule.source);
    let yes = machine(system, &(pair(RTX_3090, RTX_3090) + &answered("OK")));
    only(&yes, DriverAnswer::Conditional, "NVIDIA/nccl #2335");
    let work = only(&machine(system, &pair(H100, H100)), DriverAnswer::Conditional, "no proof");
    assert!(!work.reason.contains("GeForce"), "{}", work.reason);
}

#[test]
fn advice_of_a_clique_carries_its_warning() {
    let held = |gpu: &str| gpu.replace("'nvidia'", "'vfio-pci'");
    let host = |gpu: &str| -> GuestVerdict {
        let system = "iommu = 'translating'\n[kernel]\nrelease = '7.2.6'";
        let fabric = machine(system, &pair(&held(gpu), &held(gpu)));
        guest(&fabric, id(&fabric, "a"), id(&fabric, "b"))
    };
    for gpu in [RTX_3090, H100] {
        let needs = host(gpu).needs.join("; ");
        assert!(needs.contains("x-nv-gpudirect-clique") && needs.contains("no proof"), "{needs}");
        assert_eq!(needs.contains("NVIDIA/nccl #2335"), gpu == RTX_3090, "{needs}");
    }
}

/// noonghunna/club-3090 #884 to #886: the guest's 8086:29c0 is not on the firmware's list, and keys do not help.
#[test]
fn guest_chipset_explains_cns() {
    let guest = |rest: &str| machine("", &(format!("{Q35}{}{rest}", pair(H100, H100))));
    only(
        &guest(""),
        DriverAnswer::Conditional,
        "says CNS, since the guest's host bridge (8086:29c0",
    );
    only(&guest(&answered("CNS")), DriverAnswer::Refused, "no registry key changes that");
    let metal = Q35.replace("0x8086", "0x1022").replace("0x29c0", "0x1480");
    let metal = machine("", &(metal + &pair(H100, H100) + &answered("CNS")));
    only(
        &metal,
        DriverAnswer::Refused,
        "host bridge 00:00.0 (1022:1480) is not on the firmware's list",
    );
}

/// pcie_switch_ref.h; noonghunna/club-3090 #895: below a PEX88096 the driver says CNS.
#[test]
fn switches_count_by_list() {
    let below = |vendor: &str, number: &str| {
        let switch = format!("vendor = '{vendor}'; device = '{number}'");
        with_switch(&switch, "", &pair(H100, H100))
    };
    for (vendor, number) in [
        ("0x10b5", "0x8747"),
        ("0x10b5", "0x9765"),
        ("0x11f8", "0x4052"),
        ("0x11f8", "0x8536"),
        ("0x15b3", "0x1976"),
        ("0x10de", "0x05be"),
    ] {
        only(&below(vendor, number), DriverAnswer::Expected, "one switch of the driver's list");
    }
    for (vendor, number) in
        [("0x1000", "0xc030"), ("0x1000", "0xc010"), ("0x1b21", "0x2824"), ("0x15b3", "0x1979")]
    {
        only(&below(vendor, number), DriverAnswer::Conditional, "is not on the driver's list");
    }
    only(&with_switch("", "", &pair(H100, H100)), DriverAnswer::Conditional, "list is unknown");
    let refused = with_switch("1000:c030", "", &(pair(H100, H100) + &answered("CNS")));
    only(&refused, DriverAnswer::Refused, "PEX890xx PCIe Gen 5 Switch) is not on the driver's");
}

/// p2p_caps.c, `p2pGetCapsStatus`: machines with NVSwitch do not fall back to PCIe.
#[test]
fn nvswitch_machines_do_not_fall_back() {
    let switch = device("nvswitch", "p2", "other", "vendor = '0x10de';device = '0x22a3'");
    let both = pair(H100, H100) + &switch;
    only(&machine("", &both), DriverAnswer::Conditional, "never over PCIe");
    let third = device("c", "apart", "gpu", H100) + "[[nvlink]]\ngpus = ['a', 'c']\nlinks = 18\n";
    only(&machine("", &(both.clone() + &third)), DriverAnswer::Refused, "none to each other");
    let linked = both + "[[nvlink]]\ngpus = ['a', 'b']\nlinks = 18\n";
    only(&machine("", &linked), DriverAnswer::Possible, "18 NVLinks");
}

/// p2p_caps.c, `p2pGetCapsStatus`: MIG is asked for before NVLink, so the links carry nothing.
#[test]
fn divided_gpus_do_not_use_nvlink() {
    let linked = |a: &str| {
        let links = "[[nvlink]]\ngpus = ['a', 'b']\nlinks = 18\n";
        machine("", &(pair(a, H100) + links))
    };
    for (gpu, state) in [(H100.to_owned(), RouteState::Direct), (divided(H100), RouteState::Host)] {
        let fabric = linked(&gpu);
        let (a, b) = (id(&fabric, "a"), id(&fabric, "b"));
        let best = Verdict::best(&fabric, &Pair::new(&fabric, a, b)).expect("memory of GPUs");
        assert_eq!(best.state, state, "{gpu}: {:?}", best.facts);
        assert_eq!(used_gpu_link(&fabric, a, b).is_some(), state == RouteState::Direct, "{gpu}");
    }
    only(&linked(&divided(H100)), DriverAnswer::Refused, "divided by MIG");
}

/// p2p_caps.c, `_kp2pCapsGetStatusOverPcieBar1` and `_p2pCapsGetHostSystemStatusOverPcieBar1`.
#[test]
fn bar1_needs_key_and_processor() {
    let gpus = apart(&sized(RTX_PRO_6000, "128G", "97887M"));
    let on = |cpu: &str, way: &str| {
        let system = format!("{}\n[cpu]\n{cpu}", keys(way));
        machine(&system, &gpus)
    };
    let intel = |model: u32| format!("vendor = 'GenuineIntel'\nfamily = 6\nmodel_number = {model}");
    let zen = "vendor = 'AuthenticAMD'\nfamily = 26";
    let auto = "RMPcieP2PType=2";
    for cpu in [zen.to_owned(), intel(143)] {
        only(&on(&cpu, auto), DriverAnswer::Conditional, "lets payload go by BAR1");
        only(
            &on(&cpu, ""),
            DriverAnswer::Conditional,
            "by default payload goes by mailboxes, which may be slower",
        );
    }
    for model in [207, 173] {
        let rule =
            only(&on(&intel(model), auto), DriverAnswer::Conditional, "falls back to mailboxes");
        assert!(rule.reason.contains(&format!("GenuineIntel model {model}")), "{}", rule.reason);
        only(
            &on(&intel(model), ""),
            DriverAnswer::Conditional,
            "RMPcieP2PType=2 would not change it",
        );
    }
    let unknown = on("vendor = 'GenuineIntel'\nfamily = 6", auto);
    only(&unknown, DriverAnswer::Conditional, "which processor this is, is unknown");
    let below = pair(RTX_PRO_6000, RTX_PRO_6000);
    let listed = machine(&format!("{}\n[cpu]\n{}", keys(auto), intel(207)), &below);
    only(&listed, DriverAnswer::Expected, "lets payload go by BAR1");
}

/// kern_bus_tu102.c, `kbusIsStaticBar1Supported_TU102`.
#[test]
fn bar1_needs_full_window() {
    let gpus = apart(&sized(RTX_PRO_6000, "256M", "97887M"));
    let zen = "[cpu]\nvendor = 'AuthenticAMD'\nfamily = 26";
    let small = machine(&format!("{}\n{zen}", keys("RMPcieP2PType=2")), &gpus);
    only(&small, DriverAnswer::Conditional, "BAR1 of gpu:0 shows 256 MiB");
    let forbidden = keys("RMPcieP2PType=2;RMForceStaticBar1=0");
    let full = apart(&sized(RTX_PRO_6000, "128G", "97887M"));
    let forbidden = machine(&format!("{forbidden}\n{zen}"), &full);
    only(&forbidden, DriverAnswer::Conditional, "forbids a static BAR1");
}

/// noonghunna/club-3090 #873 and #875: full BAR1 and both keys, or the driver says OK and NCCL hangs.
#[test]
fn patched_drivers_are_possible_but_unproven() {
    let full = sized(RTX_5090, "32768M", "32607M");
    let fabric = |system: &str, gpu: &str| -> Fabric {
        machine(&format!("iommu = 'passthrough'\n{system}"), &(pair(gpu, gpu) + &answered("OK")))
    };
    let both = "RMForceStaticBar1=1;PeerMappingOverride=1";
    let rule = only(&fabric(&keys(both), &full), DriverAnswer::Conditional, "possible, prove it");
    assert!(rule.source.contains("club-3090 #873"), "{}", rule.source);
    only(&fabric(&keys(""), &full), DriverAnswer::Conditional, "is not set");
    only(&fabric("", RTX_5090), DriverAnswer::Conditional, "it needs `RMForceStaticBar1=1");
    let unanswered = machine(&keys(both), &pair(RTX_4090, RTX_4090));
    only(&unanswered, DriverAnswer::Conditional, "registry keys of a patched driver are set");
}

/// tinygrad/open-gpu-kernel-modules #13, aikitoria/open-gpu-kernel-modules #14.
#[test]
fn small_windows_defeat_patched_drivers() {
    let both = keys("RMForceStaticBar1=1;PeerMappingOverride=1");
    for (window, memory) in [("256M", "24564M"), ("32768M", "49140M")] {
        let gpu = sized(RTX_4090, window, memory);
        let fabric = machine(&both, &(pair(&gpu, &gpu) + &answered("OK")));
        only(
            &fabric,
            DriverAnswer::Conditional,
            "it may hang or lose data here: BAR1 of gpu:0 shows",
        );
    }
    let stock = sized(RTX_4090, "256M", "24564M");
    only(
        &machine("", &pair(&stock, &stock)),
        DriverAnswer::Refused,
        "need all of the memory in BAR1",
    );
}

/// tinygrad/open-gpu-kernel-modules #18: passthrough will do, translation will not.
#[test]
fn translation_defeats_patched_drivers() {
    let system = format!("iommu = 'translating'\n{}", keys("PeerMappingOverride=1"));
    let fabric = machine(&system, &pair(RTX_4090, RTX_4090));
    only(&fabric, DriverAnswer::Conditional, "boot with iommu=pt");
}

/// NVIDIA/nccl #2079: redirecting root ports with an IOMMU that translates made the first collective hang.
#[test]
fn granted_pairs_behind_redirecting_ports_are_open() {
    let root = |name: &str| device(name, "pci0000:00", "root-port", "acs = 'redirect'");
    let ends = device("a", "r0", "gpu", RTX_PRO_6000) + &device("b", "r1", "gpu", RTX_PRO_6000);
    let text = format!(
        "[[host_bridge]]\nname = 'pci0000:00'\n{}{}{ends}{}",
        root("r0"),
        root("r1"),
        answered("OK")
    );
    let on = |iommu: &str| {
        Fabric::from_toml(&format!("name = 'm'\niommu = '{iommu}'\n{text}")).expect("a machine")
    };
    only(&on("unknown"), DriverAnswer::Conditional, "r0 redirects (ACS)");
    only(&on("translating"), DriverAnswer::Conditional, "boot with iommu=pt");
    only(&on("passthrough"), DriverAnswer::Possible, "no proof");
}
