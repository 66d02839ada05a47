//! Turns of copies that write to one disk.
//!
//! A copy opens its target device exclusively, also against others of this program; so copies to the
//! same disk or to partitions of it are carried out one after the other, whatever `--jobs` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use peerlane_results::{EndpointFacts, EndpointKind, Plan};

/// The disks that a batch writes to, and the disks of each copy.
pub(super) struct Disks {
    turns: BTreeMap<String, Mutex<()>>,
    of_jobs: Vec<BTreeSet<String>>,
}

impl Disks {
    /// The disks of the targets of these copies.
    pub(super) fn from_plans(plans: &[Vec<Plan>]) -> Self {
        let below = Path::new("/sys/class/block");
        let disks = plans
            .iter()
            .map(|job| job.iter().filter_map(|plan| disk(below, &plan.target)).collect());
        Self::new(disks.collect())
    }

    fn new(of_jobs: Vec<BTreeSet<String>>) -> Self {
        let turns = of_jobs.iter().flatten().map(|name| (name.clone(), Mutex::default()));
        Self { turns: turns.collect(), of_jobs }
    }

    /// Waits until no other copy writes to the disks of this one; they are its own for the life of
    /// the result.
    pub(super) fn wait_for(&self, number: usize) -> Vec<MutexGuard<'_, ()>> {
        // Everybody takes them in the order of their names, so that no two wait for each other.
        let names = self.of_jobs.get(number).into_iter().flatten();
        let turns = names.filter_map(|name| self.turns.get(name));
        turns.map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// The whole disk of a target; `None` for a file, which is not opened exclusively.
fn disk(below: &Path, target: &EndpointFacts) -> Option<String> {
    let name = target.device.as_ref().filter(|_| target.kind != EndpointKind::File)?;
    let device = fs::canonicalize(below.join(name)).ok();
    // `partition` is there for partitions only (Linux `Documentation/ABI/stable/sysfs-block`).
    let part = device.filter(|device| device.join("partition").exists());
    let whole = part.as_deref().and_then(Path::parent).and_then(Path::file_name);
    Some(whole.map_or_else(|| name.clone(), |whole| whole.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use peerlane_units::Bytes;

    use super::*;

    fn target(kind: EndpointKind, device: &str) -> EndpointFacts {
        EndpointFacts {
            path: format!("/dev/{device}"),
            kind,
            size: Bytes::mib(1),
            block: Bytes(512),
            request_host: Bytes::mib(1),
            request_p2p: None,
            device: Some(device.to_owned()),
            address: None,
            drive: None,
            file_system: None,
            refusal: None,
            way_out: None,
            network: None,
        }
    }

    #[test]
    fn partitions_and_nodes_count_as_disk() {
        let root = tempfile::tempdir().unwrap();
        let part = root.path().join("devices/nvme0n1/nvme0n1p2");
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join("partition"), "2").unwrap();
        symlink("devices/nvme0n1", root.path().join("nvme0n1")).unwrap();
        symlink("devices/nvme0n1/nvme0n1p2", root.path().join("nvme0n1p2")).unwrap();
        for (kind, device, expected) in [
            (EndpointKind::BlockDevice, "nvme0n1", Some("nvme0n1")),
            (EndpointKind::BlockDevice, "nvme0n1p2", Some("nvme0n1")),
            (EndpointKind::Passthrough, "nvme0n1", Some("nvme0n1")),
            (EndpointKind::BlockDevice, "nvme7n1", Some("nvme7n1")),
            (EndpointKind::File, "nvme0n1p2", None),
        ] {
            assert_eq!(disk(root.path(), &target(kind, device)).as_deref(), expected, "{device}");
        }
    }

    #[test]
    fn copies_to_one_disk_never_deadlock() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let disks = Disks::new(vec![set(&["a", "b"]), set(&["b", "a"]), set(&["b"]), set(&[])]);
        let writers = AtomicUsize::new(0);
        let own = disks.wait_for(0);
        assert_eq!((own.len(), disks.wait_for(3).len()), (2, 0), "a file waits for nobody");
        assert!(disks.turns.values().all(|turn| turn.try_lock().is_err()));
        std::thread::scope(|scope| {
            for number in [0, 1, 2, 1, 0, 2] {
                let (disks, writers) = (&disks, &writers);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let _own = disks.wait_for(number);
                        assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        writers.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            drop(own);
        });
        assert!(disks.turns.values().all(|turn| turn.try_lock().is_ok()));
    }
}
