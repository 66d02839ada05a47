//! A machine with drives and a GPU as the program sees one: a tree of `/sys` in a mount namespace of its own, and
//! the mock of CUDA and cuFile where libraries are looked for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use peerlane_fabric::{Fabric, capture};

use crate::mock::Mock;
use crate::program::said;
use peerlane_testing::{Scratch, skip};

/// Two drives and a GPU below one switch, with all that every way wants.
const TEXT: &str = concat!(
    include_str!("../../../../engine/tests/machines/gpu-stack.toml"),
    include_str!("../../../../engine/tests/machines/switch.toml"),
    include_str!("../../../../engine/tests/machines/gpu.toml"),
    include_str!("../../../../engine/tests/machines/second-drive.toml"),
);

/// The mock calls its GPU so, and discovery tells kinds by classes.
const AS_THE_MOCK: [(&str, &str); 1] = [(
    "vendor = '0x10de'\naddress = '0000:04:00.0'",
    "class = '0x030200'\nvendor = '0x10de'\naddress = '0000:c1:00.0'",
)];

/// Makes the mounts, which only the program sees; the configuration of the kernel below is hidden, and udev has
/// a database.
const MOUNT: &str = "mount --bind \"$1\"/sys /sys && mount --bind \"$2\" /usr/local/lib \
    && mount -t tmpfs none /run && mkdir /run/udev \
    && mount --bind \"$1\"/proc/sys/kernel/osrelease /proc/sys/kernel/osrelease \
    && { [ ! -e /proc/config.gz ] || mount --bind /dev/null /proc/config.gz; } && shift 2 && exec \"$@\"";

pub(crate) struct GpuMachine {
    pub(crate) mock: Mock,
    tree: Scratch,
    folder: Scratch,
}

impl GpuMachine {
    /// A machine whose libraries are as `conf` says; `None`, with the reason, if there are no mount namespaces.
    pub(crate) fn new(conf: &str) -> Option<Self> {
        Self::with(conf, &[])
    }

    /// The same with changes to its text.
    pub(crate) fn with(conf: &str, changes: &[(&str, &str)]) -> Option<Self> {
        let mut text = TEXT.to_owned();
        for (from, to) in AS_THE_MOCK.iter().chain(changes) {
            assert!(text.contains(from), "nothing to change: {from}");
            text = text.replacen(from, to, 1);
        }
        let fabric = Fabric::from_toml(&text).expect("a machine");
        let snapshot = peerlane_testing::sysfs_tree(&fabric).expect("a tree");
        let tree = Scratch::new();
        capture::write_folder(&snapshot, &tree.at("root")).expect("room");
        let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
        let machine = Self { mock: Mock::new(conf), tree, folder };
        // The file system of the test is on the first drive.
        let number = fs::metadata(machine.folder()).expect("it").dev();
        machine.set_number("nvme0n1", number);
        let tried = machine.command("topo --json").output().expect("unshare");
        if tried.status.success() {
            return Some(machine);
        }
        skip("mount-namespace", &format!("no mount namespace: {}", said(&tried).trim()));
        None
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.at(name)
    }

    /// Gives a drive the number of an existing device, and the links that lead to it.
    pub(crate) fn set_number(&self, drive: &str, number: u64) {
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let sys = self.tree.at("root/sys");
        let folder = find(&sys.join("devices"), drive).expect("a drive of that name");
        fs::write(folder.join("dev"), format!("{number}\n")).expect("room");
        fs::write(folder.join("wwid"), format!("eui.0025385b71b0{drive}\n")).expect("room");
        let below = folder.strip_prefix(&sys).expect("below").display().to_string();
        for (place, name) in [("class/block", drive), ("dev/block", number.as_str())] {
            fs::create_dir_all(sys.join(place)).expect("room");
            let link = sys.join(place).join(name);
            std::os::unix::fs::symlink(format!("../../{below}"), link).expect("a link");
        }
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = peerlane_testing::heeding("unshare");
        command
            .args(["--mount", "sh", "-c", MOUNT, "sh"])
            .arg(self.tree.at("root"))
            .arg(self.mock.folder())
            .arg(env!("CARGO_BIN_EXE_peerlane"))
            .args(words.split_whitespace())
            .current_dir(self.folder())
            .env("NO_COLOR", "1")
            .env("XDG_STATE_HOME", self.path(".state"))
            .env("LD_LIBRARY_PATH", "/usr/local/lib")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn peerlane(&self, words: &str) -> Output {
        self.command(words).output().expect("the program starts")
    }

    /// Names of visible and unfinished files in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name != ".state")
            .collect();
        names.sort();
        names
    }

    /// A source that no two blocks of are alike.
    pub(crate) fn source(&self, length: usize) -> Vec<u8> {
        let content: Vec<u8> =
            (0..length).map(|at| (at / 3 + at / 4096 + at / 65_536).to_le_bytes()[0]).collect();
        fs::write(self.path("source"), &content).expect("room");
        content
    }
}

/// A folder of that name, at any depth.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let folders = entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.into_iter().find_map(|one| {
        if one.file_name() == name { Some(one.path()) } else { find(&one.path(), name) }
    })
}
