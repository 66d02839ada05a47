//! A private instance of the kernel's tracing: created, locked, removed.
//!
//! Instances and probes outlive a killed process. Each is named by the boot and the start time of
//! its process, which holds a lock on its folder (`flock(2)`) while it lives. The next process
//! removes those without a lock. A lock on the folder of all instances covers the time between
//! making one and locking it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::{Root, Unread};

/// Beginning of the names of our instances; the kernel takes letters, digits and `_` in the name of a probe's group.
const PREFIX: &str = "peerlane_";
/// Folders where tracefs is, without the root.
const FOLDERS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// A tracing instance, removed with its probe when dropped.
#[derive(Debug)]
pub(super) struct Instance {
    tracefs: PathBuf,
    name: String,
    has_probe: bool,
    /// Holds the lock.
    _folder: File,
}

impl Instance {
    /// Creates an instance, after removing those of killed processes.
    ///
    /// # Errors
    /// Without tracefs, privileges, or room in the kernel.
    pub(super) fn new(root: &Root) -> Result<Self, Unread> {
        let tracefs = find(root)?;
        let instances = tracefs.join("instances");
        let failed = |error: io::Error| Unread::new(FOLDERS[0], privileges(&error));
        let all = folder(&instances).map_err(failed)?;
        flock(&all, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        sweep(&tracefs, &instances);
        let name = unique_name(root)?;
        let own = instances.join(&name);
        fs::create_dir(&own).map_err(failed)?;
        // Histograms need no ring buffer, and a new instance has one of 1410 KiB a processor (Linux 6.18).
        let _ = fs::write(own.join("buffer_size_kb"), "1");
        let locked = folder(&own).and_then(|folder| {
            flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
            Ok(folder)
        });
        match locked {
            Ok(folder) => Ok(Self { tracefs, name, has_probe: false, _folder: folder }),
            Err(error) => {
                let _ = fs::remove_dir(&own);
                Err(failed(error))
            }
        }
    }

    /// Adds a probe named `event` in the group of this instance; `definition` is the text after the
    /// name (`Documentation/trace/fprobetrace.rst`).
    ///
    /// # Errors
    /// The kernel's answer, `ENOENT` where it has no such function.
    pub(super) fn add_probe(&mut self, event: &str, definition: &str) -> io::Result<()> {
        define(&self.tracefs, &format!("f:{}/{event} {definition}", self.name))?;
        self.has_probe = true;
        Ok(())
    }

    /// Adds a trigger to an event of this instance, `dma/dma_map_phys` or one of its own.
    ///
    /// # Errors
    /// The kernel's answer, `ENOENT` where it has no such event.
    pub(super) fn add_trigger(&self, event: &str, trigger: &str) -> io::Result<()> {
        let mut file = File::options().append(true).open(self.event(event).join("trigger"))?;
        file.write_all(trigger.as_bytes())
    }

    /// The histograms of an event.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(super) fn histograms(&self, event: &str) -> io::Result<String> {
        fs::read_to_string(self.event(event).join("hist"))
    }

    /// Returns whether the kernel has an event.
    pub(super) fn has_event(&self, event: &str) -> bool {
        self.event(event).join("trigger").exists()
    }

    /// The group of the probes.
    pub(super) fn group(&self) -> &str {
        &self.name
    }

    fn event(&self, event: &str) -> PathBuf {
        self.tracefs.join("instances").join(&self.name).join("events").join(event)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // In this order: a probe that an instance uses is busy.
        let removed = fs::remove_dir(self.tracefs.join("instances").join(&self.name));
        if let Err(error) = removed {
            tracing::warn!(%error, instance = self.name, "cannot remove the tracing instance");
        }
        if self.has_probe {
            remove_probes(&self.tracefs, &self.name);
        }
    }
}

/// The folder of tracefs.
fn find(root: &Root) -> Result<PathBuf, Unread> {
    let known = FOLDERS.into_iter().filter_map(|folder| root.within(folder).ok());
    known.into_iter().find(|folder| folder.join("instances").is_dir()).ok_or_else(|| {
        let why = "tracefs is not mounted there (`mount -t tracefs tracefs /sys/kernel/tracing`)";
        Unread::new(FOLDERS[0], why)
    })
}

/// The reason in words: tracefs is open to root, and closed by a locked-down kernel.
fn privileges(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{error} (needs root, and a kernel that is not locked down for confidentiality)"
        ),
        _ => error.to_string(),
    }
}

fn folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn unique_name(root: &Root) -> Result<String, Unread> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let boot = root.text("proc/sys/kernel/random/boot_id")?;
    let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let stat = root.text("proc/self/stat")?;
    // Field 22, in clock ticks since the boot; the name in field 2 may hold anything.
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    let start: u64 = start
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Unread::new("proc/self/stat", "it has not the known form"))?;
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Ok(format!("{PREFIX}{boot}_{start}_{process}_{count}"))
}

/// Removes unlocked instances, and the probes of instances that are gone.
fn sweep(tracefs: &Path, instances: &Path) {
    for name in names(instances).into_iter().filter(|name| name.starts_with(PREFIX)) {
        let Ok(folder) = folder(&instances.join(&name)) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let removed = fs::remove_dir(instances.join(&name));
            tracing::info!(name, ?removed, "a tracing instance that was left behind");
        }
    }
    let alive = names(instances);
    for group in probe_groups(tracefs).into_iter().filter(|group| !alive.contains(group)) {
        remove_probes(tracefs, &group);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Groups of our probes: `f:GROUP/EVENT ...`.
fn probe_groups(tracefs: &Path) -> Vec<String> {
    let text = fs::read_to_string(tracefs.join("dynamic_events")).unwrap_or_default();
    let group = |line: &str| {
        let (_, name) = line.split_once(':')?;
        let (group, _) = name.split_once('/')?;
        group.starts_with(PREFIX).then(|| group.to_owned())
    };
    text.lines().filter_map(group).collect()
}

fn remove_probes(tracefs: &Path, group: &str) {
    if let Err(error) = define(tracefs, &format!("-:{group}/")) {
        tracing::warn!(%error, group, "cannot remove probes");
    }
}

/// Appends to the definitions: a file that is truncated loses everybody's.
fn define(tracefs: &Path, definition: &str) -> io::Result<()> {
    let mut file = File::options().append(true).open(tracefs.join("dynamic_events"))?;
    file.write_all(definition.as_bytes())
}
