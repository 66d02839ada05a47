//! Rules for memory of NVIDIA GPUs that depend on the loaded driver and its parameters.

use peerlane_fabric::{Fabric, Origin};

use super::{DriverAnswer, DriverRule, device, machine, rules_of};

const H100: &str = "vendor = '0x10de';device = '0x2330';driver = 'nvidia'";
const GH200: &str = "vendor = '0x10de';device = '0x2342';driver = 'nvidia'";
const MLX5: &str = "vendor = '0x15b3';device = '0x1021';driver = 'mlx5_core'";
const NVME: &str = "driver = 'nvme'";
const OPEN: &str = "[nvidia]\nopen = true\nversion = '570.133.20'";
const CLOSED: &str = "[nvidia]\nopen = false\nversion = '570.133.20'";
const BOTH_KEYS: &str = "RMForceStaticBar1=1;RmForceDisableIomapWC=1;";

/// A machine with every fact that NVIDIA's driver asks for.
fn known(nvidia: &str) -> String {
    format!("iommu = 'off'\n[kernel]\nrelease = '6.8.0'\n{nvidia}")
}

fn with_keys(version: &str, keys: &str) -> String {
    let parameters = format!("[nvidia.parameters]\nRegistryDwords = '{keys}'");
    known(&format!("[nvidia]\nopen = true\nversion = '{version}'\n{parameters}"))
}

fn network(system: &str, gpu: &str, nic: &str) -> Vec<DriverRule> {
    let ends = device("a", "p0", "gpu", gpu) + &device("b", "p1", "nic", nic);
    rules_of(&machine(system, &ends))
}

/// The rule of dma-buf for a network controller.
fn dma_buf(system: &str) -> DriverRule {
    network(system, H100, MLX5).swap_remove(1)
}

/// The rule of P2PDMA for a drive, of a machine whose sysfs was read.
fn p2pdma(system: &str, gpu: &str) -> DriverRule {
    let ends = device("a", "p0", "gpu", gpu) + &device("b", "p1", "nvme", NVME);
    let fabric = Fabric { origin: Origin::Tree("kept".into()), ..machine(system, &ends) };
    rules_of(&fabric).swap_remove(0)
}

#[track_caller]
fn says(rule: &DriverRule, answer: DriverAnswer, words: &str) {
    assert_eq!(rule.answer, answer, "{}", rule.reason);
    assert!(rule.reason.contains(words), "{}", rule.reason);
}

#[test]
fn known_facts_make_dma_buf_possible() {
    let rule = dma_buf(&known(OPEN));
    says(&rule, DriverAnswer::Possible, "mlx5_core imports it");
    says(&rule, DriverAnswer::Possible, "no port on the path redirects");
    for (from, to, words) in [
        ("open = true\n", "", "it needs NVIDIA's open kernel modules;"),
        ("release = '6.8.0'", "", "it needs Linux 5.12 or later;"),
        ("iommu = 'off'", "iommu = 'unknown'", "it needs an IOMMU that does not translate;"),
        ("iommu = 'off'", "iommu = 'translating'", "raw BAR1 addresses"),
    ] {
        says(&dma_buf(&known(OPEN).replace(from, to)), DriverAnswer::Conditional, words);
    }
    let unknown = network(&known(OPEN), &H100.replace("0x2330", "0xfffe"), MLX5);
    says(&unknown[1], DriverAnswer::Conditional, "it needs a GPU of Turing or later;");
    let guest = known(OPEN) + "\n[environment]\nhypervisor = 'KVM'";
    says(&dma_buf(&guest), DriverAnswer::Conditional, "in a virtual machine");
}

#[test]
fn proprietary_modules_export_no_memory() {
    says(&dma_buf(&known(CLOSED)), DriverAnswer::Refused, "proprietary kernel modules");
    says(&p2pdma(&known(CLOSED), H100), DriverAnswer::Refused, "proprietary kernel modules");
    let peermem = network(&known(CLOSED), H100, MLX5).swap_remove(0);
    says(&peermem, DriverAnswer::Expected, "ib_core");
}

#[test]
fn redirected_requests_reach_root_complex() {
    let with_acs = |cpu: &str| {
        let port = |name: &str| {
            device(name, "up", "downstream-port", "[function.acs]\ncontrol = '0x001d'")
        };
        let ends = device("a", "q0", "gpu", H100) + &device("b", "q1", "nic", MLX5);
        let ports = port("q0") + &port("q1");
        rules_of(&machine(&format!("{}\n{cpu}", known(OPEN)), &(ports + &ends))).swap_remove(1)
    };
    let zen = with_acs("[cpu]\nvendor = 'AuthenticAMD'\nfamily = 25");
    says(&zen, DriverAnswer::Possible, "q0 and q1 redirect requests");
    says(&zen, DriverAnswer::Possible, "root complex, which forwards them");
    let other = with_acs("[cpu]\nvendor = 'GenuineIntel'\nfamily = 6");
    says(&other, DriverAnswer::Conditional, "prove the route");
}

#[test]
fn topology_override_decides_over_places() {
    let with = |value: &str| {
        let parameters = format!("[nvidia.parameters]\nGrdmaPciTopoCheckOverride = '{value}'");
        network(&known(&format!("{OPEN}\n{parameters}")), H100, MLX5)
    };
    says(&with("1")[1], DriverAnswer::Possible, "allow every place");
    for rule in with("2") {
        says(&rule, DriverAnswer::Refused, "refuse every peer");
    }
    says(&with("0")[1], DriverAnswer::Possible, "below one switch");
}

#[test]
fn missing_registration_names_its_cause() {
    for (keys, words) in [
        ("", "RmForceDisableIomapWC is not set"),
        ("RmForceDisableIomapWC=0", "RmForceDisableIomapWC is not set"),
        ("RmForceDisableIomapWC=1", "RMForceStaticBar1 is not set"),
        ("RmForceDisableIomapWC=0x1;RMForceStaticBar1=0", "forbids a static window"),
    ] {
        let rule = p2pdma(&with_keys("570.133.20", keys), H100);
        says(&rule, DriverAnswer::Refused, words);
        says(&rule, DriverAnswer::Refused, "options nvidia NVreg_RegistryDwords=");
    }
    says(
        &p2pdma(&with_keys("580.65.06", "RmForceDisableIomapWC=1"), H100),
        DriverAnswer::Conditional,
        "first CUDA program",
    );
    says(
        &p2pdma(&with_keys("570.133.20", BOTH_KEYS), H100),
        DriverAnswer::Conditional,
        "first CUDA program",
    );
    says(&p2pdma(&known(OPEN), H100), DriverAnswer::Conditional, "first CUDA program");
    let arm =
        format!("{}\n[cpu]\nvendor = 'CPU implementer 0x41'", with_keys("580.65.06", BOTH_KEYS));
    says(&p2pdma(&arm, H100), DriverAnswer::Refused, "on Arm it registers none");
    says(
        &p2pdma(&with_keys("550.54.14", BOTH_KEYS), H100),
        DriverAnswer::Refused,
        "begins with 565",
    );
}

#[test]
fn registered_memory_asks_the_kernel() {
    let memory = format!("{H100};[function.p2pmem];size = '128G'");
    let rule = p2pdma(&with_keys("570.133.20", BOTH_KEYS), &memory);
    says(&rule, DriverAnswer::Possible, "has registered its memory");
    assert_eq!(rule.asks_kernel, Some(true));
    says(&p2pdma(&known(OPEN), GH200), DriverAnswer::Conditional, "C2C");
}

#[test]
fn descriptions_do_not_show_registration() {
    let ends = device("a", "p0", "gpu", H100) + &device("b", "p1", "nvme", NVME);
    let rule = rules_of(&machine(&with_keys("570.133.20", ""), &ends)).swap_remove(0);
    says(&rule, DriverAnswer::Conditional, "only where it is static");
}

#[test]
fn forced_peer_access_is_said() {
    let rule = |nvlinks: &str, keys: &str| {
        let ends = device("a", "p0", "gpu", H100) + &device("b", "p1", "gpu", H100);
        let system = with_keys("570.133.20", keys);
        rules_of(&machine(&format!("{nvlinks}\n{system}"), &ends)).swap_remove(0)
    };
    says(
        &rule("nvlink = []", "ForceP2P=0"),
        DriverAnswer::Refused,
        "disables peer access over PCIe",
    );
    says(&rule("", "ForceP2P=0"), DriverAnswer::Conditional, "NVLink unknown");
    says(&rule("", "ForceP2P=0x11"), DriverAnswer::Conditional, "no proof that data arrives");
    says(&rule("", "ForceP2P=0x21"), DriverAnswer::Conditional, "allow reads alone");
    says(&rule("nvlink = []", "ForceP2P=0x22"), DriverAnswer::Refused, "ForceP2P disables");
}
