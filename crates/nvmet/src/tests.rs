//! Reads of made-up trees: exports, gaps and unknown targets.

mod content;
mod presence;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::{Export, ExportKind, ExportedNamespace, Exports, NvmeTarget, read};

const UUID: &str = "12345678-9abc-4def-8123-456789abcdef";
const NO_NGUID: &str = "00000000-0000-0000-0000-000000000000";
const NVMET: &str = "sys/kernel/config/nvmet";

/// A made-up machine.
struct FakeMachine {
    folder: tempfile::TempDir,
    /// The folder `nvmet` of configfs, below the root.
    nvmet: PathBuf,
}

impl FakeMachine {
    /// A machine with sysfs and no NVMe target.
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("a folder"), nvmet: NVMET.into() };
        machine.folder("sys/kernel");
        machine
    }

    /// A machine whose NVMe target has nothing configured.
    fn with_target() -> Self {
        Self::with_target_at(NVMET)
    }

    fn with_target_at(nvmet: &str) -> Self {
        let machine = Self { nvmet: nvmet.into(), ..Self::new() };
        machine.folder("sys/module/nvmet");
        machine.folder(machine.nvmet.join("subsystems"));
        machine.folder(machine.nvmet.join("ports"));
        machine
    }

    fn full(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    fn folder(&self, path: impl AsRef<Path>) {
        fs::create_dir_all(self.full(path)).expect("a folder");
    }

    fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let full = self.full(path);
        fs::create_dir_all(full.parent().expect("a parent")).expect("a folder");
        fs::write(full, content).expect("a file");
    }

    fn subsystem(&self, nqn: impl AsRef<OsStr>) -> PathBuf {
        self.nvmet.join("subsystems").join(nqn.as_ref())
    }

    /// Adds a subsystem as the kernel makes it, and returns its folder.
    fn add_subsystem(&self, nqn: impl AsRef<OsStr>) -> PathBuf {
        let folder = self.subsystem(nqn);
        self.folder(folder.join("namespaces"));
        self.write(folder.join("passthru/device_path"), "(null)\n");
        self.write(folder.join("passthru/enable"), "0\n");
        folder
    }

    /// Adds a namespace, and returns its folder.
    fn add_namespace(&self, nqn: &str, name: &str, path: &str, enable: &str) -> PathBuf {
        let folder = self.add_subsystem(nqn).join("namespaces").join(name);
        self.write(folder.join("device_path"), format!("{path}\n"));
        self.write(folder.join("device_uuid"), format!("{UUID}\n"));
        self.write(folder.join("device_nguid"), format!("{NO_NGUID}\n"));
        self.write(folder.join("enable"), format!("{enable}\n"));
        self.write(folder.join("resv_enable"), "0\n");
        folder
    }

    /// Adds a port with three attributes: transport, address, service.
    fn add_port(&self, name: &str, [transport, address, service]: [&str; 3]) -> PathBuf {
        let folder = self.nvmet.join("ports").join(name);
        self.write(folder.join("addr_trtype"), format!("{transport}\n"));
        self.write(folder.join("addr_traddr"), format!("{address}\n"));
        self.write(folder.join("addr_trsvcid"), format!("{service}\n"));
        self.folder(folder.join("subsystems"));
        folder
    }

    /// Lets a port serve a subsystem, by a link of its own name.
    fn link(&self, port: &Path, name: &str, nqn: impl AsRef<OsStr>) {
        let place = Path::new("../../../../nvmet/subsystems").join(nqn.as_ref());
        symlink(place, self.full(port.join("subsystems").join(name))).expect("a link");
    }

    fn read(&self) -> NvmeTarget {
        read(self.folder.path())
    }

    #[track_caller]
    fn exports(&self) -> Exports {
        match self.read() {
            NvmeTarget::Configured(exports) => exports,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the only export of a tree without gaps.
    #[track_caller]
    fn only_export(&self) -> Export {
        let mut exports = self.exports();
        assert!(exports.gaps.is_empty(), "{:?}", exports.gaps);
        assert_eq!(exports.all.len(), 1, "{:?}", exports.all);
        exports.all.remove(0)
    }
}

/// Returns the attributes of an export that is a namespace.
#[track_caller]
fn namespace(export: &Export) -> &ExportedNamespace {
    match &export.kind {
        ExportKind::Namespace(namespace) => namespace,
        ExportKind::Passthru => panic!("{export:?}"),
    }
}
