//! Users of a device, by the capture or description of another machine.
//!
//! A capture has mounts and stacked devices, but neither swap nor the content of devices.

use std::collections::BTreeSet;
use std::path::Path;

use peerlane_fabric::{Fabric, Mount, Namespace, Origin, Stack};
use peerlane_results::{Refusal, Warning};
use peerlane_units::Bytes;

use super::in_use::how_to_release;
use super::running_system::{is_system_mount, refused};
use super::{Findings, GuardSubject, refuse};
use crate::endpoints::{Endpoint, strip_device_directory};
use crate::io::journal::is_distinct;

/// Checks the use of two ends by a capture or description.
pub(crate) fn check(fabric: &Fabric, wanted: GuardSubject<'_>) -> Findings {
    let mut findings = use_of(fabric, wanted.source, wanted.target);
    findings.refusals.extend(same_namespace(fabric, wanted));
    findings
}

/// Refuses two drives that are one namespace by different names: one serial number, one model, one number of
/// the namespace. Two controllers of a drive show it so if the kernel does not join them.
fn same_namespace(fabric: &Fabric, wanted: GuardSubject<'_>) -> Option<Refusal> {
    let (source, target) = (Space::new(fabric, wanted.source)?, Space::new(fabric, wanted.target)?);
    if source.device == target.device || !source.is_same_namespace(&target) {
        return None;
    }
    let start = |space: &Space<'_>, offset: Bytes| space.start.saturating_add(offset.0);
    let from = start(&source, wanted.asked.offset);
    let to = start(&target, wanted.asked.target_offset);
    (from.abs_diff(to) < wanted.length.0).then(|| {
        let reason = format!(
            "{} and {} are one namespace: number {} of the drive with serial {}",
            wanted.source.facts.path, wanted.target.facts.path, source.nsid, source.serial
        );
        refuse(reason, Some("name another drive as the target".to_owned()))
    })
}

/// A namespace, or a partition of one, as a described machine knows it.
struct Space<'a> {
    device: Option<&'a str>,
    serial: &'a str,
    model: Option<&'a str>,
    nsid: u32,
    /// Offset in the namespace, in bytes.
    start: u64,
}

impl<'a> Space<'a> {
    fn new(fabric: &'a Fabric, end: &'a Endpoint) -> Option<Self> {
        let nvme = fabric.function(end.initiator?).nvme.as_ref()?;
        let device = end.facts.device.as_deref();
        let named = nvme.namespaces.iter().find(|one| one.name.as_deref() == device);
        let namespace = named.or_else(|| nvme.namespaces.first())?;
        let typed = strip_device_directory(&end.facts.path);
        let partition = namespace.partitions.iter().find(|part| part.name == typed);
        Some(Self {
            device,
            serial: nvme.serial.as_deref().filter(|serial| is_distinct(serial))?,
            model: nvme.model.as_deref(),
            nsid: namespace.nsid?,
            start: partition.map_or(0, |part| part.start.0),
        })
    }

    fn is_same_namespace(&self, other: &Self) -> bool {
        (self.serial, self.model, self.nsid) == (other.serial, other.model, other.nsid)
    }
}

fn use_of(fabric: &Fabric, source: &Endpoint, target: &Endpoint) -> Findings {
    if fabric.mounts.is_none() && matches!(fabric.origin, Origin::Tree(_)) {
        let why = "the capture does not say what is mounted".to_owned();
        return Findings {
            refusals: held(fabric, target),
            warnings: vec![Warning::NotGuarded { why }],
        };
    }
    let refusals = match carries_system(fabric, target) {
        Some(refusal) => vec![refusal],
        None => mounted(fabric, target).into_iter().chain(held(fabric, target)).collect(),
    };
    let written = |mount: &&Mount| !mount.is_read_only;
    let mounts = mounts(fabric, source);
    let warning = |mount: &Mount| Warning::SourceInUse {
        by: format!("a file system mounted at {}", mount.point),
        carries_system: is_system_mount(Path::new(&mount.point)),
    };
    Findings { refusals, warnings: mounts.into_iter().filter(written).map(warning).collect() }
}

fn carries_system(fabric: &Fabric, target: &Endpoint) -> Option<Refusal> {
    let points = mounts(fabric, target).into_iter().map(|mount| mount.point.clone());
    let points: Vec<String> = points.filter(|point| is_system_mount(Path::new(point))).collect();
    refused(&target.facts.path, &points, &[])
}

fn mounted(fabric: &Fabric, target: &Endpoint) -> Option<Refusal> {
    let mounts = mounts(fabric, target);
    let points: Vec<&str> = mounts.iter().map(|mount| mount.point.as_str()).collect();
    let reason = format!("{} is mounted at {}", target.facts.path, points.join(", "));
    (!points.is_empty()).then(|| refuse(reason, Some(format!("umount {}", points.join(" ")))))
}

fn held(fabric: &Fabric, target: &Endpoint) -> Vec<Refusal> {
    let own = own_names(fabric, target);
    let stack = Stack::new(fabric);
    let above: Vec<&str> = stack.up(own.iter().copied()).difference(&own).copied().collect();
    let held = above.first().map(|first| {
        let reason = format!("{} lies below {}", target.facts.path, above.join(", "));
        refuse(reason, Some(how_to_release(first)))
    });
    held.into_iter().collect()
}

fn mounts<'a>(fabric: &'a Fabric, end: &'a Endpoint) -> Vec<&'a Mount> {
    let names = Stack::new(fabric).up(own_names(fabric, end));
    let mounts = fabric.mounts.iter().flatten();
    mounts.filter(|mount| names.contains(mount.device.as_str())).collect()
}

/// The device, its disk, and its partitions.
fn own_names<'a>(fabric: &'a Fabric, end: &'a Endpoint) -> BTreeSet<&'a str> {
    let Some(device) = end.facts.device.as_deref() else { return BTreeSet::new() };
    let typed = strip_device_directory(&end.facts.path);
    let is_it = |namespace: &&Namespace| namespace.name.as_deref() == Some(device);
    let nvme = end.initiator.and_then(|id| fabric.function(id).nvme.as_ref());
    let namespace = nvme.and_then(|nvme| nvme.namespaces.iter().find(is_it));
    let parts = || namespace.into_iter().flat_map(|namespace| &namespace.partitions);
    let is_part = parts().any(|part| part.name == typed);
    let named = parts().map(|part| part.name.as_str()).filter(|name| !is_part || *name == typed);
    named.chain([device]).collect()
}

#[cfg(test)]
mod tests {
    use peerlane_results::{Asked, Plan};

    use super::*;

    /// Two drives; the second is below an md array with a volume on it that is mounted.
    const MACHINE: &str = "
name = 'm'
[[function]]
name = 'a'
kind = 'nvme'
namespaces = [{ name = 'nvme0n1', size = '1G' }]
[[function]]
name = 'b'
kind = 'nvme'
namespaces = [{ name = 'nvme1n1', size = '1G', partitions = [
  { name = 'nvme1n1p1', start = '1M', size = '1M' }, { name = 'nvme1n1p2', start = '2M', size = '1M' }] }]
[[stacked]]
name = 'md0'
kind = 'raid1'
below = ['nvme1n1p1']
[[stacked]]
name = 'dm-0'
kind = 'lvm'
below = ['md0']
[[mount]]
device = 'dm-0'
point = '/data'
file_system = 'ext4'
";

    fn planned(text: &str, source: &str, target: &str, origin: Origin) -> Plan {
        let fabric = Fabric { origin, ..Fabric::from_toml(text).expect("a machine") };
        let asked = Asked { force: true, ..Asked::between(source, target) };
        crate::plan::plan(&fabric, &asked, &crate::endpoints::guard::Surveyor::for_tests())
            .expect("a plan")
    }

    fn refused(source: &str, target: &str) -> Vec<String> {
        let plan = planned(MACHINE, source, target, Origin::Description);
        plan.refusals.into_iter().map(|refusal| refusal.reason).collect()
    }

    #[test]
    fn captured_use_refuses_target() {
        for target in ["b", "/dev/nvme1n1", "nvme1n1p1"] {
            let reasons = refused("a", target);
            assert!(reasons.iter().any(|one| one.contains("is mounted at /data")), "{reasons:?}");
            assert!(reasons.iter().any(|one| one.contains("lies below dm-0, md0")), "{reasons:?}");
        }
        let free = refused("a", "nvme1n1p2");
        assert!(!free.iter().any(|one| one.contains("mounted")), "{free:?}");
        let free = planned(MACHINE, "b", "a", Origin::Description);
        assert!(!free.refusals.iter().any(|one| one.reason.contains("mounted")), "{free:?}");
        let by = "a file system mounted at /data".to_owned();
        let warning = Warning::SourceInUse { by, carries_system: false };
        assert!(free.warnings.contains(&warning), "{:?}", free.warnings);
    }

    #[test]
    fn system_source_is_not_to_be_unmounted() {
        for (point, advice) in [
            ("/", "copy from a snapshot, or from a rescue system"),
            ("/boot/efi", "copy from a snapshot, or from a rescue system"),
            ("/home", "copy from a snapshot, or from a rescue system"),
            ("/data", "unmount it or copy from a snapshot"),
        ] {
            let text = MACHINE.replace("point = '/data'", &format!("point = '{point}'"));
            let warnings = planned(&text, "b", "a", Origin::Description).warnings;
            let is_of_use = |one: &&Warning| matches!(one, Warning::SourceInUse { .. });
            let found = warnings.iter().find(is_of_use).map(Warning::advice);
            assert_eq!(found, Some(advice), "{point}");
        }
    }

    /// Two controllers of one drive, joined by a head or not.
    const DUAL_PORT: &str = "
name = 'dual'
[[function]]
name = 'nvme1'
kind = 'nvme'
serial = 'S1'
namespaces = [{ name = 'nvme1n1', nsid = 1, size = '1G' }]
[[function]]
name = 'nvme2'
kind = 'nvme'
serial = 'S1'
namespaces = [{ name = 'nvme1n1', nsid = 1, size = '1G' }]
";

    #[test]
    fn controllers_of_one_namespace_are_one() {
        let reasons = |text: &str, target: &str| -> Vec<String> {
            let plan = planned(text, "nvme1", target, Origin::Description);
            plan.refusals.into_iter().map(|refusal| refusal.reason).collect()
        };
        let found = reasons(DUAL_PORT, "nvme2");
        assert!(found.len() == 1 && found[0].contains("overlap"), "{found:?}");
        // Without multipath each controller has a disk of its own.
        let (first, second) = DUAL_PORT.split_at(DUAL_PORT.rfind("nvme1n1").unwrap());
        let apart = format!("{first}{}", second.replace("nvme1n1", "nvme2n1"));
        let found = reasons(&apart, "nvme2");
        assert!(found.len() == 1 && found[0].contains("one namespace"), "{found:?}");
        let other = apart.replacen("nsid = 1", "nsid = 2", 1);
        assert_eq!(reasons(&other, "nvme2"), [""; 0]);
        let blank = apart.replace("S1", "    ");
        assert_eq!(reasons(&blank, "nvme2"), [""; 0], "no serial tells nothing");
    }

    #[test]
    fn a_capture_without_mounts_says_that_nobody_looked() {
        let text = MACHINE.split("[[stacked]]").next().expect("the drives");
        let is_said = |origin: Origin| {
            let plan = planned(text, "a", "b", origin);
            plan.warnings.iter().any(|one| matches!(one, Warning::NotGuarded { .. }))
        };
        assert!(is_said(Origin::Tree("captured".into())));
        assert!(!is_said(Origin::Description));
    }
}
