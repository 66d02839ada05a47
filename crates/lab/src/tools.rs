//! Programs of the host that the lab uses: QEMU, busybox, decompressors.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{LabError, elf};

/// Finds `qemu-system-x86_64`: the file named by `PEERLANE_QEMU`, else the first in `PATH`.
///
/// # Errors
/// [`LabError::MissingTool`] when there is none.
pub fn find_qemu() -> Result<PathBuf, LabError> {
    const NAME: &str = "qemu-system-x86_64";
    const PACKAGE: &str = "qemu-system-x86";
    if let Some(named) = std::env::var_os("PEERLANE_QEMU") {
        let path = PathBuf::from(named);
        return if is_executable(&path) {
            Ok(path)
        } else {
            Err(LabError::MissingTool {
                program: NAME.to_owned(),
                searched: format!("PEERLANE_QEMU={} is not an executable file", path.display()),
                package: PACKAGE,
            })
        };
    }
    in_path(NAME).ok_or_else(|| missing(NAME, PACKAGE))
}

/// Finds a busybox that needs no shared library, for the guest's shell and tools.
///
/// # Errors
/// [`LabError::MissingTool`] when there is none, or only one that is linked to libraries.
pub fn find_busybox() -> Result<PathBuf, LabError> {
    const NAME: &str = "busybox";
    const PACKAGE: &str = "busybox-static";
    let path = in_path(NAME).ok_or_else(|| missing(NAME, PACKAGE))?;
    let image = std::fs::read(&path).map_err(LabError::io("read", &path))?;
    if elf::interpreter(&image).is_some() {
        return Err(LabError::MissingTool {
            program: NAME.to_owned(),
            searched: format!("{} is linked to shared libraries", path.display()),
            package: PACKAGE,
        });
    }
    Ok(path)
}

/// Path of a program: a name without a folder is looked for in `PATH`.
pub(crate) fn program(named: &Path) -> Result<PathBuf, LabError> {
    let name = named.to_str().filter(|name| !name.contains('/'));
    match name.map(in_path) {
        None => Ok(named.to_owned()),
        Some(Some(path)) => Ok(path),
        Some(None) => Err(LabError::Usage(format!(
            "cannot add `{}` to the guest: it is in no folder of PATH",
            named.display()
        ))),
    }
}

/// The shared libraries of `program`, as its dynamic loader finds them here.
pub(crate) fn shared_libraries(loader: &str, program: &Path) -> Result<Vec<PathBuf>, LabError> {
    let failed = LabError::io("find the shared libraries of", program);
    let output = Command::new(loader).arg("--list").arg(program).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(listed_libraries(&String::from_utf8_lossy(&output.stdout)))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(failed(std::io::Error::other(said)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Paths in lines such as `libc.so.6 => /lib/libc.so.6 (0x7f...)`; libraries of the kernel have none.
fn listed_libraries(list: &str) -> Vec<PathBuf> {
    list.lines()
        .filter_map(|line| line.split_once(" => ")?.1.rsplit_once(" (").map(|(path, _)| path))
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Runs a decompressor over `file` and returns its output.
pub(crate) fn decompress(
    program: &'static str,
    package: &'static str,
    file: &Path,
) -> Result<Vec<u8>, LabError> {
    let path = in_path(program).ok_or_else(|| missing(program, package))?;
    let output = Command::new(path)
        .args([OsStr::new("-dc"), file.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::io("decompress", file))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::io("decompress", file)(std::io::Error::other(reason)));
    }
    Ok(output.stdout)
}

/// Finds an executable file in `PATH`, then in the system folders.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

/// A command that the kernel ends when this process dies without a chance to do it.
pub(crate) fn bound_command(program: &Path) -> Command {
    let Some(setpriv) = in_path("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

pub(crate) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn missing(program: &str, package: &'static str) -> LabError {
    LabError::MissingTool {
        program: program.to_owned(),
        searched: "it is in no folder of PATH".to_owned(),
        package,
    }
}

/// Features of the installed QEMU's devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QemuFeatures {
    /// `nvme,x-max-bounce-buffer-size` (QEMU 9.1 and later; not in 7.2).
    pub(crate) nvme_bounce_buffer: bool,
    /// `pcie-root-port,disable-acs` (7.2 and 10.0 have it, 11.1 does not).
    pub(crate) root_port_disable_acs: bool,
}

impl QemuFeatures {
    /// Asks QEMU itself.
    pub(crate) fn ask(qemu: &Path) -> Result<Self, LabError> {
        let properties = |device: &str| -> Result<String, LabError> {
            let output = Command::new(qemu)
                .args(["-device", &format!("{device},help")])
                .stdin(Stdio::null())
                .output()
                .map_err(LabError::io("run", qemu))?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        Ok(Self {
            nvme_bounce_buffer: properties("nvme")?.contains("x-max-bounce-buffer-size="),
            root_port_disable_acs: properties("pcie-root-port")?.contains("disable-acs="),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_from_loader_list() {
        let list = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibfoo.so.2 => /usr/lib/libfoo.so.2 (0x00007f01)\n\
                    \tlibgone.so.1 => not found\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        assert_eq!(listed_libraries(list), [Path::new("/usr/lib/libfoo.so.2")]);
    }
}
