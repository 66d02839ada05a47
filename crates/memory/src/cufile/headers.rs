//! The numbers of this module against the published headers and libraries: `tools/fetch-nvidia cufile` fetches
//! them, `PEERLANE_CUFILE` names their folder. No GPU is needed: a small program is compiled by each header.

use std::collections::BTreeMap;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::abi::{
    GPU_WORDS, GPUS_MAX, INVALID_VALUE, LAYOUTS, P2P_FLAGS, READS, WRITES, control, parameter,
    storage,
};
use super::counts::{Version, layout_of};
use super::error::ERRORS;
use super::table::{CuFileStatus, DESCRIPTOR, Descriptor, RawProperties};

/// A published version.
struct CuFileVersion {
    /// 1000 for each major one, 10 for each minor one.
    version: i32,
    header: PathBuf,
    library: PathBuf,
}

/// All of them, or `None` with a loud skip; a failure where `PEERLANE_REQUIRE` has `cufile`.
fn packages() -> Option<Vec<CuFileVersion>> {
    let folder = std::env::var_os("PEERLANE_CUFILE").filter(|path| !path.is_empty());
    let Some(folder) = folder.map(PathBuf::from) else {
        let reason = "there is no cuFile: PEERLANE_CUFILE names none, `tools/fetch-nvidia cufile` fetches it";
        peerlane_testing::skip("cufile", reason);
        return None;
    };
    let entries = fs::read_dir(&folder).expect("the folder that PEERLANE_CUFILE names");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut packages: Vec<CuFileVersion> = paths.filter_map(|path| package(&path)).collect();
    packages.sort_by_key(|one| one.version);
    Some(packages)
}

fn package(folder: &Path) -> Option<CuFileVersion> {
    let name = folder.file_name()?.to_str()?;
    let mut numbers = name.split('.').map(|part| part.parse::<i32>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some(CuFileVersion {
        version: 1000 * major + 10 * minor,
        header: find(folder, "cufile.h")?,
        library: find(folder, "libcufile.so.0")?,
    })
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { find(&path, name) } else { path.ends_with(name).then_some(path) }
    })
}

/// Output of `headers.c` for a package; `None`, with a skip, if the library is not loaded.
fn printed(package: &CuFileVersion) -> Option<BTreeMap<String, i64>> {
    let folder = tempfile::tempdir().expect("a folder");
    // The only names that cufile.h takes from CUDA's own header.
    let stub = "typedef int CUresult; typedef struct CUstream_st *CUstream;\n";
    fs::write(folder.path().join("cuda.h"), stub).expect("room");
    let program = folder.path().join("program");
    let done = Command::new("cc")
        .args(["-std=gnu11", "-w", "-I"])
        .arg(folder.path())
        .arg("-I")
        .arg(package.header.parent().expect("a folder"))
        .arg(format!("-DVERSION={}", package.version))
        .args(["-x", "c", "-", "-o"])
        .arg(&program)
        .arg("-ldl")
        .stdin(fs::File::open(source()).expect("headers.c"))
        .output()
        .expect("cc, which links Rust programs, too");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // The library leaves a log where it runs.
    let mut command = Command::new(&program);
    let done = command.arg(&package.library).current_dir(folder.path()).output().expect("it runs");
    if done.status.code() == Some(77) {
        peerlane_testing::skip("cufile", &String::from_utf8_lossy(&done.stderr));
        return None;
    }
    assert!(done.status.success(), "{}: {done:?}", package.library.display());
    let text = String::from_utf8(done.stdout).expect("text");
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    Some(lines.map(|(name, number)| (name.to_owned(), number.parse().expect("a number"))).collect())
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cufile/headers.c")
}

/// Values that the tables hold for a version, by the names that `headers.c` prints.
fn expected(version: i32) -> BTreeMap<String, i64> {
    let mut found: Vec<(&str, usize)> = vec![
        ("sizeof CUfileError_t", size_of::<CuFileStatus>()),
        ("sizeof CUfileDescr_t", size_of::<Descriptor>()),
        ("CUfileDescr_t.handle", offset_of!(Descriptor, handle)),
        ("CUfileDescr_t.fs_ops", offset_of!(Descriptor, operations)),
        ("sizeof CUfileDrvProps_t", offset_of!(RawProperties, room)),
        ("major_version", offset_of!(RawProperties, major)),
        ("minor_version", offset_of!(RawProperties, minor)),
        ("dcontrolflags", offset_of!(RawProperties, control)),
        ("max_device_pinned_mem_size", offset_of!(RawProperties, pinned_kib)),
    ];
    let mut numbers: Vec<(&str, i32)> = vec![
        ("OPAQUE_FD", DESCRIPTOR),
        ("NVME", storage::NVME),
        ("NVMEOF", storage::NVME_OF),
        ("CU_FILE_INVALID_VALUE", INVALID_VALUE),
        ("version", version),
        ("has cuFileGetStatsL3", i32::from(version >= *LAYOUTS[0].versions.start())),
        ("has cuFileDriverGetP2PFlags", i32::from(version >= 1160)),
    ];
    // Those from 5044 on came with 1.15.
    let known = ERRORS.iter().filter(|&&(number, ..)| number < 5044 || version >= 1150);
    numbers.extend(known.map(|&(number, name, _)| (name, number)));
    let mut bits = vec![("ALLOW_COMPAT_MODE bit", control::ALLOW_COMPATIBLE)];
    if version >= 1140 {
        let answer = if version >= 1190 { 0 } else { INVALID_VALUE };
        numbers.extend([
            ("ALLOW_COMPAT_MODE", parameter::ALLOW_COMPATIBLE),
            ("FORCE_COMPAT_MODE", parameter::FORCE_COMPATIBLE),
            ("USE_PCIP2PDMA", parameter::USE_P2PDMA),
            ("answer to POSIX_IO_MODE", answer),
            ("answer to GDS_FALLBACK_IO", answer),
        ]);
    }
    if let Ok(layout) = layout_of(Some(Version(version))) {
        found.extend([
            ("sizeof CUfileStatsLevel3_t", layout.words),
            ("num_gpus", layout.gpu_count),
            ("num_gpus in its word", 0),
            ("per_gpu_stats", layout.first_gpu),
            ("sizeof CUfilePerGpuStats_t", GPU_WORDS),
            ("GPUs", GPUS_MAX),
        ]);
        found.extend(["n_p2p_reads", "n_nvfs_reads", "n_posix_reads"].into_iter().zip(READS));
        found.extend(["n_p2p_writes", "n_nvfs_writes", "n_posix_writes"].into_iter().zip(WRITES));
    }
    if version >= 1160 {
        let names = ["P2PDMA flag", "NVFS flag", "DMABUF flag", "C2C flag", "NVIDIA_PEERMEM flag"];
        bits.extend(names.into_iter().zip(P2P_FLAGS.map(|(bit, _)| bit)));
        bits.extend([("C2C mask", 1 << P2P_FLAGS[3].0)]);
        found.push(("sizeof CUfileP2PFlags_t", size_of::<u32>()));
    }
    if version >= 1170 {
        bits.push(("POSIX_IO_MODE bit", control::POSIX_IO));
        bits.push(("FALLBACK_IO_MODE bit", control::FALLBACK_IO));
    }
    if version >= 1190 {
        numbers.push(("POSIX_IO_MODE", parameter::POSIX_IO));
        numbers.push(("GDS_FALLBACK_IO", parameter::FALLBACK_IO));
    }
    let found = found.into_iter().map(|(name, number)| (name, i64::try_from(number)));
    let found = found.map(|(name, number)| (name, number.expect("a small number")));
    let bits = bits.into_iter().map(|(name, number)| (name, i64::from(number)));
    let numbers = numbers.into_iter().map(|(name, number)| (name, i64::from(number)));
    found.chain(bits).chain(numbers).map(|(name, number)| (name.to_owned(), number)).collect()
}

#[test]
fn tables_match_published_headers() {
    let Some(packages) = packages() else { return };
    for package in packages {
        let Some(printed) = printed(&package) else { return };
        for (name, number) in expected(package.version) {
            let found = printed.get(&name).copied();
            assert_eq!(found, Some(number), "{name} of {}", package.header.display());
        }
    }
}

/// Keys of `/etc/cufile.json` that messages name, with the first and the last version that has them.
const KEYS: [(&str, i32, i32); 10] = [
    ("properties.allow_compat_mode", 1110, i32::MAX),
    ("properties.force_compat_mode", 1110, i32::MAX),
    ("properties.gds_fallback_io", 1170, i32::MAX),
    ("properties.posix_io_mode", 1170, 1180),
    ("properties.vanilla_posix_io_mode", 1190, i32::MAX),
    ("block.nvmeof.use_pci_p2pdma", 1160, i32::MAX),
    ("block.raid.use_pci_p2pdma", 1160, i32::MAX),
    ("block.raid1.use_pci_p2pdma", 1190, i32::MAX),
    ("block.raid10.use_pci_p2pdma", 1190, i32::MAX),
    ("P2P sparse read fallback to compat", 1190, i32::MAX),
];

#[test]
fn libraries_have_the_keys_named() {
    let Some(packages) = packages() else { return };
    for package in packages {
        let library = fs::read(&package.library).expect("the library");
        let texts: Vec<&[u8]> = library.split(|&byte| byte == 0).collect();
        for (key, first, last) in KEYS {
            let is_there = texts.iter().any(|text| text.starts_with(key.as_bytes()));
            let is_known = (first..=last).contains(&package.version);
            assert_eq!(is_there, is_known, "{key} of {}", package.library.display());
        }
    }
}

#[test]
fn layouts_are_checked_at_both_ends() {
    let Some(packages) = packages() else { return };
    let versions: Vec<i32> = packages.iter().map(|one| one.version).collect();
    for layout in &LAYOUTS {
        let (first, last) = (layout.versions.start(), layout.versions.end());
        assert!(versions.contains(first), "{first}: {versions:?}");
        // 1.18 was the last before 1.19, of which the patches share a number.
        assert!(versions.contains(&(last / 10 * 10)), "{last}: {versions:?}");
    }
}
