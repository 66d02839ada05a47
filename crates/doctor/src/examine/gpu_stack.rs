//! Software that lets peers reach the memory of GPUs, and the ways that it leaves open.
//!
//! Libraries are looked for by name in the usual folders; a program may bring its own, so evidence
//! names the folders searched.

use std::collections::BTreeSet;

use peerlane_fabric::gpu::{ConsumerLine, Generation, VENDOR_AMD, VENDOR_NVIDIA};
use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, Origin, pci_names};
use peerlane_reach::{
    JudgedPairs, RouteState, Use, kernel_refusal, missing_registry_keys, multipath_refuses,
    nvidia_fs_question, nvidia_fs_refusal, udev_refusal,
};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, LibrarySetting, Needs, Setting};

use super::copy::with_fix;
use super::{BearsOn, Examination, abbreviated, at, cufile, drive, finding, fix, saw};

/// First open driver that lends memory by P2PDMA (NVIDIA, "GPUDirect Storage with Linux PCI P2PDMA").
const P2PDMA_DRIVER: u32 = 565;
const CUFILE: &str = "libcufile.so.0";
const CUFILE_SETTINGS: &str = "/etc/cufile.json";
/// Processing accelerators, and displays that are not VGA devices: the classes of AMD's compute
/// cards (PCI Code and ID Assignment Specification, base classes 12h and 03h).
const COMPUTE_CLASSES: [u32; 2] = [0x12_00, 0x03_80];

pub(super) fn examine(on: &mut Examination<'_>) {
    let gpus = Gpus::new(on, Use::StorageToGpu, VENDOR_NVIDIA);
    let (consumer, gpus) = gpus.split(on.fabric, is_consumer);
    if let Some(found) = consumers(on.fabric, &consumer) {
        on.add(found, consumer.bears_on());
    }
    let (old, gpus) = gpus.split(on.fabric, is_too_old);
    if let Some(found) = too_old(on.fabric, &old) {
        on.add(found, old.bears_on());
    }
    if !gpus.ids.is_empty() {
        cufile_modes(on, &gpus);
        cufile_settings(on, &gpus);
    }
    let gpus = Gpus::new(on, Use::NetworkToGpu, VENDOR_NVIDIA);
    peer_module(on, &gpus.split(on.fabric, is_consumer).1);
    let computes = |gpu: &&Function| gpu.class.is_some_and(|c| COMPUTE_CLASSES.contains(&(c >> 8)));
    let gpus = Gpus::new(on, Use::StorageToGpu, VENDOR_AMD);
    if let Some(gpu) = gpus.functions(on.fabric).into_iter().find(computes) {
        // hipFile's fast path is a call of the driver that comes with ROCm (ROCm documentation, "hipFile
        // kernel P2PDMA support"); without it hipFile goes through host memory and does not say so.
        on.unknown(
            format!("whether storage reaches the memory of {} without host memory", gpu.name),
            "hipFile of ROCm and the amdgpu driver that comes with ROCm; the kernel's own driver lacks \
             the call for it: `ais-check`",
        );
    }
}

fn is_consumer(gpu: &Function) -> bool {
    ConsumerLine::from_function(gpu).is_some()
}

/// Both direct paths of cuFile want compute capability 6 (NVIDIA, "GPUDirect Storage Release Notes", Support Matrix).
fn is_too_old(gpu: &Function) -> bool {
    Generation::from_function(gpu).is_some_and(|found| found < Generation::Pascal)
}

/// GPUs of one maker that take part in one use.
struct Gpus {
    of_use: Use,
    ids: BTreeSet<FunctionId>,
}

impl Gpus {
    fn new(on: &Examination<'_>, of_use: Use, vendor: u16) -> Self {
        let is_it = |id: &FunctionId| {
            let function = on.fabric.function(*id);
            function.kind == FunctionKind::Gpu && function.vendor == Some(vendor)
        };
        let groups = on.judged.iter().filter(|pairs| pairs.of_use == of_use);
        let ids = groups.flat_map(|pairs| pairs.group.providers());
        Self { of_use, ids: ids.filter(is_it).collect() }
    }

    /// Splits the GPUs into the ones that pass a test and the others.
    fn split(self, fabric: &Fabric, is_it: impl Fn(&Function) -> bool) -> (Self, Self) {
        let (ours, others) = self.ids.into_iter().partition(|&id| is_it(fabric.function(id)));
        (Self { of_use: self.of_use, ids: ours }, Self { of_use: self.of_use, ids: others })
    }

    fn functions<'a>(&self, fabric: &'a Fabric) -> Vec<&'a Function> {
        self.ids.iter().map(|&id| fabric.function(id)).collect()
    }

    /// The first by its word in commands, and the number of the others.
    fn words(&self, fabric: &Fabric) -> String {
        let all: Vec<String> = self.ids.iter().map(|&id| fabric.device_word(id)).collect();
        abbreviated(&all, 1)
    }

    fn bears_on(&self) -> BearsOn {
        BearsOn::Functions(vec![self.of_use], self.ids.clone())
    }
}

/// Returns whether a library is installed; `None` if that is unknown.
fn is_installed(fabric: &Fabric, library: &str) -> Option<bool> {
    Some(fabric.libraries.as_ref()?.iter().any(|name| name == library))
}

/// A library as evidence; `None` if nothing is known of it.
pub(super) fn looked_for(fabric: &Fabric, library: &str) -> Option<Evidence> {
    let showed = if is_installed(fabric, library)? { "is there" } else { "is not" };
    Some(saw("/usr/lib and the other usual folders", format!("{library} {showed}")))
}

/// GPUs that their maker keeps from both direct ways (NVIDIA, README of gds-nvidia-fs, Requirements; "GPUDirect
/// Storage Installation and Troubleshooting Guide", P2PDMA Supported GPUs).
fn consumers(fabric: &Fabric, gpus: &Gpus) -> Option<Finding> {
    let first = gpus.functions(fabric).into_iter().next()?;
    let line = ConsumerLine::from_function(first)?;
    Some(Finding {
        evidence: vec![product(first)],
        fix: Some(another_gpu()),
        ..finding(
            FindingKind::GpuExcluded,
            Cost::Routes,
            gpus.words(fabric),
            format!(
                "storage reaches a {line} only through host memory: NVIDIA offers P2PDMA and nvidia-fs only on data-centre \
             and workstation GPUs"
            ),
        )
    })
}

/// GPUs that are too old for GPUDirect Storage.
fn too_old(fabric: &Fabric, gpus: &Gpus) -> Option<Finding> {
    let first = gpus.functions(fabric).into_iter().next()?;
    let generation = Generation::from_function(first)?;
    let what = format!(
        "storage reaches a GPU of {generation} only through host memory: GPUDirect Storage supports Pascal and later"
    );
    Some(Finding {
        evidence: vec![product(first)],
        fix: Some(another_gpu()),
        ..finding(FindingKind::GpuExcluded, Cost::Routes, gpus.words(fabric), what)
    })
}

/// The product as evidence.
fn product(gpu: &Function) -> Evidence {
    saw(format!("{}/device", at(gpu)), pci_names::look_up(gpu).unwrap_or_default())
}

/// The fix for a GPU that no setting makes reachable.
fn another_gpu() -> Fix {
    Fix {
        commands: vec![
            "peerlane bench stream --source FILE --target gpu:0 --routes host".to_owned(),
        ],
        ..fix("Use another GPU; feed this one through pinned host memory", Needs::Hardware)
    }
}

/// Looks for the requirements of cuFile.
///
/// It has three modes: direct by P2PDMA from Linux 6.2 and open driver 565 on, direct by nvidia-fs, and its
/// compatibility mode through host memory (NVIDIA's GPUDirect Storage documentation, "Troubleshooting Guide").
fn cufile_modes(on: &mut Examination<'_>, gpus: &Gpus) {
    let fabric = on.fabric;
    let kernel = &fabric.kernel;
    let functions = gpus.functions(fabric);
    let is_bound = functions.iter().any(|gpu| gpu.driver.is_named("nvidia"));
    let has_driver = is_bound.then_some(true).or(kernel.has_module("nvidia"));
    let open = [("nvidia", has_driver), ("nvidia_fs", kernel.has_module("nvidia_fs"))];
    let open: Vec<&str> = open
        .into_iter()
        .filter(|(_, is_loaded)| is_loaded.is_none())
        .map(|(name, _)| name)
        .collect();
    if !open.is_empty() {
        let (word, are) = if open.len() == 1 { ("module", "is") } else { ("modules", "are") };
        on.unknown(
            format!("whether the {word} {} {are} loaded", open.join(" and ")),
            "`cat /proc/modules`",
        );
        return;
    }
    let library = is_installed(fabric, CUFILE);
    // A text with nvidia_fs has it from a tool of cuFile's.
    if library.is_none() && kernel.modules.is_some() {
        on.unknown(
            format!("whether {CUFILE} (cuFile) is installed"),
            format!("`ldconfig -p | grep {CUFILE}`"),
        );
    }
    let without_p2pdma = without_p2pdma(fabric, &functions);
    if has_driver == Some(false) {
        return stack_missing(on, gpus, driver_missing());
    }
    let without_nvidia_fs = without_nvidia_fs(fabric);
    if library == Some(false) {
        return stack_missing(on, gpus, library_missing(without_p2pdma, without_nvidia_fs));
    }
    let keys = registry_keys(on, gpus);
    if without_nvidia_fs.is_some() && (without_p2pdma.is_none() || keys.is_some()) {
        multipath(on, gpus);
    }
    let (Some(why), Some(without_nvidia_fs)) = (&without_p2pdma, without_nvidia_fs) else {
        return open_direct_way(on, gpus, without_p2pdma.is_none());
    };
    match keys {
        Some(options) => {
            on.add(not_lent(fabric, gpus, &options, without_nvidia_fs), gpus.bears_on());
        }
        // What the driver will lend after a restart is unknown.
        None if fabric.origin == Origin::Assumed => {}
        None => stack_missing(on, gpus, only_compatible(fabric, why, without_nvidia_fs)),
    }
}

/// Native multipath of NVMe, if P2PDMA is the only direct way.
fn multipath(on: &mut Examination<'_>, gpus: &Gpus) {
    if multipath_refuses(on.fabric) {
        let found = drive::multipath(
            on.fabric,
            "nvme_core.multipath",
            "native multipath of NVMe is on, which takes no peer-to-peer pages before Linux 7.2",
            vec![saw("/sys/module/nvme_core/parameters/multipath", "Y")],
        );
        on.add(found, gpus.bears_on());
    }
}

/// Looks for findings about an otherwise open direct way: P2PDMA, or nvidia-fs alone.
fn open_direct_way(on: &mut Examination<'_>, gpus: &Gpus, is_by_p2pdma: bool) {
    if let Some(refusal) = udev_refusal(on.fabric) {
        let (what, fix) = with_fix(on.fabric, &refusal);
        let object = gpus.words(on.fabric);
        let found = Finding {
            evidence: vec![saw("/run/udev", "there is none")],
            fix,
            ..finding(FindingKind::GpuStackMissing, Cost::Routes, object, what)
        };
        on.add(found, gpus.bears_on());
    }
    if nvidia_fs_question(on.fabric).is_some() && !is_by_p2pdma {
        on.unknown(
            "whether the driver nvme is registered with nvidia_fs, the only direct path here",
            "`/usr/local/cuda/gds/tools/gdscheck -p`, or `cat /proc/driver/nvidia-fs/modules` while a \
             program uses cuFile",
        );
    }
}

/// The reason why nvidia-fs is not a direct way, in few words; `None` if it may be one.
fn without_nvidia_fs(fabric: &Fabric) -> Option<&'static str> {
    nvidia_fs_refusal(fabric)?;
    Some(match fabric.kernel.has_module("nvidia_fs") {
        Some(false) => "the module nvidia_fs is not loaded",
        _ => "the driver nvme is not registered with nvidia_fs",
    })
}

/// Settings of cuFile: those that force host memory are findings, the others notes.
fn cufile_settings(on: &mut Examination<'_>, gpus: &Gpus) {
    for note in cufile::audit(on.fabric) {
        if !note.forces_host {
            on.settings.push(LibrarySetting {
                key: note.key,
                value: note.value,
                consequence: note.consequence,
                advice: note.advice,
                since: note.since.to_owned(),
            });
            continue;
        }
        let found = Finding {
            evidence: vec![saw(CUFILE_SETTINGS, format!("{}: {}", note.key, note.value))],
            fix: Some(Fix {
                settings: note
                    .remedy
                    .iter()
                    .map(|(key, value)| Setting::CufileKey((*key).to_owned(), *value))
                    .collect(),
                ..fix(format!("{} in {CUFILE_SETTINGS}: {}", note.key, note.advice), Needs::Nothing)
            }),
            ..finding(
                FindingKind::CufileConfiguration,
                Cost::Routes,
                format!("{} of cuFile", note.key),
                note.consequence,
            )
        };
        on.add(found, gpus.bears_on());
    }
}

fn stack_missing(on: &mut Examination<'_>, gpus: &Gpus, (what, fix): (String, Fix)) {
    let kernel = &on.fabric.kernel;
    let module = |name: &str| {
        let showed = if kernel.has_module(name)? { "is there" } else { "is not" };
        Some(saw("/proc/modules", format!("{name} {showed}")))
    };
    let mut evidence: Vec<Evidence> =
        ["nvidia", "nvidia_fs"].into_iter().filter_map(module).collect();
    if kernel.nvidia_fs_nvme == Some(false) {
        evidence.push(saw("/proc/driver/nvidia-fs/modules", "nvme is not registered"));
    }
    evidence.extend(looked_for(on.fabric, CUFILE));
    let object = gpus.words(on.fabric);
    let found = finding(FindingKind::GpuStackMissing, Cost::Routes, object, what);
    on.add(Finding { evidence, fix: Some(fix), ..found }, gpus.bears_on());
}

/// The options that the driver needs to register memory, if they alone are missing.
fn registry_keys(on: &Examination<'_>, gpus: &Gpus) -> Option<String> {
    let groups = on.judged.iter().filter(|pairs| pairs.of_use == gpus.of_use);
    let pairs = groups.map(|pairs| pairs.group.example());
    let mut missing = pairs.filter_map(|(gpu, drive)| missing_registry_keys(on.fabric, gpu, drive));
    missing.next()
}

fn not_lent(fabric: &Fabric, gpus: &Gpus, options: &str, without_nvidia_fs: &str) -> Finding {
    let set = fabric.nvidia.as_ref().and_then(|driver| driver.parameters.get("RegistryDwords"));
    let fix = Fix {
        commands: vec![format!(
            "echo 'options nvidia {options}' | sudo tee -a /etc/modprobe.d/peerlane.conf"
        )],
        settings: vec![Setting::ModuleOptions(format!("nvidia {options}"))],
        ..fix(
            "set the registry keys of the driver that NVIDIA documents for P2PDMA (data centre GPUs from \
             Ampere on, window as large as the memory); if the initramfs contains the driver, rebuild it \
             as well",
            Needs::Reboot,
        )
    };
    let set = set.map_or_else(String::new, |keys| format!("RegistryDwords: \"{keys}\""));
    Finding {
        evidence: vec![
            saw("/proc/driver/nvidia/params", set),
            saw("/sys/bus/pci/devices/*/p2pmem of the GPUs", "there is none"),
        ],
        fix: Some(fix),
        ..finding(
            FindingKind::GpuMemoryNotLent,
            Cost::Routes,
            gpus.words(fabric),
            format!(
                "storage goes through host memory: the driver shares GPU memory only when its registry keys \
                 allow it, and nvidia-fs cannot help: {without_nvidia_fs}"
            ),
        )
    }
}

/// The module between RDMA and NVIDIA's driver, if the kernel's own way is not open.
fn peer_module(on: &mut Examination<'_>, gpus: &Gpus) {
    let fabric = on.fabric;
    let is_open = fabric.nvidia.as_ref().and_then(|driver| driver.is_open) == Some(true);
    let is_ours = |pairs: &JudgedPairs| {
        pairs.of_use == gpus.of_use
            && matches!(pairs.state, RouteState::Host | RouteState::Unknown)
            && pairs.group.providers().any(|id| gpus.ids.contains(&id))
    };
    let is_missing = fabric.kernel.has_module("nvidia_peermem") == Some(false)
        && fabric.kernel.has_module("nvidia") == Some(true);
    if is_open || !is_missing || !on.judged.iter().any(is_ours) {
        return;
    }
    let found = Finding {
        evidence: vec![saw("/proc/modules", "nvidia is there, nvidia_peermem is not")],
        fix: Some(Fix {
            commands: vec!["sudo modprobe nvidia-peermem".to_owned()],
            settings: vec![Setting::Module("nvidia-peermem".to_owned())],
            ..fix(
                "load nvidia-peermem, which needs the ib_core of DOCA-OFED; or install NVIDIA's open kernel \
                 modules, which need neither (Turing and later)",
                Needs::Nothing,
            )
        }),
        ..finding(
            FindingKind::PeerModuleMissing,
            Cost::Routes,
            gpus.words(fabric),
            "network controllers reach memory of NVIDIA's GPUs by dma-bufs of its open kernel modules, \
             which are not known to be loaded, or by nvidia-peermem, which is not",
        )
    };
    on.add(found, gpus.bears_on());
}

/// The reason why cuFile has no direct mode by P2PDMA; `None` if it may have.
fn without_p2pdma(fabric: &Fabric, gpus: &[&Function]) -> Option<String> {
    if gpus.iter().any(|gpu| gpu.p2pmem.is_some()) {
        return None;
    }
    let modules = fabric.kernel.modules.as_deref().unwrap_or_default();
    let version = modules.iter().find(|module| module.name == "nvidia");
    let version = version.and_then(|module| module.version.as_deref());
    let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    if let Some(refusal) = kernel_refusal(&fabric.kernel) {
        return Some(refusal);
    }
    if let (Some(version), true) = (version, major.is_some_and(|major| major < P2PDMA_DRIVER)) {
        return Some(format!("driver {version} is older than {P2PDMA_DRIVER}"));
    }
    Some("the driver lends no memory".to_owned())
}

fn driver_missing() -> (String, Fix) {
    let fix = Fix {
        commands: vec!["sudo modprobe nvidia".to_owned(), "nvidia-smi".to_owned()],
        ..fix("load it; then see what else is missing", Needs::Rebind)
    };
    ("the driver nvidia is not loaded, without which nothing reaches its memory".to_owned(), fix)
}

fn library_missing(
    without_p2pdma: Option<String>,
    without_nvidia_fs: Option<&str>,
) -> (String, Fix) {
    let then = match (without_p2pdma, without_nvidia_fs) {
        (None, _) => "direct by P2PDMA".to_owned(),
        (Some(_), None) => "direct by nvidia_fs".to_owned(),
        (Some(why), Some(too)) => {
            format!("its compatibility mode through host memory, since {why} and {too}")
        }
    };
    let what = format!(
        "no program reaches it from storage, unless it brings {CUFILE} (cuFile) along; with it, what \
         is possible is {then}"
    );
    let fix = Fix {
        commands: vec![
            "sudo apt install nvidia-gds".to_owned(),
            "/usr/local/cuda/gds/tools/gdscheck -p".to_owned(),
        ],
        ..fix(
            "install cuFile, which comes with nvidia_fs from NVIDIA's package source",
            Needs::Nothing,
        )
    };
    (what, fix)
}

fn only_compatible(fabric: &Fabric, why: &str, without_nvidia_fs: &str) -> (String, Fix) {
    const BY_P2PDMA: &str = "or, on data centre GPUs from Ampere on, let the open driver from 565 on lend memory: Linux \
                             6.2, static BAR1 and `nvme_core.multipath=N`";
    let what = format!(
        "storage reaches it only in cuFile's compatibility mode, which goes through host memory: \
         direct by P2PDMA is not possible, since {why}; direct by nvidia_fs is not, since {without_nvidia_fs}"
    );
    if fabric.kernel.has_module("nvidia_fs") == Some(true) {
        let fix = Fix {
            commands: vec![
                "sudo apt install mlnx-nvme-dkms   # of DOCA-OFED's package source".to_owned(),
                "sudo apt install linux-nvidia   # Ubuntu".to_owned(),
            ],
            ..fix(
                format!(
                    "run one of the nvme drivers that register with nvidia_fs, of DOCA-OFED (MLNX_OFED) or of a \
                     kernel that is patched for it; {BY_P2PDMA}"
                ),
                Needs::Reboot,
            )
        };
        return (what, fix);
    }
    let fix = Fix {
        commands: vec!["sudo apt install nvidia-fs-dkms && sudo modprobe nvidia_fs".to_owned()],
        settings: vec![Setting::Module("nvidia_fs".to_owned())],
        ..fix(
            format!(
                "load nvidia_fs, with an nvme driver that registers with it (DOCA-OFED, or a patched kernel); \
                 {BY_P2PDMA}"
            ),
            Needs::Rebind,
        )
    };
    (what, fix)
}
