//! Finding a kernel to boot: one that was named, the running one, or one that was fetched.
//!
//! A kernel is usable when it is built with `CONFIG_PCI_P2PDMA`; its release decides which
//! workarounds apply. Nothing is installed or downloaded here.

use std::path::{Path, PathBuf};

use crate::LabError;

/// Environment variable that names a kernel image.
const KERNEL_VARIABLE: &str = "PEERLANE_KERNEL";
/// Environment variable that names an image of a kernel before 7.2.
const OLDER_VARIABLE: &str = "PEERLANE_KERNEL_OLDER";
/// Environment variable that names an image of a kernel with software RoCE.
const GENERIC_VARIABLE: &str = "PEERLANE_KERNEL_GENERIC";
/// Environment variable that names the module of cards.
const RAM_BAR_VARIABLE: &str = "PEERLANE_RAM_BAR";
/// The module that publishes the memory of cards: `module/` of this crate.
pub(crate) const RAM_BAR: &str = "peerlane_ram_bar";
/// Environment variable that names the folder of fetched things.
const CACHE_VARIABLE: &str = "PEERLANE_CACHE";

/// A kernel that the lab can boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// The bzImage.
    pub image: PathBuf,
    /// Its release, `7.2.13+deb14-cloud-amd64`.
    pub release: String,
    /// Its module folder (with `modules.builtin`), when there is one.
    pub modules: Option<PathBuf>,
}

impl KernelImage {
    /// Reads the release from a bzImage and looks for its module folder.
    ///
    /// # Errors
    /// [`LabError::Io`] when it cannot be read, [`LabError::NotAKernel`] when it is not a bzImage.
    pub fn open(image: &Path) -> Result<Self, LabError> {
        let not_a_kernel =
            |reason: &str| LabError::NotAKernel { path: image.into(), reason: reason.to_owned() };
        let image = image
            .canonicalize()
            .map_err(LabError::io("read kernel image", image))
            .and_then(|path| {
                if path.is_file() { Ok(path) } else { Err(not_a_kernel("it is not a file")) }
            })?;
        let release =
            read_release(&image)?.ok_or_else(|| not_a_kernel("it is not an x86 bzImage"))?;
        let modules = module_folders(&image, &release)
            .into_iter()
            .find(|folder| folder.join("modules.builtin").is_file());
        Ok(Self { image, release, modules })
    }

    /// True when the release is at least `major.minor`; unreadable releases count as old.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse::<u32>().ok();
        let version = (next().unwrap_or(0), next().unwrap_or(0));
        version >= (major, minor)
    }
}

/// Finds a kernel: `explicit`, else `PEERLANE_KERNEL`, else the running kernel when its
/// configuration has `CONFIG_PCI_P2PDMA=y` and its image is readable, else one that was fetched
/// earlier below `kernel/root` of the cache (`$PEERLANE_CACHE`, `$XDG_CACHE_HOME/peerlane`,
/// `~/.cache/peerlane`).
///
/// # Errors
/// [`LabError::MissingKernel`] with the places searched; an unusable explicit kernel is an error of
/// its own.
pub fn find_kernel(explicit: Option<&Path>) -> Result<KernelImage, LabError> {
    if let Some(path) = explicit {
        return KernelImage::open(path);
    }
    if let Some(path) = std::env::var_os(KERNEL_VARIABLE).filter(|path| !path.is_empty()) {
        return KernelImage::open(Path::new(&path));
    }
    let mut searched = Vec::new();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match running_kernel(Path::new("/"), &release) {
        Ok(kernel) => return Ok(kernel),
        Err(reason) => searched.push(format!("running kernel {release}: {reason}")),
    }
    match cache_folder() {
        None => searched.push("no cache folder: neither PEERLANE_CACHE nor HOME is set".to_owned()),
        Some(cache) => {
            let root = cache.join("kernel/root");
            match fetched_kernel(&root) {
                Some(kernel) => return Ok(kernel),
                None => searched.push(format!("none was fetched to {}", root.display())),
            }
        }
    }
    Err(missing(searched.join("; ")))
}

/// Finds a kernel whose multipath heads take no peer-to-peer pages, for tests of that difference:
/// `PEERLANE_KERNEL_OLDER`, else one below `kernel-older/root` of the cache.
///
/// # Errors
/// As [`find_kernel`]; a kernel of 7.2 or later is none.
pub fn find_older_kernel() -> Result<KernelImage, LabError> {
    let kernel = other_kernel("older", OLDER_VARIABLE)?;
    match kernel.is_at_least(7, 2) {
        true => Err(missing(format!("{} is not older than 7.2", kernel.release))),
        false => Ok(kernel),
    }
}

/// Finds a distribution's generic kernel, which has drivers that a cloud kernel lacks, among them
/// software RoCE: `PEERLANE_KERNEL_GENERIC`, else one below `kernel-generic/root` of the cache.
///
/// # Errors
/// As [`find_kernel`].
pub fn find_generic_kernel() -> Result<KernelImage, LabError> {
    other_kernel("generic", GENERIC_VARIABLE)
}

/// The kernel that a variable names, else the one that `tools/fetch-kernel --KIND` fetched.
fn other_kernel(kind: &str, variable: &str) -> Result<KernelImage, LabError> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return KernelImage::open(Path::new(&path));
    }
    let root = cache_folder().map(|cache| cache.join(format!("kernel-{kind}/root")));
    let root = root.ok_or_else(|| missing("there is no cache folder".to_owned()))?;
    let none =
        format!("no {kind} kernel was fetched to {}: tools/fetch-kernel --{kind}", root.display());
    fetched_kernel(&root).ok_or_else(|| missing(none))
}

fn missing(searched: String) -> LabError {
    LabError::MissingKernel { searched }
}

/// Finds the module that publishes the memory of cards, as `tools/build-ram-bar` leaves it:
/// `PEERLANE_RAM_BAR`, else the one for this kernel below `ram-bar` of the cache.
///
/// # Errors
/// [`LabError::MissingRamBar`] with where it was looked for.
pub fn find_ram_bar(kernel: &KernelImage) -> Result<PathBuf, LabError> {
    let named = std::env::var_os(RAM_BAR_VARIABLE).filter(|path| !path.is_empty());
    ram_bar_for(kernel, named.map(PathBuf::from), &cache_folder().unwrap_or_default())
}

fn ram_bar_for(
    kernel: &KernelImage,
    named: Option<PathBuf>,
    cache: &Path,
) -> Result<PathBuf, LabError> {
    let built = || cache.join("ram-bar").join(&kernel.release).join(format!("{RAM_BAR}.ko"));
    let path = named.unwrap_or_else(built);
    match path.is_file() {
        true => Ok(path),
        false => Err(LabError::MissingRamBar { release: kernel.release.clone(), path }),
    }
}

/// The running kernel's image below `root`, or why it does not do.
fn running_kernel(root: &Path, release: &str) -> Result<KernelImage, String> {
    let modules = root.join("lib/modules").join(release);
    let configs = [root.join(format!("boot/config-{release}")), modules.join("config")];
    let Some(config) = configs.iter().find_map(|path| std::fs::read_to_string(path).ok()) else {
        return Err(format!("no readable /boot/config-{release}"));
    };
    if !has_p2pdma(&config) {
        return Err("built without CONFIG_PCI_P2PDMA".to_owned());
    }
    let images = [root.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
    images
        .iter()
        .find_map(|path| KernelImage::open(path).ok())
        .ok_or_else(|| format!("/boot/vmlinuz-{release} is not readable"))
}

/// The newest usable kernel unpacked below `root`.
fn fetched_kernel(root: &Path) -> Option<KernelImage> {
    let mut kernels: Vec<KernelImage> = ["usr/lib/modules", "lib/modules"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(root.join(folder)).ok())
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let release = entry.file_name().to_str()?.to_owned();
            let beside = entry.path();
            let config = [beside.join("config"), root.join(format!("boot/config-{release}"))]
                .iter()
                .find_map(|path| std::fs::read_to_string(path).ok())?;
            let images = [beside.join("vmlinuz"), root.join(format!("boot/vmlinuz-{release}"))];
            let image = images.iter().find(|path| path.is_file())?;
            has_p2pdma(&config).then(|| KernelImage::open(image).ok())?
        })
        .collect();
    kernels.sort_by_key(|kernel| numbers(&kernel.release));
    kernels.pop()
}

fn has_p2pdma(config: &str) -> bool {
    config.lines().any(|line| line == "CONFIG_PCI_P2PDMA=y")
}

fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect()
}

fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    variable(CACHE_VARIABLE)
        .map(PathBuf::from)
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| PathBuf::from(base).join("peerlane")))
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache/peerlane")))
}

/// Folders where a distribution puts the modules of an image: next to it, or below the root of its
/// `/boot`.
fn module_folders(image: &Path, release: &str) -> Vec<PathBuf> {
    let Some(folder) = image.parent() else { return Vec::new() };
    let mut folders = vec![folder.to_owned()];
    if let Some(root) = folder.parent() {
        folders.extend(["lib/modules", "usr/lib/modules"].map(|sub| root.join(sub).join(release)));
    }
    folders
}

/// The release in a bzImage (Documentation/arch/x86/boot.rst: `HdrS` at 0x202, offset of the version
/// text less 0x200 at 0x20e); `None` when it is not a bzImage.
fn read_release(image: &Path) -> Result<Option<String>, LabError> {
    use std::io::Read;
    const LONGEST_HEADER: u64 = 64 << 10;
    let mut header = Vec::new();
    std::fs::File::open(image)
        .and_then(|file| file.take(LONGEST_HEADER).read_to_end(&mut header))
        .map_err(LabError::io("read kernel image", image))?;
    Ok(parse_release(&header))
}

fn parse_release(header: &[u8]) -> Option<String> {
    if header.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let offset = usize::from(u16::from_le_bytes(header.get(0x20e..0x210)?.try_into().ok()?));
    let text = header.get(offset + 0x200..)?;
    let end = text.iter().position(|byte| !byte.is_ascii_graphic())?;
    std::str::from_utf8(&text[..end]).ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn image_of(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x1000];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x600u16.to_le_bytes());
        let text = format!("{release} (builder@host) #1 SMP");
        image[0x800..0x800 + text.len()].copy_from_slice(text.as_bytes());
        image
    }

    fn put(path: &Path, content: &[u8]) {
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, content).expect("file");
    }

    #[test]
    fn newest_kernel_with_p2pdma_wins() {
        let root = tempfile::tempdir().expect("folder");
        for (release, config) in [
            ("6.18.15", "CONFIG_PCI_P2PDMA=y\n"),
            ("6.9.1", "CONFIG_PCI_P2PDMA=y\n"),
            ("7.2.13", "# CONFIG_PCI_P2PDMA is not set\n"),
        ] {
            let folder = root.path().join("usr/lib/modules").join(release);
            put(&folder.join("vmlinuz"), &image_of(release));
            put(&folder.join("config"), config.as_bytes());
            put(&folder.join("modules.builtin"), b"");
        }
        let kernel = fetched_kernel(root.path()).expect("kernel");
        assert_eq!(kernel.release, "6.18.15");
        assert_eq!(kernel.modules.as_deref(), kernel.image.parent());
        assert!(kernel.is_at_least(6, 18) && !kernel.is_at_least(7, 2));
    }

    #[test]
    fn running_kernel_is_refused_with_reason() {
        let root = tempfile::tempdir().expect("folder");
        let refusal = |text: &str| {
            let reason = running_kernel(root.path(), "6.1.0").expect_err("refused");
            assert!(reason.contains(text), "{reason}");
        };
        refusal("no readable /boot/config-6.1.0");
        put(&root.path().join("boot/config-6.1.0"), b"CONFIG_PCI_P2PDMA=n\n");
        refusal("without CONFIG_PCI_P2PDMA");
        put(&root.path().join("boot/config-6.1.0"), b"CONFIG_PCI_P2PDMA=y\n");
        refusal("not readable");
        put(&root.path().join("boot/vmlinuz-6.1.0"), &image_of("6.1.0"));
        assert_eq!(running_kernel(root.path(), "6.1.0").expect("kernel").release, "6.1.0");
    }

    #[test]
    fn card_module_matches_kernel_or_name() {
        let cache = tempfile::tempdir().expect("folder");
        let release = "7.2.13".to_owned();
        let kernel = KernelImage { image: PathBuf::new(), release, modules: None };
        let error = ram_bar_for(&kernel, None, cache.path()).expect_err("not built");
        assert!(error.to_string().contains("kernel 7.2.13: there is no"), "{error}");
        assert!(error.hint().expect("a hint").contains("tools/build-ram-bar"));
        let built = cache.path().join("ram-bar/7.2.13/peerlane_ram_bar.ko");
        put(&built, b"ELF");
        assert_eq!(ram_bar_for(&kernel, None, cache.path()).expect("module"), built);
        let named = cache.path().join("other.ko");
        let error = ram_bar_for(&kernel, Some(named.clone()), cache.path()).expect_err("no file");
        assert!(error.to_string().contains("other.ko"), "{error}");
        put(&named, b"ELF");
        assert_eq!(ram_bar_for(&kernel, Some(named.clone()), cache.path()).expect("module"), named);
    }

    #[test]
    fn file_without_kernel_is_named() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let error = find_kernel(Some(file.path())).expect_err("no kernel");
        assert!(error.to_string().contains("not an x86 bzImage"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_headers_do_not_panic(header: Vec<u8>, offset: u16) {
            let _ = parse_release(&header);
            let mut image = image_of("7.2");
            image[0x20e..0x210].copy_from_slice(&offset.to_le_bytes());
            let _ = parse_release(&image);
        }
    }
}
