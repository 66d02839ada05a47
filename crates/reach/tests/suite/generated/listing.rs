//! The real `lspci`, in each version that can be had, on a tree.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use peerlane_fabric::{Acs, DriverBinding, Fabric, IommuMode, Link, LinkSpeed};

use super::machine::Machine;
use peerlane_testing::skip;

/// An `lspci`.
#[derive(Debug, Clone)]
pub(crate) struct Lspci {
    program: PathBuf,
    pub(crate) version: String,
}

/// The one in the path, and those that `tools/fetch-lspci` put into the cache; empty, with a skip,
/// if there are none.
pub(crate) fn programs() -> &'static [Lspci] {
    static PROGRAMS: OnceLock<Vec<Lspci>> = OnceLock::new();
    let found = PROGRAMS.get_or_init(|| {
        let mut found: Vec<Lspci> = cached().into_iter().filter_map(Lspci::new).collect();
        let own = Lspci::new("lspci".into());
        found.extend(own.filter(|own| found.iter().all(|one| one.version != own.version)));
        found
    });
    match found.len() {
        0 => skip("lspci", "there is no lspci"),
        1 => skip("lspci", "there is one version of lspci; tools/fetch-lspci gets others"),
        _ => {}
    }
    found
}

/// The programs in the cache: `lspci/VERSION/lspci`.
fn cached() -> Vec<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("PEERLANE_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| base.join("peerlane")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/peerlane")));
    let versions = cache.and_then(|cache| std::fs::read_dir(cache.join("lspci")).ok());
    let mut found: Vec<PathBuf> =
        versions.into_iter().flatten().flatten().map(|entry| entry.path().join("lspci")).collect();
    found.sort();
    found
}

impl Lspci {
    fn new(program: PathBuf) -> Option<Self> {
        let output = Command::new(&program).arg("--version").output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        let version = said.trim().strip_prefix("lspci version ")?.to_owned();
        Some(Self { program, version })
    }

    /// Major and minor number.
    fn number(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
    }

    /// Removes facts that this version does not print. Every version prints the others.
    pub(crate) fn forget(&self, fabric: &mut Fabric) {
        let number = self.number();
        let fastest = match number {
            (3, ..=3) => 8_000,
            (3, ..=5) => 16_000,
            (3, ..=7) => 32_000,
            _ => u32::MAX,
        };
        let known = |speed: &LinkSpeed| speed.megatransfers <= fastest;
        // Without any driver a text may be one that shows none.
        if fabric.functions.iter().all(|one| one.driver.name().is_none()) {
            fabric.functions.iter_mut().for_each(|one| one.driver = DriverBinding::Unknown);
        }
        for one in &mut fabric.functions {
            one.link_below = one.link_below.filter(known);
            one.link = one.link.map(|link| Link {
                current: link.current.filter(known),
                maximum: link.maximum.filter(known),
            });
            one.link = one.link.filter(|link| link.current.is_some() || link.maximum.is_some());
            one.numa_node = one.numa_node.filter(|_| number > (3, 3));
            one.iommu_group = one.iommu_group.filter(|_| number > (3, 6));
            if number < (3, 7) {
                one.bars.iter_mut().for_each(|bar| bar.largest = None);
            }
            // They knew a function by its registers alone, so one that does not answer shows less.
            if number < (3, 8) && one.acs == Acs::Unknown {
                (one.numa_node, one.iommu_group) = (None, None);
                one.bars.clear();
                one.unassigned_bars.clear();
            }
            // Later ones print no window whose line the kernel cleared.
            one.unassigned_bars.retain(|bar| bar.size.is_some() || number < (3, 8));
        }
        fabric
            .bridges
            .iter_mut()
            .for_each(|one| one.numa_node = one.numa_node.filter(|_| number > (3, 3)));
        if number < (3, 7) && fabric.iommu != IommuMode::Off {
            fabric.iommu = IommuMode::Unknown;
        }
    }

    /// Returns whether it reads a tree with such domains: before 3.4 they had 16 bits.
    pub(crate) fn reads(&self, machine: &Machine) -> bool {
        !machine.has_wide_domains() || !self.version.starts_with("3.3.")
    }

    /// The text that it prints of a tree.
    pub(crate) fn print(&self, folder: &Path, options: &str) -> String {
        let path = format!("sysfs.path={}", folder.join("sys/bus/pci").display());
        let output = Command::new(&self.program)
            .args(["-A", "linux-sysfs", "-O", &path, options])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "lspci {}: {}: {}",
            self.version,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
