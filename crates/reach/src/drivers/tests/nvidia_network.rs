//! GPUDirect RDMA of NVIDIA GPUs, each rule with its source.

use super::{DriverAnswer, DriverRule, device, machine, rules_of};

const H100: &str = "vendor = '0x10de';device = '0x2330';driver = 'nvidia'";
const GB300: &str = "vendor = '0x10de';device = '0x31c2';driver = 'nvidia'";
const GB10: &str = "vendor = '0x10de';device = '0x2e12';driver = 'nvidia'";
const L40S: &str = "vendor = '0x10de';device = '0x26b9';driver = 'nvidia'";
const MLX5: &str = "vendor = '0x15b3';device = '0x1021';driver = 'mlx5_core'";
const EFA: &str = "vendor = '0x1d0f';device = '0xefa2';driver = 'efa'";
const OPEN: &str = "iommu = 'off'\n[kernel]\nrelease = '6.8.0'\n[nvidia]\nopen = true";

fn apart(system: &str, gpu: &str, nic: &str) -> Vec<DriverRule> {
    let ends = device("a", "p0", "gpu", gpu) + &device("b", "apart", "nic", nic);
    rules_of(&machine(system, &ends))
}

#[track_caller]
fn says(rule: &DriverRule, answer: DriverAnswer, words: &str) {
    assert_eq!(rule.answer, answer, "{}", rule.reason);
    assert!(rule.reason.contains(words), "{}", rule.reason);
}

/// osinit.c, `_checkP2pChipsetSupport`: Grace, Ampere Altra and AmpereOne alone are refused.
#[test]
fn chipsets_of_arm_alone_are_refused() {
    let on = |cpu: &str| apart(&format!("{OPEN}\n[cpu]\n{cpu}"), H100, MLX5);
    let zen = on("vendor = 'AuthenticAMD'\nfamily = 25");
    says(&zen[1], DriverAnswer::Possible, "the driver refuses only on Grace");
    says(&zen[0], DriverAnswer::Expected, "the driver refuses only on Grace");
    let arm = on("vendor = 'CPU implementer 0x41'");
    says(&arm[1], DriverAnswer::Conditional, "the driver refuses on Grace, Ampere Altra");
    let intel = on("vendor = 'GenuineIntel'\nfamily = 6");
    says(&intel[1], DriverAnswer::Conditional, "prove the route");
    says(&intel[0], DriverAnswer::Conditional, "prove the route");
}

/// nv-pci.c, `nv_pci_is_valid_topology_for_direct_pci`; meta-pytorch/torchcomms #3014.
#[test]
fn data_direct_needs_one_iommu_group() {
    let rule = |groups: [u32; 2]| {
        let [gpu, nic] = [(GB300, groups[0]), (MLX5, groups[1])]
            .map(|(one, group)| format!("{one};iommu_group = {group}"));
        apart(OPEN, &gpu, &nic).swap_remove(1)
    };
    says(&rule([3, 4]), DriverAnswer::Conditional, "one IOMMU group, and they are in 3 and 4");
    says(&rule([3, 3]), DriverAnswer::Conditional, "both are in one IOMMU group (3)");
    assert!(rule([3, 3]).source.contains("torchcomms #3014"));
}

/// NVIDIA/nccl #1579: NCCL leaves GPUDirect RDMA alone on superchips unless it is told.
#[test]
fn superchips_need_settings_of_nccl() {
    let rule = apart(OPEN, GB300, MLX5).swap_remove(1);
    says(&rule, DriverAnswer::Conditional, "NCCL_NET_GDR_C2C=1 or NCCL_NET_GDR_LEVEL=SYS");
}

/// NVIDIA, forum of DGX Spark, 348787; NVIDIA/daqiri #49.
#[test]
fn gb10_has_no_gpudirect() {
    for rule in &apart(OPEN, GB10, MLX5)[..2] {
        says(rule, DriverAnswer::Refused, "use host memory (cudaHostAlloc)");
    }
    let ends = device("a", "p0", "gpu", GB10) + &device("b", "apart", "nvme", "driver = 'nvme'");
    for rule in rules_of(&machine(OPEN, &ends)) {
        says(&rule, DriverAnswer::Refused, "no GPUDirect RDMA or Storage");
    }
}

/// aws/aws-ofi-nccl #547: the GPUs would, the instances do not.
#[test]
fn instances_without_gpudirect_are_named() {
    let rule = |product: &str| apart(&format!("{product}\n{OPEN}"), L40S, EFA).swap_remove(0);
    says(
        &rule("product = 'Amazon EC2 g6e.12xlarge'"),
        DriverAnswer::Refused,
        "g6e.12xlarge has no",
    );
    says(&rule(""), DriverAnswer::NotKnown, "the instance is unknown");
    assert_eq!(rule("").source, "aws/aws-ofi-nccl #547");
    assert_ne!(rule("product = 'Supermicro'").source, "aws/aws-ofi-nccl #547");
}
