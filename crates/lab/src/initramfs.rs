//! The guest's root file system: a "newc" cpio archive, written uncompressed.
//!
//! Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel. Content:
//! the program with the shared libraries it runs with, busybox, kernel modules and the job.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::protocol::{GuestJob, JOB_PATH, MODULES_DIR, PROGRAM_PATH};
use crate::{LabError, elf, modules, tools};

/// Writes a cpio archive; parent folders are added as needed.
pub(crate) struct Cpio<W> {
    target: W,
    position: usize,
    next_inode: u32,
    folders: BTreeSet<PathBuf>,
}

const FOLDER: u32 = 0o040_755;
const SYMLINK: u32 = 0o120_777;
const REGULAR: u32 = 0o100_000;

impl<W: Write> Cpio<W> {
    pub(crate) fn new(target: W) -> Self {
        Self { target, position: 0, next_inode: 1, folders: BTreeSet::new() }
    }

    /// Adds a folder and those above it.
    pub(crate) fn folder(&mut self, path: &Path) -> io::Result<()> {
        let Ok(relative) = path.strip_prefix("/") else {
            return self.folder(&Path::new("/").join(path));
        };
        if relative.as_os_str().is_empty() || !self.folders.insert(relative.to_owned()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        self.entry(relative, FOLDER, &[])
    }

    /// Adds a regular file.
    pub(crate) fn file(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        self.parents(path)?;
        self.entry(path, REGULAR | (mode & 0o777), content)
    }

    /// Adds a symbolic link.
    pub(crate) fn symlink(&mut self, path: &Path, points_to: &str) -> io::Result<()> {
        self.parents(path)?;
        self.entry(path, SYMLINK, points_to.as_bytes())
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, &[])?;
        self.target.flush()?;
        Ok(self.target)
    }

    fn parents(&mut self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
        let size = |n: usize| {
            u32::try_from(n).map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "above 4 GiB"))
        };
        let links = if mode == FOLDER { 2 } else { 1 };
        let fields = [
            self.next_inode, // inode
            mode,
            0, // user
            0, // group
            links,
            0, // modification time
            size(content.len())?,
            0, // device
            0,
            0, // device of a device node
            0,
            size(name.len() + 1)?,
            0, // checksum, unused in this format
        ];
        self.next_inode += 1;
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        self.put(header.as_bytes())?;
        self.put(name)?;
        self.put(&[0])?;
        self.pad()?;
        self.put(content)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len();
        self.target.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let rest = self.position.next_multiple_of(4) - self.position;
        self.put(&[0; 4][..rest])
    }
}

/// Content of the guest's initramfs.
pub(crate) struct BootContent<'a> {
    /// The program that is also init.
    pub(crate) program: &'a Path,
    /// Static busybox.
    pub(crate) busybox: &'a Path,
    /// Further programs, by their path here; each becomes `/bin/NAME`.
    pub(crate) programs: &'a [PathBuf],
    /// Modules to load.
    pub(crate) modules: &'a [modules::LoadableModule],
    /// The guest's job.
    pub(crate) job: &'a GuestJob,
}

/// Writes the initramfs to `target`.
pub(crate) fn write(content: &BootContent<'_>, target: &Path) -> Result<(), LabError> {
    let program = elf::loadable_part(read(content.program)?);
    let mut files = vec![
        (PathBuf::from("/bin/busybox"), 0o755, read(content.busybox)?),
        (
            PathBuf::from(JOB_PATH),
            0o644,
            serde_json::to_vec(content.job).map_err(|error| {
                LabError::Usage(format!("cannot pass the command to the guest: {error}"))
            })?,
        ),
    ];
    let mut libraries = loaded_libraries()?;
    libraries.extend(elf::interpreter(&program).map(PathBuf::from));
    for path in content.programs {
        let path = &tools::program(path)?;
        let image = read(path)?;
        if let Some(loader) = elf::interpreter(&image) {
            libraries.extend(tools::shared_libraries(&loader, path)?);
            libraries.insert(PathBuf::from(loader));
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        files.push((Path::new("/bin").join(name), 0o755, elf::loadable_part(image)));
    }
    for library in libraries {
        files.push((library.clone(), 0o755, elf::loadable_part(read(&library)?)));
    }
    files.push((PathBuf::from(PROGRAM_PATH), 0o755, program));

    let write = || -> io::Result<()> {
        let file = std::fs::File::create(target)?;
        let mut cpio = Cpio::new(io::BufWriter::with_capacity(1 << 20, file));
        for folder in ["/dev", "/proc", "/sys", "/tmp", "/out", "/root", "/etc", "/run"] {
            cpio.folder(Path::new(folder))?;
        }
        for (path, mode, bytes) in &files {
            cpio.file(path, *mode, bytes)?;
        }
        for module in content.modules {
            let path = Path::new(MODULES_DIR).join(&module.file_name);
            cpio.file(&path, 0o644, &module.image)?;
        }
        cpio.symlink(Path::new("/init"), PROGRAM_PATH)?;
        cpio.symlink(Path::new("/bin/sh"), "busybox")?;
        cpio.finish().map(drop)
    };
    write().map_err(LabError::io("write initramfs", target))
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    std::fs::read(path).map_err(LabError::io("read", path))
}

/// Shared libraries of the running program; the loader is among them under its resolved path.
fn loaded_libraries() -> Result<BTreeSet<PathBuf>, LabError> {
    const MAPS: &str = "/proc/self/maps";
    let text = std::fs::read_to_string(MAPS).map_err(LabError::io("read", MAPS))?;
    Ok(libraries_in(&text))
}

fn libraries_in(maps: &str) -> BTreeSet<PathBuf> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".so") || name.contains(".so.")
        })
        .map(Path::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn archive() -> Vec<u8> {
        let mut cpio = Cpio::new(Vec::new());
        cpio.file(Path::new("/a/b/file"), 0o644, b"hello").expect("file");
        cpio.file(Path::new("/a/b/other"), 0o755, b"").expect("file");
        cpio.symlink(Path::new("/init"), "/a/b/file").expect("link");
        cpio.finish().expect("end")
    }

    #[test]
    fn entry_has_bytes_of_format() {
        let archive = archive();
        let header: String = ["070701", "00000002", "000041ED", "00000000", "00000000", "00000002"]
            .concat()
            + &"00000000".repeat(6)
            + "00000004"
            + "00000000";
        let second = 110 + 2; // the first entry is folder `a`; 112 is a multiple of four
        assert_eq!(&archive[..6], b"070701");
        assert_eq!(&archive[110..112], b"a\0");
        assert_eq!(std::str::from_utf8(&archive[second..second + 110]), Ok(header.as_str()));
        assert_eq!(&archive[second + 110..second + 114], b"a/b\0");
        assert_eq!(archive.len() % 4, 0);
    }

    #[test]
    fn the_cpio_tool_reads_it_back() {
        let Some(tool) = crate::tools::in_path("cpio") else {
            eprintln!("SKIPPED: no cpio program on this machine");
            return;
        };
        let folder = tempfile::tempdir().expect("folder");
        let mut child = Command::new(tool)
            .args(["-i", "--no-absolute-filenames", "--quiet"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .expect("cpio");
        child.stdin.take().expect("stdin").write_all(&archive()).expect("write");
        assert!(child.wait().expect("wait").success());
        assert_eq!(std::fs::read(folder.path().join("a/b/file")).expect("file"), b"hello");
        let link = std::fs::read_link(folder.path().join("init")).expect("link");
        assert!(link.ends_with("a/b/file"), "{link:?}");
    }

    #[test]
    fn libraries_are_told_from_other_mappings() {
        let maps = "5555-6666 r-xp 0 fe:00 1  /usr/bin/peerlane\n\
                    7f00-7f01 r--p 0 fe:00 2  /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f01-7f02 r-xp 0 fe:00 2  /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 r--p 0 fe:00 3  /usr/share/locale/C.utf8\n\
                    7fff-8000 rw-p 0 00:00 0  [stack]\n";
        let found: Vec<_> = libraries_in(maps).into_iter().collect();
        assert_eq!(found, [Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6")]);
    }
}
