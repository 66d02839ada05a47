//! Hints never ask to stop something that the running system needs.

use std::os::unix::fs::MetadataExt;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Layers between the disk and the mounted file system.
#[derive(Debug, Clone, Copy)]
enum Layers {
    None,
    Partition,
    Luks,
    VolumeOnArray,
}

/// The device that the copy names as its target.
#[derive(Debug, Clone, Copy)]
enum Target {
    Disk,
    LoopOverSameFile,
    BackingFile,
}

#[derive(Debug, Clone)]
struct Use {
    layers: Layers,
    target: Target,
    points: Vec<&'static str>,
    has_swap: bool,
    has_content: bool,
}

const SYSTEM: [&str; 9] =
    ["/", "/boot", "/boot/efi", "/usr", "/var", "/var/log", "/home", "/etc/hosts", "/tmp"];
const DATA: [&str; 5] = ["/data", "/mnt/var", "/srv/home", "/media/usr", "/run/media/me/stick"];

fn any_use() -> impl Strategy<Value = Use> {
    let points = prop::collection::vec(select([&SYSTEM[..], &DATA[..]].concat()), 0..4);
    let layers = select(vec![Layers::None, Layers::Partition, Layers::Luks, Layers::VolumeOnArray]);
    let target = select(vec![Target::Disk, Target::LoopOverSameFile, Target::BackingFile]);
    (layers, target, points, any::<bool>(), any::<bool>()).prop_map(
        |(layers, target, points, has_swap, has_content)| Use {
            layers,
            target,
            points,
            has_swap,
            has_content,
        },
    )
}

fn partitioned(name: &str, is_partitioned: bool) -> BlockDevice {
    let partitions =
        if is_partitioned { vec![partition(&format!("{name}p1"))] } else { Vec::new() };
    BlockDevice { partitions, ..block_device(name) }
}

impl DeviceTree {
    /// Lays out `used`; returns the target.
    fn lay_out(&mut self, used: &Use) -> Endpoint {
        let image = self.path("image");
        fs::write(&image, [1; 4096]).unwrap();
        let lower = match used.target {
            Target::Disk => "disk",
            Target::LoopOverSameFile | Target::BackingFile => "loop0",
        };
        let mut number = self.device(lower);
        for (name, is_loop) in [(lower, lower == "loop0"), ("loop1", true)] {
            if name == "loop1" {
                self.device(name);
            }
            if is_loop {
                let backing = format!("{}\n", image.display());
                self.write(&format!("sys/class/block/{name}/loop/backing_file"), &backing);
            }
        }
        let part = format!("{lower}p1");
        let mut top = lower.to_owned();
        let is_partitioned = !matches!(used.layers, Layers::None);
        if is_partitioned {
            number = self.device(&format!("{lower}/{part}"));
            top.clone_from(&part);
        }
        match used.layers {
            Layers::None | Layers::Partition => {}
            Layers::Luks => {
                number = self.stack("dm-0", &part);
                "dm-0".clone_into(&mut top);
            }
            Layers::VolumeOnArray => {
                self.stack("md0", &part);
                number = self.stack("dm-1", "md0");
                "dm-1".clone_into(&mut top);
            }
        }
        let line = |point: &&str| format!("36 35 {number} / {point} rw - ext4 /dev/{top} rw\n");
        self.write("proc/self/mountinfo", &used.points.iter().map(line).collect::<String>());
        let swap = if used.has_swap { format!("/dev/{top} partition 1 0 -2\n") } else { "".into() };
        self.write("proc/swaps", &format!("Filename\tType\tSize\tUsed\tPriority\n{swap}"));
        match used.target {
            Target::BackingFile => {
                let meta = fs::metadata(&image).unwrap();
                let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
                let node = PathNode::File { device, inode: meta.ino() };
                end(&image, EndpointKind::File, node, block_device("x"))
            }
            Target::Disk => disk(self, partitioned(lower, is_partitioned)),
            Target::LoopOverSameFile => disk(self, block_device("loop1")),
        }
    }
}

proptest! {
    #[test]
    fn running_system_is_refused_without_hint(used in any_use()) {
        let mut tree = DeviceTree::new();
        let target = tree.lay_out(&used);
        if used.has_content && !matches!(used.target, Target::BackingFile) {
            let content = fs::File::options().write(true).open(&target.live.as_ref().unwrap().path);
            std::os::unix::fs::FileExt::write_all_at(&content.unwrap(), b"SPDKBLOB", 0).unwrap();
        }
        let source = disk(&tree, block_device("innocent"));
        let found = refusals(&tree, &source, &target, &asked());
        let system: Vec<_> = used.points.iter().filter(|point| SYSTEM.contains(point)).collect();
        if !system.is_empty() || used.has_swap {
            prop_assert_eq!(found.len(), 1, "{:?}", &found);
            prop_assert!(found[0].hint.is_none() && !found[0].forceable, "{:?}", &found);
            for point in system {
                prop_assert!(found[0].reason.contains(point), "{:?}", &found);
            }
        } else if let Some(point) = used.points.first() {
            let hints: Vec<&str> = found.iter().filter_map(|one| one.hint.as_deref()).collect();
            prop_assert!(hints.iter().any(|hint| hint.starts_with(&format!("umount {point}"))), "{:?}", &found);
        }
    }
}

#[test]
fn swap_file_on_data_disk_is_in_use() {
    let mut tree = DeviceTree::new();
    let number = tree.device("target");
    tree.mount(&number, "rw");
    tree.write("proc/swaps", "Filename\tType\n/mnt/data/swap file 4096 0 -2\n");
    let refusal = only(&tree, &disk(&tree, block_device("target")));
    assert!(refusal.reason.ends_with("holds swap space in use: /mnt/data/swap"), "{refusal:?}");
    assert_eq!(refusal.hint, None);
}
