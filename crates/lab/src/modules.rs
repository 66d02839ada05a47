//! Kernel modules that the guest loads before the command: those that show it its drives and ports,
//! and those that were asked for.
//!
//! Dependencies come from the modules' own `.modinfo`, which needs no `modules.dep`: unpacked packages
//! lack it. Modules are decompressed on the host, so the guest needs no tool for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::kernel::{self, RAM_BAR};
use crate::{KernelImage, LabError, tools};

/// Modules that every guest needs.
const NEEDED: [&str; 3] = ["nvme", "virtio_pci", "virtio_console"];

/// A module ready to load.
pub(crate) struct LoadableModule {
    /// File name, without compression suffix.
    pub(crate) file_name: String,
    /// The uncompressed ELF object.
    pub(crate) image: Vec<u8>,
}

/// The modules to load, those in `further` last, dependencies before their users; empty when all is
/// built in.
pub(crate) fn needed(
    kernel: &KernelImage,
    further: &[String],
) -> Result<Vec<LoadableModule>, LabError> {
    let Some(folder) = &kernel.modules else {
        // Without a module folder nothing can be loaded; a kernel with everything built in still works.
        return match further.first() {
            None => Ok(Vec::new()),
            Some(name) => Err(LabError::MissingModule {
                module: name.clone(),
                reason: "the kernel has no module folder next to it".to_owned(),
            }),
        };
    };
    let builtin = names_in(&folder.join("modules.builtin"))?;
    let files = module_files(folder)?;
    let mut order = Vec::new();
    for name in NEEDED.into_iter().chain(further.iter().map(String::as_str)) {
        add(&name.replace('-', "_"), &builtin, &files, &mut order, 0)?;
    }
    Ok(order)
}

/// The module that publishes the memory of cards, which belongs to no kernel.
pub(crate) fn ram_bar(kernel: &KernelImage) -> Result<LoadableModule, LabError> {
    let path = kernel::find_ram_bar(kernel)?;
    Ok(LoadableModule { file_name: format!("{RAM_BAR}.ko"), image: read_module(&path)? })
}

/// Adds `name` and its dependencies to `order`.
fn add(
    name: &str,
    builtin: &[String],
    files: &BTreeMap<String, PathBuf>,
    order: &mut Vec<LoadableModule>,
    depth: u32,
) -> Result<(), LabError> {
    const DEEPEST: u32 = 32;
    let file_name = format!("{name}.ko");
    let is_there = |module: &LoadableModule| module.file_name == file_name;
    if builtin.iter().any(|known| known == name) || order.iter().any(is_there) {
        return Ok(());
    }
    let missing = |reason: &str| LabError::MissingModule {
        module: name.to_owned(),
        reason: reason.to_owned(),
    };
    if depth > DEEPEST {
        return Err(missing("its dependencies form a circle"));
    }
    let path = files.get(name).ok_or_else(|| missing("neither built in nor next to the kernel"))?;
    let image = read_module(path)?;
    for dependency in depends(&image) {
        add(&dependency, builtin, files, order, depth + 1)?;
    }
    order.push(LoadableModule { file_name, image });
    Ok(())
}

/// Module names in a list of paths such as `kernel/drivers/nvme/host/nvme.ko`.
fn names_in(list: &Path) -> Result<Vec<String>, LabError> {
    let text = std::fs::read_to_string(list).map_err(LabError::io("read", list))?;
    Ok(text.lines().filter_map(|line| module_name(Path::new(line))).collect())
}

/// `virtio_pci` for `.../virtio-pci.ko.xz`; the kernel treats `-` and `_` alike.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, _) = name.split_once(".ko")?;
    Some(stem.replace('-', "_"))
}

/// Every module file below `folder`, by name.
fn module_files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, LabError> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.join("kernel")];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(LabError::io("read", folder)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(LabError::io("read", &folder))?;
            let kind = entry.file_type().map_err(LabError::io("read", entry.path()))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if let Some(name) = module_name(&entry.path()) {
                files.insert(name, entry.path());
            }
        }
    }
    Ok(files)
}

fn read_module(path: &Path) -> Result<Vec<u8>, LabError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => tools::decompress("xz", "xz-utils", path),
        Some("zst") => tools::decompress("zstd", "zstd", path),
        Some("gz") => tools::decompress("gzip", "gzip", path),
        _ => std::fs::read(path).map_err(LabError::io("read", path)),
    }
}

/// The `depends=` entry of a module's `.modinfo`: NUL-terminated texts.
fn depends(image: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = image.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let text = &image[start + KEY.len()..];
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end])
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_with(modules: &[(&str, &str)], builtin: &str) -> (tempfile::TempDir, KernelImage) {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("kernel")).expect("folder");
        std::fs::write(folder.path().join("modules.builtin"), builtin).expect("list");
        for (name, depends) in modules {
            let image = format!("ELF\0license=GPL\0depends={depends}\0name={name}\0");
            let path = folder.path().join(format!("kernel/{name}.ko"));
            std::fs::write(path, image).expect("module");
        }
        let kernel = KernelImage {
            image: folder.path().join("vmlinuz"),
            release: "7.2.0".to_owned(),
            modules: Some(folder.path().to_owned()),
        };
        (folder, kernel)
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let (_folder, kernel) = kernel_with(
            &[("nvme", "nvme-core"), ("nvme-core", "nvme-auth"), ("nvme-auth", "")],
            "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/char/virtio_console.ko\n",
        );
        let order: Vec<_> = needed(&kernel, &[])
            .expect("modules")
            .into_iter()
            .map(|module| module.file_name)
            .collect();
        assert_eq!(order, ["nvme_auth.ko", "nvme_core.ko", "nvme.ko"]);
    }

    #[test]
    fn requested_module_follows_its_dependencies() {
        let (_folder, kernel) = kernel_with(
            &[("nvme", ""), ("dm-mod", ""), ("dm-crypt", "dm-mod,nvme")],
            "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/char/virtio_console.ko\n",
        );
        let modules = needed(&kernel, &["dm-crypt".to_owned()]).expect("modules");
        let order: Vec<_> = modules.into_iter().map(|module| module.file_name).collect();
        assert_eq!(order, ["nvme.ko", "dm_mod.ko", "dm_crypt.ko"]);
        let bare = KernelImage { modules: None, ..kernel };
        let error = needed(&bare, &["xfs".to_owned()]).err().expect("no folder");
        assert!(error.to_string().contains("`xfs`"), "{error}");
    }

    #[test]
    fn missing_module_is_named() {
        let (_folder, kernel) = kernel_with(&[("nvme", "")], "kernel/virtio_pci.ko\n");
        let error = needed(&kernel, &[]).err().expect("missing module");
        assert!(error.to_string().contains("`virtio_console`"), "{error}");
    }

    #[test]
    fn a_circle_ends_in_an_error() {
        let (_folder, kernel) = kernel_with(&[("nvme", "b"), ("b", "nvme")], "");
        let error = needed(&kernel, &[]).err().expect("circle");
        assert!(error.to_string().contains("circle"), "{error}");
    }
}
