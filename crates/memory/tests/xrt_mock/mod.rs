//! A shared object that stands in for XRT's library, built here, with a log of its calls; and a
//! folder that stands in for `/sys`, with a card.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Address of the card's user function.
pub(crate) const CARD: &str = "0000:04:00.1";

/// The library and the machine.
pub(crate) struct XrtMock {
    folder: TempDir,
}

impl XrtMock {
    /// Builds a library that refuses as the C names say; `None`, with the reason in the skip log,
    /// if there is no compiler.
    pub(crate) fn build(refusals: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mock = Self { folder };
        let log = mock.folder.path().join("calls");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../memory/tests/xrt_mock/mock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(mock.library())
            .arg(source)
            .arg(format!("-DLOG=\"{}\"", log.display()))
            .args(refusals.iter().map(|name| format!("-D{name}")))
            .output();
        match built {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                peerlane_testing::skip("xrt-mock", "no C compiler here");
                None
            }
            Err(error) => panic!("cc: {error}"),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{said}");
                mock.machine();
                Some(mock)
            }
        }
    }

    fn machine(&self) {
        let card = self.root().join("sys/bus/pci/devices").join(CARD);
        std::fs::create_dir_all(card.join("p2p.u.1025")).expect("a folder");
        std::fs::create_dir_all(self.root().join("drivers/xocl")).expect("a folder");
        self.lend("1");
        std::os::unix::fs::symlink(self.root().join("drivers/xocl"), card.join("driver"))
            .expect("a link");
    }

    /// Sets `p2p_enable` of the card.
    pub(crate) fn lend(&self, value: &str) {
        let file = self.root().join("sys/bus/pci/devices").join(CARD).join("p2p.u.1025/p2p_enable");
        std::fs::write(file, format!("{value}\n")).expect("a file");
    }

    /// The library.
    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join("libmock.so")
    }

    /// Folder that stands for the root of the file system.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// A file with these bytes.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Content of a region, as the kernel reads it for another program.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub(crate) fn read(&self, region: &peerlane_memory::Region) -> Vec<u8> {
        let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
        let (begin, length) = (region.address().as_ptr().addr() as u64, region.length().0);
        let mut content = vec![0; usize::try_from(length).expect("a length")];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut content, begin).expect("read");
        content
    }

    /// Adds a line to the calls.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub(crate) fn note(&self, line: &str) {
        let calls = self.folder.path().join("calls");
        let mut calls = std::fs::File::options().append(true).open(calls).expect("a log");
        std::io::Write::write_all(&mut calls, format!("{line}\n").as_bytes()).expect("room");
    }

    /// The calls so far, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// An xclbin with one bank in use, number 2, of this many KiB.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub(crate) fn image(kibibytes: u64) -> Vec<u8> {
    let mut file = vec![0; 456];
    file[..8].copy_from_slice(b"xclbin2\0");
    file[448] = 1;
    let mut header = [0; 40];
    header[0] = 6;
    header[24..32].copy_from_slice(&496u64.to_le_bytes());
    header[32..].copy_from_slice(&128u64.to_le_bytes());
    file.extend(header);
    file.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([0; 80]);
    let mut bank = [0; 40];
    bank[..2].copy_from_slice(&[1, 1]);
    bank[8..16].copy_from_slice(&kibibytes.to_le_bytes());
    bank[24..29].copy_from_slice(b"bank2");
    file.extend(bank);
    file
}
