//! Lists of drivers, devices, mounts and file systems that cuFile must not reach directly.

use peerlane_fabric::FunctionKind;

use super::{Audit, CuFileEffect, CufileNote, EARLY};

const WITHOUT_WAY: &str = "cuFile takes no direct path there: payload goes through host memory, or is refused without \
                           compatibility mode";

impl Audit<'_> {
    pub(super) fn denied(&self) -> Vec<CufileNote> {
        let lists = ["drivers", "devices", "mounts", "filesystems"];
        let notes = lists.into_iter().filter_map(|list| self.denied_by(list));
        notes.chain(self.identifiers()).chain(self.former_lists()).collect()
    }

    fn denied_by(&self, list: &str) -> Option<CufileNote> {
        let key = format!("denylist.{list}");
        let entries = self.found.list(&key);
        if entries.is_empty() {
            return None;
        }
        let here: Vec<&str> =
            entries.iter().map(String::as_str).filter(|entry| self.is_here(list, entry)).collect();
        let consequence = match here.as_slice() {
            [] => format!("none of them is seen here; {WITHOUT_WAY}"),
            here => format!("{} are here; {WITHOUT_WAY}", here.join(", ")),
        };
        let effect = CuFileEffect::new(consequence, "take out what is to be reached directly");
        Some(self.note(&key, EARLY, effect.forcing_host(!here.is_empty())))
    }

    /// Returns whether a drive or a mount of this machine is meant.
    fn is_here(&self, list: &str, entry: &str) -> bool {
        let mounts = || self.fabric.mounts.iter().flatten();
        match list {
            "drivers" => {
                entry == "nvme"
                    && self.fabric.functions.iter().any(|one| one.kind == FunctionKind::Nvme)
            }
            "devices" => self.has_device(entry.rsplit('/').next().unwrap_or(entry)),
            "mounts" => mounts().any(|mount| mount.point == entry),
            _ => mounts().any(|mount| mount.file_system == entry),
        }
    }

    fn has_device(&self, name: &str) -> bool {
        let drives = self.fabric.functions.iter().filter_map(|one| one.nvme.as_ref());
        let mut namespaces = drives.flat_map(|drive| &drive.namespaces);
        namespaces.any(|one| {
            one.name.as_deref() == Some(name) || one.partitions.iter().any(|part| part.name == name)
        }) || self.fabric.stacked.iter().any(|one| one.name == name)
    }

    /// Identifiers of file systems; only their number is known here.
    fn identifiers(&self) -> Option<CufileNote> {
        let key = "denylist.fsids";
        self.found.number(key).filter(|&count| count > 0).map(|_| {
            let effect = CuFileEffect::new(
                format!("which file systems they are is unknown; {WITHOUT_WAY}"),
                "take out what is to be reached directly",
            );
            self.note(key, EARLY, effect)
        })
    }

    /// The name of the lists in older releases.
    fn former_lists(&self) -> Vec<CufileNote> {
        let keys = self.found.settings.keys().filter(|key| key.starts_with("blacklist."));
        keys.map(|key| CufileNote {
            since: "unknown",
            ..self.note(
                key,
                EARLY,
                CuFileEffect::new(
                    "the published libraries from 1.11 to 1.20 do not have the key, so that nothing is held back",
                    "call the list denylist",
                ),
            )
        })
        .collect()
    }
}
