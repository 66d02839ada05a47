//! Files that a run leaves on the host: the command's files and the DMA report.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::Serialize;

use super::background::{GivenUp, Writing};
use super::{BootOptions, Console};
use crate::LabError;

/// Tries every place that receives something after the run, which is too late to find it unfit.
pub(super) fn check(options: &BootOptions) -> Result<(), LabError> {
    if let Some(target) = &options.dma {
        check_json(target).map_err(LabError::io("write", target))?;
    }
    if let Some(target) = &options.out {
        fs::create_dir_all(target).map_err(LabError::io("create", target))?;
        tempfile::tempfile_in(target).map_err(LabError::io("write into", target))?;
    }
    if let Some(Console::File(target)) = &options.console {
        check_new(target).map_err(LabError::io("write the console to", target))?;
    }
    Ok(())
}

fn check_json(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    tempfile::NamedTempFile::new_in(folder_of(target)).map(drop)
}

fn check_new(target: &Path) -> io::Result<()> {
    if fs::symlink_metadata(target).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    tempfile::NamedTempFile::new_in(folder_of(target)).map(drop)
}

fn folder_of(target: &Path) -> &Path {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Unpacks the guest's archive into `target`, and nowhere else.
pub(super) fn unpack(archive: &Path, target: &Path) -> Result<(), LabError> {
    let opened = File::open(archive).map_err(LabError::io("open", archive))?;
    unpack_archive(io::BufReader::new(opened), target)
}

/// Unpacks an untrusted tar archive into `target`, and nowhere else.
///
/// Only files, folders and symbolic links are taken: a guest cannot make device files here. An
/// archive that is cut short or finds no room leaves nothing behind. Otherwise its files replace
/// those of the same name, and folders are merged.
///
/// # Errors
/// When the archive is damaged or names a path outside, or a file cannot be made.
pub fn unpack_archive(archive: impl Read, target: &Path) -> Result<(), LabError> {
    fs::create_dir_all(target).map_err(LabError::io("create", target))?;
    let unpack = || -> io::Result<()> {
        let beside = tempfile::tempdir_in(target)?;
        unpack_into(beside.path(), archive)?;
        settle(beside.path(), target)
    };
    unpack().map_err(LabError::io("unpack the command's files into", target))
}

fn unpack_into(folder: &Path, archive: impl Read) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_symlink()) {
            continue;
        }
        if !entry.unpack_in(folder)? {
            let path = entry.path()?.display().to_string();
            let text = format!("the guest sent a path outside it: {path}");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
    }
    Ok(())
}

/// Moves the entries of a folder into another; a link there is replaced or in the way, and never followed.
fn settle(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        let is_there = fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir());
        if is_there && entry.file_type()?.is_dir() {
            settle(&entry.path(), &place)?;
        } else {
            fs::rename(entry.path(), &place).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", place.display()))
            })?;
        }
    }
    Ok(())
}

/// A file next to `target`, gone when dropped, with the mode that umask leaves.
fn draft(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mode = Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(mode).tempfile_in(folder_of(target))
}

/// Writes `value` in full or not at all.
pub(super) fn write_json(value: &impl Serialize, target: &Path) -> Result<(), LabError> {
    let write = || -> io::Result<()> {
        let file = draft(target)?;
        let mut out = BufWriter::new(file.as_file());
        serde_json::to_writer_pretty(&mut out, value)?;
        out.write_all(b"\n")?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        file.persist(target).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(LabError::io("write", target))
}

/// Writes the guest's console to its target.
///
/// A stream may take it slowly or never: the wait is that of [`Writing::wait`].
pub(super) fn write_console(
    bytes: Vec<u8>,
    target: &Console,
    deadline: Instant,
    interrupt: &AtomicBool,
) -> Result<(), LabError> {
    let (name, open) = match target {
        Console::File(path) => {
            return write_new(&bytes, path).map_err(LabError::io("write the console to", path));
        }
        Console::Stream { name, open } => (name, open),
    };
    let failed = |error: io::Error| LabError::io("write the console to", name)(error);
    let mut file = File::from(open.try_clone().map_err(failed)?);
    let writing = Writing::start("console", move || file.write_all(&bytes)).map_err(failed)?;
    match writing.wait(deadline, interrupt) {
        Ok(result) => result.map_err(failed),
        Err(GivenUp::Interrupted) => Err(LabError::Interrupted),
        Err(GivenUp::Late) => {
            Err(failed(io::Error::new(ErrorKind::TimedOut, "it was not read in time")))
        }
    }
}

/// Writes `bytes` in full or not at all, and over nothing.
fn write_new(bytes: &[u8], target: &Path) -> io::Result<()> {
    let file = draft(target)?;
    file.as_file().write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(target).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn path_outside_folder_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let mut header = tar::Header::new_gnu();
        let name = b"../escaped";
        header.as_gnu_mut().expect("gnu").name[..name.len()].copy_from_slice(name);
        header.set_size(1);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"x"[..]).expect("entry");
        let archive = folder.path().join("a.tar");
        fs::write(&archive, builder.into_inner().expect("archive")).expect("write");
        let target = folder.path().join("inner");
        assert!(unpack(&archive, &target).is_err());
        assert!(!folder.path().join("escaped").exists());
    }

    /// An archive of files with their content.
    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *content).expect("an entry");
        }
        builder.into_inner().expect("an archive")
    }

    #[test]
    fn incomplete_results_keep_old_output() {
        let folder = tempfile::tempdir().expect("folder");
        let at = |name: &str| folder.path().join(name);
        let names = || {
            let entries = fs::read_dir(folder.path())
                .expect("it")
                .map(|entry| entry.expect("it").file_name());
            let mut names: Vec<_> = entries.collect();
            names.sort();
            names
        };
        unpack_archive(&archive(&[("one", b"1"), ("in/two", b"2")])[..], folder.path())
            .expect("whole");
        let next = archive(&[("new", b"3"), ("in/new", b"4"), ("one", &[b'5'; 5_000])]);
        let half = &next[..next.len() - 4_000];
        assert!(unpack_archive(half, folder.path()).is_err());
        assert_eq!(names(), ["in", "one"]);
        assert_eq!(fs::read(at("one")).expect("it"), b"1");
        unpack_archive(&next[..], folder.path()).expect("whole");
        assert_eq!(names(), ["in", "new", "one"]);
        assert_eq!(fs::read(at("one")).expect("it"), [b'5'; 5_000]);
        for (name, content) in [("in/two", b"2"), ("in/new", b"4")] {
            assert_eq!(fs::read(at(name)).expect("it"), content);
        }
    }

    #[test]
    fn packed_folder_arrives_complete() {
        let (there, here) =
            (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
        fs::create_dir_all(there.path().join("in/deeper")).expect("folders");
        fs::write(there.path().join("in/deeper/file"), "x").expect("room");
        std::os::unix::fs::symlink("in/deeper", there.path().join("link")).expect("a link");
        let mut builder = tar::Builder::new(Vec::new());
        builder.follow_symlinks(false);
        builder.append_dir_all(".", there.path()).expect("it");
        let packed = builder.into_inner().expect("an archive");
        for _ in 0..2 {
            unpack_archive(&packed[..], here.path()).expect("whole");
            assert_eq!(fs::read(here.path().join("link/file")).expect("it"), b"x");
            assert_eq!(fs::read_dir(here.path()).expect("it").count(), 2, "no draft is left");
        }
    }

    #[test]
    fn old_link_is_not_followed() {
        let (folder, outside) =
            (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
        std::os::unix::fs::symlink(outside.path(), folder.path().join("door")).expect("a link");
        assert!(unpack_archive(&archive(&[("door/escaped", b"x")])[..], folder.path()).is_err());
        assert_eq!(fs::read_dir(outside.path()).expect("it").count(), 0);
    }

    #[test]
    fn unusable_output_is_found_before_boot() {
        let folder = tempfile::tempdir().expect("folder");
        let at = |name: &str| Some(folder.path().join(name));
        fs::write(folder.path().join("file"), "x").expect("file");
        let nowhere = std::path::PathBuf::new;
        let options = BootOptions {
            machine: peerlane_fabric::Fabric::from_toml("name = \"x\"\niommu = \"off\"")
                .expect("x"),
            drives: Vec::new(),
            dma: None,
            out: None,
            modules: Vec::new(),
            programs: Vec::new(),
            command: vec!["true".into()],
            shell: false,
            // There is nothing to boot, so a run that gets that far fails in another way.
            kernel: crate::KernelImage { image: nowhere(), release: "x".into(), modules: None },
            qemu: nowhere(),
            program: nowhere(),
            events: Vec::new(),
            workers: Vec::new(),
            network: None,
            timeout: BootOptions::DEFAULT_TIMEOUT,
            console: None,
            output: None,
            interrupt: std::sync::Arc::default(),
        };
        let unfit = [
            BootOptions { dma: at("nowhere/dma.json"), ..options.clone() },
            BootOptions { dma: at(""), ..options.clone() },
            BootOptions { out: at("file"), ..options.clone() },
            BootOptions { out: at("file/below"), ..options.clone() },
            BootOptions { console: at("nowhere/console").map(Console::File), ..options.clone() },
            BootOptions { console: at("file").map(Console::File), ..options.clone() },
        ];
        for options in unfit {
            let error = crate::run(&options, Box::new(io::sink()), Box::new(io::sink()))
                .expect_err("unfit");
            let text = error.to_string();
            assert!(text.contains(&folder.path().display().to_string()), "{text}");
        }
        let fit = BootOptions { dma: at("dma.json"), out: at("out"), ..options };
        assert!(check(&fit).is_ok());
        assert!(!folder.path().join("dma.json").exists());
    }

    #[test]
    fn a_console_is_written_over_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let target = folder.path().join("console");
        write_new(b"of a machine", &target).expect("room");
        assert!(write_new(b"of another", &target).is_err());
        assert_eq!(fs::read(&target).expect("it"), b"of a machine");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    fn pipe() -> (File, Console) {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
        let target = Console::Stream { name: "pipe".into(), open: std::sync::Arc::new(writer) };
        (File::from(reader), target)
    }

    fn written(bytes: &[u8], target: &Console, limit: Duration, stop: bool) -> LabResult {
        write_console(bytes.to_vec(), target, Instant::now() + limit, &AtomicBool::new(stop))
    }

    type LabResult = Result<(), LabError>;
    const A_DAY: Duration = Duration::from_secs(86_400);
    /// More than a pipe holds (64 KiB, pipe(7)).
    const MORE: usize = 1 << 20;

    #[test]
    fn console_goes_to_open_stream() {
        let (mut reader, target) = pipe();
        written(b"of a machine", &target, A_DAY, false).expect("room");
        written(b" and of another", &target, A_DAY, false).expect("it stays open");
        drop(target);
        let mut found = String::new();
        reader.read_to_string(&mut found).expect("it");
        assert_eq!(found, "of a machine and of another");
    }

    #[test]
    fn unread_console_ends_at_deadline() {
        let (_reader, target) = pipe();
        let error = written(&[b'x'; MORE], &target, Duration::ZERO, false).expect_err("no room");
        let LabError::Io { action, path, source } = error else { panic!("{error}") };
        assert_eq!((action, path.as_path()), ("write the console to", Path::new("pipe")));
        assert_eq!(source.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn unread_console_ends_at_interrupt() {
        let (mut reader, target) = pipe();
        let stop = AtomicBool::new(false);
        let deadline = Instant::now() + A_DAY;
        let ended = thread::scope(|scope| {
            let writing = scope.spawn(|| write_console(vec![b'x'; MORE], &target, deadline, &stop));
            // It has begun, and cannot end.
            reader.read_exact(&mut [0]).expect("a byte");
            stop.store(true, Ordering::Relaxed);
            writing.join().expect("no panic")
        });
        assert!(matches!(ended, Err(LabError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn closed_reader_is_system_error() {
        // Unlike a pipe, whose reader a program that another test is starting may still have.
        let (reader, writer) = UnixStream::pair().expect("sockets");
        reader.shutdown(Shutdown::Both).expect("a socket");
        let open = std::sync::Arc::new(writer.into());
        let target = Console::Stream { name: "socket".into(), open };
        let error = written(b"x", &target, A_DAY, false).expect_err("nobody");
        let LabError::Io { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn outward_link_is_not_written_through() {
        let folder = tempfile::tempdir().expect("folder");
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "door", folder.path()).expect("link");
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        builder.append_data(&mut header, "door/escaped", &b"x"[..]).expect("file");
        let archive = folder.path().join("a.tar");
        fs::write(&archive, builder.into_inner().expect("archive")).expect("write");
        assert!(unpack(&archive, &folder.path().join("inner")).is_err());
        assert!(!folder.path().join("escaped").exists());
    }
}
