//! The software by which storage reaches the memory of GPUs and FPGA cards, and which way it leaves open.
//!
//! Only machines with such a card are asked for it. Libraries are looked for by name in the usual folders;
//! a program may bring its own, so that what is said of them says where it was looked.

use peerlane_fabric::gpu::ConsumerLine;
use peerlane_fabric::{Fabric, Function, Kind, names as pci_names};
use peerlane_reach::kernel_refusal;
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::accelerator::{VENDOR_AMD, VENDOR_NVIDIA};
use super::{Chart, at, saw};
use crate::plan::card::{self, Taken};

/// AMD's adaptive computing, once Xilinx: the cards of XRT.
const VENDOR_XILINX: u16 = 0x10ee;
/// First open driver that lends memory by P2PDMA (NVIDIA, "GPUDirect Storage with Linux PCI P2PDMA").
const P2PDMA_DRIVER: u32 = 565;
const CUFILE: &str = "libcufile.so.0";
const XRT: &str = "libxrt_coreutil.so.2";
/// Processing accelerators, and displays that are no VGA device: what AMD's compute cards call themselves
/// (PCI Code and ID Assignment Specification, base classes 12h and 03h).
const COMPUTE_CLASSES: [u32; 2] = [0x12_00, 0x03_80];

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let of = |kind: Kind, vendor: u16| -> Vec<&Function> {
        let is_it = |one: &&Function| one.kind == kind && one.vendor == Some(vendor);
        fabric.functions.iter().filter(is_it).collect()
    };
    let gpus = of(Kind::Gpu, VENDOR_NVIDIA);
    let (excluded, gpus): (Vec<&Function>, Vec<&Function>) =
        gpus.into_iter().partition(|gpu| ConsumerLine::from_function(gpu).is_some());
    chart.findings.extend(consumers(&excluded));
    if !gpus.is_empty() {
        cufile(fabric, &gpus, chart);
    }
    let cards = of(Kind::Fpga, VENDOR_XILINX);
    if !cards.is_empty() {
        xrt(fabric, &cards, chart);
    }
    let gpus = of(Kind::Gpu, VENDOR_AMD);
    let computes = |gpu: &&Function| gpu.class.is_some_and(|c| COMPUTE_CLASSES.contains(&(c >> 8)));
    if let Some(gpu) = gpus.into_iter().find(computes) {
        // hipFile's fast path is a call of the driver that comes with ROCm (ROCm documentation, "hipFile
        // kernel P2PDMA support"); without it hipFile goes through host memory and does not say so.
        chart.unknown(
            format!("whether storage reaches the memory of {} without host memory", gpu.name),
            "hipFile of ROCm and the amdgpu driver that comes with ROCm; the kernel's own driver lacks \
             the call for it: `ais-check`",
        );
    }
}

/// Whether a library is installed; `None` where that is not known.
fn is_installed(fabric: &Fabric, library: &str) -> Option<bool> {
    Some(fabric.libraries.as_ref()?.iter().any(|name| name == library))
}

/// What they are, the first by name, and how many more there are.
fn names(word: &str, functions: &[&Function]) -> String {
    match functions {
        [] => String::new(),
        [one] => format!("{word} {}", one.name),
        [first, rest @ ..] => format!("{word} {} and {} more", first.name, rest.len()),
    }
}

/// GPUs that their maker keeps from both direct ways (NVIDIA, README of gds-nvidia-fs, Requirements; "GPUDirect
/// Storage Installation and Troubleshooting Guide", P2PDMA Supported GPUs).
fn consumers(gpus: &[&Function]) -> Option<Finding> {
    let first = gpus.first()?;
    let line = ConsumerLine::from_function(first)?;
    Some(Finding {
        kind: FindingKind::GpuExcluded,
        cost: Cost::Routes,
        object: names("GPU", gpus),
        what: format!(
            "storage reaches a {line} only through host memory: NVIDIA keeps P2PDMA and nvidia-fs to GPUs of data \
             centres and workstations"
        ),
        evidence: vec![saw(
            format!("{}/device", at(first)),
            pci_names::of(first).unwrap_or_default(),
        )],
        fix: Some(Fix {
            what: "another GPU; this one is fed through pinned host memory".to_owned(),
            commands: vec![
                "peerlane bench stream --source FILE --target gpu:0 --routes host".to_owned(),
            ],
            weakens: None,
            needs: Needs::Hardware,
        }),
    })
}

/// What cuFile needs for each of its modes, as far as it is missing.
///
/// Direct by P2PDMA from Linux 6.2 and open driver 565 on, direct by nvidia-fs, or its compatibility
/// mode through host memory (NVIDIA's GPUDirect Storage documentation, "Troubleshooting Guide").
fn cufile(fabric: &Fabric, gpus: &[&Function], chart: &mut Chart) {
    let Some(modules) = &fabric.kernel.modules else {
        chart.unknown(
            "whether the modules nvidia and nvidia_fs are loaded",
            "the list of modules: `cat /proc/modules`",
        );
        return;
    };
    let module = |name: &str| modules.iter().find(|module| module.name == name);
    let library = is_installed(fabric, CUFILE);
    if library.is_none() {
        chart.unknown(
            format!("whether {CUFILE} (cuFile) is installed"),
            format!("a look: `ldconfig -p | grep {CUFILE}`"),
        );
    }
    let is_direct = module("nvidia_fs").is_some() || without_p2pdma(fabric, gpus).is_none();
    if module("nvidia").is_some() && is_direct && library != Some(false) {
        return;
    }
    let (what, fix) = match (module("nvidia"), library) {
        (None, _) => driver_missing(),
        (Some(_), Some(false)) => library_missing(fabric, gpus, module("nvidia_fs").is_some()),
        (Some(_), _) => only_compatible(&without_p2pdma(fabric, gpus).unwrap_or_default()),
    };
    let mut evidence: Vec<Evidence> = ["nvidia", "nvidia_fs"]
        .map(|name| {
            let is_there = if module(name).is_some() { "is there" } else { "is not" };
            saw("/proc/modules", format!("{name} {is_there}"))
        })
        .into();
    evidence.extend(looked_for(fabric, CUFILE));
    chart.findings.push(Finding {
        kind: FindingKind::GpuStackMissing,
        cost: Cost::Routes,
        object: names("GPU", gpus),
        what,
        evidence,
        fix: Some(fix),
    });
}

fn looked_for(fabric: &Fabric, library: &str) -> Option<Evidence> {
    let showed = if is_installed(fabric, library)? { "is there" } else { "is not" };
    Some(saw("/usr/lib and the other usual folders", format!("{library} {showed}")))
}

/// Why cuFile has no direct mode by P2PDMA; `None` where it may have.
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
        what: "load it; then see what else is missing".to_owned(),
        commands: vec!["sudo modprobe nvidia".to_owned(), "nvidia-smi".to_owned()],
        weakens: None,
        needs: Needs::Rebind,
    };
    ("the driver nvidia is not loaded, without which nothing reaches its memory".to_owned(), fix)
}

fn library_missing(fabric: &Fabric, gpus: &[&Function], has_nvidia_fs: bool) -> (String, Fix) {
    let then = match without_p2pdma(fabric, gpus) {
        None => "direct by P2PDMA".to_owned(),
        Some(_) if has_nvidia_fs => "direct by nvidia_fs".to_owned(),
        Some(why) => format!(
            "its compatibility mode through host memory, since {why} and the module nvidia_fs is \
             not loaded"
        ),
    };
    let what = format!(
        "no program reaches it from storage, unless it brings {CUFILE} (cuFile) along; with it, what \
         is possible is {then}"
    );
    let fix = Fix {
        what: "install cuFile, which comes with nvidia_fs from NVIDIA's package source".to_owned(),
        commands: vec![
            "sudo apt install nvidia-gds".to_owned(),
            "/usr/local/cuda/gds/tools/gdscheck -p".to_owned(),
        ],
        weakens: None,
        needs: Needs::Nothing,
    };
    (what, fix)
}

fn only_compatible(why: &str) -> (String, Fix) {
    let what = format!(
        "storage reaches it only in cuFile's compatibility mode, which goes through host memory: \
         direct by P2PDMA is not possible, since {why}; direct by nvidia_fs is not, since that module \
         is not loaded"
    );
    let fix = Fix {
        what: "load nvidia_fs; or, on data centre GPUs from Ampere on, let the open driver from 565 on \
               lend memory: Linux 6.2, static BAR1 and `nvme_core.multipath=N`"
            .to_owned(),
        commands: vec!["sudo apt install nvidia-fs-dkms && sudo modprobe nvidia_fs".to_owned()],
        weakens: None,
        needs: Needs::Rebind,
    };
    (what, fix)
}

/// What XRT needs: the driver `xocl`, which lends the memory, and the library that asks for it.
fn xrt(fabric: &Fabric, cards: &[&Function], chart: &mut Chart) {
    let library = is_installed(fabric, XRT);
    let modules = fabric.kernel.modules.as_ref();
    let has_driver = modules.map(|list| list.iter().any(|module| module.name == "xocl"));
    let mut missing = Vec::new();
    for (name, is_there, command) in [
        ("the driver xocl", has_driver, "cat /proc/modules"),
        ("libxrt_coreutil.so.2 (XRT)", library, "ldconfig -p | grep libxrt_coreutil"),
    ] {
        match is_there {
            Some(true) => {}
            Some(false) => missing.push(name),
            None => {
                chart.unknown(format!("whether {name} is there"), format!("a look: `{command}`"));
            }
        }
    }
    if missing.is_empty() {
        chart.findings.extend(unbound(cards));
        chart.findings.extend(kernel_of_cards(fabric, cards));
        return;
    }
    let mut evidence: Vec<Evidence> = has_driver
        .map(|is_there| {
            saw("/proc/modules", if is_there { "xocl is there" } else { "xocl is not" })
        })
        .into_iter()
        .collect();
    evidence.extend(looked_for(fabric, XRT));
    chart.findings.push(Finding {
        kind: FindingKind::FpgaStackMissing,
        cost: Cost::Routes,
        object: names("FPGA card", cards),
        what: format!("no program gets its memory without {}", missing.join(" and ")),
        evidence,
        fix: Some(Fix {
            what: "install XRT; on Debian the driver is built for the kernel by xrt-xocl-dkms"
                .to_owned(),
            commands: vec![
                "sudo apt install -t trixie-backports libxrt2 libxrt-alveo2 xrt-xocl-dkms   # Debian 13"
                    .to_owned(),
            ],
            weakens: None,
            needs: Needs::Rebind,
        }),
    });
}

/// Cards whose driver is loaded and bound to no function of theirs: `xocl` takes the user function, which
/// is not there before the card's platform (shell) runs. A description says nothing of drivers.
fn unbound(cards: &[&Function]) -> Option<Finding> {
    let seen: Vec<&Function> =
        cards.iter().copied().filter(|card| card.driver.name().is_some()).collect();
    if seen.is_empty() || cards.iter().any(|card| card.driver.is_named("xocl")) {
        return None;
    }
    let evidence = seen
        .iter()
        .map(|card| saw(format!("{}/driver", at(card)), card.driver.name().unwrap_or_default()));
    Some(Finding {
        kind: FindingKind::FpgaStackMissing,
        cost: Cost::Routes,
        object: names("FPGA card", cards),
        what: "the driver xocl is loaded and has no function of it, so that no program gets its memory"
            .to_owned(),
        evidence: evidence.collect(),
        fix: Some(Fix {
            what: "see whether the card has a second function, and bind it; without one, its platform \
                   (shell) must be flashed, and the machine switched off and on"
                .to_owned(),
            commands: vec!["lspci -kd 10ee:".to_owned(), "sudo xrt-smi examine".to_owned()],
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}

/// A kernel that takes the window of a card for what it is not. A card that its driver lends by the kernel's own
/// call is none of these.
fn kernel_of_cards(fabric: &Fabric, cards: &[&Function]) -> Option<Finding> {
    let bound: Vec<&Function> =
        cards.iter().copied().filter(|card| card::is_lent_by_xrt(card)).collect();
    if bound.is_empty() || card::taken_by(&fabric.kernel) != Taken::AsForeign {
        return None;
    }
    Some(Finding {
        kind: FindingKind::FpgaKernel,
        cost: Cost::Routes,
        object: names("FPGA card", &bound),
        what: card::kernel_risk(&fabric.kernel)?,
        evidence: vec![
            saw("the kernel's configuration", "CONFIG_PCI_P2PDMA is set"),
            saw(format!("{}/driver", at(bound[0])), "xocl"),
        ],
        fix: Some(Fix {
            what: "run a kernel without it, on which XRT's own way is left (not tried here), as Debian 13's 6.12; then no \
                   memory is to be had by the kernel's rules"
                .to_owned(),
            commands: vec!["zgrep PCI_P2PDMA /proc/config.gz /boot/config-*".to_owned()],
            weakens: Some("the kernel asks nobody whether a route exists".to_owned()),
            needs: Needs::Reboot,
        }),
    })
}
