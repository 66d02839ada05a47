//! GPUDirect Storage: an NVMe drive reaching memory of an NVIDIA GPU, by P2PDMA or by nvidia-fs.
//!
//! The driver registers BAR1 with the kernel's P2PDMA when the first CUDA program opens the GPU
//! (`uvm_pmm_gpu_device_p2p_init`), and the kernel shows that by a folder `p2pmem`
//! (`pci_p2pdma_setup` in drivers/pci/p2pdma.c, Linux 7.2).

use peerlane_fabric::gpu::{self, Generation};
use peerlane_fabric::{Fabric, FunctionId, NvidiaDriver, Origin};

use super::{DRIVER, kept_from_gpudirect};
use crate::drivers::ends::DriverEnds;
use crate::drivers::{DriverAnswer, DriverRule};
use crate::peer_pages::MULTIPATH_SINCE;
use crate::{MapType, decide};

const P2PDMA: &str =
    "open-gpu-kernel-modules 595.45.04, uvm_pmm_gpu.c; docs.nvidia.com/deploy/gds-support-for-nvme";
const NVIDIA_FS: &str = "gds-nvidia-fs 2.30, README; 2.28.4, nvfs-mod.c; NVIDIA, GPUDirect Storage Troubleshooting Guide 1.18";

/// First driver that registers memory, first one that makes BAR1 static where it is large enough, and first one
/// that registers nothing on Arm (`uvm_pmm_gpu.c` and `kern_bus.c` of 565.57.01, 575.51.02 and 580.65.06).
const FIRST_DRIVER: u32 = 565;
const AUTOMATIC_BAR1: u32 = 580;
/// Registry keys that NVIDIA documents, each with its value.
const KEYS: [(&str, &str); 2] = [("RMForceStaticBar1", "1"), ("RmForceDisableIomapWC", "1")];

/// The rule of the driver that registers its memory with the kernel.
pub(super) fn by_p2pdma(ends: &DriverEnds<'_>) -> DriverRule {
    let by_settings = || {
        let is_refused = multipath_refuses(ends.fabric) && !gpu::has_c2c(ends.provider());
        is_refused.then(|| {
            "nvme_core.multipath is on, which takes no peer-to-peer pages before Linux 7.2: boot with \
             `nvme_core.multipath=N`"
                .to_owned()
        })
    };
    let verdict = match refusal(ends).or_else(by_settings) {
        Some(reason) => (DriverAnswer::Refused, reason),
        None => with_udev(ends, registration(ends)),
    };
    DriverRule::new(DRIVER, "P2PDMA for GPUDirect Storage", Some(true), verdict, P2PDMA)
}

/// A verdict that stands only where cuFile finds drives.
fn with_udev(ends: &DriverEnds<'_>, verdict: (DriverAnswer, String)) -> (DriverAnswer, String) {
    match udev_refusal(ends.fabric).filter(|_| verdict.0 != DriverAnswer::Refused) {
        Some(reason) => (DriverAnswer::Refused, reason),
        None => verdict,
    }
}

/// The reason for a refusal that no setting of the driver changes.
fn refusal(ends: &DriverEnds<'_>) -> Option<String> {
    let provider = ends.provider();
    if let Some(reason) = kept_from_gpudirect(ends) {
        return Some(reason);
    }
    if let Some(old) =
        Generation::from_function(provider).filter(|&found| found < Generation::Ampere)
    {
        return Some(format!("{} is {old}; P2PDMA begins with Ampere", ends.word(provider)));
    }
    if ends.has_open_nvidia() == Some(false) {
        let reason = "NVIDIA's proprietary kernel modules are loaded, and P2PDMA needs its open ones, 565 \
                      or later";
        return Some(reason.to_owned());
    }
    let version = ends.fabric.nvidia.as_ref().and_then(NvidiaDriver::major_version);
    if let Some(old) = version.filter(|&major| major < FIRST_DRIVER) {
        return Some(format!("the driver is {old}; P2PDMA begins with {FIRST_DRIVER}"));
    }
    if ends.is_kernel_at_least(6, 2) == Some(false) {
        return Some("programs get memory of P2PDMA since Linux 6.2".to_owned());
    }
    if ends.fabric.kernel.has_p2pdma == Some(false) {
        return Some("the kernel is built without CONFIG_PCI_P2PDMA".to_owned());
    }
    None
}

/// Returns whether native multipath of NVMe keeps drives of a machine from peer-to-peer pages.
pub fn multipath_refuses(fabric: &Fabric) -> bool {
    let kernel = &fabric.kernel;
    kernel.nvme_multipath == Some(true)
        && kernel.version().is_some_and(|version| version < MULTIPATH_SINCE)
}

/// Returns the options of module `nvidia` that the driver of a GPU needs to register its memory
/// with the kernel: `NVreg_RegistryDwords="..."`, with the keys that are set now; `None` where no
/// key is missing, or keys are not enough.
pub fn missing_registry_keys(
    fabric: &Fabric,
    gpu: FunctionId,
    drive: FunctionId,
) -> Option<String> {
    let decision = decide(fabric, gpu, drive);
    let ends = DriverEnds::new(fabric, (gpu, drive), &decision);
    let is_missing = ends.provider().vendor == Some(gpu::VENDOR_NVIDIA)
        && ends.provider().p2pmem.is_none()
        && !gpu::has_c2c(ends.provider())
        && !fabric.cpu.is_arm()
        && refusal(&ends).is_none()
        && obstacle(&ends).is_some();
    is_missing.then(|| options(fabric.nvidia.as_ref()))
}

/// The keys of [`KEYS`], after those that are set now and are others.
fn options(driver: Option<&NvidiaDriver>) -> String {
    let set = driver.and_then(|driver| driver.parameters.get("RegistryDwords"));
    let is_ours = |entry: &str| {
        let name = entry.split('=').next().unwrap_or_default().trim();
        KEYS.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let others = set.into_iter().flat_map(|text| text.split(';'));
    let others = others.map(str::trim).filter(|entry| !entry.is_empty() && !is_ours(entry));
    let ours = KEYS.map(|(key, value)| format!("{key}={value}"));
    let all: Vec<String> = others.map(str::to_owned).chain(ours).collect();
    format!("NVreg_RegistryDwords=\"{}\"", all.join(";"))
}

/// The verdict over the registration of BAR1 with the kernel.
fn registration(ends: &DriverEnds<'_>) -> (DriverAnswer, String) {
    let words = ends.in_words();
    if ends.provider().p2pmem.is_some() {
        let reason =
            format!("the driver has registered its memory with the kernel (p2pmem), and {words}");
        return (DriverAnswer::Possible, reason);
    }
    if gpu::has_c2c(ends.provider()) {
        let reason = "on a superchip the driver registers no window: drives reach the memory over C2C, \
                      which the same keys of cuFile switch on";
        return (DriverAnswer::Conditional, reason.to_owned());
    }
    if matches!(ends.fabric.origin, Origin::Description | Origin::Text) {
        let reason = format!(
            "the driver registers BAR1 only where it is static and not write-combined \
             (RmForceDisableIomapWC=1); then {words}"
        );
        return (DriverAnswer::Conditional, reason);
    }
    let nothing = "the driver has not registered its memory with the kernel (no folder p2pmem)";
    match obstacle(ends) {
        Some(why) => (DriverAnswer::Refused, format!("{nothing}: {why}")),
        None => {
            let reason = format!(
                "{nothing}: it does so when the first CUDA program opens the GPU, where its window \
                 (BAR1) is static, as large as its memory, and not write-combined: `options nvidia \
                 {}`; then {words}",
                options(None)
            );
            (DriverAnswer::Conditional, reason)
        }
    }
}

/// The setting that keeps the driver from registering BAR1 even when a program opens the GPU.
fn obstacle(ends: &DriverEnds<'_>) -> Option<String> {
    let driver = ends.fabric.nvidia.as_ref()?;
    let is_automatic = driver.major_version().is_some_and(|major| major >= AUTOMATIC_BAR1);
    if ends.fabric.cpu.is_arm() {
        let since =
            format!("on Arm it registers none (open kernel modules from {AUTOMATIC_BAR1} on)");
        return is_automatic.then_some(since);
    }
    // Without the parameter nothing is known of the keys.
    driver.parameters.get("RegistryDwords")?;
    let options = options(Some(driver));
    let missing = |what: &str| {
        Some(format!(
            "{what}; `options nvidia {options}` in /etc/modprobe.d and a reload of the driver change that, on a data \
             centre GPU from Ampere on whose BAR1 is as large as its memory"
        ))
    };
    if dword(driver, "RmForceDisableIomapWC") != Some(1) {
        return missing(
            "the window (BAR1) is write-combined, since RmForceDisableIomapWC is not set",
        );
    }
    match dword(driver, "RMForceStaticBar1") {
        Some(0) => missing("RMForceStaticBar1=0 forbids a static window (BAR1)"),
        None if driver.major_version().is_some() && !is_automatic => {
            missing("the window (BAR1) is not static, since RMForceStaticBar1 is not set")
        }
        _ => None,
    }
}

/// A registry key as the driver reads it (`simple_strtoul` with any base).
pub(super) fn dword(driver: &NvidiaDriver, key: &str) -> Option<u32> {
    let value = driver.registry_key(key)?;
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

/// The rule of NVIDIA's own module between file systems and its driver.
pub(super) fn by_nvidia_fs(ends: &DriverEnds<'_>) -> DriverRule {
    let fabric = ends.fabric;
    let refusal = kept_from_gpudirect(ends)
        .or_else(|| older_than_pascal(ends))
        .or_else(|| nvidia_fs_refusal(fabric))
        .or_else(|| udev_refusal(fabric));
    let verdict = match (refusal, nvidia_fs_question(fabric)) {
        (Some(reason), _) => (DriverAnswer::Refused, reason),
        (None, Some(question)) => (DriverAnswer::Conditional, question),
        (None, None) => served_by_nvidia_fs(ends),
    };
    DriverRule::new("nvidia-fs", "GPUDirect Storage", Some(false), verdict, NVIDIA_FS)
}

fn older_than_pascal(ends: &DriverEnds<'_>) -> Option<String> {
    let found = Generation::from_function(ends.provider())?;
    let word = ends.word(ends.provider());
    (found < Generation::Pascal).then(|| format!("{word} is {found}; nvidia-fs begins with Pascal"))
}

/// The verdict where the driver of the drive is registered with the module.
fn served_by_nvidia_fs(ends: &DriverEnds<'_>) -> (DriverAnswer, String) {
    let is_known = ends.is_loaded("nvidia_fs") == Some(true) && ends.translates() == Some(false);
    if is_known && ends.decision.map == MapType::BusAddress {
        let reason = "nvme is registered with nvidia_fs, no IOMMU translates, and both ends meet below one \
                      switch that does not redirect";
        return (DriverAnswer::Possible, reason.to_owned());
    }
    let reason = "nvidia_fs maps by itself and needs the IOMMU off or in passthrough mode, and ACS redirection \
                  off";
    (DriverAnswer::Conditional, reason.to_owned())
}

/// Returns the reason why nvidia-fs serves no NVMe drive of a machine, with the fix.
pub fn nvidia_fs_refusal(fabric: &Fabric) -> Option<String> {
    let kernel = &fabric.kernel;
    if kernel.has_module("nvidia_fs") == Some(false) {
        return Some("the module nvidia_fs is not loaded: `sudo modprobe nvidia_fs`".to_owned());
    }
    (kernel.nvidia_fs_nvme == Some(false)).then(|| {
        "the driver nvme is not registered with nvidia_fs: it takes the nvme of DOCA-OFED or MLNX_OFED \
         (`mlnx-nvme-dkms`), or of a kernel that is patched for it (Ubuntu's `linux-nvidia`)"
            .to_owned()
    })
}

/// Returns the question whether nvidia-fs serves NVMe drives, with the command that answers it;
/// `None` where that is known.
pub fn nvidia_fs_question(fabric: &Fabric) -> Option<String> {
    (nvidia_fs_refusal(fabric).is_none() && fabric.kernel.nvidia_fs_nvme.is_none()).then(|| {
        "nothing here shows whether nvme is registered with nvidia_fs: `gdscheck -p` does, or `cat \
         /proc/driver/nvidia-fs/modules` while a program uses cuFile"
            .to_owned()
    })
}

/// Returns the reason why cuFile finds no drive of a machine, with the fix.
///
/// Without the database `cuFileHandleRegister` answers 5027 for every file, with compatibility mode, too (cuFile
/// 1.15.1 in a container).
pub fn udev_refusal(fabric: &Fabric) -> Option<String> {
    let environment = &fabric.environment;
    (environment.has_udev == Some(false)).then(|| match environment.container {
        Some(_) => "cuFile finds drives by udev, and /run/udev is not in this container: mount it by `-v \
                    /run/udev:/run/udev:ro`"
            .to_owned(),
        None => "cuFile finds drives by udev, and /run/udev is not here: `sudo systemctl start systemd-udevd`, \
                 or in a container `-v /run/udev:/run/udev:ro`"
            .to_owned(),
    })
}
