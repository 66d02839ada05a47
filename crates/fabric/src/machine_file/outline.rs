//! The outline of a machine in a record: enough to draw it, without facts about its owner's data.

use crate::{Fabric, Kernel, OUTLINE_MAX};

impl Fabric {
    /// The fabric as a machine file without mounts, namespaces, serial numbers, stacked devices, libraries
    /// and settings of kernel and drivers; `None` above [`OUTLINE_MAX`].
    pub fn outline(&self) -> Option<String> {
        let mut outline = Self {
            kernel: Kernel {
                release: self.kernel.release.clone(),
                has_p2pdma: self.kernel.has_p2pdma,
                has_amd_p2p: self.kernel.has_amd_p2p,
                has_move_notify: self.kernel.has_move_notify,
                ..Kernel::default()
            },
            libraries: None,
            remote_drives: Vec::new(),
            rdma_devices: Vec::new(),
            stacked: Vec::new(),
            mounts: None,
            nvidia: None,
            cufile: None,
            lab: None,
            account: None,
            ..self.clone()
        };
        for nvme in outline.functions.iter_mut().filter_map(|function| function.nvme.as_mut()) {
            nvme.namespaces.clear();
            nvme.serial = None;
        }
        Some(outline.to_toml()).filter(|text| text.len() <= OUTLINE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = r#"
name = "m"
mount = [{ device = "nvme0n1", file_system = "ext4", point = "/srv/secret" }]
[kernel]
release = "7.2.0"
parameters = ["pci=secret"]
[[function]]
name = "port"
kind = "root-port"
[[function]]
name = "a"
kind = "nvme"
under = "port"
serial = "secret"
size = "64M"
cmb = "1M"
"#;

    #[test]
    fn outline_keeps_tree_without_content() {
        let fabric = Fabric::from_toml(MACHINE).expect("a machine");
        let text = fabric.outline().expect("a small machine");
        assert!(!text.contains("secret") && text.contains("7.2.0"), "{text}");
        let again = Fabric::from_toml(&text).expect("a machine");
        let shape = |fabric: &Fabric| -> Vec<_> {
            fabric.iter().map(|(_, one)| (one.name.clone(), one.parent, one.p2pmem)).collect()
        };
        assert_eq!(shape(&again), shape(&fabric));
    }

    #[test]
    fn oversized_outline_is_dropped() {
        let mut fabric = Fabric::from_toml(MACHINE).expect("a machine");
        fabric.name = "m".repeat(OUTLINE_MAX);
        assert_eq!(fabric.outline(), None);
    }
}
