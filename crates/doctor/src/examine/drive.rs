//! Drives themselves: heat, request limits, multipath heads, and the devices stacked on them.

use peerlane_fabric::{Fabric, Function, FunctionId, IommuMode, Namespace, Stack, StackedDevice};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs, Setting};
use peerlane_units::Bytes;

use super::{BearsOn, Examination, drives, finding, fix, kernel_parameter, saw};
use peerlane_reach::{MD_LEVELS, MD_SINCE, MULTIPATH_SINCE, PEER_REQUEST_MAX};

/// A drive that takes no more at once needs eight commands or more for a block of 1 MiB.
const LITTLE: Bytes = Bytes::kib(128);
/// Native multipath off (drivers/nvme/host/multipath.c).
const WITHOUT_MULTIPATH: &str = "nvme_core.multipath=N";
/// Places named in a finding before it says that there are more.
const MOUNTS_NAMED: usize = 3;

pub(super) fn examine(on: &mut Examination<'_>) {
    let fabric = on.fabric;
    let drives = drives(fabric);
    speed(on, &drives);
    if !on.has_use(&super::iommu::OF_DRIVES) {
        return;
    }
    for (id, namespace, name) in namespaces(fabric, &drives) {
        if let Some(found) = multipath_head(fabric, namespace, name) {
            on.add(found, BearsOn::functions([id]));
        }
    }
    refusing_layers(on);
}

/// Looks for causes that slow these drives down.
pub(super) fn speed(on: &mut Examination<'_>, drives: &[FunctionId]) {
    let fabric = on.fabric;
    for &id in drives {
        if let Some(found) = hot(fabric.function(id)) {
            on.add(found, BearsOn::functions([id]));
        }
    }
    if on.judged.is_empty() {
        return;
    }
    for (id, namespace, name) in namespaces(fabric, drives) {
        if let Some(found) = small_requests(fabric, namespace, name) {
            on.add(found, BearsOn::functions([id]));
        }
    }
    if let Some(found) = take_little(fabric, drives) {
        on.add(found, BearsOn::functions(drives.iter().copied()));
    }
}

/// Namespaces that the kernel has a name for, with it.
fn namespaces<'a>(
    fabric: &'a Fabric,
    drives: &'a [FunctionId],
) -> impl Iterator<Item = (FunctionId, &'a Namespace, &'a str)> {
    drives.iter().flat_map(|&id| {
        let spaces = fabric.function(id).nvme.iter().flat_map(|nvme| &nvme.namespaces);
        spaces.filter_map(move |namespace| Some((id, namespace, namespace.name.as_deref()?)))
    })
}

fn hot(function: &Function) -> Option<Finding> {
    let temperature = function.nvme.as_ref()?.temperature?;
    let limit = temperature.warning.filter(|&limit| temperature.current >= limit)?;
    let degrees = |thousandths: i32| f64::from(thousandths) / 1000.0;
    Some(Finding {
        evidence: vec![saw(
            format!("/sys/class/nvme/{}/hwmon*/temp1_input, temp1_max", function.name),
            format!("{}, {limit}", temperature.current),
        )],
        fix: Some(Fix {
            commands: vec![format!("sudo nvme smart-log /dev/{}", function.name)],
            ..fix("improve cooling; the drive counts the minutes it spent too hot", Needs::Hardware)
        }),
        ..finding(
            FindingKind::DriveHot,
            Cost::Speed,
            function.name.clone(),
            format!(
                "it is at {:.0} °C, and from {:.0} °C on a drive slows itself down",
                degrees(temperature.current),
                degrees(limit)
            ),
        )
    })
}

fn multipath_head(fabric: &Fabric, namespace: &Namespace, name: &str) -> Option<Finding> {
    let is_old = fabric.kernel.version().is_some_and(|version| version < MULTIPATH_SINCE);
    (namespace.is_multipath_head && is_old).then(|| {
        let what = format!(
            "{name} is a multipath head, which takes no peer-to-peer pages before Linux 7.2"
        );
        let evidence = vec![
            saw(format!("/sys/class/block/{name}"), "belongs to a subsystem, not to a controller"),
            saw("/proc/sys/kernel/osrelease", fabric.kernel.release.clone().unwrap_or_default()),
        ];
        let mut found = multipath(fabric, name, &what, evidence);
        if let Some(fix) = &mut found.fix {
            let node = name.replacen("nvme", "/dev/ng", 1);
            fix.what += &format!("; or, without a reboot, name the passthrough node {node}");
        }
        found
    })
}

/// Native multipath that keeps peer-to-peer pages from drives, with the parameter that switches it off.
pub(super) fn multipath(
    fabric: &Fabric,
    object: &str,
    what: &str,
    evidence: Vec<Evidence>,
) -> Finding {
    Finding {
        evidence,
        fix: Some(kernel_parameter(
            fabric,
            "Switch native multipath of NVMe off",
            WITHOUT_MULTIPATH,
            Some("without multipath, losing a path removes the block device"),
        )),
        ..finding(FindingKind::MultipathHead, Cost::Routes, object, what)
    }
}

/// Requests kept below the drive's limit; a limit of the drive itself is no fault.
fn small_requests(fabric: &Fabric, namespace: &Namespace, name: &str) -> Option<Finding> {
    let limits = namespace.limits;
    let set = limits.max_request?;
    let possible = limits.max_hw_request?.min(PEER_REQUEST_MAX);
    (set < possible && fabric.iommu != IommuMode::Translating).then(|| Finding {
        evidence: vec![
            saw(format!("/sys/block/{name}/queue/max_sectors_kb"), kib(set)),
            saw(
                format!("/sys/block/{name}/queue/max_hw_sectors_kb"),
                limits.max_hw_request.map_or_else(String::new, kib),
            ),
        ],
        fix: Some(Fix {
            commands: vec![format!(
                "echo {} | sudo tee /sys/block/{name}/queue/max_sectors_kb",
                kib(possible)
            )],
            settings: vec![Setting::UdevRule(format!(
                "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{name}\", \
                 ATTR{{queue/max_sectors_kb}}=\"{}\"",
                kib(possible)
            ))],
            ..fix("raise the limit", Needs::Nothing)
        }),
        ..finding(
            FindingKind::SmallRequests,
            Cost::Speed,
            name.to_owned(),
            format!("a request of {name} carries {set}, and the drive takes {possible}"),
        )
    })
}

/// Drives whose own limit is so low that a block takes many commands; those with one limit together.
///
/// A translating IOMMU keeps requests to 128 KiB, too, which is a finding of its own; if its
/// presence is unknown, so is the owner of this limit.
fn take_little(fabric: &Fabric, drives: &[FunctionId]) -> Option<Finding> {
    if !matches!(fabric.iommu, IommuMode::Off | IommuMode::Passthrough) {
        return None;
    }
    let limited: Vec<(&str, Bytes)> = namespaces(fabric, drives)
        .filter_map(|(_, namespace, name)| Some((name, namespace.limits.max_hw_request?)))
        .filter(|(_, most)| *most <= LITTLE)
        .collect();
    let (first, most) = *limited.iter().min_by_key(|(_, most)| *most)?;
    let others = match limited.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(Finding {
        evidence: vec![saw(format!("/sys/block/{first}/queue/max_hw_sectors_kb"), kib(most))],
        ..finding(
            FindingKind::DriveTakesLittle,
            Cost::Speed,
            format!("{first}{others}"),
            format!(
                "a request carries {most} at most, which is a limit of the drive itself (MDTS): a block of \
             1 MiB takes {} commands to read and as many to write; no setting raises it, and a deeper queue \
                 (`--depth`) keeps such a drive busy",
                Bytes::mib(1).0.div_ceil(most.0.max(1))
            ),
        )
    })
}

fn kib(size: Bytes) -> String {
    (size.0 >> 10).to_string()
}

/// Devices on top of drives whose queues take no peer-to-peer pages, the lowest of each stack: any
/// device above it takes none either.
fn refusing_layers(on: &mut Examination<'_>) {
    let fabric = on.fabric;
    let stack = Stack::new(fabric);
    let below = fabric.stacked.iter().flat_map(|stacked| &stacked.below).map(String::as_str);
    let on_drives = stack.up(below.filter(|name| fabric.find(name).is_some()));
    let refusing = || fabric.stacked.iter().filter(|stacked| refuses(fabric, stacked));
    let closed = stack.up(refusing().map(|stacked| stacked.name.as_str()));
    let is_lowest = |stacked: &&StackedDevice| {
        on_drives.contains(stacked.name.as_str())
            && !stacked.below.iter().any(|below| closed.contains(below.as_str()))
    };
    for stacked in refusing().filter(is_lowest) {
        let below = stack.down(&stacked.name).into_iter().flat_map(|one| &one.below);
        let drives = below.filter_map(|name| fabric.find(name)).collect::<Vec<_>>();
        on.add(refusing_layer(fabric, &stack, stacked), BearsOn::functions(drives));
    }
}

fn is_md(stacked: &StackedDevice) -> bool {
    stacked.name.starts_with("md")
}

fn kind_of(stacked: &StackedDevice) -> &str {
    stacked.kind.as_deref().unwrap_or("unknown")
}

/// True when a layer by itself takes no peer-to-peer pages.
fn refuses(fabric: &Fabric, stacked: &StackedDevice) -> bool {
    // An unknown kernel is taken for a current one, as everywhere.
    let md_passes = MD_LEVELS.contains(&kind_of(stacked))
        && fabric.kernel.version().is_none_or(|version| version >= MD_SINCE);
    !(is_md(stacked) && md_passes)
}

fn refusing_layer<'a>(
    fabric: &'a Fabric,
    stack: &Stack<'a>,
    stacked: &'a StackedDevice,
) -> Finding {
    let name = &stacked.name;
    let what = if is_md(stacked) { "md" } else { "device-mapper" };
    let above = stack.up([name.as_str()]);
    let mounts = fabric.mounts.iter().flatten();
    let mut mounted: Vec<&str> = mounts
        .filter(|mount| above.contains(mount.device.as_str()))
        .map(|mount| mount.point.as_str())
        .collect();
    let more = if mounted.len() > MOUNTS_NAMED { ", ..." } else { "" };
    mounted.truncate(MOUNTS_NAMED);
    let files = match mounted.as_slice() {
        [] => String::new(),
        points => format!(", so no file below {}{more} can", points.join(", ")),
    };
    let slaves = |one: &StackedDevice| {
        saw(format!("/sys/class/block/{}/slaves", one.name), one.below.join(", "))
    };
    Finding {
        evidence: stack.down(name).into_iter().map(slaves).collect(),
        fix: Some(fix("keep data for P2P directly on a namespace or partition", Needs::Nothing)),
        ..finding(
            FindingKind::QueueRefuses,
            Cost::Routes,
            name.clone(),
            format!("{name} ({what}, {}) cannot take peer-to-peer pages{files}", kind_of(stacked)),
        )
    }
}
