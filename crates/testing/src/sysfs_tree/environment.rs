//! The signs of an environment, NVIDIA's driver and the parts of its GPUs, as discovery looks for them.

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId, NvidiaDriver, Snapshot, TreeEntry, cufile};

use super::{TreeWriter, Written};

/// Name of a hypervisor that only the processor's flag shows.
const UNNAMED: &str = "unknown";
/// Files and folders that show a container or a guest whose memory is encrypted.
const SIGNS: [(&str, &str); 6] = [
    ("kubernetes", "run/secrets/kubernetes.io"),
    ("podman", "run/.containerenv"),
    ("docker", ".dockerenv"),
    ("systemd", "run/systemd/container"),
    ("TDX", "sys/class/misc/tdx_guest"),
    ("SEV-SNP", "sys/class/misc/sev-guest"),
];
/// The folder of libraries that is always looked for.
const LIBRARIES: &str = "usr/lib";
/// The library that points to its version, `libcufile.so.1.16.0`.
const CUFILE: &str = "libcufile.so.0";
/// Maker and model of the machine.
const PRODUCT: &str = "sys/devices/virtual/dmi/id/product_name";
const NVIDIA: &str = "proc/driver/nvidia";

/// The hypervisor that the name of the product alone tells.
fn named(fabric: &Fabric) -> Option<String> {
    let mut tree = Snapshot::default();
    tree.text(PRODUCT, fabric.product.as_deref()?).ok()?;
    Fabric::discover_snapshot(Path::new("product"), tree).ok()?.environment.hypervisor
}

/// The line of flags in `/proc/cpuinfo`, if names alone would say something else.
pub(super) fn flags(fabric: &Fabric) -> &'static str {
    match (named(fabric), fabric.environment.hypervisor.as_deref()) {
        (Some(_), None) => "flags\t\t:\n",
        (None, Some(UNNAMED)) => "flags\t\t: hypervisor\n",
        _ => "",
    }
}

impl TreeWriter<'_> {
    /// Writes the layers between the machine and the hardware.
    pub(super) fn environment(&mut self) -> Written {
        let found = &self.fabric.environment;
        let named = named(self.fabric);
        let hypervisor = found.hypervisor.as_ref();
        let is_shown = |name: &&String| *name != UNNAMED && named.as_ref() != Some(*name);
        if let Some(name) = hypervisor.filter(is_shown) {
            self.tree.text("sys/hypervisor/type", name)?;
        }
        for wanted in [&found.container, &found.confidential] {
            let sign = SIGNS.iter().find(|(name, _)| wanted.as_deref() == Some(name));
            if let Some((_, path)) = sign {
                let empty = TreeEntry::File { bytes: Vec::new(), mode: 0o444 };
                self.tree.insert(Path::new(path), empty)?;
            }
        }
        match found.has_udev {
            Some(true) => self.folder("run/udev"),
            Some(false) => self.folder("run"),
            None => Ok(()),
        }
    }

    /// Libraries, and the version that that of cuFile points to.
    pub(super) fn libraries(&mut self, libraries: &[String]) -> Written {
        self.folder(LIBRARIES)?;
        let is_version = |name: &&String| name.starts_with("libcufile.so.") && *name != CUFILE;
        let version = libraries.iter().find(is_version);
        for name in libraries.iter().filter(|&name| Some(name) != version) {
            let entry = match version {
                Some(version) if name == CUFILE => TreeEntry::Link(version.into()),
                _ => TreeEntry::File { bytes: Vec::new(), mode: 0o444 },
            };
            self.tree.insert(&Path::new(LIBRARIES).join(name), entry)?;
        }
        Ok(())
    }

    /// The settings of cuFile.
    pub(super) fn cufile(&mut self) -> Written {
        match &self.fabric.cufile {
            Some(found) => self.tree.text("etc/cufile.json", &cufile::text(found)),
            None => Ok(()),
        }
    }

    /// NVIDIA's driver, as it describes itself.
    pub(super) fn nvidia(&mut self) -> Written {
        if let Some(has_nvme) = self.fabric.kernel.nvidia_fs_nvme {
            self.tree.text("proc/driver/nvidia-fs/modules", if has_nvme { "nvme:" } else { "" })?;
        }
        let Some(driver) = &self.fabric.nvidia else { return Ok(()) };
        self.file(NVIDIA, "version", version_line(driver))?;
        let line = |(name, value): (&String, &String)| match value.parse::<u64>() {
            Ok(_) => format!("{name}: {value}"),
            Err(_) => format!("{name}: \"{value}\""),
        };
        let lines: Vec<String> = driver.parameters.iter().map(line).collect();
        if lines.is_empty() { Ok(()) } else { self.file(NVIDIA, "params", lines.join("\n")) }
    }

    /// The MIG instances of an NVIDIA GPU; its position stands for its minor number.
    pub(super) fn mig(&mut self, function: &Function, id: FunctionId) -> Written {
        let Some(count) = function.mig_instances else { return Ok(()) };
        let (address, number) = (self.addresses[id.0], id.0);
        let folder = format!("{NVIDIA}/gpus/{address}");
        self.file(&folder, "information", format!("Device Minor: \t {number}"))?;
        let folder = format!("{NVIDIA}/capabilities/gpu{number}/mig");
        self.folder(&folder)?;
        (1..=count).try_for_each(|instance| self.folder(&format!("{folder}/gi{instance}")))
    }
}

/// The line of `version`, without who built the driver and when.
fn version_line(driver: &NvidiaDriver) -> String {
    let modules = match driver.is_open {
        Some(true) => " NVIDIA UNIX Open Kernel Module",
        Some(false) => " NVIDIA UNIX Kernel Module",
        None => "",
    };
    let version = driver.version.as_deref().map(|version| format!("  {version}"));
    format!("NVRM version:{modules}{}", version.unwrap_or_default())
}
