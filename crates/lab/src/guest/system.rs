//! The guest's kernel interfaces: mounts, modules, power.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};

use crate::network::NetworkEnd;
use crate::protocol::MODULES_DIR;

/// Names the guest, as far as the kernel takes a name: 64 bytes (`__NEW_UTS_LEN`).
pub(super) fn set_host_name(name: &str) -> io::Result<()> {
    let end = name.len().min(64);
    Ok(sethostname(&name.as_bytes()[..end])?)
}

/// Mounts `/proc`, `/sys`, `/dev` and temporary file systems; debugfs, tracefs and configfs where the kernel has them.
pub(super) fn mount_all() -> io::Result<()> {
    const NEEDED: [(&str, &str); 6] = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/out"),
        ("tmpfs", "/run"),
    ];
    for (kind, target) in NEEDED {
        match mount(kind, target, kind, MountFlags::empty(), None) {
            // CONFIG_DEVTMPFS_MOUNT does not reach an initramfs; BUSY means it is mounted.
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(error) => {
                let error = io::Error::from(error);
                return Err(io::Error::new(error.kind(), format!("{kind} on {target}: {error}")));
            }
        }
    }
    // As systemd mounts them; absent in some kernels and needed by nothing here.
    for (kind, target) in [
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
        ("configfs", "/sys/kernel/config"),
    ] {
        let _ = mount(kind, target, kind, MountFlags::empty(), None);
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, link)?;
    }
    Ok(())
}

/// Loads modules in the given order, with their parameters from the kernel's command line.
pub(super) fn load_modules(modules: &[String]) -> io::Result<()> {
    let command_line = fs::read_to_string("/proc/cmdline")?;
    for module in modules {
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot load module {module}: {error}"))
        };
        let file = File::open(Path::new(MODULES_DIR).join(module)).map_err(failed)?;
        let parameters = module_parameters(&command_line, module);
        match finit_module(&file, &CString::new(parameters).map_err(io::Error::other)?, 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(())
}

/// `multipath=N` for `nvme_core.ko` and the command line `quiet nvme_core.multipath=N`.
fn module_parameters(command_line: &str, module: &str) -> String {
    let plain = |name: &str| name.replace('-', "_");
    let name = plain(module.strip_suffix(".ko").unwrap_or(module));
    let parameters: Vec<_> = command_line
        .split_ascii_whitespace()
        .filter_map(|word| word.split_once('.'))
        .filter(|(owner, _)| plain(owner) == name)
        .map(|(_, parameter)| parameter)
        .collect();
    parameters.join(" ")
}

/// Gives each busybox applet its name.
pub(super) fn install_applets() -> io::Result<()> {
    let status = Command::new("/bin/busybox").args(["--install", "-s", "/bin"]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// Sets the address of the guest in its network.
pub(super) fn join_network(end: NetworkEnd) -> io::Result<()> {
    let address = format!("{}/24", end.address());
    for words in [&["addr", "add", &address, "dev", "eth0"][..], &["link", "set", "eth0", "up"]] {
        let status = Command::new("/bin/busybox").arg("ip").args(words).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("ip {}: {status}", words.join(" "))));
        }
    }
    Ok(())
}

/// Writes a line to the kernel's log, and so to the console.
pub(super) fn say(text: &str) {
    // When neither can be written there is no reader to tell.
    let _ = File::options().write(true).open("/dev/kmsg").and_then(|mut log| {
        // Level 1: shown in spite of `quiet`.
        log.write_all(format!("<1>{text}").as_bytes())
    });
}

/// Ends the virtual machine.
pub(super) fn power_off() -> io::Result<()> {
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_gets_only_its_parameters() {
        let line = "quiet nvme_core.multipath=N nvme.poll_queues=2 nvme-core.io_timeout=3\n";
        assert_eq!(module_parameters(line, "nvme-core.ko"), "multipath=N io_timeout=3");
        assert_eq!(module_parameters(line, "nvme.ko"), "poll_queues=2");
        assert_eq!(module_parameters(line, "virtio_console.ko"), "");
    }
}
