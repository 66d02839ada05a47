//! Rules for memory of GPUs.

use peerlane_fabric::Fabric;

use super::super::{GpuLinkKind, GpuLinkState, gpu_link};
use super::{DriverAnswer, answers, device, id, machine, only, rules_of};

pub(super) const H100: &str = "vendor = '0x10de';device = '0x2330';driver = 'nvidia'";
const A100: &str = "vendor = '0x10de';device = '0x20b0';driver = 'nvidia'";
const RTX_3090: &str = "vendor = '0x10de';device = '0x2204';driver = 'nvidia'";
const RTX_4090: &str = "vendor = '0x10de';device = '0x2684';driver = 'nvidia'";
const P100: &str = "vendor = '0x10de';device = '0x15f8';driver = 'nvidia'";
const KEPLER: &str = "vendor = '0x10de';device = '0x1022';driver = 'nvidia'";
pub(super) const MLX5: &str = "vendor = '0x15b3';device = '0x1021';driver = 'mlx5_core'";
pub(super) const NAVI: &str = "vendor = '0x1002';device = '0x744c';driver = 'amdgpu'";
pub(super) const B580: &str = "vendor = '0x8086';device = '0xe20b';driver = 'xe'";

pub(super) fn gpus(system: &str, a: &str, b: &str) -> Fabric {
    machine(system, &(device("a", "p0", "gpu", a) + &device("b", "p1", "gpu", b)))
}

pub(super) fn with_nic(system: &str, gpu: &str, nic: &str) -> Fabric {
    machine(system, &(device("a", "p0", "gpu", gpu) + &device("b", "p1", "nic", nic)))
}

#[test]
fn peer_access_is_left_to_firmware() {
    let rule = only(&gpus("", H100, H100), DriverAnswer::Expected, "below one switch");
    assert_eq!((rule.driver.as_str(), rule.asks_kernel), ("nvidia", Some(false)));
    assert!(rule.reason.contains("NVLink unknown (not in this input)"), "{}", rule.reason);
    let apart = device("a", "p0", "gpu", H100) + &device("b", "apart", "gpu", H100);
    only(&machine("", &apart), DriverAnswer::Conditional, "share no switch");
}

#[test]
fn nvlink_comes_before_pcie() {
    let link = |links: &str| format!("{}[[nvlink]]\ngpus = ['a', 'b']\n{links}", "");
    let both = device("a", "p0", "gpu", H100) + &device("b", "p1", "gpu", H100);
    let fabric = machine("iommu = 'translating'", &(both.clone() + &link("links = 18")));
    only(&fabric, DriverAnswer::Possible, "connected by 18 NVLinks");
    let state = |fabric: &Fabric| gpu_link(fabric, id(fabric, "b"), id(fabric, "a"));
    assert_eq!(state(&fabric), Some(GpuLinkState::Links(GpuLinkKind::NvLink, Some(18))));
    let none = machine("nvlink = []", &both);
    assert_eq!(state(&none), Some(GpuLinkState::NoLinks(GpuLinkKind::NvLink)));
    only(&none, DriverAnswer::Expected, "firmware");
    let unseen = machine("", &both);
    assert_eq!(
        state(&unseen).map(|found| found.to_string()),
        Some("NVLink unknown (not in this input)".into())
    );
    assert_eq!(state(&with_nic("", H100, MLX5)), None);
}

#[test]
fn xgmi_is_named_by_its_own_word() {
    let gpu = |name: &str, port: &str| device(name, port, "gpu", NAVI);
    let gpus = gpu("a", "p0") + &gpu("b", "p1") + &gpu("c", "apart") + &gpu("d", "apart");
    let link = |ends: &str, count: &str| format!("[[xgmi]]\ngpus = [{ends}]\n{count}\n");
    let links = link("'a', 'c'", "links = 1") + &link("'b', 'c'", "");
    let fabric = machine("", &(gpus.clone() + &links));
    let words = |fabric: &Fabric, one: &str, other: &str| {
        gpu_link(fabric, id(fabric, one), id(fabric, other)).map(|state| state.to_string())
    };
    for (one, other, expected) in [
        ("a", "c", "connected by 1 XGMI link"),
        ("c", "b", "connected by XGMI"),
        ("a", "b", "connected by XGMI through other GPUs"),
        ("d", "a", "not connected by XGMI"),
    ] {
        assert_eq!(words(&fabric, one, other).as_deref(), Some(expected));
    }
    let rule = |fabric: &Fabric| {
        let found = rules_of(fabric);
        found.into_iter().find(|rule| rule.mechanism == "XGMI").expect("a rule").answer
    };
    assert_eq!(rule(&fabric), DriverAnswer::Possible);
    let unseen = machine("", &gpus);
    assert_eq!(words(&unseen, "a", "b").as_deref(), Some("XGMI unknown (not in this input)"));
    let none = machine("xgmi = []", &gpus);
    assert_eq!(rule(&none), DriverAnswer::Refused);
}

#[test]
fn xgmi_of_other_makers_counts_where_listed() {
    let other =
        |name: &str, port: &str| device(name, port, "gpu", "vendor = '0x1d94';accelerator = true");
    let gpus = other("a", "p0") + &other("b", "p1");
    let linked = machine("", &format!("{gpus}[[xgmi]]\ngpus = ['a', 'b']\nlinks = 2\n"));
    let state = |fabric: &Fabric| gpu_link(fabric, id(fabric, "a"), id(fabric, "b"));
    assert_eq!(state(&linked), Some(GpuLinkState::Links(GpuLinkKind::Xgmi, Some(2))));
    assert_eq!(state(&machine("", &gpus)), None);
    only(&machine("", &gpus), DriverAnswer::NotKnown, "nothing public says");
}

#[test]
fn peers_are_of_one_chip() {
    only(&gpus("", H100, A100), DriverAnswer::Refused, "GH100 and GA100");
    let a6000 = "vendor = '0x10de';device = '0x2230';driver = 'nvidia'";
    let a40 = "vendor = '0x10de';device = '0x2235';driver = 'nvidia'";
    only(&gpus("", a6000, a40), DriverAnswer::Expected, "firmware");
}

#[test]
fn geforce_has_no_peers_over_pcie() {
    only(&gpus("", RTX_4090, RTX_4090), DriverAnswer::Refused, "patched drivers");
    only(&gpus("", RTX_3090, RTX_3090), DriverAnswer::Conditional, "NVLink bridge");
    only(&gpus("nvlink = []", RTX_3090, RTX_3090), DriverAnswer::Refused, "GeForce");
}

#[test]
fn mig_and_vgpu_have_own_rules() {
    let mig = format!("{A100};mig_instances = 3");
    only(&gpus("", &mig, A100), DriverAnswer::Refused, "MIG");
    let whole = format!("{A100};mig_instances = 0");
    only(&gpus("", &whole, A100), DriverAnswer::Expected, "firmware");
    let virt = format!("{A100};physical_function = '0000:41:00.0'");
    only(&gpus("", A100, &virt), DriverAnswer::Conditional, "vGPU");
}

#[test]
fn guests_need_a_clique() {
    let system = "[environment]\nhypervisor = 'KVM'";
    let rule = only(&gpus(system, H100, H100), DriverAnswer::Conditional, "x-nv-gpudirect-clique");
    assert!(rule.source.contains("hypervisor.c"));
}

#[test]
fn io_hubs_do_not_forward() {
    let hub = |name: &str, under: &str| {
        device(name, under, "root-port", "vendor = '0x8086';device = '0x3c04'")
            + &device(&name.replace("hub", ""), name, "gpu", P100)
    };
    let bridges = "[[host_bridge]]\nname = 'pci0000:00'\n[[host_bridge]]\nname = 'pci0000:80'\n";
    let text = |other: &str| {
        format!("name = 'm'\n{bridges}{}{}", hub("huba", "pci0000:00"), hub("hubb", other))
    };
    let fabric = |other: &str| Fabric::from_toml(&text(other)).expect("a machine");
    only(&fabric("pci0000:80"), DriverAnswer::Refused, "two I/O hubs");
    only(&fabric("pci0000:00"), DriverAnswer::Conditional, "share no switch");
}

#[test]
fn translation_spoils_peer_access() {
    only(&gpus("iommu = 'translating'", H100, H100), DriverAnswer::Conditional, "iommu=pt");
    only(&gpus("iommu = 'passthrough'", H100, H100), DriverAnswer::Expected, "firmware");
}

#[test]
fn gpudirect_rdma_has_two_mechanisms() {
    let fabric = with_nic("", H100, MLX5);
    let found = answers(&fabric);
    let expected = [
        ("nvidia-peermem".to_owned(), DriverAnswer::Expected),
        ("nvidia".to_owned(), DriverAnswer::Conditional),
    ];
    assert_eq!(found, expected);
    assert!(rules_of(&fabric).iter().all(|rule| rule.asks_kernel == Some(false)));
    let without = with_nic("[kernel]\nmodules = []", H100, MLX5);
    assert!(rules_of(&without)[0].reason.contains("modprobe nvidia-peermem"));
    let consumer = answers(&with_nic("", RTX_4090, MLX5));
    assert!(consumer.iter().all(|(_, answer)| *answer == DriverAnswer::Refused), "{consumer:?}");
    let old = answers(&with_nic("", P100, MLX5));
    assert_eq!(old[1].1, DriverAnswer::Refused, "open modules begin with Turing");
}

#[test]
fn translated_export_loses_writes() {
    let fabric = with_nic("iommu = 'translating'", H100, MLX5);
    let rule = &rules_of(&fabric)[1];
    assert!(
        rule.reason.contains("raw BAR1 addresses") && rule.source.contains("#1324"),
        "{rule:?}"
    );
}

#[test]
fn translated_requests_need_their_acs_bit() {
    let ats = |control: &str| {
        let ports: String = ["q0", "q1"]
            .map(|name| {
                let acs = format!("[function.acs]\ncontrol = '{control}'");
                device(name, "up", "downstream-port", &acs)
            })
            .concat();
        let ends = device("a", "q0", "gpu", H100) + &device("b", "q1", "nic", MLX5);
        rules_of(&machine("", &(ports + &ends))).into_iter().nth(2)
    };
    let answer = |control: &str| ats(control).map(|rule| rule.answer);
    assert_eq!(answer("0x005d"), Some(DriverAnswer::Conditional));
    assert_eq!(answer("0x001d"), Some(DriverAnswer::Refused));
    assert_eq!(answer("0x0000"), None, "nothing redirects");
}

#[test]
fn storage_reaches_data_centre_gpus() {
    let with_drive = |system: &str, gpu: &str| {
        let drive = device("b", "p1", "nvme", "driver = 'nvme'");
        answers(&machine(system, &(device("a", "p0", "gpu", gpu) + &drive)))
    };
    let pair = |one, two| [("nvidia".to_owned(), one), ("nvidia-fs".to_owned(), two)];
    let (yes, no) = (DriverAnswer::Conditional, DriverAnswer::Refused);
    assert_eq!(with_drive("", H100), pair(yes, yes));
    assert_eq!(with_drive("", P100), pair(no, yes));
    assert_eq!(with_drive("", RTX_4090), pair(no, no));
    assert_eq!(with_drive("[kernel]\nrelease = '6.1.0'", H100), pair(no, yes));
    assert_eq!(with_drive("[kernel]\np2pdma = false", H100), pair(no, yes));
}

#[test]
fn nvidia_fs_serves_registered_drives() {
    let rule = |system: &str, gpu: &str, port: &str| {
        let drive = device("b", port, "nvme", "driver = 'nvme'");
        let fabric = machine(system, &(device("a", "p0", "gpu", gpu) + &drive));
        let rule = rules_of(&fabric).swap_remove(1);
        assert_eq!(rule.driver, "nvidia-fs");
        (rule.answer, rule.reason)
    };
    let system = |nvme: &str| {
        format!("iommu = 'off'\n[kernel]\nmodules = [{{ name = 'nvidia_fs' }}]\n{nvme}")
    };
    let (yes, no) = (system("nvidia_fs_nvme = true"), system("nvidia_fs_nvme = false"));
    assert_eq!(rule(&yes, H100, "p1").0, DriverAnswer::Possible);
    assert_eq!(
        rule(&yes.replace("'off'", "'translating'"), H100, "p1").0,
        DriverAnswer::Conditional
    );
    assert_eq!(rule(&yes, H100, "apart").0, DriverAnswer::Conditional, "no switch is above both");
    let refused = |(answer, reason): (DriverAnswer, String), words: &str| {
        assert_eq!(answer, DriverAnswer::Refused, "{reason}");
        assert!(reason.contains(words), "{reason}");
    };
    refused(rule(&no, H100, "p1"), "not registered with nvidia_fs: it takes the nvme of DOCA-OFED");
    refused(rule(&yes, KEPLER, "p1"), "begins with Pascal");
    let unknown = rule(&system(""), H100, "p1");
    assert_eq!(unknown.0, DriverAnswer::Conditional);
    assert!(unknown.1.contains("`cat /proc/driver/nvidia-fs/modules`"), "{}", unknown.1);
    let without = "[environment]\ncontainer = 'docker'\nudev = false\n[kernel]";
    let contained = yes.replace("[kernel]", without);
    refused(rule(&contained, H100, "p1"), "`-v /run/udev:/run/udev:ro`");
}

#[test]
fn p2pdma_needs_udev_in_container() {
    let rule = |udev: bool| {
        let drive = device("b", "p1", "nvme", "driver = 'nvme'");
        let system = format!("[environment]\nudev = {udev}\n");
        let fabric = machine(&system, &(device("a", "p0", "gpu", H100) + &drive));
        rules_of(&fabric).swap_remove(0)
    };
    assert_eq!(rule(true).answer, DriverAnswer::Conditional);
    let without = rule(false);
    assert_eq!(without.answer, DriverAnswer::Refused);
    assert!(without.reason.contains("/run/udev is not here"), "{}", without.reason);
}

#[test]
fn nouveau_lends_nothing() {
    let nouveau = "vendor = '0x10de';device = '0x2204';driver = 'nouveau'";
    only(&gpus("", nouveau, RTX_3090), DriverAnswer::Refused, "host memory");
    only(
        &gpus("", &nouveau.replace("nouveau", "nova_core"), RTX_3090),
        DriverAnswer::NotKnown,
        "nova_core",
    );
}

#[test]
fn other_controllers_register_no_memory() {
    only(&with_nic("", H100, "driver = 'igb'"), DriverAnswer::Refused, "igb registers none");
    only(&with_nic("", B580, "driver = 'igb'"), DriverAnswer::Refused, "igb registers none");
}
