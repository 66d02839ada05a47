//! Reading the folder `nvmet` of configfs (drivers/nvme/target/configfs.c, Linux 4.8 to 7.3).
//!
//! Items may vanish while they are read. One that is gone is not an export, and no gap.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::ReadError;
use crate::exports::{Export, ExportKind, ExportPort, ExportedNamespace, Exports};
use crate::number;
use crate::root::{NvmetRoot, to_path};

/// NQN of the discovery subsystem, which has no namespaces (`NVME_DISC_SUBSYS_NAME`,
/// include/linux/nvme.h). Configfs refuses it as a name.
const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Text instead of a path that was never set: a null pointer, printed with `%s`.
const NO_PATH: &[u8] = b"(null)";

/// A port with the folder names of the subsystems that it serves.
struct ServingPort {
    port: ExportPort,
    subsystems: Vec<OsString>,
}

struct ConfigfsReader<'a> {
    root: &'a NvmetRoot,
    gaps: Vec<ReadError>,
}

/// Reads every subsystem and port.
///
/// # Errors
/// When the subsystems cannot be listed. Anything below them is a gap instead.
pub(crate) fn read(root: &NvmetRoot, nvmet: &Path) -> Result<Exports, ReadError> {
    let folder = nvmet.join("subsystems");
    let names = root.names(&folder)?;
    let mut reader = ConfigfsReader { root, gaps: Vec::new() };
    let ports = reader.ports(&nvmet.join("ports"));
    let subsystems = names.iter().filter(|name| *name != DISCOVERY_NQN);
    let all = subsystems.flat_map(|name| reader.subsystem(&folder.join(name), name, &ports));
    Ok(Exports { all: all.collect(), gaps: reader.gaps })
}

impl ConfigfsReader<'_> {
    fn subsystem(&mut self, folder: &Path, name: &OsStr, ports: &[ServingPort]) -> Vec<Export> {
        let serving = ports.iter().filter(|serving| serving.subsystems.iter().any(|s| s == name));
        let template = Export {
            subsystem: name.to_string_lossy().into_owned(),
            kind: ExportKind::Passthru,
            device_path: None,
            is_enabled: None,
            ports: serving.map(|serving| serving.port.clone()).collect(),
            is_on_this_machine: self.root.is_this_machine(),
        };
        let exports = self.unless_gone(folder, |reader| {
            let mut exports = reader.namespaces(&folder.join("namespaces"), &template);
            exports.extend(reader.passthru(&folder.join("passthru"), &template));
            Some(exports)
        });
        exports.unwrap_or_default()
    }

    /// Reads a passthru export; `None` when its folder is absent (`CONFIG_NVME_TARGET_PASSTHRU`) or
    /// untouched.
    fn passthru(&mut self, folder: &Path, template: &Export) -> Option<Export> {
        self.kept(|root| root.has_folder(folder)).filter(|is_there| *is_there)?;
        let export = self.export(folder, ExportKind::Passthru, template);
        (export.can_serve() || export.device_path.is_some()).then_some(export)
    }

    fn namespaces(&mut self, folder: &Path, template: &Export) -> Vec<Export> {
        let names = self.names(folder).into_iter();
        let mut exports: Vec<(u32, Export)> = names
            .filter_map(|name| {
                let folder = folder.join(&name);
                self.unless_gone(&folder, |reader| reader.namespace(&folder, &name, template))
            })
            .collect();
        exports.sort_by_key(|(nsid, _)| *nsid);
        exports.into_iter().map(|(_, export)| export).collect()
    }

    fn export(&mut self, folder: &Path, kind: ExportKind, template: &Export) -> Export {
        let device_path = self
            .attribute(&folder.join("device_path"))
            .filter(|path| !path.is_empty() && path != NO_PATH)
            .map(to_path);
        let is_enabled = self.switch(&folder.join("enable"));
        Export { kind, device_path, is_enabled, ..template.clone() }
    }

    fn namespace(
        &mut self,
        folder: &Path,
        name: &OsStr,
        template: &Export,
    ) -> Option<(u32, Export)> {
        // 0 and the broadcast value are refused (`nvmet_ns_make`).
        let number = number::parse(name.as_bytes()).filter(|nsid| !matches!(*nsid, 0 | u32::MAX));
        let Some(nsid) = number else {
            return self.malformed(folder, "a namespace identifier");
        };
        let uuid = self.identifier(&folder.join("device_uuid"));
        let nguid = self.identifier(&folder.join("device_nguid"));
        let has_reservations = self.optional_switch(&folder.join("resv_enable")).unwrap_or(false);
        let namespace = ExportedNamespace { nsid, uuid, nguid, has_reservations };
        Some((nsid, self.export(folder, ExportKind::Namespace(namespace), template)))
    }

    fn ports(&mut self, folder: &Path) -> Vec<ServingPort> {
        let names = self.names(folder).into_iter();
        let mut ports: Vec<ServingPort> = names
            .filter_map(|name| {
                let folder = folder.join(&name);
                self.unless_gone(&folder, |reader| reader.port(&folder, &name))
            })
            .collect();
        ports.sort_by_key(|serving| serving.port.number);
        ports
    }

    fn port(&mut self, folder: &Path, name: &OsStr) -> Option<ServingPort> {
        let number = number::parse(name.as_bytes()).and_then(|number| u16::try_from(number).ok());
        let Some(number) = number else { return self.malformed(folder, "a port number") };
        let port = ExportPort {
            number,
            transport: self.text(&folder.join("addr_trtype")),
            address: self.text(&folder.join("addr_traddr")),
            service: self.text(&folder.join("addr_trsvcid")),
        };
        let links = folder.join("subsystems");
        let names = self.names(&links).into_iter();
        let subsystems = names.filter_map(|name| self.linked(&links.join(name))).collect();
        Some(ServingPort { port, subsystems })
    }

    /// Returns the name of the subsystem that a link leads to; the link has a name of its own.
    fn linked(&mut self, link: &Path) -> Option<OsString> {
        let place = self.kept(|root| root.link(link))?;
        place.file_name().map(OsStr::to_owned)
    }

    /// Reads `0` or `1`.
    fn switch(&mut self, path: &Path) -> Option<bool> {
        let bytes = self.attribute(path)?;
        self.switch_from(path, &bytes)
    }

    /// Reads `0` or `1` from an attribute that older kernels lack.
    fn optional_switch(&mut self, path: &Path) -> Option<bool> {
        let bytes = self.optional_attribute(path)?;
        self.switch_from(path, &bytes)
    }

    fn switch_from(&mut self, path: &Path, bytes: &[u8]) -> Option<bool> {
        match bytes {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => self.malformed(path, "0 or 1"),
        }
    }

    /// Reads an identifier in the form of a UUID; older kernels lack it, and one of zeroes is not set.
    fn identifier(&mut self, path: &Path) -> Option<String> {
        let bytes = self.optional_attribute(path)?;
        let Some(text) = String::from_utf8(bytes).ok().filter(|text| is_uuid(text)) else {
            return self.malformed(path, "a UUID");
        };
        text.bytes().any(|byte| !matches!(byte, b'0' | b'-')).then_some(text)
    }

    fn text(&mut self, path: &Path) -> String {
        let bytes = self.attribute(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn attribute(&mut self, path: &Path) -> Option<Vec<u8>> {
        self.kept(|root| root.attribute(path))
    }

    /// Reads an attribute whose absence is no gap.
    fn optional_attribute(&mut self, path: &Path) -> Option<Vec<u8>> {
        self.kept(|root| match root.attribute(path) {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(Some),
        })
        .flatten()
    }

    fn names(&mut self, folder: &Path) -> Vec<OsString> {
        self.kept(|root| root.names(folder)).unwrap_or_default()
    }

    /// Keeps an error as a gap.
    fn kept<T>(&mut self, read: impl FnOnce(&NvmetRoot) -> Result<T, ReadError>) -> Option<T> {
        read(self.root).map_err(|error| self.gaps.push(error)).ok()
    }

    fn malformed<T>(&mut self, path: &Path, expected: &'static str) -> Option<T> {
        self.gaps.push(ReadError::Malformed { path: self.root.full(path), expected });
        None
    }

    /// Reads an item, and drops it with its gaps when its folder has vanished meanwhile.
    fn unless_gone<T>(
        &mut self,
        folder: &Path,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let known_gaps = self.gaps.len();
        let item = read(self);
        if self.root.has_folder(folder).unwrap_or(true) {
            return item;
        }
        self.gaps.truncate(known_gaps);
        None
    }
}

fn is_uuid(text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_hexadecimal = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('-').map(str::len).eq(GROUPS) && text.split('-').all(is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vanished_items_leave_no_gap() {
        let machine = tempfile::tempdir().expect("a folder");
        let root = NvmetRoot::new(machine.path());
        let mut reader = ConfigfsReader { root: &root, gaps: Vec::new() };
        reader.attribute(Path::new("kept"));
        let item = reader.unless_gone(Path::new("gone"), |reader| {
            reader.attribute(Path::new("gone/enable"));
            Some(())
        });
        assert_eq!((item, reader.gaps.len()), (None, 1));
    }
}
