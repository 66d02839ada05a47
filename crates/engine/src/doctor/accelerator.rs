//! GPUs and FPGA cards: the window onto their memory, and the software without which storage does not
//! reach it.
//!
//! Only what the fabric shows is judged: libraries of user space are looked for where they are used.

use peerlane_fabric::{Bar, Fabric, Function, Kind};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{Chart, at, saw};

const VENDOR_NVIDIA: u16 = 0x10de;
const VENDOR_AMD: u16 = 0x1002;
/// A window that size is what a GPU shows without Resizable BAR.
const SMALL_WINDOW: Bytes = Bytes::mib(256);

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let mut gpus = Vec::new();
    for (_, function) in fabric.iter() {
        match function.kind {
            Kind::Gpu => {
                chart.findings.extend(small_window(function));
                gpus.push(function);
            }
            Kind::Fpga => chart.findings.extend(window_off(function)),
            _ => {}
        }
    }
    gpus.retain(|gpu| gpu.vendor == Some(VENDOR_NVIDIA));
    if !gpus.is_empty() {
        gpudirect(fabric, &gpus, chart);
    }
}

fn small_window(function: &Function) -> Option<Finding> {
    if !matches!(function.vendor, Some(VENDOR_NVIDIA | VENDOR_AMD)) {
        return None;
    }
    let window =
        function.bars.iter().filter(|bar| bar.is_prefetchable).max_by_key(|bar| bar.size)?;
    let Bar { size, largest: Some(largest), index, .. } = *window else { return None };
    (size <= SMALL_WINDOW && largest > size).then(|| Finding {
        kind: FindingKind::SmallWindow,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: format!(
            "its window (BAR {index}) shows {size} of its memory to peers, and could show {largest}"
        ),
        evidence: vec![saw(
            format!("{}/resource{index}_resize", at(function)),
            largest.to_string(),
        )],
        fix: Some(Fix {
            what:
                "switch on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware's settings"
                    .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}

fn window_off(function: &Function) -> Option<Finding> {
    (function.fpga_p2p == Some(false)).then(|| Finding {
        kind: FindingKind::FpgaWindowOff,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: "the card does not lend its memory to peers".to_owned(),
        evidence: vec![saw(format!("{}/p2p*/p2p_enable", at(function)), "0")],
        fix: Some(Fix {
            what: "switch it on; where the window does not fit, the machine must be switched off and on"
                .to_owned(),
            commands: vec![format!(
                "echo 1 | sudo tee /sys/bus/pci/devices/{}/p2p*/p2p_enable",
                function.address.map_or_else(|| function.name.clone(), |address| address.to_string())
            )],
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}

/// GPUDirect Storage needs the driver, and either nvidia-fs or, from open driver 565 and Linux 6.2 on,
/// memory that the driver lends by P2PDMA (NVIDIA's GPUDirect Storage documentation).
fn gpudirect(fabric: &Fabric, gpus: &[&Function], chart: &mut Chart) {
    let Some(modules) = &fabric.kernel.modules else {
        chart.unknown(
            "whether the modules nvidia and nvidia_fs are loaded",
            "the list of modules: `cat /proc/modules`",
        );
        return;
    };
    let has = |name: &str| modules.iter().any(|module| module.name == name);
    let lends = gpus.iter().any(|gpu| gpu.p2pmem.is_some());
    if has("nvidia") && (has("nvidia_fs") || lends) {
        return;
    }
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let (what, commands) = if has("nvidia") {
        (
            "storage reaches it only in cuFile's compatibility mode, which goes through host memory: \
             the module nvidia_fs is not loaded, and the driver lends no memory",
            vec!["sudo apt install nvidia-fs-dkms && sudo modprobe nvidia_fs".to_owned()],
        )
    } else {
        (
            "the driver nvidia is not loaded",
            vec!["sudo modprobe nvidia".to_owned(), "nvidia-smi".to_owned()],
        )
    };
    let evidence: Vec<Evidence> = ["nvidia", "nvidia_fs"]
        .map(|name| {
            saw(
                "/proc/modules",
                format!("{name} {}", if has(name) { "is there" } else { "is not" }),
            )
        })
        .into();
    chart.findings.push(Finding {
        kind: FindingKind::GpuStackMissing,
        cost: Cost::Routes,
        object: names.join(", "),
        what: what.to_owned(),
        evidence,
        fix: Some(Fix {
            what: "load it; without nvidia_fs, the open driver from 565 on lends memory on data centre \
                   GPUs from Ampere on, with static BAR1 and `nvme_core.multipath=N`"
                .to_owned(),
            commands,
            weakens: None,
            needs: Needs::Rebind,
        }),
    });
}
