//! The mock of CUDA, NVRTC and cuFile for tests: built by the C compiler that links every Rust
//! program, too, and copied for each test, since two must not share its state. `mock.c` lists its
//! checks and its settings.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names of the libraries, as programs look for them.
const NAMES: [&str; 3] = ["libcuda.so.1", "libcufile.so.0", "libnvrtc.so.12"];

/// Kernels on chunks, as users write them, that the mock knows: `fails` ends in an error, `never` not at all.
pub(crate) const CHUNK_KERNELS: &str = "
extern \"C\" __global__ void invert(unsigned char *chunk, unsigned long long bytes, unsigned long long offset) {
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; at < bytes; at += stride)
        chunk[at] = ~chunk[at];
}
extern \"C\" __global__ void fails(unsigned char *chunk, unsigned long long bytes, unsigned long long offset) {
}
extern \"C\" __global__ void never(unsigned char *chunk, unsigned long long bytes, unsigned long long offset) {
}
";

/// A machine with GPUs of its own.
pub(crate) struct Mock {
    folder: tempfile::TempDir,
}

fn built() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libmock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../memory/mock-cuda");
        let shim = source.join("shim.h");
        let done = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
            .args([&path, &source.join("mock.c"), &source.join("compute.c")])
            .arg(format!("-DSHIM=\"{}\"", shim.display()))
            .output()
            .expect("cc, which links Rust programs, too");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        (folder, path)
    });
    path
}

impl Mock {
    /// A machine as `conf` says, one `key=value` a line.
    pub(crate) fn new(conf: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(built(), folder.path().join(NAMES[0])).expect("a copy");
        // One file by several names is one library with one state.
        for name in &NAMES[1..] {
            std::os::unix::fs::symlink(NAMES[0], folder.path().join(name)).expect("a link");
        }
        let mock = Self { folder };
        mock.configure(conf);
        mock
    }

    /// Changes the machine for all calls from here on.
    pub(crate) fn configure(&self, conf: &str) {
        std::fs::write(self.library().with_extension("1.conf"), format!("{conf}\n"))
            .expect("written");
    }

    /// The folder that the libraries are in, for `LD_LIBRARY_PATH`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All of them in one file.
    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join(NAMES[0])
    }

    /// Every call so far, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.library().with_extension("1.log"));
        text.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Number of calls of a function.
    pub(crate) fn calls(&self, name: &str) -> usize {
        self.log().iter().filter(|line| *line == name).count()
    }

    /// Fails where a call came that the real library would not have allowed.
    #[track_caller]
    pub(crate) fn expect_no_violation(&self) {
        let log = self.log();
        let wrong: Vec<&String> = log.iter().filter(|line| line.starts_with("VIOLATION")).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Fails where something made, registered or opened was not released.
    #[track_caller]
    pub(crate) fn expect_all_undone(&self) {
        self.expect_no_violation();
        for (one, other) in [
            ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"),
            ("cuMemAlloc", "cuMemFree"),
            ("cuMemHostRegister", "cuMemHostUnregister"),
            ("cuStreamCreate", "cuStreamDestroy"),
            ("cuEventCreate", "cuEventDestroy"),
            ("cuModuleLoadData", "cuModuleUnload"),
            ("nvrtcCreateProgram", "nvrtcDestroyProgram"),
            ("cuFileDriverOpen", "cuFileDriverClose"),
            ("cuFileHandleRegister", "cuFileHandleDeregister"),
            ("cuFileBufRegister", "cuFileBufDeregister"),
        ] {
            let done = self.calls(one) - self.calls(&format!("{one} refused"));
            assert_eq!(done, self.calls(other), "{one} and {other}");
        }
    }
}
