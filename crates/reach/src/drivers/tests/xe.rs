//! Rules for memory of Intel's GPUs.

use peerlane_fabric::Fabric;

use super::gpus::{B580, H100, MLX5, gpus, with_nic};
use super::{DriverAnswer, device, machine, only};

const B70: &str = "vendor = '0x8086';device = '0xe223';driver = 'xe'";
const NEW: &str = "[kernel]\nrelease = '7.1.2'";

#[test]
fn xe_asks_kernel_and_i915_moves() {
    let rule = only(&gpus(NEW, B580, B580), DriverAnswer::Possible, "the kernel permits this pair");
    assert_eq!(rule.asks_kernel, Some(true));
    let i915 = B580.replace("'xe'", "'i915'");
    only(&gpus("", &i915, B580), DriverAnswer::Refused, "host memory");
    only(&gpus("", B580, H100), DriverAnswer::Refused, "imports no memory");
    only(&with_nic(NEW, B580, MLX5), DriverAnswer::Possible, "the kernel permits this pair");
    only(&with_nic(NEW, B580, "driver = 'ionic'"), DriverAnswer::Conditional, "pins memory");
    let drive = device("a", "p0", "gpu", B580) + &device("b", "p1", "nvme", "driver = 'nvme'");
    only(&machine("", &drive), DriverAnswer::Refused, "drives import no dma-bufs");
}

/// intel/compute-runtime #921.
#[test]
fn battlemage_wants_linux_7_1() {
    let kernel = |text: &str| format!("[kernel]\n{text}\nmove_notify = true");
    let old = gpus(&kernel("release = '7.0.0-28-generic'"), B70, B70);
    let rule = only(&old, DriverAnswer::Conditional, "from Linux 7.1 on only");
    assert!(rule.source.contains("#921"), "{rule:?}");
    only(&gpus(NEW, B70, B70), DriverAnswer::Possible, "the kernel permits this pair");
    let alchemist = "vendor = '0x8086';device = '0x56a0';driver = 'xe'";
    let old = gpus(&kernel("release = '7.0.0'"), alchemist, alchemist);
    only(&old, DriverAnswer::Possible, "the kernel permits this pair");
}

/// Linux 6.19, xe_dma_buf_pin: it pins in host memory without CONFIG_DMABUF_MOVE_NOTIFY.
#[test]
fn import_without_notices_lies_in_host_memory() {
    let off = "[kernel]\nrelease = '6.12.0'\nmove_notify = false";
    only(&gpus(off, B580, B580), DriverAnswer::Refused, "DMABUF_MOVE_NOTIFY");
    only(&gpus("", B580, B580), DriverAnswer::Conditional, "kernel or option is unknown");
}

/// Two B70 below one switch of ports `1000:c012`; `iommu` sets the machine's IOMMU.
fn below_pex(iommu: &str) -> Fabric {
    let port = |name: &str, kind: &str, under: &str| {
        device(name, under, kind, "vendor = '0x1000';device = '0xc012'")
    };
    let switch = port("pex", "upstream-port", "apart")
        + &port("pex-0", "downstream-port", "pex")
        + &port("pex-1", "downstream-port", "pex");
    let ends = device("a", "pex-0", "gpu", B70) + &device("b", "pex-1", "gpu", B70);
    machine(&format!("{iommu}\n{NEW}"), &(switch + &ends))
}

/// intel/compute-runtime #942.
#[test]
fn translation_corrupts_copies_below_pex880xx() {
    let translated = below_pex("iommu = 'translating'");
    let rule = only(&translated, DriverAnswer::Conditional, "right with `iommu=pt`");
    assert!(rule.source.contains("#942"), "{rule:?}");
    let passthrough = below_pex("iommu = 'passthrough'");
    only(&passthrough, DriverAnswer::Possible, "the kernel permits this pair");
    only(&below_pex(""), DriverAnswer::Conditional, "which is unknown");
    let other = gpus(&format!("iommu = 'translating'\n{NEW}"), B70, B70);
    only(&other, DriverAnswer::Possible, "the kernel permits this pair");
}

/// intel/compute-runtime #935: on Rocket Lake a patched kernel copies wrong data.
#[test]
fn unlisted_bridge_must_not_be_forced() {
    let bridge = "[[function]]\nname = 'host'\nkind = 'other'\naddress = '0000:00:00.0'\n\
                  vendor = '0x8086'\ndevice = '0x4c43'\nclass = '0x060000'\n";
    let port = |name: &str, address: &str| {
        format!("[[function]]\nname = '{name}'\nkind = 'root-port'\naddress = '{address}'\n")
    };
    let text = format!(
        "name = 'm'\n{NEW}\n[cpu]\nvendor = 'GenuineIntel'\nfamily = 6\n{bridge}{}{}{}{}",
        port("p0", "0000:00:01.0"),
        port("p1", "0000:00:01.1"),
        device("a", "p0", "gpu", B70),
        device("b", "p1", "gpu", B70)
    );
    let fabric = Fabric::from_toml(&text).expect("a machine");
    let rule = only(&fabric, DriverAnswer::Possible, "the kernel refuses this pair");
    assert!(rule.reason.contains("copies wrong data"), "{}", rule.reason);
}
