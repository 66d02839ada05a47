//! The signs of an environment, NVIDIA's driver and the parts of its GPUs, as discovery looks for them.

use std::path::Path;

use super::{TreeWriter, Written};
use crate::sysfs::cufile::CONFIGURATION;
use crate::sysfs::environment::{self, CONTAINERS, GUARDS, RUN, TYPE, UDEV, UNNAMED};
use crate::sysfs::libraries::{CUFILE, MAIN};
use crate::sysfs::{nvidia, nvidia_fs};
use crate::{Fabric, Function, FunctionId, TreeEntry, cufile};

/// The line of flags in `/proc/cpuinfo`, where names alone would say something else.
pub(super) fn flags(fabric: &Fabric) -> String {
    let named = fabric.product.as_deref().and_then(environment::by_product);
    match (named, fabric.environment.hypervisor.as_deref()) {
        (Some(_), None) => "flags\t\t:\n".to_owned(),
        (None, Some(UNNAMED)) => "flags\t\t: hypervisor\n".to_owned(),
        _ => String::new(),
    }
}

impl TreeWriter<'_> {
    /// Writes the layers between the machine and the hardware.
    pub(super) fn environment(&mut self) -> Written {
        let Fabric { environment: found, product, .. } = self.fabric;
        let named = product.as_deref().and_then(environment::by_product);
        let hypervisor = found.hypervisor.as_deref();
        if let Some(name) = hypervisor.filter(|name| *name != UNNAMED && Some(*name) != named) {
            self.tree.text(TYPE, name)?;
        }
        for (wanted, signs) in [(&found.container, &CONTAINERS[..]), (&found.confidential, &GUARDS)]
        {
            let sign = signs.iter().find(|(_, name)| wanted.as_deref() == Some(name));
            if let Some((path, _)) = sign {
                let empty = TreeEntry::File { bytes: Vec::new(), mode: 0o444 };
                self.tree.insert(Path::new(path), empty)?;
            }
        }
        match found.has_udev {
            Some(true) => self.folder(UDEV),
            Some(false) => self.folder(RUN),
            None => Ok(()),
        }
    }

    /// Libraries, and the version that that of cuFile points to.
    pub(super) fn libraries(&mut self, libraries: &[String]) -> Written {
        let version = libraries.iter().find(|name| cufile::version(name).is_some());
        for name in libraries.iter().filter(|&name| Some(name) != version) {
            let entry = match version {
                Some(version) if name == CUFILE => TreeEntry::Link(version.into()),
                _ => TreeEntry::File { bytes: Vec::new(), mode: 0o444 },
            };
            self.tree.insert(&Path::new(MAIN).join(name), entry)?;
        }
        Ok(())
    }

    /// The settings of cuFile.
    pub(super) fn cufile(&mut self) -> Written {
        match &self.fabric.cufile {
            Some(found) => self.tree.text(CONFIGURATION, &cufile::text(found)),
            None => Ok(()),
        }
    }

    /// NVIDIA's driver, as it describes itself.
    pub(super) fn nvidia(&mut self) -> Written {
        if let Some(has_nvme) = self.fabric.kernel.nvidia_fs_nvme {
            self.tree.text(nvidia_fs::MODULES, nvidia_fs::list(has_nvme))?;
        }
        let Some(driver) = &self.fabric.nvidia else { return Ok(()) };
        self.tree.text(nvidia::VERSION, &nvidia::version_line(driver))?;
        let lines =
            driver.parameters.iter().map(|(name, value)| nvidia::parameter_line(name, value));
        let lines: String = lines.collect();
        if lines.is_empty() { Ok(()) } else { self.tree.text(nvidia::PARAMETERS, lines.trim_end()) }
    }

    /// The MIG instances of an NVIDIA GPU; its position stands for its minor number.
    pub(super) fn mig(&mut self, function: &Function, id: FunctionId) -> Written {
        let Some(count) = function.mig_instances else { return Ok(()) };
        let (address, number) = (self.addresses[id.0], id.0);
        let folder = format!("proc/driver/nvidia/gpus/{address}");
        self.file(&folder, "information", format!("Device Minor: \t {number}"))?;
        let folder = format!("proc/driver/nvidia/capabilities/gpu{number}/mig");
        self.folder(&folder)?;
        (1..=count).try_for_each(|instance| self.folder(&format!("{folder}/gi{instance}")))
    }
}
