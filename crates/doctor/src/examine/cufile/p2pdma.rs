//! Keys that switch P2PDMA on: one for all, and from 1.16 on one for each kind of storage.

use peerlane_fabric::{Function, FunctionKind, gpu};
use peerlane_reach::nvidia_fs_refusal;

use super::{Audit, CuFileEffect, CufileNote, KINDS, MIRRORS, P2PDMA, PANFS, Since};
use peerlane_reach::MD_SINCE;

const ALL: &str = "properties.use_pci_p2pdma";
const DRIVES: &str = "block.nvme.use_pci_p2pdma";

const BY_COUNTERS: &str = "check by cuFile's counters that requests take that path; not tested";

/// Kinds of arrays with their keys.
const ARRAYS: [(&str, &str, Since); 3] = [
    ("raid0", "block.raid.use_pci_p2pdma", KINDS),
    ("raid1", "block.raid1.use_pci_p2pdma", MIRRORS),
    ("raid10", "block.raid10.use_pci_p2pdma", MIRRORS),
];

/// File systems of the network with a key, and whether NVIDIA's gds-diag says that cuFile has no P2PDMA for them.
const FILE_SYSTEMS: [(&str, bool, Since); 6] = [
    ("beegfs", true, KINDS),
    ("gpfs", true, KINDS),
    ("lustre", true, KINDS),
    ("nfs", false, KINDS),
    ("panfs", false, PANFS),
    ("scatefs", true, KINDS),
];

impl Audit<'_> {
    pub(super) fn p2pdma(&self) -> Vec<CufileNote> {
        let mut notes: Vec<CufileNote> =
            [self.preference(), self.drives()].into_iter().flatten().collect();
        notes.extend(ARRAYS.into_iter().filter_map(|array| self.array(array)));
        notes.extend(self.fabrics());
        notes.extend(FILE_SYSTEMS.into_iter().filter_map(|one| self.file_system(one)));
        notes.extend(self.flagged("fs.virtiofs.use_pci_p2pdma", true, KINDS, || {
            CuFileEffect::new(
                "files on virtiofs are taken by P2PDMA where the guest allows it",
                "nothing",
            )
        }));
        notes
    }

    /// Returns whether nvidia-fs is known to be no other direct way.
    fn lacks_nvidia_fs(&self) -> bool {
        nvidia_fs_refusal(self.fabric).is_some()
    }

    /// The end of a sentence that says that P2PDMA is off.
    fn what_remains(&self) -> &'static str {
        if !self.lacks_nvidia_fs() {
            "and nvidia-fs is the only direct path"
        } else if self.fabric.kernel.has_module("nvidia_fs") == Some(true) {
            "and nvme is not registered with nvidia_fs: payload goes through host memory, or requests fail"
        } else {
            "and nvidia_fs is not loaded: payload goes through host memory, or requests fail"
        }
    }

    fn preference(&self) -> Option<CufileNote> {
        if self.found.flag(ALL) == Some(true) {
            let is_older = self.version.is_some_and(|version| version < P2PDMA.version);
            return is_older.then(|| self.note(ALL, P2PDMA, self.not_known(P2PDMA)));
        }
        let is_odd = self.found.settings.contains_key(ALL) && self.found.flag(ALL).is_none();
        if is_odd || self.found.problem.is_some() && self.found.settings.is_empty() {
            return None;
        }
        let effect = CuFileEffect::new(
            format!("P2PDMA is off, {}", self.what_remains()),
            "set it to true, and from 1.16 on block.nvme.use_pci_p2pdma, too; Peerlane switches the first on by \
             itself, other programs may not",
        );
        let is_older = self.version.is_some_and(|version| version < KINDS.version);
        let remedy = if is_older { vec![(ALL, true)] } else { vec![(ALL, true), (DRIVES, true)] };
        let effect = effect.forcing_host(self.lacks_nvidia_fs()).ended_by(remedy);
        Some(self.note(ALL, P2PDMA, effect))
    }

    fn drives(&self) -> Option<CufileNote> {
        let is_on = self.found.flag(DRIVES) == Some(true);
        if is_on {
            let effect = CuFileEffect::new(
                "a request on a drive that P2PDMA refuses fails, and is not repeated by nvidia-fs",
                "leave it on only where `/usr/local/cuda/gds/tools/gdscheck -p` says p2pdma for NVMe",
            );
            return Some(self.note(DRIVES, KINDS, effect));
        }
        let is_older = self.version.is_some_and(|version| version < KINDS.version);
        (self.found.flag(ALL) == Some(true) && !is_older).then(|| {
            let condition = if self.version.is_some() { "" } else { "from cuFile 1.16 on " };
            let effect = CuFileEffect::new(
                format!(
                    "{condition}P2PDMA is preferred but not enabled for drives, which needs both keys \
                     (NVIDIA's gds-diag), {}",
                    self.what_remains()
                ),
                "set it to true",
            );
            let forces_host = self.version.is_some() && self.lacks_nvidia_fs();
            let effect = effect.forcing_host(forces_host).ended_by(vec![(DRIVES, true)]);
            self.note(DRIVES, KINDS, effect)
        })
    }

    fn array(&self, (level, key, since): (&str, &str, Since)) -> Option<CufileNote> {
        let is_here = self.fabric.stacked.iter().any(|one| one.kind.as_deref() == Some(level));
        let effect = match self.found.flag(key) {
            Some(true) => self.array_switched_on(level),
            _ if is_here => CuFileEffect::new(
                format!("files on {level} arrays are not taken by P2PDMA, {}", self.what_remains()),
                format!(
                    "set it to true, which takes cuFile {} or later and Linux {}.{} or later; not tried",
                    since.text, MD_SINCE.0, MD_SINCE.1
                ),
            ),
            _ => return None,
        };
        Some(self.note(key, since, effect))
    }

    fn array_switched_on(&self, level: &str) -> CuFileEffect {
        let has_c2c = |one: &Function| one.kind == FunctionKind::Gpu && gpu::has_c2c(one);
        let version = self.fabric.kernel.version();
        match version.filter(|&version| version < MD_SINCE) {
            Some((major, minor)) if !self.fabric.functions.iter().any(has_c2c) => {
                CuFileEffect::new(
                    format!(
                        "Linux {major}.{minor} passes no peer pages through {level} arrays, so that requests there fail"
                    ),
                    "set it to false, or run Linux 7.2 or later",
                )
            }
            _ => CuFileEffect::new(
                format!(
                    "files on {level} arrays are taken by P2PDMA, which NVIDIA's document on it excludes"
                ),
                BY_COUNTERS,
            ),
        }
    }

    fn fabrics(&self) -> Option<CufileNote> {
        self.flagged("block.nvmeof.use_pci_p2pdma", true, KINDS, || {
            CuFileEffect::new(
                "drives behind NVMe-oF by RDMA are taken by P2PDMA, which NVIDIA's document on it excludes",
                BY_COUNTERS,
            )
        })
    }

    fn file_system(&self, (system, is_excluded, since): (&str, bool, Since)) -> Option<CufileNote> {
        let key = format!("fs.{system}.use_pci_p2pdma");
        self.flagged(&key, true, since, || {
            let excluded = if is_excluded { "; NVIDIA's gds-diag says that cuFile has none for it" } else { "" };
            CuFileEffect::new(
                format!(
                    "requests on {system} go by P2PDMA, and one that it refuses fails and is not repeated by \
                     nvidia-fs{excluded}"
                ),
                "set it to false, unless the maker of the file system says otherwise",
            )
        })
    }
}
