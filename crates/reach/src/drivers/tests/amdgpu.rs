//! Rules for memory of AMD's GPUs.

use peerlane_fabric::Fabric;

use super::super::needs_translation;
use super::gpus::{H100, MLX5, NAVI, gpus, with_nic};
use super::{DriverAnswer, device, id, machine, only, rules_of};

const R9700: &str = "vendor = '0x1002';device = '0x7551';driver = 'amdgpu'";
const MI300X: &str = "vendor = '0x1002';device = '0x74a1';driver = 'amdgpu'";
const BNXT: &str = "vendor = '0x14e4';driver = 'bnxt_en'";
/// A kernel with every option.
const ROCM: &str = "[kernel]\nrelease = '6.19.2'\namd_p2p = true\nmove_notify = true";

/// A GPU whose window shows all of its memory, up to an address of so many bits.
fn with_window(gpu: &str, bits: u8) -> String {
    format!(
        "{gpu}\n[[function.bars]]\nindex = 0\nsize = '32G'\nprefetchable = true\nlargest = '32G'\n\
         address_bits = {bits}"
    )
}

/// Answer and reason of peer access between two such GPUs.
#[track_caller]
fn peer_access(system: &str, gpu: &str, bits: u8) -> (DriverAnswer, String) {
    let gpu = with_window(gpu, bits);
    let rule = rules_of(&gpus(system, &gpu, &gpu)).remove(0);
    assert!(rule.source.contains("amdgpu_device_is_peer_accessible"), "{rule:?}");
    (rule.answer, rule.reason)
}

/// Answer and words of the reason.
#[track_caller]
fn says(found: (DriverAnswer, String), answer: DriverAnswer, words: &str) {
    assert_eq!(found.0, answer, "{}", found.1);
    assert!(found.1.contains(words), "{}", found.1);
}

#[test]
fn amdgpu_asks_the_kernel() {
    let found = rules_of(&gpus("[kernel]\nrelease = '7.2.0'", NAVI, NAVI));
    let expected = [
        ("peer access", Some(true), DriverAnswer::Conditional),
        ("dma-buf", Some(true), DriverAnswer::Possible),
        ("XGMI", Some(false), DriverAnswer::NotKnown),
    ];
    let seen: Vec<_> =
        found.iter().map(|rule| (rule.mechanism.as_str(), rule.asks_kernel, rule.answer)).collect();
    assert_eq!(seen, expected);
    assert!(found[1].reason.contains("the kernel permits this pair"), "{}", found[1].reason);
    only(&gpus("", NAVI, H100), DriverAnswer::Refused, "imports no memory");
    let bar =
        "[[function.bars]]\nindex = 0\nsize = '256M'\nprefetchable = true\nlargest = '32768M'";
    let small = gpus("", &format!("{NAVI}\n{bar}"), NAVI);
    assert_eq!(rules_of(&small)[0].answer, DriverAnswer::Refused, "not all of its memory is seen");
}

/// ROCm/ROCR-Runtime #355: two R9700 in an X99 whose windows lie at 0x380000000000, under `iommu=pt`.
#[test]
fn high_window_is_out_of_reach_in_passthrough() {
    let system = |iommu: &str| format!("iommu = '{iommu}'\n{ROCM}");
    let passthrough = peer_access(&system("passthrough"), R9700, 46);
    says(passthrough, DriverAnswer::Refused, "boot without `iommu=pt`");
    says(peer_access(&system("off"), R9700, 46), DriverAnswer::Refused, "sends 44 (its DMA mask)");
    says(peer_access(&system("translating"), R9700, 46), DriverAnswer::Possible, "gives access");
    says(peer_access(&system("passthrough"), R9700, 44), DriverAnswer::Possible, "gives access");
    says(peer_access(&system("passthrough"), MI300X, 46), DriverAnswer::Possible, "gives access");
    says(peer_access(ROCM, R9700, 46), DriverAnswer::Conditional, "iommu_groups/*/type");
    let by_parameter = format!("{ROCM}\nparameters = ['iommu=pt']");
    says(peer_access(&by_parameter, R9700, 46), DriverAnswer::Refused, "boot without `iommu=pt`");
}

/// Linux 6.12: "drm/amdgpu: Take IOMMU remapping into account for p2p checks".
#[test]
fn translation_counts_since_6_12() {
    let system =
        |kernel: &str| format!("iommu = 'translating'\n[kernel]\namd_p2p = true\n{kernel}");
    let old = peer_access(&system("release = '6.8.0-60-generic'"), R9700, 46);
    says(old, DriverAnswer::Refused, "before Linux 6.12");
    says(peer_access(&system(""), R9700, 46), DriverAnswer::Conditional, "`uname -r`");
}

#[test]
fn unknown_masks_and_addresses_stay_open() {
    let system = format!("iommu = 'passthrough'\n{ROCM}");
    let newer = "vendor = '0x1002';device = '0x7fff';driver = 'amdgpu'";
    says(peer_access(&system, newer, 46), DriverAnswer::Conditional, "is unknown");
    says(peer_access(&system, newer, 40), DriverAnswer::Possible, "gives access");
    let unseen = rules_of(&gpus(&system, R9700, R9700)).remove(0);
    says((unseen.answer, unseen.reason), DriverAnswer::Conditional, "must be below 16 TiB");
}

/// ROCm/amdgpu #210 and siderolabs/pkgs #1488: peers take CONFIG_HSA_AMD_P2P.
#[test]
fn peer_access_takes_its_option() {
    let system = |kernel: &str| format!("iommu = 'off'\n[kernel]\nrelease = '7.2.0'\n{kernel}");
    let without = peer_access(&system("amd_p2p = false"), R9700, 40);
    says(without, DriverAnswer::Refused, "without CONFIG_HSA_AMD_P2P");
    says(peer_access(&system(""), R9700, 40), DriverAnswer::Conditional, "zgrep -E 'HSA_AMD_P2P");
    let dkms = "amd_p2p = false\nmodules = [{ name = 'amdgpu', version = '6.16.13' }]";
    says(peer_access(&system(dkms), R9700, 40), DriverAnswer::Conditional, "amdgpu-dkms decides");
    let resizable = R9700.to_owned()
        + "\n[[function.bars]]\nindex = 0\nsize = '32G'\nprefetchable = true\naddress_bits = 40";
    let rule = rules_of(&gpus(&system("amd_p2p = true"), &resizable, R9700)).remove(0);
    says((rule.answer, rule.reason), DriverAnswer::Expected, "mem_info_*vram_total");
}

/// Linux 6.19, amdgpu_dma_buf_pin; NixOS/nixpkgs #447016; ROCm/rocm-xio #181 and #201.
#[test]
fn import_without_notices_lies_in_host_memory() {
    let kernel = |release: &str, option: &str| format!("[kernel]\nrelease = '{release}'\n{option}");
    let off = kernel("6.12.107+deb13-amd64", "move_notify = false");
    for nic in [MLX5, BNXT] {
        let rule = only(&with_nic(&off, NAVI, nic), DriverAnswer::Refused, "DMABUF_MOVE_NOTIFY");
        assert!(rule.source.contains("amdgpu_dma_buf_pin"), "{rule:?}");
    }
    only(&with_nic("", NAVI, MLX5), DriverAnswer::Conditional, "kernel or option is unknown");
    let on = kernel("6.12.0", "move_notify = true");
    only(&with_nic(&on, NAVI, MLX5), DriverAnswer::Possible, "moves the buffer to host memory");
    only(&with_nic(&on, NAVI, BNXT), DriverAnswer::Refused, "before Linux 6.15");
    let newest = kernel("7.1.0", "move_notify = false");
    only(&with_nic(&newest, NAVI, MLX5), DriverAnswer::Possible, "the kernel permits this pair");
    only(&with_nic(&newest, NAVI, BNXT), DriverAnswer::Conditional, "prove the route");
    let drive = device("a", "p0", "gpu", NAVI) + &device("b", "p1", "nvme", "driver = 'nvme'");
    only(&machine(&on, &drive), DriverAnswer::Conditional, "hipFile");
    let found = rules_of(&machine(&off, &drive));
    let xio = found.iter().find(|rule| rule.driver == "rocm-xio").expect("a rule");
    assert_eq!((found.len(), xio.answer), (2, DriverAnswer::Refused), "{found:?}");
}

#[test]
fn pairs_that_need_translation_are_named() {
    let found = |system: &str, gpu: &str, bits| {
        let gpu = with_window(gpu, bits);
        let fabric: Fabric = gpus(&format!("iommu = 'translating'\n{system}"), &gpu, &gpu);
        needs_translation(&fabric).map(|pair| pair == (id(&fabric, "a"), id(&fabric, "b")))
    };
    assert_eq!(found(ROCM, R9700, 46), Some(true));
    assert_eq!(found(ROCM, R9700, 44), None);
    assert_eq!(found(ROCM, MI300X, 46), None);
    assert_eq!(
        found("[kernel]\nrelease = '6.8.0'", R9700, 46),
        None,
        "translation is no help there"
    );
}
