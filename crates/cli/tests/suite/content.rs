//! Loop devices with content of all kinds as targets: whatever is not blank is refused, and blank ones are not.
//!
//! The short form writes its images itself: random bytes at the places that matter, and magic numbers alone.
//! The long form takes a folder of images that all hold something, such as the samples of
//! util-linux (`tests/ts/blkid/images-*`, uncompressed):
//!
//!     PEERLANE_CONTENT=FOLDER PEERLANE_CONTENT_REPORT=docs/reliability/device-content.json \
//!         cargo test -p peerlane-cli --test suite content -- --ignored

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kills::random::Random;
use peerlane_testing::{Loop, Scratch};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// Random images of each kind.
const RANDOM: u64 = 12;

/// A plan's refusal of a device as a target.
struct PlannedVerdict {
    is_refused: bool,
    /// Content that has a name.
    is_named: bool,
    reason: String,
}

struct ContentBench {
    folder: Scratch,
}

impl ContentBench {
    fn new() -> Self {
        let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
        folder.write("source", [7; 4096]);
        Self { folder }
    }

    /// Asks about an image as a target of 4 KiB at its start; `None`, with a skip, without loop devices.
    fn ask(&self, image: &Path) -> Option<PlannedVerdict> {
        let device = Loop::over(image)?;
        let plan = Command::new(env!("CARGO_BIN_EXE_peerlane"))
            .args(["plan", "source", device.typed(), "--length", "512", "--json"])
            .current_dir(self.folder.path())
            .output()
            .expect("the program starts");
        let plan: Value = serde_json::from_slice(&plan.stdout).unwrap_or_else(|error| {
            panic!("{}: {error}: {}", image.display(), String::from_utf8_lossy(&plan.stderr))
        });
        let reasons =
            plan["jobs"][0]["targets"][0]["plan"]["refusals"].as_array().expect("refusals");
        let reasons: Vec<&str> = reasons.iter().filter_map(|one| one["reason"].as_str()).collect();
        let reason = reasons.join("; ").replace(device.typed(), "DEVICE");
        Some(PlannedVerdict {
            is_refused: reason.contains("DEVICE carries "),
            is_named: !reason.is_empty() && !reason.contains("of an unknown kind"),
            reason,
        })
    }

    /// An image of `size` bytes with these bytes at these places.
    fn image(&self, size: u64, parts: &[(u64, &[u8])]) -> PathBuf {
        let path = self.folder.at("image");
        let _ = fs::remove_file(&path);
        let file = File::create_new(&path).expect("an image");
        file.set_len(size).expect("room");
        parts.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).expect("room"));
        file.sync_all().expect("room");
        path
    }
}

#[test]
fn blank_devices_are_free() {
    let bench = ContentBench::new();
    for size in [64 * MIB, 3 << 30] {
        let Some(verdict) = bench.ask(&bench.image(size, &[])) else { return };
        assert!(!verdict.is_refused && verdict.reason.is_empty(), "{size}: {}", verdict.reason);
    }
    let ones = vec![0xff; usize::try_from(64 * MIB).expect("small")];
    let Some(verdict) = bench.ask(&bench.image(64 * MIB, &[(0, &ones)])) else { return };
    assert_eq!(verdict.reason, "", "a drive of ones");
}

#[test]
fn random_bytes_at_ends_are_content() {
    let bench = ContentBench::new();
    let mut random = Random(5);
    for size in [64 * MIB, 3 << 30, (3 << 30) + 512] {
        for number in 0..RANDOM {
            let start = if number % 2 == 0 { 0 } else { size - MIB };
            let at = start + random.within(0, MIB - 512);
            let bytes: Vec<u8> = (0..64).flat_map(|_| random.next().to_le_bytes()).collect();
            let Some(verdict) = bench.ask(&bench.image(size, &[(at, &bytes)])) else { return };
            assert!(verdict.is_refused, "{size} at {at}: {}", verdict.reason);
        }
    }
}

/// Magic numbers alone, of formats that libblkid does not know or is not asked for.
const MAGIC: [(&str, u64, &[u8]); 8] = [
    ("SPDK blobstore", 0, b"SPDKBLOB"),
    ("dm-thin metadata", 32, &27_022_010_u64.to_le_bytes()),
    ("dm-cache metadata", 32, &0o6_142_003_u64.to_le_bytes()),
    ("dm-writecache", 0, b"\x21\x93\x48\x23\x01\0\0\0"),
    ("Windows dynamic disk", 0xc00, b"PRIVHEAD"),
    ("qcow2", 0, b"QFI\xfb\0\0\0\x03"),
    ("DRBD Manage", 0, b"$DRBDmgr=q"),
    ("bcachefs", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
];

#[test]
fn formats_of_own_table_are_named() {
    let bench = ContentBench::new();
    for (name, at, bytes) in MAGIC {
        let Some(verdict) = bench.ask(&bench.image(8 * MIB, &[(at, bytes)])) else { return };
        assert!(verdict.is_refused && verdict.is_named, "{name}: {}", verdict.reason);
    }
}

/// The images of a folder, by the part of their names before `_`: of util-linux `images-fs` and `images-pt`.
fn images(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for entry in fs::read_dir(folder).expect("the folder of PEERLANE_CONTENT") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let group = name.split_once('_').map_or("images", |(group, _)| group).to_owned();
        groups.entry(group).or_default().push(path);
    }
    groups
}

/// Left to `./test full`.
mod full {
    use super::*;

    #[test]
    #[ignore = "needs a folder of images: PEERLANE_CONTENT"]
    fn content_of_images_is_refused() {
        let folder = std::env::var_os("PEERLANE_CONTENT").expect("PEERLANE_CONTENT names a folder");
        let bench = ContentBench::new();
        let mut cases = Vec::new();
        for (group, paths) in images(Path::new(&folder)) {
            let mut named = 0;
            for path in &paths {
                let Some(verdict) = bench.ask(path) else { return };
                println!("{}: {}", path.display(), verdict.reason);
                assert!(verdict.is_refused, "{}: accepted as a target", path.display());
                named += u64::from(verdict.is_named);
            }
            cases.push(json!({
                "name": group, "runs": paths.len(), "completed": 0, "refused_clearly": paths.len(), "wrong": 0,
                "counts": [["named", named]],
            }));
        }
        let report = json!({
            "suite": "content of target devices",
            "what": "Images that hold something are targets of a copy, as loop devices, without `--force`: util-linux's \
                samples for libblkid (`tests/ts/blkid/images-*`, uncompressed into one folder as `GROUP_NAME.img`). Each \
                must be refused; `named` counts those whose content has a name. What blank devices and single random \
                blocks come to is in `crates/cli/tests/suite/content.rs`.",
            "command": "PEERLANE_CONTENT=FOLDER PEERLANE_CONTENT_REPORT=docs/reliability/device-content.json \
                cargo test -p peerlane-cli --test suite content -- --ignored",
            "on": "Linux 6.18 in a virtual machine, libblkid 2.38.1, loop devices",
            "cases": cases,
        });
        if let Some(path) = std::env::var_os("PEERLANE_CONTENT_REPORT") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
            let text = serde_json::to_string_pretty(&report).expect("JSON");
            fs::write(path, text + "\n").expect("the report");
        }
    }
}
